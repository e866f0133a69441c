//! What was acknowledged is there after `kill -9`.

use std::collections::BTreeSet;

use redrive_core::{AttemptNumber, RunId, RunStatus};
use redrive_sqlite::SqliteStore;
use redrive_store::{Ledger as _, Runs as _, Store as _, UnitKind, UnitRow, Written};

use crate::{
    child::{ChildProcess, answer},
    scratch::{Scratch, all_runs, at, claim, passed, submit},
};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

/// A part of other tests: says each run it was given.
pub(crate) fn submit_one_by_one(store: &SqliteStore, count: usize) {
    block_on(async {
        for _ in 0..count {
            answer(&submit(store, 1).await[0].to_string());
        }
    });
}

/// A part of other tests: submits, claims and finishes, and says what was acknowledged.
pub(crate) fn work_until_killed(store: &SqliteStore) {
    block_on(async {
        loop {
            for id in submit(store, 5).await {
                answer(&format!("submitted {id}"));
            }
            let claimed = store.claim_runs(&claim(3)).await.unwrap();
            let finishes: Vec<_> = claimed.iter().map(passed).collect();
            let written = store.finish_runs(&finishes, at(2)).await.unwrap();
            for (run, written) in claimed.iter().zip(written) {
                assert_eq!(written, Written::Applied);
                answer(&format!("finished {}", run.id));
            }
        }
    });
}

fn ids(said: &[String], verb: &str) -> BTreeSet<RunId> {
    let mine = said.iter().filter_map(|line| line.strip_prefix(verb));
    mine.map(|id| RunId(id.trim().parse().unwrap())).collect()
}

// OPS-6
#[tokio::test]
async fn a_process_killed_in_the_middle_of_writing_loses_nothing_it_acknowledged() {
    let scratch = Scratch::new();
    let mut said = Vec::new();
    for round in 1..=5 {
        let mut playing = ChildProcess::start("work until killed", &scratch.path());
        for _ in 0..60 * round {
            said.push(playing.next().expect("it works on"));
        }
        said.extend(playing.kill());
        assert!(scratch.wal_path().exists(), "it was not closed");

        let store = scratch.open();
        assert_eq!(store.integrity_problems().await.unwrap(), [""; 0]);
        let there = BTreeSet::from_iter(all_runs(&store).await);
        assert_eq!(there.len() % 5, 0, "a batch is five runs, or none");
        let (submitted, finished) = (ids(&said, "submitted"), ids(&said, "finished"));
        assert!(submitted.len() > 20 && submitted.is_subset(&there));
        assert!(finished.len() > 10 && finished.is_subset(&there));
        for run in store.runs_by_id(&Vec::from_iter(finished)).await.unwrap() {
            assert_eq!(run.status, RunStatus::Passed);
            let unit = UnitRow::new(UnitKind::Run, run.id.0);
            let ledger = store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
            assert_eq!(ledger.len(), 1, "state and ledger move together");
        }
    }
}
