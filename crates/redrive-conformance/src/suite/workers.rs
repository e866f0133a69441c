//! Processes that work on units, and the attempts that they counted.

use jiff::{SignedDuration, Timestamp};

use super::{Fixture, samples::at};
use redrive_store::{
    AttemptCountFilter, AttemptEnd, AttemptOutcome, CountPeriod, MinuteCounts, Presence, UnitKind,
    WorkerId, WorkerPlace, WorkerRecord, attempt_counts,
};

fn worker(id: &str, heard_at: Timestamp) -> WorkerRecord {
    let place = |kind, place: &str, in_flight| WorkerPlace {
        kind,
        place: place.to_owned(),
        concurrency: 8,
        in_flight,
        claimed: 3,
        restarts: 2,
    };
    WorkerRecord {
        id: WorkerId(id.to_owned()),
        host: format!("host of {id}"),
        process: 4_000_000_000,
        version: "1.2.3".to_owned(),
        started_at: heard_at - SignedDuration::from_secs(90),
        heard_at,
        lease_until: heard_at + SignedDuration::from_secs(60),
        draining: false,
        places: vec![place(UnitKind::Run, "orders", 5), place(UnitKind::Sample, "menu/\"a\"", 0)],
    }
}

/// Attempts of a second each.
fn minutes(ends: &[(AttemptOutcome, i64)]) -> MinuteCounts {
    let mut minutes = MinuteCounts::default();
    for (outcome, second) in ends {
        let (started_at, ended_at) = (at(second - 1), at(*second));
        minutes.add(AttemptEnd { outcome: *outcome, started_at, ended_at });
    }
    minutes
}

impl Fixture {
    /// The store's clock, as precise as what is stored.
    fn lease_now(&self) -> Timestamp {
        let micros = self.store.now().as_microsecond();
        Timestamp::from_microsecond(micros).expect("a time")
    }

    async fn works(&self, worker: WorkerRecord) {
        self.store.report(&Presence::Working(worker), &[], at(0)).await.expect("reported");
    }

    async fn workers(&self) -> Vec<WorkerRecord> {
        self.store.workers().await.expect("read")
    }

    async fn count(&self, kind: UnitKind, place: &str, ends: &[(AttemptOutcome, i64)], now: i64) {
        let counts = attempt_counts([(kind, place, &minutes(ends))]);
        self.store.report(&Presence::NoWorker, &counts, at(now)).await.expect("counted");
    }

    /// Start in seconds, outcome, attempts and seconds of a place's counts.
    async fn counted(
        &self,
        period: CountPeriod,
        kind: Option<UnitKind>,
        place: &str,
        since: i64,
    ) -> Vec<(i64, &'static str, u64, u64)> {
        let filter = AttemptCountFilter { period, since: at(since), kind, place: place.to_owned() };
        let counts = self.store.attempt_counts(&filter).await.expect("read");
        let told = counts.iter().map(|count| {
            let start = count.started_at.duration_since(at(0)).as_secs();
            (start, count.outcome.name(), count.attempts, count.took.as_secs())
        });
        told.collect()
    }
}

// HA-4
pub async fn a_worker_is_listed_as_it_reported_last_until_it_stops(f: &Fixture) {
    let now = f.lease_now();
    let (first, second) = (worker("w-1", now), worker("w-2", now + SignedDuration::from_secs(1)));
    f.works(second.clone()).await;
    f.works(first.clone()).await;
    assert_eq!(f.workers().await, [first.clone(), second.clone()], "by their start");
    let later = now + SignedDuration::from_secs(20);
    let again = WorkerRecord {
        heard_at: later,
        lease_until: later + SignedDuration::from_secs(60),
        draining: true,
        places: Vec::new(),
        ..first.clone()
    };
    f.works(again.clone()).await;
    assert_eq!(f.workers().await, [again.clone(), second]);
    let is_present = |seconds| again.is_present(later + SignedDuration::from_secs(seconds));
    assert!(is_present(59) && !is_present(60));
    let stopped = Presence::Stopped(WorkerId("w-2".to_owned()));
    f.store.report(&stopped, &[], at(0)).await.expect("reported");
    f.store.report(&stopped, &[], at(0)).await.expect("a repetition does no harm");
    assert_eq!(f.workers().await, [again]);
}

// HA-4
pub async fn a_worker_that_was_silent_for_a_day_is_removed_by_the_next_report(f: &Fixture) {
    let now = f.lease_now();
    let ago = |hours| now - SignedDuration::from_hours(hours);
    f.works(worker("gone", ago(25))).await;
    f.works(worker("silent", ago(23))).await;
    let ids: Vec<String> = f.workers().await.into_iter().map(|worker| worker.id.0).collect();
    assert_eq!(ids, ["silent"]);
}

pub async fn counts_of_attempts_are_added_up_by_period_and_place(f: &Fixture) {
    use AttemptOutcome::{Failed, Retrying, Skipped, Success};
    let (run, sample) = (UnitKind::Run, UnitKind::Sample);
    f.count(run, "orders", &[(Success, 10), (Success, 59), (Retrying, 60)], 70).await;
    f.count(run, "orders", &[(Success, 30), (Failed, 700)], 700).await;
    f.count(run, "mails", &[(Success, 3_700)], 3_700).await;
    f.count(sample, "menu/a", &[(Success, 20)], 30).await;
    f.count(sample, "menu/b", &[(Skipped, 21)], 30).await;
    let minute = CountPeriod::Minute;
    let expected = [(0, "success", 3, 3), (60, "retrying", 1, 1), (660, "failed", 1, 1)];
    assert_eq!(f.counted(minute, Some(run), "orders", 0).await, expected);
    assert_eq!(f.counted(minute, Some(run), "orders", 60).await, expected[1..]);
    assert_eq!(f.counted(minute, None, "orders", 0).await, expected, "of all kinds");
    assert_eq!(f.counted(minute, Some(sample), "orders", 0).await, []);
    let expected = [(0, "retrying", 1, 1), (0, "success", 3, 3), (600, "failed", 1, 1)];
    assert_eq!(f.counted(CountPeriod::TenMinutes, Some(run), "orders", 0).await, expected);
    let hour = CountPeriod::Hour;
    let expected = [(0, "failed", 1, 1), (0, "retrying", 1, 1), (0, "success", 3, 3)];
    assert_eq!(f.counted(hour, Some(run), "orders", 0).await, expected);
    // Sums over places.
    let expected = [(0, "skipped", 1, 1), (0, "success", 1, 1)];
    assert_eq!(f.counted(hour, Some(sample), "menu", 0).await, expected);
    assert_eq!(f.counted(hour, Some(sample), "menu/a", 0).await, [(0, "success", 1, 1)]);
    assert_eq!(f.counted(hour, Some(run), "", 3_600).await, [(3_600, "success", 1, 1)]);
    let all = f.counted(hour, None, "", 0).await;
    assert_eq!(all.iter().map(|(_, _, attempts, _)| attempts).sum::<u64>(), 8);
}

pub async fn counts_of_attempts_are_kept_for_the_charts_that_read_them(f: &Fixture) {
    let success = AttemptOutcome::Success;
    const DAY: i64 = 24 * 3_600;
    let periods = async || {
        let mut left = Vec::new();
        for period in CountPeriod::ALL {
            left.push(f.counted(period, None, "orders", 0).await.len());
        }
        left
    };
    f.count(UnitKind::Run, "orders", &[(success, 10)], 10).await;
    for (now, left) in [
        (2 * 3_600, [1, 1, 1]),
        (2 * 3_600 + 1, [0, 1, 1]),
        (2 * DAY + 1, [0, 0, 1]),
        (62 * DAY, [0, 0, 1]),
        (62 * DAY + 1, [0, 0, 0]),
    ] {
        f.count(UnitKind::Run, "mails", &[], now).await;
        assert_eq!(periods().await, left, "after {now} seconds");
    }
}

pub async fn counts_that_are_reported_at_once_are_all_counted(f: &Fixture) {
    let success = AttemptOutcome::Success;
    let ends: Vec<_> = (0..100).map(|n| (success, 60 * (n % 5) + 1)).collect();
    let reports = (0..8).map(|_| {
        let (store, counts) =
            (f.store.clone(), attempt_counts([(UnitKind::Run, "orders", &minutes(&ends))]));
        tokio::spawn(async move {
            for _ in 0..5 {
                store.report(&Presence::NoWorker, &counts, at(600)).await.expect("counted");
            }
        })
    });
    for report in reports.collect::<Vec<_>>() {
        report.await.expect("ended");
    }
    let counted = f.counted(CountPeriod::Hour, Some(UnitKind::Run), "", 0).await;
    assert_eq!(counted, [(0, "success", 4_000, 4_000)]);
    let counted = f.counted(CountPeriod::Minute, None, "orders", 240).await;
    assert_eq!(counted, [(240, "success", 800, 800)]);
}
