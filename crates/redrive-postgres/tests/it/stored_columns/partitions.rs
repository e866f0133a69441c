//! What is stored of a partition.

use jiff::Timestamp;
use redrive_core::{Failure, PartitionKey};
use redrive_store::{
    AuditContext, GateRules, Lane, PartitionAction, PartitionClaim, PartitionFinish,
    PartitionVerdict, Partitions, Written,
};
use serde_json::json;

use super::{Stored, at, operator, worker};

#[tokio::test]
async fn of_partitions() {
    let stored = Stored::new().await;
    let day = "2026-03-01".parse().unwrap();
    let key = PartitionKey::new("a_source", "a_customer", "a_query", day).unwrap();
    let named = [key.clone().into()];
    let order = |second| AuditContext {
        by: operator(second),
        command: "a command".to_owned(),
        filter: Some(r#"{"source":"a_source"}"#.to_owned()),
        flags: vec!["--flag".to_owned()],
    };
    let backfill = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    stored.store.change_partitions(&backfill, &named, &order(1)).await.unwrap();
    stored.store.change_partitions(&PartitionAction::Pause, &named, &order(2)).await.unwrap();
    let state = json!({
        "source": "a_source", "customer_id": "a_customer", "query_name": "a_query",
        "logical_date": "2026-03-01", "status": "pending", "attempt_count": 0, "updated_at": 1
    });
    Stored::check(&stored.rows("partition_state").await, &json!([state]));
    let work = json!([{
        "customer_id": "a_customer", "partition_id": 1, "source": "a_source", "kind": "first", "lane": "fresh",
        "requested_at": 1, "requested_by": "ada", "lease_epoch": 0, "paused_at": 2,
        "paused_by": "ada", "pause_reason": "a reason"
    }]);
    Stored::check(&stored.rows("partition_work").await, &work);
    let told = stored.rows("journal").await;
    assert_eq!((&told[0]["at"], &told[0]["actor"]), (&json!(1), &json!("ada")));
    assert_eq!(told[0]["action"], "partition.backfill");
    assert!(told[0]["unit"].as_str().unwrap().contains("a_customer"), "{told:?}");
    assert!(told[0]["filter"].as_str().unwrap().contains("a_source"), "{told:?}");
    assert!(told[0]["details"].as_str().unwrap().contains("a command"), "{told:?}");

    stored.store.change_partitions(&PartitionAction::Resume, &named, &order(3)).await.unwrap();
    let mut verdicts = Vec::new();
    for (second, verdict) in [
        (10, PartitionVerdict::Rejected { failure: Failure::http(503, None, "a message") }),
        (
            20,
            PartitionVerdict::Accepted {
                record_count: 42,
                schema_version: Some("a version".to_owned()),
            },
        ),
    ] {
        let claim = PartitionClaim {
            gates: GateRules::default(),
            now: Timestamp::UNIX_EPOCH,
            source: "a_source".to_owned(),
            run_ids: vec![format!("run-{second}").parse().unwrap()],
            backfill: redrive_store::BackfillShare::default(),
            owner: worker("an owner"),
            lease_until: at(60),
        };
        let claimed = stored.store.claim_partitions(&claim).await.unwrap().remove(0);
        let work = stored.rows("partition_work").await;
        let held = json!([work[0]["run_id"], work[0]["lease_owner"], work[0]["lease_until"]]);
        assert_eq!(held, json!([format!("run-{second}"), "an owner", 60]));
        let finish = PartitionFinish {
            gates: None,
            key: key.clone(),
            lease: claimed.lease,
            attempt: claimed.attempt,
            run_id: claimed.run_id,
            started_at: at(second + 1),
            ended_at: at(second + 2),
            worker: worker("a worker"),
            verdict,
        };
        let written = stored.store.finish_partitions(&[finish]).await.unwrap();
        assert_eq!(written, [Written::Applied]);
        verdicts.push(stored.rows("partition_state").await.remove(0));
        let retry = PartitionAction::Retry { clear_terminal: false, lane: Lane::Backfill };
        stored.store.change_partitions(&retry, &named, &order(second + 3)).await.unwrap();
    }
    let (mut failed, mut good) = (state.clone(), state);
    failed["error_message"] = json!("a message");
    (failed["status"], failed["attempt_count"]) = (json!("failed"), json!(1));
    failed["updated_at"] = json!(12);
    (good["status"], good["attempt_count"]) = (json!("success"), json!(2));
    (good["current_run_id"], good["schema_version"]) = (json!("run-20"), json!("a version"));
    (good["record_count"], good["updated_at"]) = (json!(42), json!(22));
    Stored::check(&verdicts, &json!([failed, good]));
}
