//! The methods of the store itself.

use std::time::Duration;

use redrive_core::AttemptNumber;

use super::{
    Fixture,
    samples::{at, finish, retry, run},
};
use redrive_store::{AttemptRecord, UnitKind, UnitRow, Written};

pub async fn the_lease_clock_does_not_go_back(f: &Fixture) {
    let mut last = f.store.now();
    for _ in 0..1_000 {
        let now = f.store.now();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
}

// OPS-1
pub async fn a_fresh_store_answers_and_is_sound(f: &Fixture) {
    f.store.ping().await.expect("it answers");
    assert_eq!(f.store.integrity_problems().await.expect("checked"), Vec::<String>::new());
    assert!(!f.store.describe().is_empty());
}

// OPS-2
pub async fn an_open_store_has_every_migration(f: &Fixture) {
    let schema = f.store.schema().await.expect("read");
    assert_eq!((schema.current(), schema.pending().len()), (schema.latest(), 0));
    let applied: Vec<&str> = schema.applied.iter().map(|it| it.name.as_str()).collect();
    let known: Vec<&str> = schema.known.iter().map(|it| it.name).collect();
    assert!(applied == known && !known.is_empty(), "{applied:?}");
}

/// A ledger row that is there already makes the finish fail as a whole: state and ledger move
/// together or not at all.
pub async fn a_failed_call_leaves_nothing_and_the_next_one_works(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let claimed = f.claim_one(at(1)).await;
    let unit = UnitRow::new(UnitKind::Run, id.0);
    let planted = AttemptRecord::success(unit, AttemptNumber(1), at(1), at(1), "planted");
    f.store.append_attempts(&[planted]).await.expect("written");
    let before = f.run(id).await;
    let failed = || retry(at(9), Duration::from_secs(1), true);
    f.store.finish_runs(&[finish(&claimed, at(2), failed())], at(2)).await.expect_err("refused");
    assert_eq!(f.run(id).await, before);

    let mut next = finish(&claimed, at(3), failed());
    next.attempt = AttemptNumber(2);
    assert_eq!(f.store.finish_runs(&[next], at(3)).await.expect("finished"), [Written::Applied]);
}
