//! What a claim costs, in steps of SQLite's machine: the same whatever waits beside it.

use redrive_sqlite::QUERIES;
use rusqlite::{Connection, StatementStatus, params};

use crate::scratch::{Scratch, at};

/// Rows that must not matter; more in a full run.
fn bystanders() -> u32 {
    match std::env::var("REDRIVE_TEST_FULL").as_deref() {
        Ok("1") => 100_000,
        _ => 20_000,
    }
}

fn query(name: &str) -> &'static str {
    let (_, sql) = QUERIES.iter().find(|(known, _)| *known == name).unwrap();
    sql
}

/// Ten runs that a claim may take.
fn with_ten_runs() -> (Scratch, Connection) {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    insert(&connection, 10, "'fast', 1000000 + n, 'discovered', 1, NULL");
    (scratch, connection)
}

/// Inserts rows; the columns are category, submitted_at, status, ready, due_at.
fn insert(connection: &Connection, count: u32, columns: &str) {
    let sql = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
         INSERT INTO runs (queue, payload, category, submitted_at, status, ready, due_at)
         SELECT 'q', '{{}}', {columns} FROM n"
    );
    connection.execute_batch(&sql).unwrap();
}

/// The steps of a claim, and of making due retries ready before it. Undone afterwards.
fn steps(connection: &Connection, allowed: Option<&[&str]>, limit: u32) -> (i32, i32) {
    connection.execute_batch("BEGIN").unwrap();
    let mut promote = connection.prepare(query("promote_due_runs")).unwrap();
    let promoted = promote.execute(params!["q", at(0).as_microsecond()]).unwrap();
    assert_eq!(promoted, 0, "nothing is due");
    let until = at(60).as_microsecond();
    let name = match allowed {
        None => "claim_runs_any",
        Some([_]) => "claim_runs_in",
        Some(_) => "claim_runs_of",
    };
    let mut claim = connection.prepare(query(name)).unwrap();
    let claimed = match allowed {
        Some([one]) => {
            let mut rows = claim.query(params!["q", limit, "w", until, one, until]).unwrap();
            std::iter::from_fn(|| rows.next().unwrap().map(drop)).count()
        }
        Some(allowed) => {
            let allowed = allowed.iter().map(|name| serde_json::json!([name, limit]));
            let allowed = serde_json::Value::from_iter(allowed).to_string();
            let mut rows = claim.query(params!["q", limit, "w", until, allowed, until]).unwrap();
            std::iter::from_fn(|| rows.next().unwrap().map(drop)).count()
        }
        None => {
            let mut rows = claim.query(params!["q", limit, "w", until, until]).unwrap();
            std::iter::from_fn(|| rows.next().unwrap().map(drop)).count()
        }
    };
    let paused: bool = connection
        .query_row("SELECT EXISTS (SELECT 1 FROM paused_queues)", [], |row| row.get(0))
        .unwrap();
    assert_eq!(claimed, if paused { 0 } else { limit as usize });
    let taken = [&promote, &claim];
    let of = |status| taken.iter().map(|s| s.get_status(status)).sum();
    let counted = (of(StatementStatus::VmStep), of(StatementStatus::FullscanStep));
    drop((promote, claim));
    connection.execute_batch("ROLLBACK").unwrap();
    counted
}

#[track_caller]
fn check(allowed: Option<&[&str]>, columns: &str) {
    let (_scratch, connection) = with_ten_runs();
    let (alone, scanned_alone) = steps(&connection, allowed, 10);
    insert(&connection, bystanders(), columns);
    let (beside, scanned_beside) = steps(&connection, allowed, 10);
    assert!(beside <= alone + alone / 4, "{alone} steps alone, {beside} beside {columns}");
    assert_eq!(scanned_alone, scanned_beside);
}

// RUN-2
#[test]
fn a_claim_costs_the_same_beside_runs_that_wait_for_a_retry() {
    let waiting = "'fast', n, 'error', 0, 9000000000000000 + n";
    check(None, waiting);
    check(Some(&["fast"]), waiting);
    check(Some(&["fast", "rare"]), waiting);
}

// RUN-2
#[test]
fn a_claim_costs_the_same_behind_runs_of_a_category_that_is_not_allowed() {
    check(Some(&["fast"]), "'slow', n, 'discovered', 1, NULL");
    check(Some(&["fast", "rare"]), "'slow', n, 'discovered', 1, NULL");
}

// GAT-3: runs behind closed gates are of categories that a claim leaves out.
#[test]
fn a_claim_costs_the_same_behind_a_million_runs_of_a_closed_category() {
    let (_scratch, connection) = with_ten_runs();
    connection.pragma_update(None, "synchronous", "off").unwrap();
    let look = |connection: &Connection| {
        let mut present = connection.prepare(query("ready_categories")).unwrap();
        let mut rows = present.query(["q"]).unwrap();
        let count = std::iter::from_fn(|| rows.next().unwrap().map(drop)).count();
        drop(rows);
        (count, present.get_status(StatementStatus::VmStep))
    };
    let allowed = Some(&["fast", "rare"][..]);
    let ((_, looked), (alone, _)) = (look(&connection), steps(&connection, allowed, 10));
    insert(&connection, 1_000_000, "'closed', n % 1000, 'discovered', 1, NULL");
    let ((found, looked_beside), (beside, _)) =
        (look(&connection), steps(&connection, allowed, 10));
    assert_eq!(found, 2);
    assert!(
        looked_beside <= looked * 3,
        "{looked} steps to find one category, {looked_beside} two"
    );
    assert!(beside <= alone + alone / 50, "{alone} steps alone, {beside} beside a million");
}

// RUN-2
#[test]
fn a_claim_costs_the_same_with_a_million_waiting_and_a_million_of_a_category_that_is_not_allowed() {
    const MILLION: u32 = 1_000_000;
    let (_scratch, connection) = with_ten_runs();
    connection.pragma_update(None, "synchronous", "off").unwrap();
    let (alone, scanned) = steps(&connection, Some(&["fast"]), 10);
    insert(&connection, MILLION, "'fast', n % 1000, 'error', 0, 9000000000000000 + n");
    insert(&connection, MILLION, "'slow', n % 1000, 'discovered', 1, NULL");
    let (beside, scanned_beside) = steps(&connection, Some(&["fast"]), 10);
    assert!(beside <= alone + alone / 50, "{alone} steps alone, {beside} beside two million");
    assert_eq!(scanned, scanned_beside);
    // What is allowed is older here, and the million still stands in the index.
    connection.execute_batch("UPDATE runs SET submitted_at = -1 WHERE id <= 10").unwrap();
    let (any, _) = steps(&connection, None, 10);
    assert!(any <= alone * 2, "{alone} steps alone, {any} of any category beside two million");
}

// RUN-2
#[test]
fn a_claim_costs_the_same_beside_runs_that_are_done() {
    let done = "'fast', n, 'passed', 0, NULL";
    check(None, done);
    check(Some(&["fast"]), done);
    check(Some(&["fast", "rare"]), done);
}

// RUN-2
#[test]
fn a_claim_costs_the_same_before_a_long_queue_of_its_own() {
    let queue = "'fast', 2000000 + n, 'discovered', 1, NULL";
    check(None, queue);
    check(Some(&["fast"]), queue);
    check(Some(&["fast", "rare"]), queue);
    let of_one_moment = "'fast', 2000000, 'discovered', 1, NULL";
    check(None, of_one_moment);
    check(Some(&["fast"]), of_one_moment);
    check(Some(&["fast", "rare"]), of_one_moment);
}

// RUN-2
#[test]
fn a_claim_among_many_categories_costs_a_little_for_each_and_not_its_limit_for_each() {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    insert(&connection, 20_000, "'c' || (n % 100), n, 'discovered', 1, NULL");
    let (few, _) = steps(&connection, None, 1);
    let (many, _) = steps(&connection, None, 1_000);
    let per_run = (many - few) / 999;
    assert!(per_run < 300, "{per_run} steps for each run claimed");
}

// RUN-6
#[test]
fn a_claim_of_a_paused_queue_costs_the_same_however_much_is_ready() {
    for allowed in [None, Some(["fast"].as_slice()), Some(["fast", "rare"].as_slice())] {
        let (_scratch, connection) = with_ten_runs();
        let pause = "INSERT INTO paused_queues (queue, paused_at, paused_by) VALUES ('q', 0, 'a')";
        connection.execute_batch(pause).unwrap();
        let alone = steps(&connection, allowed, 10);
        insert(&connection, bystanders(), "'fast', n, 'discovered', 1, NULL");
        assert_eq!(steps(&connection, allowed, 10), alone);
    }
}

/// Looked up before every claim of all categories.
#[test]
fn telling_a_lone_category_costs_the_same_however_much_is_ready() {
    let (_scratch, connection) = with_ten_runs();
    let cost = || {
        let mut statement = connection.prepare(query("lone_category")).unwrap();
        let ends: (String, String) =
            statement.query_row(["q"], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(ends, ("fast".to_owned(), "fast".to_owned()));
        statement.get_status(StatementStatus::VmStep)
    };
    let alone = cost();
    insert(&connection, bystanders(), "'fast', n, 'discovered', 1, NULL");
    assert_eq!(cost(), alone);
}

#[test]
fn looking_for_ended_leases_costs_the_same_beside_runs_that_are_done() {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    let cost = || {
        let mut statement = connection.prepare(query("expired_run_leases")).unwrap();
        let found = statement
            .query_map(params![at(0).as_microsecond(), 0, 100, None::<String>], |_| Ok(()))
            .unwrap()
            .count();
        assert_eq!(found, 0);
        statement.get_status(StatementStatus::VmStep)
    };
    let alone = cost();
    insert(&connection, bystanders(), "'fast', n, 'passed', 0, NULL");
    assert_eq!(cost(), alone);
}

// PIP-1, PIP-9
#[test]
fn a_claim_of_samples_costs_the_same_whatever_is_beside_them() {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    connection
        .execute_batch(
            "INSERT INTO pipeline_runs
                 (pipeline, stages, rules, read_ahead, source, started_at, started_by)
             VALUES ('p', '[\"a\",\"b\"]', '{}', 10000, 's', 0, 'me')",
        )
        .unwrap();
    let add = |count: u32, first_line: u32, stage: u32, columns: &str| {
        let sql = format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
             INSERT INTO samples
                 (run_id, line, data, stage, claim_stage, status, next_retry_at, error_message)
             SELECT 1, {first_line} + n, '{{}}', {stage}, {stage}, {columns} FROM n"
        );
        connection.execute_batch(&sql).unwrap();
    };
    let claim = || {
        connection.execute_batch("BEGIN").unwrap();
        let mut due = connection.prepare(query("claim_due_samples")).unwrap();
        let due_rows = due.query(params![1, 1, 5, "w", 0, 0]).unwrap().next().unwrap().is_some();
        assert!(!due_rows, "nothing is due");
        let mut new = connection.prepare(query("claim_samples")).unwrap();
        let mut rows = new.query(params![1, 1, 5, "w", 0, 0]).unwrap();
        let claimed = std::iter::from_fn(|| rows.next().unwrap().map(drop)).count();
        assert_eq!(claimed, 5);
        drop(rows);
        let steps: i32 = [&due, &new].map(|s| s.get_status(StatementStatus::VmStep)).iter().sum();
        drop((due, new));
        connection.execute_batch("ROLLBACK").unwrap();
        steps
    };
    add(10, 9_000_000, 1, "'pending', NULL, NULL");
    let alone = claim();
    add(bystanders(), 0, 1, "'succeeded', NULL, NULL");
    add(5_000, 1_000_000, 0, "'pending', NULL, NULL");
    add(5_000, 2_000_000, 1, "'pending', 9000000000000000, 'busy'");
    add(5_000, 3_000_000, 1, "'dlq', NULL, 'broken'");
    let beside = claim();
    assert!(beside <= alone + alone / 4, "{alone} steps alone, {beside} beside the others");
}
