//! Every column of every batch write, with a value that no other column has.
//!
//! The statements of SQLite bind by position. Two parameters in the wrong order leave a row that is
//! still valid, so each case compares the whole record, and no two fields of one type are equal.

use std::time::Duration;

use jiff::SignedDuration;
use redrive_core::{
    AttemptNumber, Cause, Class, Code, Decision, Epoch, Failure, GiveUpReason, History, ItemEvent,
    ItemStatus, Message, PartitionStatus, PipelineRunId, RunStatus, SampleStatus,
};
use serde_json::json;

use super::{
    Fixture,
    items::{group, item},
    partition_samples::{self, FRESH, RETRY, accepted, day, order, rejected, run_id, verdict},
    pipeline_samples::{claim_at, ended, new_run, position},
    samples::{at, claim_of, finish, operator},
};
use redrive_store::{
    AddedItem, AttemptRecord, ClaimRequest, ItemAttempt, ItemMove, ItemRecord, JournalEntry,
    JournalFilter, Lane, NewItem, NewRun, NewSample, PartitionAction, PartitionFailure,
    PartitionRecord, PartitionWorkRecord, RunCompletion, RunFinish, RunRecord, SampleClaim,
    SampleCompletion, SampleFinish, SampleRecord, SampleWritten, UnitKind, UnitRow, Verdict,
    WorkKind, WorkRequest, WorkerId, Written,
};

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// A failure whose class, code and message differ from each other.
fn failure() -> Failure {
    let class = Class::RateLimited { retry_after: Some(Duration::from_secs(9)) };
    Failure::reported(Some(class), Code::Name("quota".to_owned()), "too many calls")
}

/// What an attempt had behind it: no two numbers are equal.
fn history() -> History {
    History { counted: 3, deferrals: 5, first_attempt_at: Some(at(2)), ..History::default() }
}

fn retry_at(seconds: i64) -> Decision {
    Decision::RetryAt { at: at(seconds), delay: Duration::from_secs(9), counted: true }
}

/// The text of a fingerprint of [`failure`].
fn fingerprint() -> Option<String> {
    Some(failure().fingerprint().to_string())
}

impl Fixture {
    async fn only_attempt(&self, unit: UnitRow) -> AttemptRecord {
        let mut rows = self.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }
}

pub async fn a_run_has_every_column_as_it_was_written(f: &Fixture) {
    let new = NewRun::new("queue-a", &json!({ "payload": 1 }), at(1))
        .and_then(|run| run.with_category("category-b"))
        .and_then(|run| run.with_idempotency_key("key-c"))
        .expect("a valid run")
        .with_not_before(at(4));
    let id = f.submit(&[new], at(3)).await[0];
    let submitted = RunRecord {
        id,
        queue: "queue-a".to_owned(),
        category: "category-b".to_owned(),
        payload: r#"{"payload":1}"#.to_owned(),
        submitted_at: at(1),
        not_before: Some(at(4)),
        idempotency_key: text("key-c"),
        status: RunStatus::Discovered,
        attempts: 0,
        attempts_at_reset: 0,
        retry_count: 0,
        deferrals: 0,
        next_retry_at: None,
        first_attempt_at: None,
        error_class: None,
        error_code: None,
        error_message: None,
        fingerprint: None,
        last_failure_at: None,
        result: None,
        lease_owner: None,
        lease_epoch: Epoch(0),
        lease_until: None,
        ready: false,
        due_at: Some(at(4)),
    };
    assert_eq!(f.run(id).await, submitted);

    let request = ClaimRequest {
        queue: "queue-a".to_owned(),
        owner: WorkerId("worker-d".to_owned()),
        lease_until: at(70),
        ..claim_of(1, at(5))
    };
    let claimed = f.claim(&request).await.pop().expect("the run is due");
    let held = RunRecord {
        status: RunStatus::Processing,
        lease_owner: Some(WorkerId("worker-d".to_owned())),
        lease_epoch: claimed.epoch,
        lease_until: Some(at(70)),
        due_at: None,
        ..submitted
    };
    assert_eq!(f.run(id).await, held);

    let freed = RunRecord { lease_owner: None, lease_until: None, attempts: 1, ..held };
    let failed = RunCompletion::Failed { failure: failure(), decision: retry_at(20) };
    let attempt = RunFinish { history: history(), ..finish(&claimed, at(11), failed) };
    let written = f.store.finish_runs(std::slice::from_ref(&attempt), at(12)).await;
    assert_eq!(written.expect("answered"), [Written::Applied]);
    let waiting = RunRecord {
        status: RunStatus::Error,
        retry_count: 4,
        deferrals: 6,
        next_retry_at: Some(at(20)),
        first_attempt_at: Some(at(2)),
        error_class: text("rate_limited"),
        error_code: text("quota"),
        error_message: text("too many calls"),
        fingerprint: fingerprint(),
        last_failure_at: Some(at(11)),
        due_at: Some(at(20)),
        ..freed
    };
    assert_eq!(f.run(id).await, waiting);
    assert_eq!(f.only_attempt(UnitRow::new(UnitKind::Run, id.0)).await, attempt.ledger_row());

    let claimed = f.claim_from("queue-a", at(21)).await;
    let verdict = Verdict::NeedsReview;
    let judged = RunCompletion::Judged { verdict, result: text(r#"{"result":2}"#) };
    f.end(&claimed, at(25), judged).await;
    let reviewed = RunRecord {
        status: RunStatus::NeedsReview,
        attempts: 2,
        retry_count: 0,
        deferrals: 0,
        next_retry_at: None,
        error_class: None,
        error_code: None,
        error_message: None,
        fingerprint: None,
        result: text(r#"{"result":2}"#),
        lease_epoch: claimed.epoch,
        due_at: None,
        ..waiting
    };
    assert_eq!(f.run(id).await, reviewed);
}

pub async fn a_sample_has_every_column_as_it_was_written(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let lines = [
        NewSample { line: 7, data: Ok(r#"{"data":1}"#.to_owned()), hash: None },
        NewSample { line: 8, data: Err(failure()), hash: None },
    ];
    let added = f.store.append_samples(feed, &lines, &position(8, true), at(1)).await;
    let run = added.expect("answered").expect("the source is ours");
    assert_eq!((run.id, run.position), (PipelineRunId(feed.id), position(8, true)));

    let owner = WorkerId("worker-d".to_owned());
    let claim = SampleClaim { owner: owner.clone(), lease_until: at(70), ..claim_at(0, 1, at(3)) };
    let claimed = f.store.claim_samples(&claim).await.expect("claimed").pop().expect("a sample");
    let held = SampleRecord {
        id: claimed.id,
        run: run.id,
        pipeline: run.pipeline.clone(),
        line: 7,
        data: text(r#"{"data":1}"#),
        status: SampleStatus::Pending,
        stage: 0,
        stage_name: run.stages[0].clone(),
        attempts: 0,
        attempts_at_reset: 0,
        retry_count: 0,
        deferrals: 0,
        next_retry_at: None,
        first_attempt_at: None,
        last_attempt_at: None,
        error_class: None,
        error_code: None,
        error_message: None,
        fingerprint: None,
        last_failure_at: None,
        skip_reason: None,
        lease_owner: Some(owner.clone()),
        lease_epoch: claimed.epoch,
        lease_until: Some(at(70)),
    };
    assert_eq!(f.sample(claimed.id).await, held);

    let page =
        f.store.samples_page(&Default::default(), claimed.id, 10.into()).await.expect("read");
    let dead = SampleRecord {
        id: page[0].id,
        line: 8,
        data: None,
        status: SampleStatus::Dlq,
        stage_name: "source".to_owned(),
        last_attempt_at: Some(at(1)),
        error_class: text("rate_limited"),
        error_code: text("quota"),
        error_message: text("too many calls"),
        fingerprint: fingerprint(),
        last_failure_at: Some(at(1)),
        lease_owner: None,
        lease_epoch: Epoch(0),
        lease_until: None,
        ..held.clone()
    };
    assert_eq!(page, [dead]);

    let failed = SampleCompletion::Failed { failure: failure(), decision: retry_at(20) };
    let attempt = SampleFinish { history: history(), ..ended(&claimed, 0, at(11), failed) };
    let written = f.store.finish_samples(std::slice::from_ref(&attempt)).await;
    assert_eq!(written.expect("answered"), [SampleWritten::Applied]);
    let waiting = SampleRecord {
        attempts: 1,
        retry_count: 4,
        deferrals: 6,
        next_retry_at: Some(at(20)),
        first_attempt_at: Some(at(2)),
        last_attempt_at: Some(at(11)),
        error_class: text("rate_limited"),
        error_code: text("quota"),
        error_message: text("too many calls"),
        fingerprint: fingerprint(),
        last_failure_at: Some(at(11)),
        lease_owner: None,
        lease_until: None,
        ..held
    };
    assert_eq!(f.sample(claimed.id).await, waiting);
    let unit =
        |stage: &str| UnitRow { kind: UnitKind::Sample, id: claimed.id.0, stage: stage.to_owned() };
    assert_eq!(f.only_attempt(unit(&run.stages[0])).await, attempt.ledger_row());

    let again = f.sample_at(0, at(21)).await;
    let answered = SampleCompletion::Answered(r#"{"data":2}"#.to_owned());
    let kept = SampleFinish {
        keep_until: Some(at(90)),
        worker: WorkerId("worker-e".to_owned()),
        ..ended(&again, 0, at(25), answered)
    };
    let written = f.store.finish_samples(&[kept]).await;
    assert_eq!(written.expect("answered"), [SampleWritten::Kept]);
    let advanced = SampleRecord {
        data: text(r#"{"data":2}"#),
        stage: 1,
        stage_name: run.stages[1].clone(),
        attempts: 0,
        retry_count: 0,
        deferrals: 0,
        next_retry_at: None,
        first_attempt_at: None,
        last_attempt_at: None,
        error_class: None,
        error_code: None,
        error_message: None,
        fingerprint: None,
        lease_owner: Some(WorkerId("worker-e".to_owned())),
        lease_epoch: Epoch(again.epoch.0 + 1),
        lease_until: Some(at(90)),
        ..waiting
    };
    assert_eq!(f.sample(claimed.id).await, advanced);

    let kept = redrive_store::ClaimedSample {
        epoch: advanced.lease_epoch,
        attempt: AttemptNumber(1),
        history: History::default(),
        ..again
    };
    f.end_sample(&kept, 1, at(31), SampleCompletion::Skipped("not needed".to_owned())).await;
    let skipped = SampleRecord {
        status: SampleStatus::Skipped,
        attempts: 1,
        first_attempt_at: Some(at(30)),
        last_attempt_at: Some(at(31)),
        skip_reason: text("not needed"),
        lease_owner: None,
        lease_until: None,
        ..advanced
    };
    assert_eq!(f.sample(claimed.id).await, skipped);
}

pub async fn a_partition_has_every_column_as_it_was_written(f: &Fixture) {
    let key = day(1);
    f.change_all(FRESH, std::slice::from_ref(&key), at(1)).await;
    let id = f.partition(&key).await.id;
    let request = |kind, seconds| WorkRequest {
        kind,
        lane: Lane::Fresh,
        requested_at: at(seconds),
        requested_by: "ada".to_owned(),
    };
    let asked = |kind, seconds, work_id| PartitionWorkRecord {
        id: work_id,
        request: Some(request(kind, seconds)),
        run_id: None,
        lease_owner: None,
        lease_epoch: Epoch(0),
        lease_until: None,
        paused: None,
    };
    let work_id = |record: &PartitionRecord| record.work.as_ref().expect("work").id;
    let pending = f.partition(&key).await;
    let work = asked(WorkKind::First, 1, work_id(&pending));
    let expected =
        PartitionRecord { work: Some(work), ..PartitionRecord::new(id, key.clone(), at(1)) };
    assert_eq!(pending, expected);

    let claim = redrive_store::PartitionClaim {
        run_ids: vec![run_id("run-c")],
        owner: WorkerId("worker-d".to_owned()),
        lease_until: at(70),
        ..partition_samples::claim_of(1, 0, at(3))
    };
    let claimed = f.claim_partitions(&claim).await.pop().expect("a partition to claim");
    let paused = operator(at(4));
    let pause = redrive_store::AuditContext { by: paused.clone(), ..order(at(4)) };
    let named = [key.clone().into()];
    f.store.change_partitions(&PartitionAction::Pause, &named, &pause).await.expect("paused");
    let work = PartitionWorkRecord {
        run_id: Some(run_id("run-c")),
        lease_owner: Some(WorkerId("worker-d".to_owned())),
        lease_epoch: claimed.lease.epoch,
        lease_until: Some(at(70)),
        paused: Some(paused),
        ..asked(WorkKind::First, 1, claimed.lease.id)
    };
    assert_eq!(f.partition(&key).await, PartitionRecord { work: Some(work), ..expected.clone() });
    f.change_all(PartitionAction::Resume, std::slice::from_ref(&key), at(5)).await;

    let attempt = verdict(&claimed, at(11), rejected("no rows"));
    let written = f.store.finish_partitions(std::slice::from_ref(&attempt)).await;
    assert_eq!(written.expect("answered"), [Written::Applied]);
    let row = attempt.ledger_row(id);
    let last_failure = PartitionFailure {
        class: row.class.clone().expect("a class"),
        code: row.code.clone().expect("a code"),
        fingerprint: row.fingerprint.clone().expect("a fingerprint"),
        at: at(11),
        asked: None,
    };
    let failed = PartitionRecord {
        last_failure: Some(last_failure),
        status: PartitionStatus::Failed,
        attempt_count: 1,
        error_message: text("no rows"),
        updated_at: at(11),
        first_attempt_at: Some(at(10)),
        work: None,
        ..expected
    };
    assert_eq!(f.partition(&key).await, failed);
    let unit = UnitRow::new(UnitKind::Partition, id.0);
    assert_eq!(f.only_attempt(unit).await, row);

    f.change_all(RETRY, std::slice::from_ref(&key), at(12)).await;
    let claimed = f.take(at(13)).await;
    f.judge(&claimed, at(15), accepted(6)).await;
    let good = PartitionRecord {
        status: PartitionStatus::Success,
        current_run_id: Some(claimed.run_id.clone()),
        schema_version: text("2"),
        record_count: Some(6),
        attempt_count: 2,
        error_message: None,
        updated_at: at(15),
        ..failed
    };
    assert_eq!(f.partition(&key).await, good);
}

pub async fn an_item_has_every_column_as_it_was_written(f: &Fixture) {
    let new = NewItem { group: group("group-b"), sha256: "cd".repeat(32), ..item("name-c") };
    let added = f.store.add_items(std::slice::from_ref(&new), &operator(at(1))).await;
    let AddedItem::Accepted(id) = added.expect("added")[0] else { panic!("not accepted") };
    let added = ItemRecord {
        id,
        group: new.group,
        name: new.name,
        content_url: new.content_url,
        size_bytes: new.size_bytes,
        sha256: new.sha256,
        status: ItemStatus::Pending,
        upload_attempts: 0,
        attempts_at_reset: 0,
        last_attempt: AttemptNumber(0),
        rejection_reason: None,
        error_class: None,
        error_code: None,
        fingerprint: None,
        last_failure_at: None,
        updated_at: at(1),
    };
    let read = async || f.store.items_by_id(&[id]).await.expect("read");
    assert_eq!(read().await, std::slice::from_ref(&added));

    for expected in 1..=2 {
        let counted = f.store.increment_upload_attempts(id).await;
        assert_eq!(counted.expect("counted"), Some(expected));
    }
    let step = |event, seconds: i64, attempt| ItemMove {
        attempt,
        ..ItemMove::new(id, event, at(seconds))
    };
    let attempt = ItemAttempt {
        gates: None,
        started_at: at(5),
        failure: Some(failure()),
        worker: "worker-d".to_owned(),
        after: Some(AttemptNumber(0)),
    };
    let rejection = ItemMove {
        rejection_reason: Some(Message::clean("wrong hash")),
        ..step(ItemEvent::RejectAttempt, 7, Some(attempt))
    };
    let moves =
        [rejection.clone(), step(ItemEvent::GiveUp, 8, None), step(ItemEvent::Reset, 9, None)];
    for (one, status, at_reset) in [
        (&moves[0], ItemStatus::Pending, 0),
        (&moves[1], ItemStatus::UploadGiveup, 0),
        (&moves[2], ItemStatus::Pending, 2),
    ] {
        let written = f.store.move_items(std::slice::from_ref(one)).await;
        assert_eq!(written.expect("answered"), [Written::Applied], "{:?}", one.event);
        let expected = ItemRecord {
            status,
            upload_attempts: 2,
            attempts_at_reset: at_reset,
            last_attempt: AttemptNumber(1),
            rejection_reason: text("wrong hash"),
            error_class: text("rate_limited"),
            error_code: text("quota"),
            fingerprint: fingerprint(),
            last_failure_at: Some(at(7)),
            updated_at: one.at,
            ..added.clone()
        };
        assert_eq!(read().await, [expected], "after {:?}", one.event);
    }
    let row = f.only_attempt(UnitRow::new(UnitKind::Item, id.0)).await;
    assert_eq!(Some(row), rejection.ledger_row(AttemptNumber(1)));
}

pub async fn ledger_and_journal_have_every_column_as_it_was_written(f: &Fixture) {
    let unit = UnitRow { kind: UnitKind::Sample, id: 41, stage: "stage-a".to_owned() };
    let attempt = AttemptRecord {
        stage_config_hash: text("hash-b"),
        run_id: text("run-c"),
        class: text("final"),
        code: text("code-e"),
        message: text("message-f"),
        fingerprint: text("00ff"),
        cause: Some(Cause::Spawn),
        delay: Some(Duration::from_micros(1_234_567)),
        asked: Some(Duration::from_micros(7_654_321)),
        counted: false,
        ..AttemptRecord::success(unit.clone(), AttemptNumber(3), at(1), at(2), "worker-g")
    }
    .with_decision(&Decision::GiveUp { reason: GiveUpReason::TooOld });
    f.store.append_attempts(std::slice::from_ref(&attempt)).await.expect("written");
    assert_eq!(f.only_attempt(unit).await, attempt);

    let entry = JournalEntry {
        at: at(3) + SignedDuration::from_micros(5),
        actor: "actor-a".to_owned(),
        action: "kind.verb".to_owned(),
        unit: text("run:42"),
        filter: text(r#"{"filter":1}"#),
        details: r#"{"details":2}"#.to_owned(),
        dedupe_key: text("key-b"),
    };
    let added = f.store.append_journal(std::slice::from_ref(&entry)).await.expect("written");
    assert_eq!(added, [true]);
    let page = f.store.journal_page(&JournalFilter::default(), 0, 10).await.expect("read");
    let entries: Vec<_> = page.into_iter().map(|record| record.entry).collect();
    assert_eq!(entries, [entry]);
}
