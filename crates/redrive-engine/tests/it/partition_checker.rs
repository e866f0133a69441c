//! The checker and partitions: it finds what is wrong, and only that.

use std::sync::atomic::{AtomicU32, Ordering};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{Cause, Failure, PartitionKey};
use redrive_engine::checker::{Finding, Invariant, check};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, ClaimedPartition, GateRules, Lane, LeaseRelease, Leased, Leases, Operator,
    PartitionAction, PartitionChange, PartitionClaim, PartitionFinish, PartitionVerdict,
    Partitions, WorkerId, Written,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// A store with a partition in each state; their ids are the days.
struct Lived {
    store: SqliteStore,
    folder: TempDir,
    /// How many were begun.
    runs: AtomicU32,
}

const PENDING: i8 = 1;
const GOOD: i8 = 2;
const AGAIN: i8 = 3;
const FAILED: i8 = 4;
const TERMINAL: i8 = 5;
const RETRIED: i8 = 6;
const PAUSED: i8 = 7;

impl Lived {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let store = SqliteStore::open(location, SqliteOptions::default(), at(0)).unwrap();
        let lived = Self { store, folder, runs: AtomicU32::new(1) };
        for day in PENDING..=PAUSED {
            lived.action(asked(), day).await;
            if day != PENDING {
                lived.attempt(!matches!(day, GOOD | AGAIN)).await;
            }
            if day == PENDING {
                let held = lived.claim().await;
                lived.release_leases(&held).await;
                // Held from here on, so that the others are claimed alone.
                lived.claim().await;
            }
        }
        lived.action(PartitionAction::Reprocess { lane: Lane::Fresh }, GOOD).await;
        lived.attempt(true).await;
        lived.action(PartitionAction::Reprocess { lane: Lane::Fresh }, AGAIN).await;
        lived.action(PartitionAction::MarkTerminal, TERMINAL).await;
        lived
            .action(PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh }, RETRIED)
            .await;
        lived.action(PartitionAction::Pause, PAUSED).await;
        lived
    }

    async fn action(&self, action: PartitionAction, day: i8) {
        let by = Operator { actor: "ada".to_owned(), at: at(1), reason: None };
        let command = "state test".to_owned();
        let order = AuditContext { by, command, filter: None, flags: Vec::new() };
        let changes = self.store.change_partitions(&action, &[key(day).into()], &order).await;
        assert!(matches!(changes.unwrap()[..], [PartitionChange::Done(_)]), "{action:?} {day}");
    }

    async fn claim(&self) -> ClaimedPartition {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let claim = PartitionClaim {
            gates: GateRules::default(),
            now: Timestamp::UNIX_EPOCH,
            source: "ads".to_owned(),
            run_ids: vec![format!("r{run}").parse().unwrap()],
            backfill: redrive_store::BackfillShare::default(),
            owner: WorkerId("w".to_owned()),
            lease_until: at(60),
        };
        self.store.claim_partitions(&claim).await.unwrap().pop().unwrap()
    }

    async fn release_leases(&self, held: &ClaimedPartition) {
        let owner = WorkerId("w".to_owned());
        let back = LeaseRelease { lease: held.lease, owner, why: "shutdown".to_owned() };
        let written = self.store.release_leases(Leased::Partition, &[back], at(2)).await.unwrap();
        assert_eq!(written, [Written::Applied]);
    }

    async fn attempt(&self, fails: bool) {
        let held = self.claim().await;
        let failure = Failure::named("too_few_rows", Cause::Validator, "no rows");
        let finish = PartitionFinish {
            gates: None,
            key: held.key,
            lease: held.lease,
            attempt: held.attempt,
            run_id: held.run_id,
            started_at: at(2),
            ended_at: at(3),
            worker: WorkerId("w".to_owned()),
            verdict: if fails {
                PartitionVerdict::Rejected { failure }
            } else {
                PartitionVerdict::Accepted { record_count: 3, schema_version: None }
            },
        };
        let written = self.store.finish_partitions(&[finish]).await.unwrap();
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

fn key(day: i8) -> PartitionKey {
    format!("ads/7/daily/2026-03-{day:02}").parse().unwrap()
}

fn asked() -> PartitionAction {
    PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh }
}

// PAR-11
#[tokio::test]
async fn partitions_that_lived_well_are_clean() {
    let report = check(&Lived::new().await.store).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.partitions, report.runs, report.attempts), (7, 0, 7));
}

// PAR-11
#[tokio::test]
async fn whatever_is_wrong_with_a_partition_is_found_where_it_is() {
    use Invariant::{
        Authority, Lease, LedgerNumbers, ReleaseRecorded, StatusMatchesLedger, WakeUp,
    };
    let cases = [
        ("UPDATE partition_state SET attempt_count = 3 WHERE id = 2", GOOD, LedgerNumbers),
        ("UPDATE attempts SET attempt = 5 WHERE unit_id = 4", FAILED, LedgerNumbers),
        ("DELETE FROM attempts WHERE unit_id = 4", FAILED, LedgerNumbers),
        ("UPDATE partition_state SET current_run_id = 'r0' WHERE id = 2", GOOD, Authority),
        ("UPDATE partition_state SET status = 'failed' WHERE id = 2", GOOD, Authority),
        ("UPDATE partition_state SET status = 'pending' WHERE id = 2", GOOD, Authority),
        ("UPDATE partition_state SET status = 'success' WHERE id = 4", FAILED, Authority),
        ("UPDATE partition_state SET current_run_id = 'r0' WHERE id = 5", TERMINAL, Authority),
        (
            "UPDATE attempts SET run_id = (SELECT current_run_id FROM partition_state WHERE id = 2)
             WHERE unit_id = 2",
            GOOD,
            Authority,
        ),
        ("UPDATE attempts SET outcome = 'skipped' WHERE unit_id = 4", FAILED, StatusMatchesLedger),
        ("UPDATE partition_work SET run_id = NULL WHERE partition_id = 1", PENDING, Lease),
        ("UPDATE partition_work SET lease_until = NULL WHERE partition_id = 1", PENDING, Lease),
        ("UPDATE partition_work SET lease_epoch = 0 WHERE partition_id = 1", PENDING, Lease),
        ("DELETE FROM partition_work WHERE partition_id = 6", RETRIED, WakeUp),
        ("UPDATE partition_work SET kind = 'first' WHERE partition_id = 6", RETRIED, WakeUp),
        ("UPDATE partition_work SET kind = 'retry' WHERE partition_id = 3", AGAIN, WakeUp),
        (
            "UPDATE partition_work SET paused_at = NULL, paused_by = NULL WHERE partition_id = 7",
            PAUSED,
            WakeUp,
        ),
        (
            "UPDATE partition_work SET lease_epoch = 3 WHERE partition_id = 1",
            PENDING,
            ReleaseRecorded,
        ),
        ("DELETE FROM journal WHERE action = 'partition.handback'", PENDING, ReleaseRecorded),
    ];
    for (sql, day, invariant) in cases {
        let lived = Lived::new().await;
        lived.tamper(sql);
        let report = check(&lived.store).await.unwrap();
        let unit = format!("partition:{}", key(day));
        let found = report.findings.iter().any(|f| f.invariant == invariant && f.unit == unit);
        assert!(found, "{sql}: {:?}", report.findings);
        // A failure that is not in the ledger any more is still counted by its cause.
        let expected = |f: &Finding| {
            f.unit == unit || f.unit == "database" || f.invariant == Invariant::CauseCounts
        };
        let elsewhere = report.findings.iter().find(|f| !expected(f));
        assert_eq!(elsewhere, None, "{sql}");
    }
}

#[tokio::test]
async fn an_attempt_of_no_partition_is_found() {
    for id in [0, 99] {
        let lived = Lived::new().await;
        lived.tamper(&format!(
            "INSERT INTO attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome,
                worker) VALUES ('partition', {id}, 1, 1, 0, 0, 'failed', 'w')"
        ));
        let findings = check(&lived.store).await.unwrap().findings;
        let units: Vec<&str> = findings.iter().map(|finding| finding.unit.as_str()).collect();
        assert_eq!(units, [format!("partition:{id}")]);
        assert!(findings[0].problem.contains("belongs to no partition"), "{}", findings[0]);
    }
}
