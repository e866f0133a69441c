//! Moving the schema up and down.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, ItemId, RunId, RunState};
use redrive_postgres::{MIGRATIONS, PostgresMigrator, PostgresOptions, PostgresStore};
use redrive_store::{
    Categories, ClaimRequest, Direction, Error, Items, Migrator, RunCompletion, RunFinish, Runs,
    Verdict, WorkerId, Written, latest_version,
};
use tokio::task::JoinSet;

use crate::server::{Database, connect, server_url, url_as};

/// Rows in every table that version 1 has.
const ROWS: &str = "
    INSERT INTO redrive.runs (queue, payload, submitted_at, ready) VALUES ('q', '{}', 'epoch', true);
    INSERT INTO redrive.items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
        VALUES ('tiles', 'g', 'a', 'file:a', 1, 'ab', 'epoch');
    INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
        VALUES ('run', 1, 1, true, 'epoch', 'epoch', 'success', 'w');
    INSERT INTO redrive.journal (at, actor, action) VALUES ('epoch', 'me', 'a.b')";

const PIPELINE_ROWS: &str = "
    INSERT INTO redrive.pipeline_runs
        (pipeline, stages, rules, read_ahead, source, started_at, started_by)
        VALUES ('p', '{a}', '{}', 1, 's', 'epoch', 'me');
    INSERT INTO redrive.samples (run_id, line, data) VALUES (1, 1, '{}')";

async fn has_table(database: &Database, name: &str) -> bool {
    let sql = format!("SELECT to_regclass('{name}') IS NOT NULL");
    database.raw().await.query_one(&sql, &[]).await.unwrap().get(0)
}

// OPS-2
#[tokio::test]
async fn migrations_go_up_and_down_and_up_again_with_rows_in_every_table() {
    let database = Database::empty().await;
    let migrator = database.migrator();
    assert_eq!(migrator.status().await.unwrap().current(), 0);
    for round in 0..3 {
        let at = Timestamp::from_second(round).unwrap();
        let up = migrator.migrate_to(migrator.latest(), at).await.unwrap();
        assert!(up.iter().all(|step| step.direction == Direction::Up));
        let status = migrator.status().await.unwrap();
        for (applied, known) in status.applied.iter().zip(MIGRATIONS) {
            let expected = (known.version, known.name, at);
            assert_eq!((applied.version, applied.name.as_str(), applied.applied_at), expected);
        }
        assert_eq!(status.applied.len(), MIGRATIONS.len());
        let rows = ROWS
            .replace(", ready) VALUES ('q', '{}', 'epoch', true)", ") VALUES ('q', '{}', 'epoch')");
        database.raw().await.batch_execute(&rows).await.unwrap();
        database.raw().await.batch_execute(PIPELINE_ROWS).await.unwrap();

        let down = migrator.migrate_to(0, at).await.unwrap();
        assert_eq!(down.len(), MIGRATIONS.len());
        assert_eq!(migrator.status().await.unwrap().current(), 0);
        assert!(!has_table(&database, "redrive.runs").await);
    }
}

// OPS-2, UPL-4, UPL-9
#[tokio::test]
async fn ac_8_items_that_are_there_get_a_count_of_zero_and_survive_the_way_back() {
    let database = Database::empty().await;
    database.migrate_to(1).await;
    database.raw().await.batch_execute(ROWS).await.unwrap();
    for _ in 0..2 {
        database.migrate_to(latest_version(MIGRATIONS)).await;
        let store = database.store().await;
        let item = store.items_by_id(&[ItemId(1)]).await.unwrap().pop().unwrap();
        assert_eq!((item.upload_attempts, item.attempts_at_reset), (0, 0));
        assert_eq!(store.increment_upload_attempts(ItemId(1)).await.unwrap(), Some(1));
        drop(store);
        database.migrate_to(1).await;
        let sql = "SELECT to_jsonb(items) ? 'upload_attempts' FROM redrive.items";
        let there: bool = database.raw().await.query_one(sql, &[]).await.unwrap().get(0);
        assert!(!there, "the column is gone, the item is not");
    }
}

// OPS-2
#[tokio::test]
async fn two_processes_migrating_at_once_do_no_harm() {
    let database = Database::empty().await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let migrator = database.migrator();
        tasks.spawn(async move {
            let steps = migrator.migrate_to(migrator.latest(), Timestamp::UNIX_EPOCH).await;
            steps.unwrap().len()
        });
    }
    let mut steps = tasks.join_all().await;
    steps.sort_unstable();
    let mut expected = vec![0; 7];
    expected.push(MIGRATIONS.len());
    assert_eq!(steps, expected, "one did everything, the others nothing");
    assert_eq!(database.migrator().status().await.unwrap().current(), latest_version(MIGRATIONS));
}

// OPS-2
#[tokio::test]
async fn a_database_newer_than_the_program_is_refused() {
    let database = Database::migrated().await;
    let newer = "INSERT INTO redrive.schema_migrations VALUES (99, 'from the future', 'epoch')";
    database.raw().await.batch_execute(newer).await.unwrap();
    let known = latest_version(MIGRATIONS);
    let is_newer =
        |error| matches!(error, Error::NewerSchema { found: 99, known: k } if k == known);

    let opened = PostgresStore::connect(&database.url, PostgresOptions::default()).await;
    assert!(is_newer(opened.map(drop).unwrap_err()));
    for version in [0, known] {
        let moved = database.migrator().migrate_to(version, Timestamp::UNIX_EPOCH).await;
        assert!(is_newer(moved.map(drop).unwrap_err()));
    }
    assert_eq!(database.migrator().status().await.unwrap().current(), 99, "nothing was changed");
}

// OPS-1
#[tokio::test]
async fn a_store_never_migrates() {
    let database = Database::empty().await;
    for version in 0..latest_version(MIGRATIONS) {
        database.migrate_to(version).await;
        let opened = PostgresStore::connect(&database.url, PostgresOptions::default()).await;
        let error = opened.map(drop).unwrap_err();
        assert!(matches!(error, Error::OlderSchema { found, .. } if found == version));
        assert!(error.to_string().contains("redrive db migrate"), "{error}");
        assert_eq!(database.migrator().status().await.unwrap().current(), version);
    }
}

// OPS-2
#[tokio::test]
async fn a_version_that_does_not_exist_is_refused() {
    let database = Database::empty().await;
    let error = database.migrator().migrate_to(1_000, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(matches!(error, Error::UnknownVersion { asked: 1_000, .. }));
    assert!(!has_table(&database, "redrive.schema_migrations").await, "nothing was changed");
}

// OPS-2
#[tokio::test]
async fn a_migration_that_fails_leaves_nothing() {
    let database = Database::empty().await;
    database.migrate_to(1).await;
    // The second statement of migration 2 finds this in its way.
    let obstacle = "ALTER TABLE redrive.items ADD COLUMN attempts_at_reset integer";
    database.raw().await.batch_execute(obstacle).await.unwrap();
    let error = database.migrator().migrate_to(2, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(error.to_string().contains("applying migration 0002 upload_attempts"), "{error}");
    assert_eq!(database.migrator().status().await.unwrap().current(), 1);
    let select = "SELECT upload_attempts FROM redrive.items";
    database.raw().await.batch_execute(select).await.unwrap_err();
}

/// Workers would queue behind it.
#[tokio::test]
async fn a_migration_does_not_wait_long_for_a_table_in_use() {
    let database = Database::migrated().await;
    let reader = database.raw().await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM redrive.items").await.unwrap();
    let options =
        PostgresOptions { statement_timeout: Duration::from_secs(1), ..PostgresOptions::default() };
    let migrator = PostgresMigrator::new(&database.url, &options).unwrap();
    let error = migrator.migrate_to(0, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(error.to_string().contains("rolling back migration 0013"), "{error}");
    assert_eq!(migrator.status().await.unwrap().current(), latest_version(MIGRATIONS));
}

// OPS-2, PAR-11
#[tokio::test]
async fn partitions_made_after_a_rollback_do_not_take_over_old_attempts() {
    let database = Database::migrated().await;
    let insert = "INSERT INTO redrive.attempts
        (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
        VALUES ('partition', 41, 1, true, 'epoch', 'epoch', 'failed', 'w')";
    database.raw().await.batch_execute(insert).await.unwrap();
    database.migrate_to(2).await;
    database.migrate_to(latest_version(MIGRATIONS)).await;
    let insert = "INSERT INTO redrive.partition_state
        (source, customer_id, query_name, logical_date, updated_at)
        VALUES ('s', 'c', 'q', '2026-03-01', 'epoch') RETURNING id";
    let id: i64 = database.raw().await.query_one(insert, &[]).await.unwrap().get(0);
    assert_eq!(id, 42);
}

// OPS-2, PIP-4
#[tokio::test]
async fn samples_made_after_a_rollback_do_not_take_over_old_attempts() {
    let database = Database::migrated().await;
    let insert = "INSERT INTO redrive.attempts
        (kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, worker)
        VALUES ('sample', 41, 'a', 1, true, 'epoch', 'epoch', 'failed', 'w')";
    database.raw().await.batch_execute(insert).await.unwrap();
    database.migrate_to(4).await;
    database.migrate_to(latest_version(MIGRATIONS)).await;
    database.raw().await.batch_execute(PIPELINE_ROWS).await.unwrap();
    let row = database.raw().await.query_one("SELECT id FROM redrive.samples", &[]).await;
    assert_eq!(row.unwrap().get::<_, i64>(0), 42);
}

/// A role that may do nothing but connect.
// OPS-2, CAU-2
#[tokio::test]
async fn failures_of_before_are_counted_at_the_stage_where_they_were() {
    let database = Database::migrated().await;
    database.migrate_to(12).await;
    let raw = database.raw().await;
    raw.batch_execute(PIPELINE_ROWS).await.unwrap();
    let failure = "UPDATE redrive.samples SET stage = 1;
        INSERT INTO redrive.attempts (kind, unit_id, stage, attempt, counted, started_at, ended_at, outcome, class,
            code, message, fingerprint, cause, delay_us, worker)
            VALUES ('sample', 1, 'a', 1, true, 'epoch', 'epoch', 'retrying', 'retryable', '503', 'busy', 'f',
                'handler', 0, 'w')";
    raw.batch_execute(failure).await.unwrap();
    database.migrate_to(latest_version(MIGRATIONS)).await;
    let place = raw.query_one("SELECT place FROM redrive.cause_hours", &[]).await.unwrap();
    assert_eq!(place.get::<_, String>(0), "p/a");
}

async fn new_role(name: &str) {
    let admin = connect(&server_url()).await;
    let create = format!("CREATE ROLE {name} LOGIN PASSWORD 'pw'");
    admin.batch_execute(&create).await.unwrap();
}

// OPS-1
#[tokio::test]
async fn a_user_who_may_not_create_a_schema_is_told_so() {
    let database = Database::empty().await;
    let role = format!("{}_guest", database.name);
    new_role(&role).await;
    let url = url_as(&role, "pw", &database.name);
    let migrator = PostgresMigrator::new(&url, &PostgresOptions::default()).unwrap();
    let error = migrator.migrate_to(1, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("creating the schema redrive"), "{text}");
    assert!(text.contains(&format!("CREATE SCHEMA redrive AUTHORIZATION \"{role}\"")), "{text}");
    assert_eq!(database.migrator().status().await.unwrap().current(), 0);
}

// OPS-1
#[tokio::test]
async fn a_schema_that_an_administrator_made_is_enough() {
    let database = Database::empty().await;
    let role = format!("{}_owner", database.name);
    new_role(&role).await;
    let create = format!("CREATE SCHEMA redrive AUTHORIZATION {role}");
    database.raw().await.batch_execute(&create).await.unwrap();
    let url = url_as(&role, "pw", &database.name);
    let migrator = PostgresMigrator::new(&url, &PostgresOptions::default()).unwrap();
    for version in [migrator.latest(), 0, migrator.latest()] {
        migrator.migrate_to(version, Timestamp::UNIX_EPOCH).await.unwrap();
    }
    PostgresStore::connect(&url, PostgresOptions::default()).await.unwrap();
}

// OPS-2
#[test]
fn numbers_and_names_are_those_of_the_other_store() {
    let files = |krate: &str| -> BTreeSet<String> {
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("migrations");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
    };
    let ours = files("redrive-postgres");
    assert_eq!(ours, files("redrive-sqlite"));
    for migration in MIGRATIONS {
        for way in ["up", "down"] {
            let file = format!("{:04}_{}.{way}.sql", migration.version, migration.name);
            assert!(ours.contains(&file), "{file}");
        }
    }
    assert_eq!(ours.len(), MIGRATIONS.len() * 2);
}

/// Runs of version 13 in every state: ready, due, waiting for a retry, held, given up, passed.
const RUNS_IN_EVERY_STATE: &str = "
    INSERT INTO redrive.runs (queue, payload, submitted_at, not_before, status, attempts, retry_count, next_retry_at,
        first_attempt_at, error_class, error_message, ready, due_at, lease_owner, lease_epoch, lease_until, claimed_at)
    VALUES
        ('q', '1', 'epoch', NULL, 'discovered', 0, 0, NULL, NULL, NULL, NULL, true, NULL, NULL, 0, NULL, NULL),
        ('q', '2', 'epoch', '2100-01-01', 'discovered', 0, 0, NULL, NULL, NULL, NULL, false, '2100-01-01', NULL, 0,
            NULL, NULL),
        ('q', '3', 'epoch', NULL, 'error', 1, 1, '2100-01-02', 'epoch', 'retryable', 'busy', false, '2100-01-02', NULL,
            1, NULL, NULL),
        ('q', '4', 'epoch', NULL, 'processing', 1, 1, NULL, 'epoch', 'retryable', 'busy', false, NULL, 'w', 2,
            '2100-01-03', 'epoch'),
        ('q', '5', 'epoch', NULL, 'error', 1, 0, NULL, 'epoch', 'final', 'broken', false, NULL, NULL, 1, NULL, NULL),
        ('q', '6', 'epoch', NULL, 'passed', 1, 0, NULL, 'epoch', NULL, NULL, false, NULL, NULL, 1, NULL, NULL);
    INSERT INTO redrive.attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
    SELECT 'run', id, 1, true, 'epoch', 'epoch', 'success', 'w' FROM redrive.runs WHERE attempts > 0";

// OPS-2, RUN-7
#[tokio::test]
async fn runs_in_every_state_are_the_same_after_the_way_up_and_down() {
    let database = Database::migrated().await;
    database.migrate_to(13).await;
    let raw = database.raw().await;
    raw.batch_execute(RUNS_IN_EVERY_STATE).await.unwrap();
    let columns = "SELECT to_jsonb(runs)::text FROM redrive.runs ORDER BY id";
    let rows = async || -> Vec<String> {
        let rows = raw.query(columns, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let before = rows().await;
    database.migrate_to(latest_version(MIGRATIONS)).await;
    let store = database.store().await;
    let ids: Vec<RunId> = (1..=6).map(RunId).collect();
    let runs = store.runs_by_id(&ids).await.unwrap();
    let states: Vec<(RunState, u32, bool, bool)> = runs
        .iter()
        .map(|run| (run.state(), run.attempts, run.ready, run.due_at.is_some()))
        .collect();
    let expected = [
        (RunState::Discovered, 0, true, false),
        (RunState::Discovered, 0, false, true),
        (RunState::WaitingForRetry, 1, false, true),
        (RunState::Processing, 1, false, false),
        (RunState::GivenUp, 1, false, false),
        (RunState::Passed, 1, false, false),
    ];
    assert_eq!(states, expected);
    database.migrate_to(13).await;
    assert_eq!(rows().await, before);

    // What passes afterwards, at its first attempt or a later one, comes down with its row of the ledger.
    database.migrate_to(latest_version(MIGRATIONS)).await;
    let store = database.store().await;
    let claimed = store.claim_runs(&claim_of_one()).await.unwrap().remove(0);
    assert!(claimed.epoch > Epoch(2), "higher than every epoch of before: {claimed:?}");
    let first = RunFinish {
        id: claimed.id,
        epoch: claimed.epoch,
        attempt: claimed.attempt,
        history: claimed.history,
        started_at: Timestamp::UNIX_EPOCH,
        ended_at: Timestamp::UNIX_EPOCH,
        worker: WorkerId("w".to_owned()),
        completion: RunCompletion::Judged {
            verdict: Verdict::Passed,
            result: Some("7".to_owned()),
        },
        gates: None,
    };
    let second =
        RunFinish { id: RunId(4), epoch: Epoch(2), attempt: AttemptNumber(2), ..first.clone() };
    let written = store.finish_runs(&[first, second], Timestamp::UNIX_EPOCH).await.unwrap();
    assert_eq!(written, [Written::Applied; 2]);
    database.migrate_to(15).await;
    let passed_again =
        "SELECT status = 'passed' AND attempts = 2 AND retry_count = 0 AND result = '7'
            AND first_attempt_at = 'epoch' AND lease_epoch = 2 AND error_class IS NULL
            AND (SELECT count(*) FROM redrive.attempts WHERE unit_id = 4) = 2
            AND (SELECT array_agg(run_ids) = '{{1}}' FROM redrive.run_passes)
        FROM redrive.runs WHERE id = 4";
    assert!(raw.query_one(passed_again, &[]).await.unwrap().get::<_, bool>(0));
    database.migrate_to(13).await;
    let passed = "SELECT status = 'passed' AND attempts = 1 AND result = '7' AND first_attempt_at = 'epoch'
            AND lease_epoch > 2 AND NOT ready AND (SELECT count(*) FROM redrive.attempts WHERE unit_id = 1) = 1
        FROM redrive.runs WHERE id = 1";
    assert!(raw.query_one(passed, &[]).await.unwrap().get::<_, bool>(0));
}

fn claim_of_one() -> ClaimRequest {
    ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit: 1,
        owner: WorkerId("w".to_owned()),
        lease_until: Timestamp::UNIX_EPOCH,
        now: Timestamp::UNIX_EPOCH,
        gates: Default::default(),
    }
}
