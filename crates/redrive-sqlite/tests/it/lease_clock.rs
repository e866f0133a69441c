//! The clock of leases: the time since the machine booted, the same for every process.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use redrive_sqlite::{SqliteOptions, SqliteStore};
use redrive_store::{Leased, Leases as _, Runs as _, Store as _};

use crate::scratch::{Scratch, at, claim, submit};

const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// What the kernel says of itself; nothing where there is no such kernel.
fn boot() -> Option<(String, SignedDuration)> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let since = SignedDuration::from_millis((seconds * 1000.0) as i64);
    Some((id.trim().to_owned(), since))
}

/// Plants an anchor: so much wall time at so much time since the boot of that name.
fn anchor(scratch: &Scratch, boot_id: &str, wall: Timestamp, since: SignedDuration) {
    scratch
        .raw()
        .execute(
            "REPLACE INTO lease_clock (id, boot_id, wall_at, since_boot) VALUES (1, ?1, ?2, ?3)",
            (boot_id, wall.as_microsecond(), i64::try_from(since.as_micros()).unwrap()),
        )
        .unwrap();
}

fn apart(a: Timestamp, b: Timestamp) -> SignedDuration {
    a.duration_since(b).abs()
}

// OPS-1
#[test]
fn stores_on_one_file_share_one_clock() {
    let scratch = Scratch::new();
    let stores = [(); 3].map(|()| scratch.open());
    for _ in 0..100 {
        let times = stores.each_ref().map(|store| store.now());
        assert!(times.is_sorted(), "asked one after the other: {times:?}");
    }
    let rows: i64 =
        scratch.raw().query_row("SELECT count(*) FROM lease_clock", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, i64::from(boot().is_some()));
}

// OPS-1
#[test]
fn a_fresh_clock_starts_at_the_wall_time() {
    let store = Scratch::new();
    let store = store.open();
    assert!(apart(store.now(), Timestamp::now()) < SignedDuration::from_mins(1));
}

/// If someone set the wall clock after the anchor was set, the two disagree; the lease clock goes by
/// the anchor.
// OPS-1
#[test]
fn the_clock_follows_the_boot_clock_and_not_the_wall_clock() {
    let Some((boot_id, since)) = boot() else {
        return eprintln!("skipped: this machine has no boot clock");
    };
    for jump in [YEAR * 10, -YEAR * 10, SignedDuration::from_hours(1)] {
        let scratch = Scratch::migrated();
        let then = Timestamp::now() + jump;
        anchor(&scratch, &boot_id, then, since);
        let store = scratch.open();
        assert!(apart(store.now(), then) < SignedDuration::from_mins(1));
        let stored: i64 = scratch
            .raw()
            .query_row("SELECT wall_at FROM lease_clock", [], |row| row.get(0))
            .unwrap();
        assert_eq!(stored, then.as_microsecond(), "the anchor stays");
    }
}

/// Claims two runs and returns how many of their leases have ended.
async fn ended(store: &SqliteStore) -> usize {
    let ended = store.expired_leases(Leased::Run, store.now(), None, 0, 10);
    ended.await.unwrap().len()
}

async fn with_two_leases() -> Scratch {
    let scratch = Scratch::new();
    let store = scratch.open();
    submit(&store, 2).await;
    let request = redrive_store::ClaimRequest { lease_until: store.now() + YEAR, ..claim(2) };
    assert_eq!(store.claim_runs(&request).await.unwrap().len(), 2);
    drop(store);
    scratch
}

// OPS-1
#[tokio::test]
async fn a_lease_survives_opening_the_store_again() {
    let scratch = with_two_leases().await;
    let store = scratch.open();
    assert_eq!(ended(&store).await, 0);
}

// OPS-1
#[tokio::test]
async fn a_lease_of_another_boot_has_ended() {
    if boot().is_none() {
        return eprintln!("skipped: this machine has no boot clock");
    }
    let scratch = with_two_leases().await;
    // The machine was up for long, and its wall clock was ahead.
    anchor(&scratch, "another-boot", Timestamp::now() + YEAR, YEAR);
    let store = scratch.open();
    assert_eq!(ended(&store).await, 2);
    assert!(apart(store.now(), Timestamp::now()) < SignedDuration::from_mins(1));

    // Once: leases of this boot are not ended by the next process.
    let again = with_two_leases().await;
    anchor(&again, "another-boot", Timestamp::now(), YEAR);
    drop(again.open());
    submit(&again.open(), 1).await;
    let store = again.open();
    let request = redrive_store::ClaimRequest { lease_until: store.now() + YEAR, ..claim(1) };
    store.claim_runs(&request).await.unwrap();
    drop(store);
    assert_eq!(ended(&again.open()).await, 2, "the third is of this boot");
}

// OPS-5
#[tokio::test]
async fn a_clock_that_is_given_is_used() {
    let scratch = Scratch::new();
    let seconds = Arc::new(AtomicI64::new(5));
    let told = Arc::clone(&seconds);
    let options = SqliteOptions {
        lease_clock: Some(Arc::new(move || at(told.load(Ordering::Relaxed)))),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(scratch.location(), options, at(0)).unwrap();
    assert_eq!(store.now(), at(5));
    submit(&store, 1).await;
    store.claim_runs(&claim(1)).await.unwrap();
    assert_eq!(ended(&store).await, 0);
    seconds.store(60, Ordering::Relaxed);
    assert_eq!((store.now(), ended(&store).await), (at(60), 1));
}
