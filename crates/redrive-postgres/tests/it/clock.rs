//! The clock of leases.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::Epoch;
use redrive_postgres::{ClockSample, MonotonicClock, PostgresOptions, PostgresStore, ServerClock};
use redrive_store::{LeaseRef, Leased, Leases, Store};

use crate::server::Database;

/// A monotonic clock that a test moves.
#[derive(Clone, Default)]
struct Manual(Arc<AtomicU64>);

impl Manual {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::SeqCst);
    }

    fn read(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> MonotonicClock {
        let this = self.clone();
        Arc::new(move || this.read())
    }

    /// What the server says at this moment.
    fn sample(&self, server: Timestamp) -> ClockSample {
        ClockSample { server, sent_at: self.read(), answered_at: self.read() }
    }

    fn clock(&self, server: Timestamp) -> ServerClock {
        ServerClock::new(self.monotonic(), self.sample(server))
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

#[test]
fn between_samples_the_machine_carries_the_clock_on() {
    let manual = Manual::default();
    let clock = manual.clock(at(0));
    assert_eq!(clock.now(), at(0));
    manual.advance(7);
    assert_eq!(clock.now(), at(7));
}

#[test]
fn the_server_is_asked_once_in_ten_seconds() {
    let manual = Manual::default();
    let clock = manual.clock(at(0));
    manual.advance(9);
    assert!(!clock.sample_is_due());
    manual.advance(1);
    assert!(clock.sample_is_due());
    assert!(!clock.sample_is_due(), "one question is under way");
    manual.advance(10);
    assert!(clock.sample_is_due(), "it is sent_at again, also when no answer came");
}

#[test]
fn a_server_that_is_ahead_is_followed_at_once() {
    let manual = Manual::default();
    let clock = manual.clock(at(0));
    manual.advance(10);
    clock.correct(manual.sample(at(3_600)));
    assert_eq!(clock.now(), at(3_600));
}

#[test]
fn a_server_set_back_slows_the_clock_but_never_turns_it_back() {
    let manual = Manual::default();
    let clock = manual.clock(at(0));
    manual.advance(10);
    clock.correct(manual.sample(at(10 - 3_600)));
    assert_eq!(clock.now(), at(10), "what was told stands");
    manual.advance(100);
    assert_eq!(clock.now(), at(60), "half speed: leases still end");
    manual.advance(7_100);
    assert_eq!(clock.now(), at(3_610), "after two hours the clocks meet");
    manual.advance(10);
    assert_eq!(clock.now(), at(3_620));
}

#[test]
fn an_answer_that_took_too_long_is_not_believed() {
    let manual = Manual::default();
    let clock = manual.clock(at(0));
    let sent_at = manual.read();
    manual.advance(20);
    clock.correct(ClockSample { server: at(999), sent_at, answered_at: manual.read() });
    assert_eq!(clock.now(), at(20));
}

#[test]
fn the_server_is_thought_to_have_answered_midway() {
    let manual = Manual::default();
    manual.advance(10);
    let first =
        ClockSample { server: at(0), sent_at: Duration::from_secs(6), answered_at: manual.read() };
    let clock = ServerClock::new(manual.monotonic(), first);
    assert_eq!(clock.now(), at(2));
}

fn seconds_apart(one: Timestamp, two: Timestamp) -> i64 {
    one.duration_since(two).as_secs().abs()
}

#[tokio::test]
async fn a_store_tells_the_time_of_the_server() {
    let database = Database::migrated().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let sql = "SELECT extract(epoch FROM clock_timestamp())::bigint";
    let server: i64 = raw.query_one(sql, &[]).await.unwrap().get(0);
    let server = Timestamp::from_second(server).unwrap();
    assert!(seconds_apart(store.now(), server) <= 5, "{} against {server}", store.now());
}

/// The machine slept for an hour, say: its monotonic clock stood still, the server's did not. Here it
/// is the other way round, which shows that the server was sent_at.
#[tokio::test]
async fn a_store_asks_the_server_again() {
    let database = Database::migrated().await;
    let manual = Manual::default();
    let options =
        PostgresOptions { monotonic: Some(manual.monotonic()), ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    let raw = database.raw().await;
    let start = store.now();
    manual.advance(3_600);
    assert!(seconds_apart(store.now(), start) >= 3_600, "nobody was sent_at yet");
    for _ in 0..1_000 {
        // Time for the answer, which says that no hour has passed.
        raw.batch_execute("SELECT 1").await.unwrap();
        let before = store.now();
        manual.advance(1);
        if store.now().duration_since(before) < SignedDuration::from_secs(1) {
            return;
        }
        manual.advance(10);
        store.now();
    }
    panic!("the clock never followed the server");
}

/// Whoever holds leases hears in time that the server's clock was set. Here the machine's clock was, which the store
/// cannot tell from it.
// RUN-7
#[tokio::test]
async fn a_renewal_reads_the_clock_of_the_server() {
    let database = Database::migrated().await;
    let manual = Manual::default();
    let options =
        PostgresOptions { monotonic: Some(manual.monotonic()), ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    manual.advance(9);
    let before = store.now();
    let lease = LeaseRef { id: 1, epoch: Epoch(1) };
    store.renew_leases(Leased::Run, &[lease], before).await.map(drop).unwrap();
    assert!(seconds_apart(store.now(), before) == 0, "what was told stands");
    manual.advance(8);
    assert_eq!(seconds_apart(store.now(), before), 4, "the server says that no time has passed");
}

// OPS-5
#[tokio::test]
async fn an_injected_clock_is_the_clock_of_leases() {
    let database = Database::migrated().await;
    let options =
        PostgresOptions { lease_clock: Some(Arc::new(|| at(42))), ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    assert_eq!(store.now(), at(42));
}
