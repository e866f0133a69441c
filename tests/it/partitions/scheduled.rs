//! Days that become pending by themselves.

use std::sync::{Arc, Mutex};

use redrive::{
    Clock, DailyCalendar, DateRange, DaySchedule, Engine, Outcome, PartitionStatus, RawSink,
    Source, Stopper, Until, extractor_fn,
    jiff::{Timestamp, civil::time},
    store::{Lane, PartitionSeries},
};

use super::yard::Yard;

/// A clock that is set by hand.
struct ManualClock(Mutex<Timestamp>);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

fn daily(sink: RawSink) -> Source {
    let extractor = extractor_fn(|_, _| async { Outcome::Answered { value: None, verdict: None } });
    Source::new("ads", extractor, sink).with_schedule(DaySchedule {
        customers: vec!["1".to_owned(), "2".to_owned()],
        queries: vec!["q".to_owned()],
        calendar: DailyCalendar {
            start: "2024-01-01".parse().unwrap(),
            at: time(4, 0, 0, 0),
            lag_days: 1,
        },
    })
}

// PAR-10, OPS-5
#[test]
fn days_become_pending_when_their_time_has_come_once_and_missed_ones_are_caught_up() {
    for yard in Yard::both() {
        let clock = Arc::new(ManualClock(Mutex::new(Timestamp::UNIX_EPOCH)));
        let engines = [1, 2].map(|_| {
            Engine::new(yard.store().clone())
                .with_clock(clock.clone())
                .with_source(daily(yard.sink().clone()))
        });
        let made_at = |now: &str| {
            *clock.0.lock().unwrap() = now.parse().unwrap();
            // Two workers at once.
            let [one, two] = &engines;
            let both = async {
                let made = tokio::join!(one.make_due_partitions(), two.make_due_partitions());
                made.0.unwrap() + made.1.unwrap()
            };
            yard.block_on(both)
        };
        assert_eq!(made_at("2024-01-02T03:59:59Z"), 0, "nothing is due yet");
        assert_eq!(made_at("2024-01-02T04:00:00Z"), 2);
        assert_eq!(made_at("2024-01-02T23:00:00Z"), 0, "once");
        assert_eq!(made_at("2024-01-01T00:00:00Z"), 0, "a clock that is set back makes nothing");
        assert_eq!(made_at("2026-01-02T04:00:00Z"), 2 * 731, "two years without a worker");

        let series = |customer_id: &str| PartitionSeries {
            source: "ads".to_owned(),
            customer_id: customer_id.to_owned(),
            query_name: "q".to_owned(),
        };
        let all = DateRange::new("2024-01-01".parse().unwrap(), "2026-12-31".parse().unwrap());
        let days = yard.block_on(yard.store().partition_dates(&series("2"), all.unwrap())).unwrap();
        assert_eq!(days.len(), 732, "no gap, with a 29 February");
        assert_eq!(days.last().unwrap().0, "2026-01-01".parse().unwrap());
        assert!(days.iter().all(|(_, status)| *status == PartitionStatus::Pending));

        let lane = |day: &str| {
            let record = yard.record(&format!("ads/1/q/{day}").parse().unwrap());
            record.work.unwrap().request.unwrap().lane
        };
        assert_eq!([lane("2026-01-01"), lane("2025-12-26")], [Lane::Fresh; 2], "of late");
        assert_eq!([lane("2025-12-25"), lane("2024-01-02")], [Lane::Backfill; 2], "long ago");
        let journal = yard.journal(&"ads/1/q/2026-01-01".parse().unwrap());
        assert_eq!(journal, [("schedule".to_owned(), "partition.backfill".to_owned())]);
    }
}

// PAR-10, OPS-7
#[test]
fn a_worker_keeps_the_schedule_and_a_drain_does_not() {
    let yard = Yard::on_sqlite();
    let engine = || Engine::new(yard.store().clone()).with_source(daily(yard.sink().clone()));
    yard.block_on(async {
        let (_stopper, stop) = Stopper::new();
        engine().run(stop, Until::Drained).await.unwrap();
        assert!(yard.store().partition_counts().await.unwrap().is_empty());

        let (stopper, stop) = Stopper::new();
        let counts = async {
            loop {
                let counts = yard.store().partition_counts().await.unwrap();
                if counts.iter().any(|count| count.status == PartitionStatus::Success) {
                    stopper.stop();
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let engine = engine();
        let (ended, ()) = tokio::join!(engine.run(stop, Until::Stopped), counts);
        ended.unwrap();
    });
}
