//! Who waits for work hears of it, and of nothing else.

use jiff::SignedDuration;
use redrive_core::{Decision, Failure, GiveUpReason, RunId};
use redrive_store::{
    LeaseRef, LeaseRelease, Leased, Leases as _, Operator, RunCompletion, RunFinish, Runs as _,
    Store as _, WorkerId,
};
use serde_json::json;

use crate::scratch::{Scratch, at, claim, passed, submit};

#[tokio::test]
async fn what_brings_nothing_to_claim_wakes_nobody() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let by = Operator { actor: "ada".to_owned(), at: at(5), reason: None };
    let once = redrive_store::NewRun::new("q", &json!(1), at(0))
        .and_then(|run| run.with_idempotency_key("once"))
        .unwrap();
    store.submit_runs(std::slice::from_ref(&once), at(0)).await.unwrap();
    submit(&store, 3).await;
    let wakes = store.wakes();

    store.submit_runs(&[once], at(0)).await.unwrap();
    let held = store.claim_runs(&claim(3)).await.unwrap();
    let give_up = RunFinish {
        completion: RunCompletion::Failed {
            failure: Failure::exit(65, "bad data"),
            decision: Decision::GiveUp { reason: GiveUpReason::Final },
        },
        ..passed(&held[1])
    };
    let delay = std::time::Duration::from_secs(1);
    let retry_at = at(2) + SignedDuration::from_secs(1);
    let stale = RunFinish {
        completion: RunCompletion::Failed {
            failure: Failure::exit(75, "busy"),
            decision: Decision::RetryAt { at: retry_at, delay, counted: true },
        },
        ..passed(&held[0])
    };
    store.finish_runs(&[passed(&held[0]), give_up, stale], at(2)).await.unwrap();
    let lease = LeaseRef { id: held[0].id.0, epoch: held[0].epoch };
    let back = LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() };
    store.release_leases(Leased::Run, &[back], at(3)).await.unwrap();
    store.retry_runs(&[held[0].id, RunId(99)], &by).await.unwrap();
    store.cancel_runs(&[held[2].id], &by).await.unwrap();
    store.pause_queue("q", &by).await.unwrap();
    store.resume_queue("other", &by).await.unwrap();
    assert!(!wakes.has_changed().unwrap());

    store.resume_queue("q", &by).await.unwrap();
    assert!(wakes.has_changed().unwrap());
}
