//! Every value of a batch ends up in its own column.
//!
//! Batches are arrays, many of one type, so two that change places would be written without an error. Each case
//! writes rows whose values all differ and compares every column that is stored.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{
    AttemptNumber, Cause, Decision, Failure, History, ItemEvent, Message, PipelineRules, RunId,
};
use redrive_postgres::PostgresStore;
use redrive_store::{
    AttemptOutcome, AttemptRecord, Categories, ClaimRequest, GateRules, ItemAttempt, ItemGroup,
    ItemMove, Items, Journal, JournalEntry, LeaseRef, LeaseRelease, Leased, Leases, Ledger,
    NewItem, NewPipelineRun, NewRun, NewSample, Operator, Pipelines, RunCompletion, RunFinish,
    Runs, SampleClaim, SampleCompletion, SampleFinish, Samples, Served, SourceClaim,
    SourcePosition, UnitKind, UnitRow, Verdict, WorkerId, Written,
};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::server::Database;

mod partitions;

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId(name.to_owned())
}

pub(crate) fn operator(second: i64) -> Operator {
    let reason = Some("a reason".to_owned());
    Operator { actor: "ada".to_owned(), at: at(second), reason }
}

pub(crate) fn retry(message: &str, second: i64) -> (Failure, Decision) {
    let delay = Duration::from_micros(1_234);
    let failure = Failure::http(429, Some(Duration::from_secs(30)), message);
    (failure, Decision::RetryAt { at: at(second), delay, counted: true })
}

pub(crate) struct Stored {
    pub(crate) store: PostgresStore,
    raw: Client,
}

impl Stored {
    pub(crate) async fn new() -> Self {
        let database = Database::migrated().await;
        let raw = database.raw().await;
        raw.batch_execute("SET timezone = 'UTC'").await.unwrap();
        Self { store: database.store().await, raw }
    }

    /// All columns of the rows of a table; times as seconds since 1970, nulls and ids left out.
    pub(crate) async fn rows(&self, table: &str) -> Vec<Value> {
        let order = if table == "cause_hours" { "hour" } else { "id" };
        let sql = format!("SELECT to_jsonb(t)::text FROM redrive.{table} AS t ORDER BY {order}");
        let rows = self.raw.query(&sql, &[]).await.unwrap();
        rows.iter()
            .map(|row| {
                let mut row: Value = serde_json::from_str(row.get(0)).unwrap();
                let columns = row.as_object_mut().unwrap();
                columns.remove("id");
                columns.retain(|_, value| !value.is_null());
                for value in columns.values_mut() {
                    let text = value.as_str().filter(|text| text.ends_with("+00:00"));
                    let time = text.map(|text| text.parse::<Timestamp>().unwrap().as_second());
                    *value = time.map_or(value.take(), Value::from);
                }
                row
            })
            .collect()
    }

    #[track_caller]
    pub(crate) fn check(actual: &[Value], expected: &Value) {
        let actual = json!(actual);
        assert_eq!(actual, *expected, "\n{actual:#}\nis stored, and not\n{expected:#}");
    }

    pub(crate) async fn claim_runs(&self, limit: u32) -> Vec<redrive_store::ClaimedRun> {
        let request = ClaimRequest {
            queue: "a queue".to_owned(),
            categories: Categories::All,
            limit,
            owner: worker("an owner"),
            lease_until: at(50),
            now: at(20),
            gates: Default::default(),
        };
        self.store.claim_runs(&request).await.unwrap()
    }
}

pub(crate) fn new_run() -> NewRun {
    NewRun::new("a queue", &json!("a payload"), at(10))
        .unwrap()
        .with_category("a category")
        .unwrap()
}

#[tokio::test]
async fn of_submitted_runs() {
    let stored = Stored::new().await;
    let keyless = new_run().with_not_before(at(30));
    let keyed = keyless.clone().with_idempotency_key("a key").unwrap();
    stored.store.submit_runs(&[keyless], at(20)).await.unwrap();
    stored.store.submit_runs(&[keyed], at(20)).await.unwrap();
    let mut expected = json!([{
        "queue": "a queue", "category": "a category", "payload": "\"a payload\"", "submitted_at": 10,
        "not_before": 30
    }]);
    let mut second = expected[0].clone();
    second["idempotency_key"] = json!("a key");
    expected.as_array_mut().unwrap().push(second);
    Stored::check(&stored.rows("runs").await, &expected);
    let due = json!({
        "queue": "a queue", "category": "a category", "submitted_at": 10, "due_at": 30, "fresh": true
    });
    Stored::check(&stored.rows("due_runs").await, &json!([due, due]));
    stored.store.submit_runs(&[new_run()], at(20)).await.unwrap();
    let ready = json!([{
        "queue": "a queue", "category": "a category", "submitted_at": 10, "fresh": true, "has_state": false
    }]);
    Stored::check(&stored.rows("ready_runs").await, &ready);
}

#[tokio::test]
async fn of_claimed_runs_and_of_runs_that_pass_at_their_first_attempt() {
    let stored = Stored::new().await;
    stored.store.submit_runs(&[new_run(), new_run()], at(20)).await.unwrap();
    let claimed = stored.claim_runs(2).await;
    let expected = json!([{
        "epoch": 1, "queue": "a queue", "owner": "an owner", "lease_until": 50, "claimed_at": 20,
        "first_run": 1, "last_run": 2, "run_ids": [1, 2]
    }]);
    Stored::check(&stored.rows("run_claims").await, &expected);
    let finishes: Vec<RunFinish> = claimed
        .iter()
        .zip([None, Some("\"a result\"".to_owned())])
        .map(|(run, result)| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: at(20 + run.id.0),
            ended_at: at(30 + run.id.0),
            worker: worker("a worker"),
            completion: RunCompletion::Judged { verdict: Verdict::Passed, result },
            gates: None,
        })
        .collect();
    assert_eq!(stored.store.finish_runs(&finishes, at(43)).await.unwrap(), [Written::Applied; 2]);
    let time = |second: u32| format!("1970-01-01T00:00:{second}+00:00");
    let expected = json!([{
        "block": 0, "epoch": 1, "worker": "a worker", "run_ids": [1, 2], "started_at": [time(21), time(22)],
        "ended_at": [time(31), time(32)], "results": [null, "\"a result\""]
    }]);
    Stored::check(&stored.rows("run_passes").await, &expected);
    for table in ["ready_runs", "run_claims", "run_states", "attempts"] {
        Stored::check(&stored.rows(table).await, &json!([]));
    }
}

#[tokio::test]
async fn of_finished_runs() {
    let stored = Stored::new().await;
    stored.store.submit_runs(&[new_run(), new_run()], at(20)).await.unwrap();
    let claimed = stored.claim_runs(2).await;
    let history =
        History { counted: 4, deferrals: 3, first_attempt_at: Some(at(11)), ..History::default() };
    let (failure, decision) = retry("a message", 45);
    let endings = [
        RunCompletion::Failed { failure, decision },
        RunCompletion::Judged {
            verdict: Verdict::NeedsReview,
            result: Some("\"a result\"".to_owned()),
        },
    ];
    let finishes: Vec<RunFinish> = claimed
        .iter()
        .zip(endings)
        .map(|(run, completion)| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: AttemptNumber(9),
            history,
            started_at: at(21),
            ended_at: at(22),
            worker: worker("a worker"),
            completion,
            gates: None,
        })
        .collect();
    let fingerprint = finishes[0].ledger_row().fingerprint;
    assert_eq!(stored.store.finish_runs(&finishes, at(23)).await.unwrap(), [Written::Applied; 2]);
    let expected = json!([
        {
            "queue": "a queue", "category": "a category",
            "submitted_at": 10, "status": "error", "waits": true, "attempts": 9,
            "attempts_at_reset": 0, "retry_count": 5, "deferrals": 4, "lease_epoch": 1,
            "next_retry_at": 45, "first_attempt_at": 11, "error_class": "rate_limited",
            "error_code": "429", "error_message": "a message", "fingerprint": fingerprint,
            "last_failure_at": 22
        },
        {
            "queue": "a queue", "category": "a category",
            "submitted_at": 10, "status": "needs_review", "waits": false, "attempts": 9,
            "attempts_at_reset": 0, "retry_count": 0, "deferrals": 0, "lease_epoch": 1,
            "first_attempt_at": 11, "result": "\"a result\""
        }
    ]);
    Stored::check(&stored.rows("run_states").await, &expected);
    let expected = json!([{
        "queue": "a queue", "category": "a category", "submitted_at": 10, "due_at": 45, "fresh": false
    }]);
    Stored::check(&stored.rows("due_runs").await, &expected);
    let expected = json!([
        {
            "kind": "run", "unit_id": claimed[0].id.0, "stage": "", "attempt": 9, "counted": true,
            "started_at": 21, "ended_at": 22, "outcome": "retrying", "class": "rate_limited",
            "code": "429", "message": "a message", "fingerprint": fingerprint,
            "cause": "handler", "delay_us": 1_234, "worker": "a worker", "asked_us": 30_000_000
        },
        {
            "kind": "run", "unit_id": claimed[1].id.0, "stage": "", "attempt": 9, "counted": true,
            "started_at": 21, "ended_at": 22, "outcome": "success", "worker": "a worker"
        }
    ]);
    Stored::check(&stored.rows("attempts").await, &expected);
    let expected = json!([{
        "fingerprint": fingerprint, "class": "rate_limited", "code": "429", "message": "a message",
        "first_at": 22
    }]);
    Stored::check(&stored.rows("causes").await, &expected);
    let expected = json!([{
        "hour": 0, "fingerprint": fingerprint, "kind": "run", "place": "a queue", "attempts": 1,
        "last_at": 22, "unit_id": claimed[0].id.0
    }]);
    Stored::check(&stored.rows("cause_hours").await, &expected);
}

fn journal(entries: &[JournalEntry]) -> Value {
    let seconds = |entry: &JournalEntry| entry.at.as_second();
    let all = entries.iter().map(|entry| {
        let mut row = json!({
            "at": seconds(entry), "actor": entry.actor, "action": entry.action,
            "unit": entry.unit, "filter": entry.filter, "details": entry.details,
            "dedupe_key": entry.dedupe_key
        });
        row.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        row
    });
    all.collect()
}

#[tokio::test]
async fn of_journal_entries_beside_runs() {
    let stored = Stored::new().await;
    stored.store.submit_runs(&[new_run()], at(20)).await.unwrap();
    let run = stored.claim_runs(1).await.remove(0);
    let lease = LeaseRef { id: run.id.0, epoch: run.epoch };
    let release = LeaseRelease { lease, owner: worker("an owner"), why: "why".to_owned() };
    let mut expected = vec![release.run_entry(at(31))];
    let released = stored.store.release_leases(Leased::Run, &[release], at(31)).await.unwrap();
    assert_eq!(released, [Written::Applied]);
    let run = stored.claim_runs(1).await.remove(0);
    let finish = RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: at(32),
        ended_at: at(33),
        worker: worker("a worker"),
        completion: RunCompletion::Failed {
            failure: Failure::lost_worker("gone"),
            decision: Decision::GiveUp { reason: redrive_core::GiveUpReason::AttemptsExhausted },
        },
        gates: None,
    };
    expected.extend(finish.journal_rows());
    assert_eq!(stored.store.finish_runs(&[finish], at(33)).await.unwrap(), [Written::Applied]);
    stored.store.retry_runs(&[run.id], &operator(34)).await.unwrap();
    stored.store.cancel_runs(&[run.id], &operator(35)).await.unwrap();
    let rows = stored.rows("journal").await;
    Stored::check(&rows[..expected.len()], &journal(&expected));
    let unit = UnitRow::new(UnitKind::Run, run.id.0).to_string();
    let by_operator: Vec<_> = rows[expected.len()..]
        .iter()
        .map(|row| json!([row["at"], row["actor"], row["action"], row["unit"]]))
        .collect();
    let expected = json!([[34, "ada", "run.retry", unit], [35, "ada", "run.cancel", unit]]);
    Stored::check(&by_operator, &expected);
    assert!(rows[expected.as_array().unwrap().len()..].iter().all(|row| row["filter"].is_null()));
    assert_eq!(RunId(1), run.id);
}

#[tokio::test]
async fn of_the_journal_and_the_ledger() {
    let stored = Stored::new().await;
    let entry = JournalEntry {
        at: at(1),
        actor: "an actor".to_owned(),
        action: "an.action".to_owned(),
        unit: Some("a unit".to_owned()),
        filter: Some("a filter".to_owned()),
        details: "{\"some\": \"details\"}".to_owned(),
        dedupe_key: Some("a key".to_owned()),
    };
    stored.store.append_journal(std::slice::from_ref(&entry)).await.unwrap();
    Stored::check(&stored.rows("journal").await, &journal(&[entry]));
    let attempt = AttemptRecord {
        unit: UnitRow { kind: UnitKind::Sample, id: 2, stage: "a stage".to_owned() },
        stage_config_hash: Some("a hash".to_owned()),
        attempt: AttemptNumber(3),
        counted: false,
        run_id: Some("a run".to_owned()),
        started_at: at(4),
        ended_at: at(5),
        outcome: AttemptOutcome::Failed,
        class: Some("final".to_owned()),
        code: Some("a code".to_owned()),
        message: Some("a message".to_owned()),
        fingerprint: Some("a fingerprint".to_owned()),
        cause: Some(Cause::Timeout),
        delay: Some(Duration::from_micros(6)),
        worker: "a worker".to_owned(),
        asked: Some(Duration::from_micros(7)),
    };
    stored.store.append_attempts(&[attempt]).await.unwrap();
    let expected = json!([{
        "kind": "sample", "unit_id": 2, "stage": "a stage", "stage_config_hash": "a hash",
        "attempt": 3, "counted": false, "run_id": "a run", "started_at": 4, "ended_at": 5,
        "outcome": "failed", "class": "final", "code": "a code", "message": "a message",
        "fingerprint": "a fingerprint", "cause": "timeout", "delay_us": 6, "worker": "a worker",
        "asked_us": 7
    }]);
    Stored::check(&stored.rows("attempts").await, &expected);
}

#[tokio::test]
async fn of_items() {
    let stored = Stored::new().await;
    let item = NewItem {
        group: ItemGroup { upload: "an upload".to_owned(), group: "a group".to_owned() },
        name: "a name".to_owned(),
        content_url: "file:a".to_owned(),
        size_bytes: 7,
        sha256: "ab".repeat(32),
    };
    stored.store.add_items(std::slice::from_ref(&item), &operator(1)).await.unwrap();
    let mut row = json!({
        "upload": "an upload", "group_name": "a group", "name": "a name", "content_url": "file:a",
        "size_bytes": 7, "sha256": item.sha256, "status": "pending", "updated_at": 1,
        "upload_attempts": 0, "attempts_at_reset": 0, "last_attempt": 0
    });
    Stored::check(&stored.rows("items").await, &json!([row]));
    let entry = JournalEntry {
        at: at(4),
        actor: "an actor".to_owned(),
        action: "an.action".to_owned(),
        unit: Some("a unit".to_owned()),
        filter: Some("a filter".to_owned()),
        details: "{\"some\": \"details\"}".to_owned(),
        dedupe_key: Some("a key".to_owned()),
    };
    let step = ItemMove {
        rejection_reason: Some(Message::clean("a rejection")),
        attempt: Some(ItemAttempt {
            gates: None,
            started_at: at(2),
            failure: Some(Failure::http(503, None, "a message")),
            worker: "a worker".to_owned(),
            after: Some(AttemptNumber(0)),
        }),
        journal: Some(entry.clone()),
        ..ItemMove::new(redrive_core::ItemId(1), ItemEvent::RejectAttempt, at(3))
    };
    let ledger = step.ledger_row(AttemptNumber(1)).unwrap();
    assert_eq!(stored.store.move_items(&[step]).await.unwrap(), [Written::Applied]);
    row["rejection_reason"] = json!("a rejection");
    (row["updated_at"], row["last_attempt"]) = (json!(3), json!(1));
    (row["error_class"], row["error_code"]) = (json!("retryable"), json!("503"));
    (row["fingerprint"], row["last_failure_at"]) = (json!(ledger.fingerprint), json!(3));
    Stored::check(&stored.rows("items").await, &json!([row]));
    let expected = json!([{
        "kind": "item", "unit_id": 1, "stage": "", "attempt": 1, "counted": ledger.counted,
        "started_at": 2, "ended_at": 3, "outcome": ledger.outcome.name(), "class": "retryable",
        "code": "503", "message": "a message", "fingerprint": ledger.fingerprint,
        "cause": "handler", "worker": "a worker"
    }]);
    Stored::check(&stored.rows("attempts").await, &expected);
    Stored::check(&stored.rows("journal").await[1..], &journal(&[entry]));
}

#[tokio::test]
async fn of_samples() {
    let stored = Stored::new().await;
    let stages = vec!["first stage".to_owned(), "second stage".to_owned()];
    let run = NewPipelineRun {
        pipeline: "a pipeline".to_owned(),
        stages: stages.clone(),
        rules: PipelineRules::default(),
        read_ahead: 100,
        source: "a source".to_owned(),
    };
    let id = stored.store.start_pipeline_run(&run, &operator(1)).await.unwrap();
    let served = Served { pipeline: run.pipeline.clone(), stages, run: None };
    let (owner, lease_until) = (worker("an owner"), at(60));
    let claim = SourceClaim { served: served.clone(), limit: 1, owner: owner.clone(), lease_until };
    let (lease, _) = stored.store.claim_feeds(&claim).await.unwrap().remove(0);
    let broken = Failure::named("bad_line", Cause::Validator, "not JSON");
    let data = |n: u32| Ok(format!("{{\"n\":{n}}}"));
    let fingerprint = broken.fingerprint().to_string();
    let samples: Vec<NewSample> = (1..=3)
        .map(|n| NewSample { line: n.into(), data: data(n), hash: Some(-i64::from(n)) })
        .chain([NewSample { line: 4, data: Err(broken), hash: None }])
        .collect();
    let check = Some("a check".to_owned());
    let position = SourcePosition { lines: 4, bytes: 99, check, done: true };
    stored.store.append_samples(lease, &samples, &position, at(2)).await.unwrap();
    let dead = stored.rows("samples").await.remove(3);
    let expected = json!({
        "run_id": id.0, "line": 4, "status": "dlq", "stage": 0, "attempts": 0,
        "attempts_at_reset": 0, "retry_count": 0, "deferrals": 0, "last_attempt_at": 2,
        "error_class": "retryable", "error_code": "bad_line", "error_message": "not JSON",
        "fingerprint": fingerprint, "last_failure_at": 2,
        "lease_epoch": 0, "claim_stage": 0
    });
    Stored::check(&[dead], &json!([expected]));

    let gates = GateRules::default();
    let claim = SampleClaim {
        served,
        stage: 0,
        limit: 3,
        owner,
        lease_until,
        now: at(3),
        gates,
        gate_key: None,
    };
    let claimed = stored.store.claim_samples(&claim).await.unwrap();
    let (failure, decision) = retry("a message", 45);
    let endings = [
        SampleCompletion::Failed { failure, decision },
        SampleCompletion::Skipped("a skip".to_owned()),
        SampleCompletion::Answered("{\"n\":9}".to_owned()),
    ];
    // A sample is kept only if no attempt was uncounted.
    let finishes: Vec<SampleFinish> = claimed
        .iter()
        .zip(endings)
        .zip([9, 9, 5])
        .map(|((sample, completion), attempt)| SampleFinish {
            gates: None,
            id: sample.id,
            run: sample.run,
            epoch: sample.epoch,
            stage: 0,
            stage_name: "first stage".to_owned(),
            last_stage: false,
            stage_config_hash: "a hash".to_owned(),
            attempt: AttemptNumber(attempt),
            history: History {
                counted: 4,
                deferrals: 3,
                first_attempt_at: Some(at(11)),
                ..History::default()
            },
            started_at: at(21),
            ended_at: at(22),
            worker: worker("a worker"),
            keep_until: Some(at(70)),
            completion,
        })
        .collect();
    let fingerprint = finishes[0].ledger_row().fingerprint;
    let _ = stored.store.finish_samples(&finishes).await.unwrap();
    let rows = stored.rows("samples").await;
    let expected = json!([
        {
            "run_id": id.0, "line": 1, "data": "{\"n\":1}", "status": "pending", "stage": 0,
            "attempts": 9, "attempts_at_reset": 0, "retry_count": 5, "deferrals": 4,
            "next_retry_at": 45, "first_attempt_at": 11, "last_attempt_at": 22,
            "error_class": "rate_limited", "error_code": "429", "error_message": "a message",
            "fingerprint": fingerprint, "last_failure_at": 22, "lease_epoch": 1, "claim_stage": 0,
            "claimed_at": 22, "line_hash": -1
        },
        {
            "run_id": id.0, "line": 2, "data": "{\"n\":2}", "status": "skipped", "stage": 0,
            "attempts": 9, "attempts_at_reset": 0, "retry_count": 0, "deferrals": 0,
            "first_attempt_at": 11, "last_attempt_at": 22, "skip_reason": "a skip",
            "lease_epoch": 1, "claim_stage": 0, "claimed_at": 22, "line_hash": -2
        },
        {
            "run_id": id.0, "line": 3, "data": "{\"n\":9}", "status": "pending", "stage": 1,
            "attempts": 0, "attempts_at_reset": 0, "retry_count": 0, "deferrals": 0,
            "lease_owner": "a worker", "lease_until": 70, "lease_epoch": 2, "claim_stage": 0,
            "claimed_at": 22, "line_hash": -3
        }
    ]);
    Stored::check(&rows[..3], &expected);
    let ledger = stored.rows("attempts").await;
    let failed = ledger.iter().find(|row| row["outcome"] == "retrying").unwrap().clone();
    let expected = json!([{
        "kind": "sample", "unit_id": claimed[0].id.0, "stage": "first stage",
        "stage_config_hash": "a hash", "attempt": 9, "counted": true, "started_at": 21,
        "ended_at": 22, "outcome": "retrying", "class": "rate_limited", "code": "429",
        "message": "a message", "fingerprint": fingerprint, "cause": "handler",
        "delay_us": 1_234, "worker": "a worker", "asked_us": 30_000_000
    }]);
    Stored::check(&[failed], &expected);
    let mut run = stored.rows("pipeline_runs").await.remove(0);
    run.as_object_mut().unwrap().remove("rules");
    let expected = json!([{
        "pipeline": "a pipeline", "status": "running", "stages": ["first stage", "second stage"],
        "read_ahead": 100, "source": "a source", "source_lines": 4, "source_bytes": 99,
        "source_check": "a check", "source_done": true, "total": 4, "succeeded": 0, "skipped": 1,
        "dlq": 1, "budget_processed": 2, "budget_failed": 1, "started_at": 1,
        "started_by": "ada", "lease_owner": "an owner", "lease_until": 60, "lease_epoch": 1,
        "pruned_succeeded": 0, "pruned_skipped": 0, "pruned_dlq": 0
    }]);
    Stored::check(&[run], &expected);
}
