//! Prunes beside each other.

use std::sync::Arc;

use jiff::SignedDuration;
use redrive_core::RunId;
use redrive_store::{ExportedUnit, PruneFilter, Pruned, Pruning, Runs};

use crate::{
    claim_rows::{NOW, claim, passed, submit},
    faults::until_so_many_are_blocked,
    server::Database,
};

/// The attempts by which both passed are in one row of the ledger.
// OPS-8
#[tokio::test]
async fn two_prunes_at_once_remove_what_each_was_to_remove() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    submit(&store, 3).await;
    let runs = claim(&store, 3).await;
    let finishes: Vec<_> = runs.iter().map(passed).collect();
    store.finish_runs(&finishes, NOW).await.unwrap();
    let raw = database.raw().await;
    let start = "INSERT INTO redrive.journal (at, actor, action, details, dedupe_key)
                 VALUES ('epoch', 'ada', 'prune.start', '{}', 'prune:1')";
    raw.batch_execute(start).await.unwrap();

    raw.batch_execute("BEGIN; SELECT FROM redrive.run_passes FOR UPDATE").await.unwrap();
    let prunes: Vec<_> = runs[..2]
        .iter()
        .map(|run| {
            let exported = [ExportedUnit { id: run.id.0, attempts: 1, epoch: run.epoch }];
            let before = NOW + SignedDuration::from_secs(100);
            let (store, filter) =
                (store.clone(), PruneFilter { before, queue: None, pipeline: None });
            tokio::spawn(async move { store.prune_runs("prune:1", &filter, &exported).await })
        })
        .collect();
    let other = database.raw().await;
    until_so_many_are_blocked(&other, 2).await;
    raw.batch_execute("COMMIT").await.unwrap();
    for prune in prunes {
        assert_eq!(prune.await.unwrap().unwrap(), Pruned { units: 1, attempts: 1 });
    }
    let left: Vec<i64> =
        raw.query_one("SELECT run_ids FROM redrive.run_passes", &[]).await.unwrap().get(0);
    assert_eq!(left, [3]);
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    assert_eq!(store.runs_by_id(&ids).await.unwrap().len(), 1);
}
