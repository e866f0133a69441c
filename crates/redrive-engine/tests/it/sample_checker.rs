//! The checker, pipeline runs and their samples: it finds what is wrong, and only that.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Decision, Failure, GiveUpReason, PipelineRules, PipelineRunId, SampleId};
use redrive_engine::checker::{Invariant, check};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    ClaimedSample, DataEdit, GateRules, JournalEntry, LeaseRef, LeaseRelease, Leased, Leases,
    NewPipelineRun, NewSample, Operator, PipelineAction, PipelineChange, Pipelines, SampleChange,
    SampleClaim, SampleCompletion, SampleFinish, SampleWritten, Samples, Served, SourceClaim,
    SourceFinish, SourcePosition, WorkerId, Written,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// A store with a run in each status. The first has a sample in each state; their ids are their lines.
struct Lived {
    store: SqliteStore,
    folder: TempDir,
}

const THROUGH: i64 = 1;
const SKIPPED: i64 = 2;
const DEAD: i64 = 3;
const NO_SAMPLE: i64 = 4;
const WAITING: i64 = 5;
const BACK: i64 = 6;
const HELD: i64 = 7;
const READY: i64 = 8;
/// In the run that went well, after it died.
const READ_AGAIN: i64 = 9;

const STAGES: [&str; 2] = ["clean", "call"];

impl Lived {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let store = SqliteStore::open(location, SqliteOptions::default(), at(0)).unwrap();
        let lived = Self { store, folder };
        lived.go_through_everything().await;
        for (pipeline, completion) in
            [("good", answer as fn() -> SampleCompletion), ("bad", give_up)]
        {
            let run = lived.start(pipeline).await;
            lived.read(run, pipeline, [Ok(())].into_iter(), true).await;
            lived.attempt(pipeline, 0, answer()).await;
            if pipeline == "good" {
                lived.attempt(pipeline, 1, give_up()).await;
                lived.read_again().await;
                lived.attempt(pipeline, 0, retry()).await;
                lived.attempt(pipeline, 0, answer()).await;
            }
            lived.attempt(pipeline, 1, completion()).await;
        }
        let run = lived.start("stopped").await;
        lived.read(run, "stopped", [Ok(()), Ok(())].into_iter(), false).await;
        let change =
            lived.store.change_pipeline_run(run, &PipelineAction::Cancel, &operator()).await;
        assert!(matches!(change.unwrap(), PipelineChange::Done(_)));
        lived
    }

    async fn go_through_everything(&self) {
        let run = self.start("p").await;
        let lines = (1..=READY).map(|line| if line == NO_SAMPLE { Err(()) } else { Ok(()) });
        self.read(run, "p", lines, false).await;
        self.attempt("p", 0, retry()).await;
        self.attempt("p", 0, answer()).await;
        self.attempt("p", 1, retry()).await;
        self.attempt("p", 1, answer()).await;
        self.attempt("p", 0, SampleCompletion::Skipped("empty".to_owned())).await;
        self.attempt("p", 0, answer()).await;
        self.attempt("p", 1, retry()).await;
        self.attempt("p", 1, give_up()).await;
        self.attempt("p", 0, answer()).await;
        self.attempt("p", 0, answer()).await;
        // From here on the sixth is at its second stage, and the fifth is claimed before it.
        let fifth = self.claim("p", 1).await;
        let sixth = self.claim("p", 1).await;
        self.finish(&sixth, 1, give_up()).await;
        let brought_back = self.store.reprocess_samples(&[SampleId(BACK)], &operator()).await;
        assert_eq!(brought_back.unwrap(), [SampleChange::Done]);
        let sixth = self.claim("p", 1).await;
        self.finish(&sixth, 1, retry()).await;
        let sixth = self.claim("p", 1).await;
        self.release_leases(&sixth).await;
        self.finish(&fifth, 1, retry()).await;
        let held = self.claim("p", 0).await;
        assert_eq!(held.id, SampleId(HELD));
    }

    /// While it is at the first stage, nothing is wrong.
    async fn read_again(&self) {
        let edit = DataEdit {
            id: READ_AGAIN,
            old: Some("{}".to_owned()),
            new: "{\"new\": 1}".to_owned(),
            journal: JournalEntry {
                at: at(5),
                actor: "ada".to_owned(),
                action: "sample.edit".to_owned(),
                unit: Some("sample:9/call".to_owned()),
                filter: None,
                details: "{}".to_owned(),
                dedupe_key: None,
            },
        };
        let changes = self.store.reread_samples(&[edit], &operator()).await.unwrap();
        assert_eq!(changes, [SampleChange::Done]);
        let report = check(&self.store).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
    }

    async fn start(&self, pipeline: &str) -> PipelineRunId {
        let run = NewPipelineRun {
            pipeline: pipeline.to_owned(),
            stages: STAGES.map(str::to_owned).to_vec(),
            rules: PipelineRules::default(),
            read_ahead: 100,
            source: "lines".to_owned(),
        };
        self.store.start_pipeline_run(&run, &operator()).await.unwrap()
    }

    async fn read(
        &self,
        run: PipelineRunId,
        pipeline: &str,
        lines: impl Iterator<Item = Result<(), ()>>,
        done: bool,
    ) {
        let claim = SourceClaim {
            served: served(pipeline),
            limit: 1,
            owner: worker(),
            lease_until: self.until(),
        };
        let (lease, _) = self.store.claim_feeds(&claim).await.unwrap().pop().unwrap();
        assert_eq!(lease.id, run.0);
        let sample = |(line, good): (u64, Result<(), ()>)| NewSample {
            line,
            data: good.map(|()| "{}".to_owned()).map_err(|()| Failure::exit(65, "not JSON")),
            hash: None,
        };
        let samples: Vec<_> = (1..).zip(lines).map(sample).collect();
        let lines = samples.len() as u64;
        let position = SourcePosition { lines, bytes: lines * 3, check: None, done };
        let appended = self.store.append_samples(lease, &samples, &position, at(1)).await;
        assert!(appended.unwrap().is_some());
        let end = SourceFinish { lease, failure: None, at: at(1), worker: worker() };
        assert_eq!(self.store.finish_feeds(&[end]).await.unwrap(), [Written::Applied]);
    }

    fn until(&self) -> Timestamp {
        redrive_store::Store::now(&self.store) + SignedDuration::from_mins(1)
    }

    async fn claim(&self, pipeline: &str, stage: u32) -> ClaimedSample {
        let claim = SampleClaim {
            gates: GateRules::default(),
            gate_key: None,
            served: served(pipeline),
            stage,
            limit: 1,
            owner: worker(),
            lease_until: self.until(),
            now: at(1_000),
        };
        self.store.claim_samples(&claim).await.unwrap().pop().unwrap()
    }

    async fn attempt(&self, pipeline: &str, stage: u32, completion: SampleCompletion) {
        let sample = self.claim(pipeline, stage).await;
        self.finish(&sample, stage, completion).await;
    }

    async fn finish(&self, sample: &ClaimedSample, stage: u32, completion: SampleCompletion) {
        let finish = SampleFinish {
            gates: None,
            id: sample.id,
            run: sample.run,
            epoch: sample.epoch,
            stage,
            stage_name: STAGES[stage as usize].to_owned(),
            last_stage: stage == 1,
            stage_config_hash: "h".to_owned(),
            attempt: sample.attempt,
            history: sample.history,
            started_at: at(2),
            ended_at: at(3),
            worker: worker(),
            keep_until: None,
            completion,
        };
        assert_eq!(self.store.finish_samples(&[finish]).await.unwrap(), [SampleWritten::Applied]);
    }

    async fn release_leases(&self, sample: &ClaimedSample) {
        let lease = LeaseRef { id: sample.id.0, epoch: sample.epoch };
        let backs = LeaseRelease::each(&[lease], &worker(), "shutdown");
        let written = self.store.release_leases(Leased::Sample, &backs, at(4)).await.unwrap();
        assert_eq!(written, [Written::Applied]);
    }

    /// Breaks the database behind the store's back, past its checks and triggers.
    fn tamper(&self, sql: &str) {
        let connection = Connection::open(self.folder.path().join("store.db")).unwrap();
        let past = "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF;
                    DROP TRIGGER attempts_no_update; DROP TRIGGER attempts_no_delete;
                    DROP TRIGGER journal_no_delete;";
        connection.execute_batch(past).unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn worker() -> WorkerId {
    WorkerId("w".to_owned())
}

fn operator() -> Operator {
    Operator { actor: "ada".to_owned(), at: at(5), reason: None }
}

fn served(pipeline: &str) -> Served {
    let stages = STAGES.map(str::to_owned).to_vec();
    Served { pipeline: pipeline.to_owned(), stages, run: None }
}

fn answer() -> SampleCompletion {
    SampleCompletion::Answered("{}".to_owned())
}

fn retry() -> SampleCompletion {
    let delay = Duration::from_secs(60);
    SampleCompletion::Failed {
        failure: Failure::http(500, None, "busy"),
        decision: Decision::RetryAt { at: at(63), delay, counted: true },
    }
}

fn give_up() -> SampleCompletion {
    SampleCompletion::Failed {
        failure: Failure::exit(65, "bad data"),
        decision: Decision::GiveUp { reason: GiveUpReason::Final },
    }
}

// PIP-4, PIP-5
#[tokio::test]
async fn pipelines_that_lived_well_are_clean() {
    let report = check(&Lived::new().await.store).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.pipeline_runs, report.samples, report.attempts), (4, 12, 20));
}

#[tokio::test]
async fn whatever_is_wrong_with_a_sample_is_found_where_it_is() {
    use Invariant::{
        GiveUpRecorded, Lease, LedgerNumbers, ReleaseRecorded, RetryCount, RetryTime,
        StatusMatchesLedger,
    };
    let cases = [
        ("UPDATE samples SET attempts = 3 WHERE id = 1", THROUGH, LedgerNumbers),
        (
            "DELETE FROM attempts WHERE unit_id = 3 AND stage = 'call' AND attempt = 1",
            DEAD,
            LedgerNumbers,
        ),
        (
            "UPDATE attempts SET attempt = 3 WHERE unit_id = 1 AND stage = 'clean' AND attempt = 2",
            THROUGH,
            LedgerNumbers,
        ),
        ("UPDATE samples SET attempts_at_reset = 3 WHERE id = 6", BACK, LedgerNumbers),
        ("UPDATE samples SET retry_count = 2 WHERE id = 5", WAITING, RetryCount),
        ("UPDATE samples SET retry_count = 0 WHERE id = 3", DEAD, RetryCount),
        ("UPDATE samples SET attempts_at_reset = 2 WHERE id = 6", BACK, RetryCount),
        ("UPDATE samples SET retry_count = 1 WHERE id = 1", THROUGH, RetryCount),
        ("UPDATE samples SET lease_until = NULL WHERE id = 7", HELD, Lease),
        ("UPDATE samples SET lease_epoch = 2 WHERE id = 1", THROUGH, Lease),
        (
            "UPDATE samples SET lease_owner = 'w', lease_until = 9, lease_epoch = 9 WHERE id = 2",
            SKIPPED,
            Lease,
        ),
        ("UPDATE samples SET line = 9 WHERE id = 8", READY, StatusMatchesLedger),
        ("UPDATE samples SET stage = 1 WHERE id = 8", READY, StatusMatchesLedger),
        ("UPDATE samples SET stage = 2 WHERE id = 8", READY, StatusMatchesLedger),
        (
            "UPDATE samples SET status = 'dlq', error_message = 'x' WHERE id = 1",
            THROUGH,
            StatusMatchesLedger,
        ),
        ("UPDATE samples SET stage = 0, attempts = 2 WHERE id = 1", THROUGH, StatusMatchesLedger),
        ("UPDATE samples SET status = 'succeeded' WHERE id = 2", SKIPPED, StatusMatchesLedger),
        ("UPDATE samples SET status = 'skipped' WHERE id = 3", DEAD, StatusMatchesLedger),
        ("UPDATE samples SET status = 'pending' WHERE id = 3", DEAD, StatusMatchesLedger),
        ("UPDATE samples SET data = NULL WHERE id = 3", DEAD, StatusMatchesLedger),
        ("UPDATE samples SET stage = 1 WHERE id = 4", NO_SAMPLE, StatusMatchesLedger),
        (
            "UPDATE attempts SET outcome = 'failed' WHERE unit_id = 1 AND stage = 'clean'",
            THROUGH,
            StatusMatchesLedger,
        ),
        (
            "UPDATE attempts SET outcome = 'success' WHERE unit_id = 1 AND stage = 'call'",
            THROUGH,
            StatusMatchesLedger,
        ),
        ("DELETE FROM attempts WHERE unit_id = 3 AND stage = 'clean'", DEAD, StatusMatchesLedger),
        (
            "UPDATE attempts SET stage = 'other' WHERE unit_id = 3 AND stage = 'clean'",
            DEAD,
            StatusMatchesLedger,
        ),
        (
            "UPDATE attempts SET outcome = 'retrying' WHERE unit_id = 9 AND outcome = 'failed'",
            READ_AGAIN,
            StatusMatchesLedger,
        ),
        (
            "UPDATE attempts SET outcome = 'success' WHERE unit_id = 9 AND stage = 'clean'",
            READ_AGAIN,
            StatusMatchesLedger,
        ),
        ("UPDATE samples SET next_retry_at = next_retry_at - 1 WHERE id = 5", WAITING, RetryTime),
        (
            "DELETE FROM journal WHERE action = 'sample.dead' AND unit = 'sample:3/call'",
            DEAD,
            GiveUpRecorded,
        ),
        (
            "DELETE FROM journal WHERE action = 'sample.dead' AND unit = 'sample:4/source'",
            NO_SAMPLE,
            GiveUpRecorded,
        ),
        ("DELETE FROM journal WHERE action = 'sample.handback'", BACK, ReleaseRecorded),
        ("UPDATE samples SET lease_epoch = lease_epoch + 1 WHERE id = 3", DEAD, ReleaseRecorded),
    ];
    for (sql, sample, invariant) in cases {
        let lived = Lived::new().await;
        lived.tamper(sql);
        let findings = check(&lived.store).await.unwrap().findings;
        let unit = format!("sample:{sample}/");
        let found = findings.iter().any(|f| f.invariant == invariant && f.unit.starts_with(&unit));
        assert!(found, "{sql}: {findings:?}");
        // A status that is wrong makes the counts of the run wrong, too, and a missing attempt those of its cause.
        let near = ["database", "pipeline run 1"];
        let elsewhere = findings.iter().find(|f| {
            !f.unit.starts_with(&unit)
                && !near.contains(&f.unit.as_str())
                && f.invariant != Invariant::CauseCounts
        });
        assert_eq!(elsewhere, None, "{sql}");
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_pipeline_run_is_found_where_it_is() {
    use Invariant::{Counts, Lease, StatusMatchesLedger, WakeUp};
    const RUNNING: &str = "pipeline run 1";
    const GOOD: &str = "pipeline run 2";
    const BAD: &str = "pipeline run 3";
    const STOPPED: &str = "pipeline run 4";
    let cases = [
        ("UPDATE pipeline_runs SET total = 9 WHERE id = 1", RUNNING, Counts),
        ("UPDATE pipeline_runs SET succeeded = 2 WHERE id = 1", RUNNING, Counts),
        ("UPDATE pipeline_runs SET dlq = 1, succeeded = 2 WHERE id = 1", RUNNING, Counts),
        ("UPDATE pipeline_runs SET skipped = 0 WHERE id = 1", RUNNING, Counts),
        ("DELETE FROM samples WHERE id = 8", RUNNING, Counts),
        ("UPDATE pipeline_runs SET budget_processed = 5 WHERE id = 1", RUNNING, Counts),
        ("UPDATE pipeline_runs SET budget_failed = 1 WHERE id = 1", RUNNING, Counts),
        ("UPDATE pipeline_runs SET ended_at = 1 WHERE id = 1", RUNNING, StatusMatchesLedger),
        (
            "UPDATE pipeline_runs SET status = 'running', ended_at = NULL WHERE id = 2",
            GOOD,
            StatusMatchesLedger,
        ),
        (
            "UPDATE pipeline_runs SET status = 'partial_success' WHERE id = 2",
            GOOD,
            StatusMatchesLedger,
        ),
        ("UPDATE pipeline_runs SET source_done = 0 WHERE id = 2", GOOD, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET ended_at = NULL WHERE id = 3", BAD, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET status = 'completed' WHERE id = 3", BAD, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET stop_reason = 'x' WHERE id = 3", BAD, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET stop_reason = NULL WHERE id = 4", STOPPED, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET status = 'failed' WHERE id = 4", STOPPED, StatusMatchesLedger),
        ("UPDATE pipeline_runs SET status = 'failed' WHERE id = 4", "sample:11/clean", WakeUp),
        (
            "UPDATE pipeline_runs SET lease_owner = 'w', lease_until = 1, lease_epoch = 0
             WHERE id = 4",
            STOPPED,
            Lease,
        ),
    ];
    for (sql, unit, invariant) in cases {
        let lived = Lived::new().await;
        lived.tamper(sql);
        let findings = check(&lived.store).await.unwrap().findings;
        let found = findings.iter().any(|f| f.invariant == invariant && f.unit == unit);
        assert!(found, "{sql}: {findings:?}");
        let others = ["pipeline run 1", "pipeline run 2", "pipeline run 3", "pipeline run 4"];
        let elsewhere = findings.iter().find(|f| {
            f.unit != unit && others.contains(&f.unit.as_str()) && !unit.starts_with("sample:")
        });
        assert_eq!(elsewhere, None, "{sql}");
    }
}

#[tokio::test]
async fn an_attempt_of_no_sample_is_found() {
    let lived = Lived::new().await;
    lived.tamper(
        "INSERT INTO attempts (kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome,
            worker) VALUES ('sample', 99, 'call', 1, 1, 0, 0, 'failed', 'w')",
    );
    let findings = check(&lived.store).await.unwrap().findings;
    let units: Vec<&str> = findings.iter().map(|finding| finding.unit.as_str()).collect();
    assert_eq!(units, ["sample:99/call"]);
}
