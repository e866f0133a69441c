//! How SQLite goes about each query: by the index that was made for it.

use redrive_sqlite::QUERIES;
use rusqlite::{Connection, params_from_iter, types::Null};

use crate::scratch::Scratch;

/// The steps of a query's plan; `NAME where CONDITION` is a query over a selection, `newest NAME` one in descending order.
fn plan(connection: &Connection, name: &str) -> Vec<String> {
    let (name, selection) = name.split_once(" where ").unwrap_or((name, "true"));
    let (name, beyond, order) = match name.strip_prefix("newest ") {
        Some(name) => (name, "<", "DESC"),
        None => (name, ">", "ASC"),
    };
    let (_, sql) = QUERIES.iter().find(|(known, _)| *known == name).unwrap();
    let sql = sql.replace("{selection}", selection);
    let sql = sql.replace("{beyond}", beyond).replace("{order}", order);
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let unset = params_from_iter(vec![Null; statement.parameter_count()]);
    let steps = statement.query_map(unset, |row| row.get(3)).unwrap();
    steps.map(Result::unwrap).collect()
}

/// A database without statistics, and one whose statistics say that the tables are large and lopsided.
fn databases() -> [(Scratch, &'static str); 2] {
    let (fresh, analysed) = (Scratch::migrated(), Scratch::migrated());
    let connection = analysed.raw();
    connection
        .execute_batch(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO runs (queue, category, payload, submitted_at, status, ready, due_at,
                 lease_owner, lease_until)
             SELECT 'q', 'c' || (n % 3), '{}', n,
                 CASE n % 4 WHEN 0 THEN 'processing' WHEN 1 THEN 'error' WHEN 2 THEN 'discovered'
                     ELSE 'passed' END,
                 n % 4 = 2, CASE WHEN n % 4 = 1 THEN n END,
                 CASE WHEN n % 4 = 0 THEN 'w' END, CASE WHEN n % 4 = 0 THEN n END
             FROM n;
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO items (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
             SELECT 'u', 'g', n, 'file:x', 1, '', 0 FROM n;
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
             SELECT 'run', n % 500, n / 500 + 1, 1, 0, 0, 'success', 'w' FROM n;
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO journal (at, actor, action, unit) SELECT n, 'w', 'a.b', 'run:1' FROM n;
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO partition_state (source, customer_id, query_name, logical_date, status,
                 current_run_id, record_count, attempt_count, updated_at)
             SELECT 's' || (n % 2), 'c' || n, 'q', '2026-03-01',
                 CASE n % 4 WHEN 0 THEN 'failed' WHEN 1 THEN 'pending' ELSE 'success' END, 'r', 1, 1, n
             FROM n;
             INSERT INTO partition_work (partition_id, source, kind, lane, requested_at, requested_by,
                 run_id, lease_owner, lease_until)
             SELECT id, source, 'retry', CASE WHEN id % 8 = 1 THEN 'fresh' ELSE 'backfill' END, id, 'a',
                 CASE WHEN id % 16 = 1 THEN 'r' END, CASE WHEN id % 16 = 1 THEN 'w' END,
                 CASE WHEN id % 16 = 1 THEN id END
             FROM partition_state WHERE status = 'pending';
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at,
                 started_by, status, ended_at, lease_owner, lease_until)
             SELECT 'p', '[\"a\"]', '{}', 1, 's', n, 'a', CASE WHEN n % 9 = 1 THEN 'running' ELSE 'failed' END,
                 CASE WHEN n % 9 <> 1 THEN n END, CASE WHEN n % 9 = 1 THEN 'w' END,
                 CASE WHEN n % 9 = 1 THEN n END
             FROM n;
             WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
             INSERT INTO samples (run_id, line, data, status, error_message, next_retry_at, lease_owner,
                 lease_until)
             SELECT n % 50 + 1, n, '1', CASE n % 7 WHEN 0 THEN 'dlq' WHEN 1 THEN 'skipped'
                 WHEN 2 THEN 'succeeded' ELSE 'pending' END, 'e', CASE WHEN n % 7 = 3 THEN n END,
                 CASE WHEN n % 7 = 4 THEN 'w' END, CASE WHEN n % 7 = 4 THEN n END
             FROM n;
             ANALYZE;",
        )
        .unwrap();
    [(fresh, "fresh"), (analysed, "analysed")]
}

#[track_caller]
fn check(name: &str, expected: &[&str]) {
    for (scratch, which) in databases() {
        let steps = plan(&scratch.raw(), name);
        for step in expected {
            assert!(
                steps.iter().any(|known| known.contains(step)),
                "{name} on a {which} database lacks {step:?}: {steps:#?}"
            );
        }
        for step in &steps {
            let whole_table = step.starts_with("SCAN")
                && [
                    "runs",
                    "items",
                    "upload_groups",
                    "attempts",
                    "journal",
                    "head",
                    "next",
                    "state",
                    "work",
                    "partition_state",
                    "partition_work",
                    "samples",
                ]
                .iter()
                .any(|table| step.split_whitespace().nth(1) == Some(table))
                && !step.contains("INDEX partition_state_failed")
                && !step.contains("USING INDEX runs_held")
                && !step.contains("USING INDEX partition_work_held")
                && !step.contains("USING INDEX upload_groups_held")
                && !step.contains("USING INDEX samples_open")
                && !step.contains("USING INDEX samples_dead");
            assert!(!whole_table, "{name} on a {which} database: {steps:#?}");
        }
    }
}

// RUN-2
#[test]
fn a_claim_goes_by_the_index_of_what_is_ready() {
    check(
        "claim_runs_any",
        &[
            "SEARCH runs USING INTEGER PRIMARY KEY",
            "USING COVERING INDEX runs_ready (queue=?)",
            "USING COVERING INDEX runs_ready (queue=? AND category>?)",
            "USING COVERING INDEX runs_ready (queue=? AND category=?)",
            "USING COVERING INDEX runs_ready (queue=? AND category=? AND submitted_at=? AND id>?)",
            "USING COVERING INDEX runs_ready (queue=? AND category=? AND submitted_at>?)",
        ],
    );
    check(
        "claim_runs_of",
        &[
            "SEARCH runs USING INTEGER PRIMARY KEY",
            "USING COVERING INDEX runs_ready (queue=? AND category=?)",
            "USING COVERING INDEX runs_ready (queue=? AND category=? AND submitted_at=? AND id>?)",
            "USING COVERING INDEX runs_ready (queue=? AND category=? AND submitted_at>?)",
        ],
    );
}

// RUN-2
#[test]
fn due_retries_are_found_by_their_time() {
    check("promote_due_runs", &["runs_due (queue=? AND due_at<?)", "INTEGER PRIMARY KEY"]);
}

#[test]
fn guarded_writes_find_their_row_by_id() {
    for name in ["finish_runs", "renew_run_leases", "release_runs", "retry_runs", "cancel_runs"] {
        check(name, &["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"]);
    }
    for name in ["increment_upload_attempts", "move_items"] {
        check(name, &["SEARCH items USING INTEGER PRIMARY KEY (rowid=?)"]);
    }
    for name in ["renew_group_leases", "release_groups"] {
        check(name, &["SEARCH upload_groups USING INTEGER PRIMARY KEY (rowid=?)"]);
    }
}

#[test]
fn ended_leases_are_looked_for_among_what_is_held() {
    check("expired_run_leases", &["runs_held (id>?)"]);
    check("end_leases_of_other_boots", &["runs_held"]);
    check("expired_group_leases", &["upload_groups_held (id>?)"]);
    check("end_group_leases_of_other_boots", &["upload_groups_held"]);
}

#[test]
fn the_backlog_of_a_queue_is_a_few_looks_at_its_indexes() {
    let looks = ["paused_queues_1 (queue=?)", "runs_held", "runs_due (queue=?"];
    check("backlog_any", &[&looks[..], &["runs_ready (queue=?"]].concat());
    check("backlog_of", &[&looks[..], &["runs_ready (queue=? AND category=?"]].concat());
}

#[test]
fn reads_go_by_their_index() {
    check("states_of_runs", &["SEARCH runs USING INTEGER PRIMARY KEY"]);
    check("paused_queues", &["sqlite_autoindex_paused_queues_1"]);
    check("runs_by_id", &["SEARCH runs USING INTEGER PRIMARY KEY"]);
    check("runs_page", &["INTEGER PRIMARY KEY (rowid>?)"]);
    check("newest runs_page", &["INTEGER PRIMARY KEY (rowid<?)"]);
    check("idempotent_runs", &["runs_idempotency"]);
    check("items_by_id", &["SEARCH items USING INTEGER PRIMARY KEY"]);
    check("pending_items", &["items_pending (upload=? AND group_name=? AND id>?)"]);
    check("items_page", &["INTEGER PRIMARY KEY (rowid>?)"]);
    check("newest items_page", &["INTEGER PRIMARY KEY (rowid<?)"]);
    check("item_counts", &["(upload=? AND group_name=?)"]);
    check("group_holder", &["(upload=? AND group_name=?)"]);
    check("named_items", &["(upload=? AND group_name=? AND name=?)"]);
    check("attempts_of", &["(kind=? AND unit_id=? AND stage=? AND attempt>?)"]);
    check("journal_page", &["INTEGER PRIMARY KEY (rowid>?)"]);
    check("journal_of_unit", &["journal_unit (unit=? AND id>?)"]);
}

// CAU-5
#[test]
fn what_failed_is_found_without_what_ended() {
    check(
        "causes",
        &[
            "SEARCH runs USING COVERING INDEX runs_cause",
            "SEARCH items USING COVERING INDEX items_cause",
            "SEARCH samples USING COVERING INDEX samples_cause",
            "INDEX partition_state_failed",
            "SEARCH cause_hours USING PRIMARY KEY (hour>?)",
        ],
    );
    check("cause_hours", &["SEARCH counted USING INDEX cause_hours_cause (fingerprint=?)"]);
    let runs = "status = 'error'";
    check(&format!("runs_page where fingerprint = 'f' AND {runs}"), &["runs_cause (fingerprint=?"]);
    // A store never gathers statistics.
    let fresh = Scratch::migrated();
    let items = "fingerprint IS NOT NULL";
    for (name, index) in [
        ("runs_page where status = 'processing'".to_owned(), "runs_held (id>?)"),
        (format!("items_page where error_code = '5' AND {items}"), "items_open (id>?)"),
    ] {
        let steps = plan(&fresh.raw(), &name);
        assert!(steps.iter().any(|step| step.contains(index)), "{name}: {steps:#?}");
    }
}

// PAR-10
#[test]
fn a_claim_of_partitions_goes_by_the_index_of_what_is_ready() {
    let lane = "partition_work_ready (source=? AND lane=?)";
    check("claimable_partitions", &[lane]);
    check("partition_backlog", &[lane, "partition_work_held"]);
    check("expired_partition_leases", &["partition_work_held (id>?)"]);
    check("next_partition_lease_end", &["partition_work_held"]);
    check("end_partition_leases_of_other_boots", &["partition_work_held"]);
    for name in ["claim_partitions", "renew_partition_leases", "release_partitions"] {
        check(name, &["SEARCH partition_work USING INTEGER PRIMARY KEY (rowid=?)"]);
    }
}

// PAR-9, DMN-1
#[test]
fn partitions_are_listed_along_an_index() {
    let work = "sqlite_autoindex_partition_work_1 (partition_id=?)";
    let first = "(kind=? AND unit_id=? AND stage=? AND attempt=?)";
    let stretch = "((source,customer_id,query_name,logical_date)>(?,?,?,?) AND \
                   (source,customer_id,query_name,logical_date)<(?,?,?,?))";
    let key = "(source=? AND customer_id=? AND query_name=? AND logical_date=?)";
    check("partitions_page", &["sqlite_autoindex_partition_state_1", stretch, work, first]);
    check(
        "partitions_page where state.status = 'failed'",
        &["partition_state_failed", stretch, work, first],
    );
    check("partitions_by_key", &[key, work, first]);
    check("partitions_by_id", &["INTEGER PRIMARY KEY (rowid>?)", work, first]);
    check("partitions_at_work", &["SEARCH work USING INTEGER PRIMARY KEY", first]);
    check("partition_dates", &["query_name=? AND logical_date>? AND logical_date<?)"]);
    check("write_partitions", &["SEARCH partition_state USING INTEGER PRIMARY KEY (rowid=?)"]);
    check("remove_partition_work", &["(partition_id=?)"]);
}

// PIP-1, PIP-9
#[test]
fn samples_are_found_by_the_index_of_what_they_are() {
    let by_id = "SEARCH samples USING INTEGER PRIMARY KEY (rowid=?)";
    check("claim_samples", &["samples_open (run_id=? AND claim_stage=?)", by_id]);
    check(
        "claim_due_samples",
        &["samples_due (run_id=? AND claim_stage=? AND next_retry_at<?)", by_id],
    );
    let (open, due) = ("samples_open (run_id=? AND claim_stage=?", "samples_due (run_id=?");
    check("unkeyed_samples", &[due, &format!("{open} AND gate_key=?)")]);
    check("sample_keys", &[&format!("{open} AND gate_key>?)"), &format!("{open} AND gate_key<?)")]);
    check(
        "claimable_samples",
        &[&format!("{open} AND gate_key=?)"), "SEARCH sample USING INTEGER"],
    );
    check("next_sample_due", &["samples_due (run_id=? AND claim_stage=?"]);
    check("pipeline_backlog", &["samples_open (run_id=?", "samples_due (run_id=?"]);
    for name in ["renew_sample_leases", "release_samples", "reprocess_samples"] {
        check(name, &[by_id]);
    }
    for name in ["finish_samples", "reread_samples"] {
        check(name, &[by_id, "(kind=? AND unit_id=? AND stage=?)"]);
    }
    for name in
        ["expired_sample_leases", "next_sample_lease_end", "end_sample_leases_of_other_boots"]
    {
        check(name, &["samples_open"]);
    }
    let places = ["samples_open (run_id=?", "samples_due (run_id=?", "samples_skipped (run_id=?"];
    check("stage_counts", &[&places[..], &["samples_dlq (run_id=?"]].concat());
    check("samples_by_id", &["SEARCH samples USING INTEGER PRIMARY KEY"]);
    check("samples_page", &["SEARCH samples USING INTEGER PRIMARY KEY (rowid>?)"]);
    check("samples_page where samples.status = 'dlq'", &["samples_dead (id>?)"]);
    check("newest_dead_samples", &["samples_dead"]);
    check("dead_causes", &["samples_dlq (run_id=?"]);
    for name in ["stage_executions", "stage_outcomes"] {
        check(name, &["(run_id=?)", "(kind=? AND unit_id=?)"]);
    }
}

// PIP-2
#[test]
fn pipeline_runs_are_found_by_their_keys() {
    check("live_pipeline_runs", &["pipeline_runs_live (pipeline=?)"]);
    let by_id = "SEARCH pipeline_runs USING INTEGER PRIMARY KEY (rowid=?)";
    for name in ["move_source", "finish_feeds", "renew_feed_leases", "write_pipeline_runs"] {
        check(name, &[by_id]);
    }
    check("claim_feeds", &[by_id]);
    check("expired_feed_leases", &["pipeline_runs_held (id>?)"]);
    check("next_feed_lease_end", &["pipeline_runs_held"]);
    check("end_feed_leases_of_other_boots", &["pipeline_runs_held"]);
    check("newest pipeline_runs_page", &["INTEGER PRIMARY KEY (rowid<?)"]);
}

// PLN-1, PLN-3
#[test]
fn the_units_of_a_plan_are_found_by_its_id() {
    check("plan_units_page", &["PRIMARY KEY (plan_id=? AND unit_id>?)"]);
    check("pending_plan_units", &["plan_units_pending (plan_id=? AND unit_id>?)"]);
    check("write_plan_units", &["PRIMARY KEY (plan_id=? AND unit_id=?)"]);
    check("claim_plans", &["plans_open"]);
    check("live_plans", &["plans_live"]);
    check("plan_outcomes", &["PRIMARY KEY (plan_id=?)"]);
    check("newest_entries", &["journal_unit (unit=?)"]);
    check("run_snapshots", &["SEARCH runs USING INTEGER PRIMARY KEY"]);
}

#[test]
fn nothing_is_sorted_that_an_index_has_in_order() {
    // No index has failures in the order of how many have the same cause, or of when they died. Of what is
    // open in all runs there is little enough to sort.
    let in_any_order = [
        "causes",
        "cause_hours",
        "count_plan_units",
        "dead_causes",
        "expired_sample_leases",
        "newest_dead_samples",
        "plan_counts",
        "workers",
    ];
    let in_order = QUERIES.iter().filter(|(name, _)| !in_any_order.contains(name));
    for (scratch, which) in databases() {
        for (name, _) in in_order.clone() {
            let steps = plan(&scratch.raw(), name);
            let sorted = steps.iter().any(|step| step.contains("FOR ORDER BY"));
            assert!(!sorted, "{name} on a {which} database: {steps:#?}");
        }
    }
}

#[test]
fn a_chart_reads_the_counts_of_its_place_alone() {
    for (scratch, which) in databases() {
        let steps = plan(&scratch.raw(), "attempt_counts");
        let of_place = "USING PRIMARY KEY (seconds=? AND kind=? AND place=? AND started_at>?)";
        assert!(steps.iter().any(|step| step.contains(of_place)), "{which}: {steps:#?}");
    }
}

#[test]
fn writing_what_happens_most_makes_no_table_of_what_is_allowed() {
    let scratch = Scratch::migrated();
    let connection = scratch.raw();
    for name in ["insert_attempts", "move_items", "finish_runs", "finish_samples"] {
        let (_, sql) = QUERIES.iter().find(|(known, _)| *known == name).unwrap();
        let mut explained = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let unset = params_from_iter(vec![Null; explained.parameter_count()]);
        let steps = explained.query_map(unset, |row| row.get::<_, String>(1)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step == "OpenWrite"), "{name}: {steps:?}");
        assert!(!steps.iter().any(|step| step == "OpenEphemeral"), "{name}: {steps:?}");
    }
}
