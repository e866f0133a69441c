//! What the database holds, and what it refuses by itself.

use redrive_core::AttemptNumber;
use redrive_store::{
    Categories, ClaimRequest, Journal, JournalEntry, JournalFilter, Ledger, NewRun, RunCompletion,
    RunFinish, Runs, Store, SubmittedRun, UnitKind, UnitRow, Verdict, WorkerId, Written,
};
use serde_json::json;
use tokio_postgres::Client;

use crate::{noise::noise, server::Database};

/// Everything the schema consists of, one line each, as the server itself writes it.
const CATALOG: &str = "
    SELECT format('column %s.%s %s %s %s default %s %s %s', relation.oid::regclass,
        row_number() OVER (PARTITION BY relation.oid ORDER BY attnum), attname,
        format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' END,
        pg_get_expr(adbin, adrelid), attidentity, attcollation::regcollation)
    FROM pg_attribute JOIN pg_class AS relation ON relation.oid = attrelid
    LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE relnamespace = 'redrive'::regnamespace AND attnum > 0 AND NOT attisdropped
        AND relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT format('relation %s %s %s', oid::regclass, relkind, reloptions) FROM pg_class
    WHERE relnamespace = 'redrive'::regnamespace
    UNION ALL
    SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = 'redrive'::regnamespace
    UNION ALL
    SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'redrive'
    UNION ALL
    SELECT format('trigger %s %s', pg_get_triggerdef(pg_trigger.oid), tgenabled)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE relnamespace = 'redrive'::regnamespace AND NOT tgisinternal
    UNION ALL
    SELECT format('function %s', pg_get_functiondef(oid)) FROM pg_proc
    WHERE pronamespace = 'redrive'::regnamespace
    ORDER BY 1";

async fn catalog(client: &Client) -> Vec<String> {
    let rows = client.query(CATALOG, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

// OPS-2
#[tokio::test]
async fn schema_sql_is_what_the_migrations_make() {
    let (written, migrated) = (Database::empty().await, Database::migrated().await);
    let written = written.raw().await;
    written.batch_execute(include_str!("../../schema.sql")).await.unwrap();
    let (written, migrated) = (catalog(&written).await, catalog(&migrated.raw().await).await);
    assert!(migrated.len() > 80, "the catalog was read: {}", migrated.len());
    for line in &migrated {
        assert!(written.contains(line), "schema.sql lacks: {line}");
    }
    assert_eq!(written, migrated);
}

/// As a superuser and owner: nobody may do it by mistake.
#[tokio::test]
async fn ledger_and_journal_cannot_be_emptied() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for table in ["attempts", "run_passes", "journal"] {
        for sql in [
            format!("TRUNCATE redrive.{table}"),
            format!("TRUNCATE redrive.runs, redrive.{table} CASCADE"),
            format!("DELETE FROM redrive.{table}"),
            format!("UPDATE redrive.{table} SET id = DEFAULT"),
        ] {
            let refusal = raw.batch_execute(&sql).await.unwrap_err();
            let refusal = refusal.as_db_error().unwrap().message().to_owned();
            assert!(refusal.contains("append-only"), "{sql}: {refusal}");
        }
    }
}

#[tokio::test]
async fn names_that_mean_nothing_are_refused_by_the_database() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    for sql in [
        "INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
            VALUES (1, 'q', '', 'epoch', 'lost')",
        "INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
            VALUES (1, 'q', '', 'epoch', 'processing')",
        "INSERT INTO redrive.run_states (id, queue, category, submitted_at, status, next_retry_at)
            VALUES (1, 'q', '', 'epoch', 'error', 'epoch')",
        "INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
            VALUES (1, 'q', 'w', 'epoch', 1, 1, '{}')",
        "INSERT INTO redrive.run_passes (block, epoch, worker, run_ids, started_at, ended_at)
            VALUES (0, 1, 'w', '{1,2}', '{epoch}', '{epoch}')",
        "INSERT INTO redrive.run_passes (block, epoch, worker, run_ids, started_at, ended_at, attempts)
            VALUES (0, 1, 'w', '{1}', '{epoch}', '{epoch}', '{2,2}')",
        "INSERT INTO redrive.journal (at, actor) VALUES ('epoch', 'me')",
        "INSERT INTO redrive.attempts
            (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
            VALUES ('thing', 1, 1, true, 'epoch', 'epoch', 'success', 'w')",
    ] {
        raw.batch_execute(sql).await.expect_err(sql);
    }
}

/// What a claim changes, and going on to the next stage: an index that knew one of these columns would be
/// written to each time.
// PIP-9
#[tokio::test]
async fn no_index_knows_what_changes_while_a_sample_is_held() {
    let raw = Database::migrated().await.raw().await;
    let sql =
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'redrive' AND tablename = 'samples'";
    let rows = raw.query(sql, &[]).await.unwrap();
    assert!(rows.len() > 3, "{rows:?}");
    for row in rows {
        let index: String = row.get(0);
        let of_word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        for changing in ["stage", "data", "attempts", "lease_owner", "lease_epoch", "lease_until"] {
            assert!(!index.split(of_word).any(|word| word == changing), "{changing}: {index}");
        }
    }
}

/// A 32-bit cast anywhere on the way would break here.
#[tokio::test]
async fn ids_have_64_bits() {
    const BEYOND_32_BITS: i64 = 5_000_000_000;
    let database = Database::migrated().await;
    for table in ["runs", "items", "attempts", "journal"] {
        let sql = format!("ALTER TABLE redrive.{table} ALTER id RESTART WITH {BEYOND_32_BITS}");
        database.raw().await.batch_execute(&sql).await.unwrap();
    }
    let (store, now) = (database.store().await, jiff::Timestamp::UNIX_EPOCH);
    let run = NewRun::new("q", &json!(1), now).unwrap();
    let [SubmittedRun::Accepted(id)] = store.submit_runs(&[run], now).await.unwrap()[..] else {
        panic!("accepted")
    };
    assert_eq!(id.0, BEYOND_32_BITS);
    let worker = WorkerId("w".to_owned());
    let request = ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit: 1,
        owner: worker.clone(),
        lease_until: now,
        now,
        gates: Default::default(),
    };
    let claimed = store.claim_runs(&request).await.unwrap().pop().unwrap();
    let finish = RunFinish {
        id,
        epoch: claimed.epoch,
        attempt: claimed.attempt,
        history: claimed.history,
        started_at: now,
        ended_at: now,
        worker,
        completion: RunCompletion::Judged { verdict: Verdict::Passed, result: None },
        gates: None,
    };
    assert_eq!(store.finish_runs(&[finish], now).await.unwrap(), [Written::Applied]);
    let unit = UnitRow::new(UnitKind::Run, id.0);
    assert_eq!(store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap().len(), 1);
}

/// A partition's key may be longer than an entry of a btree can be.
#[tokio::test]
async fn units_and_keys_of_any_length_are_told_apart() {
    let store = Database::migrated().await.store().await;
    let noise = noise(20_000);
    let entry = |tail: &str| JournalEntry {
        at: jiff::Timestamp::UNIX_EPOCH,
        actor: "me".to_owned(),
        action: "a.b".to_owned(),
        unit: Some(format!("partition:{noise}{tail}")),
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: Some(format!("giveup:{noise}{tail}")),
    };
    let (one, two) = (entry("1"), entry("2"));
    let added = store.append_journal(&[one.clone(), two.clone(), one.clone()]).await.unwrap();
    assert_eq!(added, [true, true, false]);
    let filter = JournalFilter { unit: two.unit.clone(), action: None };
    let found = store.journal_page(&filter, 0, 10).await.unwrap();
    assert_eq!(found.into_iter().map(|record| record.entry).collect::<Vec<_>>(), [two]);
}

// OPS-1
#[tokio::test]
async fn what_is_wrong_with_the_structure_is_found() {
    let database = Database::migrated().await;
    let (raw, store) = (database.raw().await, database.store().await);
    let runs = "INSERT INTO redrive.runs (queue, payload, submitted_at, not_before)
        SELECT 'q', '1', 'epoch', 'infinity' FROM generate_series(1, 20)";
    raw.batch_execute(runs).await.unwrap();
    let faults = [
        ("ALTER TABLE redrive.attempts DISABLE TRIGGER attempts_append_only", "redrive.attempts"),
        ("DROP TRIGGER journal_append_only ON redrive.journal", "redrive.journal"),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'redrive.run_passes_block'::regclass",
            "redrive.run_passes_block",
        ),
        (
            "ALTER TABLE redrive.runs ADD CONSTRAINT small CHECK (id < 10) NOT VALID",
            "constraint small",
        ),
        (
            "INSERT INTO redrive.ready_runs VALUES ('q', '', 'epoch', 7, true);
             INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
             VALUES (1, 'q', 'w', now(), 7, 9, '{7, 9}')",
            "run:7 is ready, waiting or claimed more than once",
        ),
        (
            "INSERT INTO redrive.ready_runs VALUES ('q', '', 'epoch', 8, true);
             INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
             VALUES (8, 'q', '', 'epoch', 'discovered')",
            "run:8 is ready, and a claim would not read",
        ),
        (
            "INSERT INTO redrive.due_runs VALUES ('q', 'infinity', 10, '', 'epoch', true);
             INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
             VALUES (10, 'q', '', 'epoch', 'discovered')",
            "run:10 is waiting, and a claim would not read",
        ),
        (
            "INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
             VALUES (1, 'q', 'w', now(), 11, 11, '{11}');
             INSERT INTO redrive.run_passes (block, epoch, worker, run_ids, started_at, ended_at)
             VALUES (0, 1, 'w', '{11}', '{epoch}', '{epoch}')",
            "run:11 is claimed, and has ended",
        ),
        (
            "INSERT INTO redrive.ready_runs VALUES ('q', '', 'epoch', 12, true, true);
             INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
             VALUES (12, 'q', '', 'epoch', 'cancelled')",
            "run:12 is ready, and has ended",
        ),
        (
            "INSERT INTO redrive.ready_runs VALUES ('q', '', 'epoch', 99, true)",
            "run:99 is ready, and does not exist",
        ),
        (
            "INSERT INTO redrive.ready_runs VALUES ('q', 'other', 'epoch', 13, true)",
            "run:13 is ready, with another queue, category or time",
        ),
        (
            "INSERT INTO redrive.due_runs VALUES ('q', 'epoch', 14, '', 'epoch', true)",
            "run:14 is waiting, until another time",
        ),
        (
            "INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
             VALUES (1, 'q', 'w', now(), 15, 15, '{15, 16}')",
            "run:16 is claimed, by a claim of other ids",
        ),
    ];
    for (number, (sql, named)) in faults.into_iter().enumerate() {
        raw.batch_execute(sql).await.unwrap();
        let problems = store.integrity_problems().await.unwrap();
        assert_eq!(problems.len(), number + 1, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.contains(named)), "{named}: {problems:?}");
    }
}
