//! What is stored of runs that pass after failures.

use redrive_core::{RunId, RunStatus};
use redrive_store::{RunCompletion, RunFinish, Runs, Verdict, Written};
use serde_json::json;

use crate::stored_columns::{Stored, at, new_run, operator, retry, worker};

#[tokio::test]
async fn they_have_no_state_and_share_a_row_that_tells_what_came_before() {
    let stored = Stored::new().await;
    stored.store.submit_runs(&[new_run(), new_run()], at(20)).await.unwrap();
    for (number, claimed) in [(1, 2), (2, 1)] {
        let runs = stored.claim_runs(claimed).await;
        let finishes: Vec<RunFinish> = runs
            .iter()
            .map(|run| {
                let (failure, decision) = retry("a message", 20);
                RunFinish {
                    id: run.id,
                    epoch: run.epoch,
                    attempt: run.attempt,
                    history: run.history,
                    started_at: at(10 * number + run.id.0),
                    ended_at: at(10 * number + 2 + run.id.0),
                    worker: worker("a worker"),
                    completion: RunCompletion::Failed { failure, decision },
                    gates: None,
                }
            })
            .collect();
        stored.store.finish_runs(&finishes, at(23)).await.unwrap();
    }
    let by = operator(40);
    stored.store.retry_runs(&[RunId(1)], &by).await.unwrap();
    let finishes: Vec<RunFinish> = stored
        .claim_runs(2)
        .await
        .into_iter()
        .zip([None, Some("\"a result\"".to_owned())])
        .map(|(run, result)| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: at(50 + run.id.0),
            ended_at: at(52 + run.id.0),
            worker: worker("a worker"),
            completion: RunCompletion::Judged { verdict: Verdict::Passed, result },
            gates: None,
        })
        .collect();
    assert_eq!(stored.store.finish_runs(&finishes, at(55)).await.unwrap(), [Written::Applied; 2]);
    let time = |second: u32| format!("1970-01-01T00:00:{second}+00:00");
    let expected = json!([{
        "block": 0, "epoch": 3, "worker": "a worker", "run_ids": [1, 2], "started_at": [time(51), time(52)],
        "ended_at": [time(53), time(54)], "results": [null, "\"a result\""], "attempts": [3, 2],
        "attempts_at_reset": [2, 0], "first_attempt_at": [time(51), time(12)],
        "last_failure_at": [time(23), time(14)]
    }]);
    Stored::check(&stored.rows("run_passes").await, &expected);
    for table in ["ready_runs", "run_claims", "run_states"] {
        Stored::check(&stored.rows(table).await, &json!([]));
    }
    let numbers: Vec<_> =
        stored.rows("attempts").await.iter().map(|row| row["attempt"].clone()).collect();
    assert_eq!(json!(numbers), json!([1, 1, 2]));
    let runs = stored.store.runs_by_id(&[RunId(1), RunId(2)]).await.unwrap();
    let known: Vec<_> = runs
        .iter()
        .map(|run| (run.status, run.attempts, run.attempts_at_reset, run.last_failure_at))
        .collect();
    let passed = RunStatus::Passed;
    assert_eq!(known, [(passed, 3, 2, Some(at(23))), (passed, 2, 0, Some(at(14)))]);
}
