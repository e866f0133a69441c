//! The checker finds what is wrong, and only that.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Decision, Failure, GiveUpReason, RunId};
use redrive_engine::{
    Prune, SystemClock,
    checker::{Finding, Invariant, check},
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    Categories, ClaimRequest, NewRun, Operator, PruneFilter, RunChange, RunCompletion, RunFinish,
    Runs, Store, Verdict, WorkerId, Written,
};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

/// A store with a run that waits, one given up, one passed, one held and one new.
struct Lived {
    store: SqliteStore,
    folder: TempDir,
}

const WAITING: i64 = 1;
const GIVEN_UP: i64 = 2;
const PASSED: i64 = 3;
const PROCESSING: i64 = 4;
const DISCOVERED: i64 = 5;

impl Lived {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let store = SqliteStore::open(location, SqliteOptions::default(), start()).unwrap();
        let lived = Self { store, folder };
        lived.live().await;
        lived
    }

    async fn live(&self) {
        for queue in ["waiting", "dead", "passed", "held", "new"] {
            let run = NewRun::new(queue, &json!({}), start()).unwrap();
            self.store.submit_runs(&[run], start()).await.unwrap();
        }
        for second in [1, 100] {
            self.attempt("waiting", second, retry(second)).await;
        }
        self.attempt("dead", 1, retry(1)).await;
        self.attempt("dead", 100, give_up()).await;
        self.attempt("passed", 1, retry(1)).await;
        let judged = RunCompletion::Judged { verdict: Verdict::Passed, result: None };
        self.attempt("passed", 100, judged).await;
        self.claim("held", at(1)).await;
    }

    async fn claim(&self, queue: &str, now: Timestamp) -> redrive_store::ClaimedRun {
        let request = ClaimRequest {
            queue: queue.to_owned(),
            categories: Categories::All,
            limit: 1,
            owner: WorkerId("w".to_owned()),
            lease_until: self.store.now() + SignedDuration::from_mins(1),
            now,
            gates: Default::default(),
        };
        self.store.claim_runs(&request).await.unwrap().pop().unwrap()
    }

    async fn attempt(&self, queue: &str, second: i64, completion: RunCompletion) {
        let run = self.claim(queue, at(second)).await;
        let finish = RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: at(second),
            ended_at: at(second),
            worker: WorkerId("w".to_owned()),
            completion,
            gates: None,
        };
        assert_eq!(
            self.store.finish_runs(&[finish], at(second)).await.unwrap(),
            [Written::Applied]
        );
    }

    async fn send_back(&self, id: i64) {
        let changes = self.store.retry_runs(&[RunId(id)], &operator()).await.unwrap();
        assert!(matches!(changes[..], [RunChange::Done(_)]), "{changes:?}");
    }

    async fn cancel(&self, id: i64) {
        let changes = self.store.cancel_runs(&[RunId(id)], &operator()).await.unwrap();
        assert!(matches!(changes[..], [RunChange::Done(_)]), "{changes:?}");
    }

    async fn assert_clean(&self, when: &str) {
        let report = check(&self.store).await.unwrap();
        assert!(report.is_clean(), "{when}: {:?}", report.findings);
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    /// Breaks the database behind the store's back, past its checks and triggers.
    fn tamper(&self, sql: &str) {
        let connection = Connection::open(self.path()).unwrap();
        connection
            .execute_batch(
                "PRAGMA ignore_check_constraints = ON;
                 DROP TRIGGER attempts_no_update; DROP TRIGGER attempts_no_delete;
                 DROP TRIGGER journal_no_delete;",
            )
            .unwrap();
        connection.execute_batch(sql).unwrap();
    }
}

fn start() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    start() + SignedDuration::from_secs(second)
}

fn retry(second: i64) -> RunCompletion {
    let delay = Duration::from_secs(60);
    RunCompletion::Failed {
        failure: Failure::http(500, None, "busy"),
        decision: Decision::RetryAt { at: at(second) + delay, delay, counted: true },
    }
}

fn give_up() -> RunCompletion {
    RunCompletion::Failed {
        failure: Failure::exit(65, "bad data"),
        decision: Decision::GiveUp { reason: GiveUpReason::Final },
    }
}

fn operator() -> Operator {
    Operator { actor: "ada".to_owned(), at: at(500), reason: None }
}

#[tokio::test]
async fn a_store_that_lived_well_is_clean() {
    let lived = Lived::new().await;
    let report = check(&lived.store).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.runs, report.attempts), (5, 6));
}

async fn check_finding(sql: &str, run: i64, invariant: Invariant) {
    let lived = Lived::new().await;
    lived.tamper(sql);
    let report = check(&lived.store).await.unwrap();
    let unit = format!("run:{run}");
    let found = report.findings.iter().any(|f| f.invariant == invariant && f.unit == unit);
    assert!(found, "{sql}: {:?}", report.findings);
    // A failure that is not in the ledger any more is still counted by its cause.
    let expected = |f: &Finding| {
        f.unit == unit || f.unit == "database" || f.invariant == Invariant::CauseCounts
    };
    let elsewhere = report.findings.iter().find(|f| !expected(f));
    assert_eq!(elsewhere, None, "{sql}");
}

#[tokio::test]
async fn every_broken_invariant_is_found_where_it_is_broken() {
    use Invariant::{
        GiveUpRecorded, Lease, LedgerNumbers, RetryCount, RetryTime, StatusMatchesLedger, WakeUp,
    };
    let cases = [
        ("DELETE FROM attempts WHERE unit_id = 1 AND attempt = 1", WAITING, LedgerNumbers),
        ("UPDATE runs SET attempts = 7 WHERE id = 3", PASSED, LedgerNumbers),
        ("UPDATE attempts SET unit_id = 99 WHERE unit_id = 3 AND attempt = 2", 99, LedgerNumbers),
        ("UPDATE runs SET retry_count = 1 WHERE id = 1", WAITING, RetryCount),
        ("UPDATE runs SET retry_count = 2 WHERE id = 2", GIVEN_UP, RetryCount),
        ("UPDATE runs SET lease_owner = NULL WHERE id = 4", PROCESSING, Lease),
        ("UPDATE runs SET lease_epoch = 1 WHERE id = 1", WAITING, Lease),
        ("DELETE FROM journal", GIVEN_UP, GiveUpRecorded),
        ("UPDATE runs SET status = 'passed' WHERE id = 2", GIVEN_UP, StatusMatchesLedger),
        (
            "UPDATE runs SET next_retry_at = next_retry_at - 1000000 WHERE id = 1",
            WAITING,
            RetryTime,
        ),
        ("UPDATE runs SET due_at = NULL WHERE id = 1", WAITING, WakeUp),
        ("UPDATE runs SET ready = 0 WHERE id = 5", DISCOVERED, WakeUp),
        ("UPDATE runs SET ready = 1 WHERE id = 3", PASSED, WakeUp),
    ];
    for (sql, run, invariant) in cases {
        // A row that went elsewhere is missing where it was, too.
        let sql = if run == 99 {
            format!(
                "{sql}; UPDATE runs SET attempts = 1, status = 'error', next_retry_at = 0, \
                     due_at = 0, retry_count = 1 WHERE id = 3;
                     UPDATE attempts SET delay_us = NULL WHERE unit_id = 3"
            )
        } else {
            sql.to_owned()
        };
        check_finding(&sql, run, invariant).await;
    }
}

#[tokio::test]
async fn a_damaged_database_is_a_finding() {
    let lived = Lived::new().await;
    lived.tamper("UPDATE runs SET ready = 5 WHERE id = 5");
    let report = check(&lived.store).await.unwrap();
    assert!(report.findings.iter().any(|f| f.invariant == Invariant::Integrity), "{report:?}");
}

#[tokio::test]
async fn pages_of_runs_and_attempts_are_all_looked_at() {
    let lived = Lived::new().await;
    let run = NewRun::new("many", &json!({}), start()).unwrap();
    lived.store.submit_runs(&vec![run; 2_500], start()).await.unwrap();
    for second in 1..=5 {
        lived.attempt("many", second, retry(second)).await;
    }
    let report = check(&lived.store).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.runs, report.attempts), (2_505, 11));

    lived.tamper("UPDATE runs SET attempts = 1 WHERE id = 2400");
    let findings = check(&lived.store).await.unwrap().findings;
    assert!(!findings.is_empty() && findings.iter().all(|f| f.unit == "run:2400"), "{findings:?}");
}

// RUN-6
#[tokio::test]
async fn a_run_that_an_operator_sent_back_is_clean_at_every_step() {
    let lived = Lived::new().await;
    lived.send_back(GIVEN_UP).await;
    lived.assert_clean("sent back after it was given up").await;
    lived.attempt("dead", 600, retry(600)).await;
    lived.assert_clean("waiting again").await;
    lived.attempt("dead", 700, retry(700)).await;
    lived.attempt("dead", 800, give_up()).await;
    lived.assert_clean("given up again").await;

    lived.send_back(WAITING).await;
    lived.assert_clean("sent back while it waited").await;
    lived.attempt("waiting", 600, retry(600)).await;
    lived.assert_clean("waiting once more").await;
}

// RUN-6
#[tokio::test]
async fn a_run_that_an_operator_stopped_is_clean_in_whatever_state_it_was() {
    let lived = Lived::new().await;
    for id in [WAITING, GIVEN_UP, PROCESSING, DISCOVERED] {
        lived.cancel(id).await;
        lived.assert_clean(&format!("run {id} cancelled")).await;
    }
    for (id, queue) in [(WAITING, "waiting"), (GIVEN_UP, "dead"), (PROCESSING, "held")] {
        lived.send_back(id).await;
        lived.assert_clean(&format!("run {id} sent back after all")).await;
        lived.attempt(queue, 600, retry(600)).await;
        lived.assert_clean(&format!("run {id} waiting")).await;
    }
}

#[tokio::test]
async fn a_wrong_count_after_a_reset_is_found() {
    let cases = [
        ("UPDATE runs SET retry_count = 2 WHERE id = 2", Invariant::RetryCount),
        ("UPDATE runs SET retry_count = 0 WHERE id = 2", Invariant::RetryCount),
        ("UPDATE runs SET attempts_at_reset = 3 WHERE id = 2", Invariant::RetryCount),
        ("UPDATE runs SET attempts_at_reset = 4 WHERE id = 2", Invariant::LedgerNumbers),
    ];
    for (sql, invariant) in cases {
        let lived = Lived::new().await;
        lived.send_back(GIVEN_UP).await;
        lived.attempt("dead", 600, retry(600)).await;
        lived.tamper(sql);
        let findings = check(&lived.store).await.unwrap().findings;
        assert!(findings.iter().any(|f| f.invariant == invariant), "{sql}: {findings:?}");
        assert!(findings.iter().all(|f| f.unit == "run:2"), "{sql}: {findings:?}");
    }
}

fn busy() -> String {
    Failure::http(500, None, "busy").fingerprint().to_string()
}

// CAU-5
#[tokio::test]
async fn a_wrong_count_of_a_cause_is_found_with_its_hour() {
    let bad = Failure::exit(65, "bad data").fingerprint().to_string();
    let start = start();
    let next = start + SignedDuration::from_hours(1);
    let of = |cause: &str, counted, hour, in_ledger| {
        let unit = format!("cause:{cause}");
        let problem = format!(
            "{counted} failed run attempts are counted in the hour from {hour}, but the ledger has {in_ledger}"
        );
        (unit, problem)
    };
    let cases = [
        ("UPDATE cause_hours SET attempts = 2 WHERE place = 'waiting'", vec![]),
        (
            "UPDATE cause_hours SET attempts = 3 WHERE place = 'waiting'",
            vec![of(&busy(), 5, start, 4)],
        ),
        ("DELETE FROM cause_hours WHERE place = 'passed'", vec![of(&busy(), 3, start, 4)]),
        (
            "UPDATE cause_hours SET hour = hour + 3600000000 WHERE attempts = 1 AND place = 'dead'",
            vec![
                of(&busy(), 3, start, 4),
                of(&bad, 0, start, 1),
                of(&busy(), 1, next, 0),
                of(&bad, 1, next, 0),
            ],
        ),
        (
            "UPDATE cause_hours SET kind = 'item' WHERE place = 'passed'",
            vec![of(&busy(), 3, start, 4)],
        ),
    ];
    for (sql, expected) in cases {
        let lived = Lived::new().await;
        lived.tamper(sql);
        let findings = check(&lived.store).await.unwrap().findings;
        assert!(findings.iter().all(|f| f.invariant == Invariant::CauseCounts), "{findings:?}");
        assert_eq!(findings.is_empty(), expected.is_empty(), "{sql}: {findings:?}");
        for (unit, problem) in expected {
            let is_it = |f: &&Finding| f.unit == unit && f.problem.starts_with(&problem);
            assert!(findings.iter().any(|f| is_it(&f)), "{sql}: {unit} {problem}: {findings:?}");
        }
    }
}

/// Prunes everything or one queue.
async fn prune(lived: &Lived, before: Timestamp, queue: Option<&str>) {
    // A queue and a pipeline together are no reason to remove counts of others.
    let (queue, pipeline) = (queue.map(str::to_owned), queue.map(str::to_owned));
    let filter = PruneFilter { before, queue, pipeline };
    let store = SqliteStore::open(Location::File(lived.path()), SqliteOptions::default(), start());
    let prune = Prune::new(Arc::new(store.unwrap()), filter, Arc::new(SystemClock));
    let by = Operator { at: before, ..operator() };
    prune.run(&lived.folder.path().join("archive"), &by).await.unwrap();
}

// CAU-5, OPS-8
#[tokio::test]
async fn counts_are_compared_with_the_ledger_from_the_first_full_hour_after_a_prune_on() {
    const HOUR: i64 = 3_600;
    let prunes =
        [(Some("dead"), 600), (Some("dead"), HOUR), (None, 600), (None, HOUR), (None, HOUR + 1)];
    for (queue, before) in prunes {
        let lived = Lived::new().await;
        for second in [HOUR, 2 * HOUR] {
            lived.attempt("waiting", second, retry(second)).await;
        }
        prune(&lived, at(before), queue).await;
        lived.assert_clean(&format!("pruned before second {before} of {queue:?}")).await;
        let first = if before <= HOUR { 1 } else { 2 };
        for hour in 0..=2 {
            let micros = at(hour * HOUR).as_microsecond();
            let change = |by: i64| {
                format!(
                    "UPDATE cause_hours SET attempts = attempts + {by}
                    WHERE hour = {micros} AND place = 'waiting'"
                )
            };
            let connection = Connection::open(lived.path()).unwrap();
            let changed = connection.execute(&change(1), []).unwrap();
            let pruned = hour == 0 && before >= HOUR && queue.is_none();
            assert_eq!(changed == 0, pruned, "{queue:?}, {before}, hour {hour}");
            let findings = check(&lived.store).await.unwrap().findings;
            let found = findings.iter().any(|f| f.unit == format!("cause:{}", busy()));
            assert_eq!(found, changed > 0 && hour >= first, "{before}, hour {hour}: {findings:?}");
            connection.execute(&change(-1), []).unwrap();
        }
    }
}
