//! What the planner makes of the statements of the hot path.
//!
//! Plans are kept, and a table that is small today is large tomorrow. So they must be right at every
//! size, also right after statistics were gathered.

use redrive_core::Epoch;
use redrive_postgres::{
    BEGIN_BACKFILL, PostgresOptions, PostgresStore, QUERIES, SESSION_SETTINGS, SqlQuery,
};
use redrive_store::{LeaseRef, Leased, Leases, NewRun, Runs, Written};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::server::Database;

/// A table with runs of every status, `count` of them, and fresh statistics.
async fn filled(count: u32) -> Client {
    let raw = Database::migrated().await.raw().await;
    let fill = format!(
        "INSERT INTO redrive.runs (queue, category, payload, submitted_at)
        SELECT 'q', 'c' || n % 3, '{{}}', now() + n * interval '1 ms' FROM generate_series(1, {count}) AS n;
        INSERT INTO redrive.run_states (id, queue, category, submitted_at, status, waits, next_retry_at)
        SELECT id, queue, category, submitted_at, CASE WHEN waits THEN 'error' ELSE 'passed' END, waits,
            CASE WHEN waits THEN now() END
        FROM (SELECT *, id % 5 = 4 AS waits FROM redrive.runs WHERE id % 5 IN (2, 4)) AS run;
        INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
        SELECT queue, category, submitted_at, id, true FROM redrive.runs WHERE id % 5 = 0;
        INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
        SELECT 1, 'q', 'w', now(), min(id), max(id), array_agg(id)
        FROM redrive.runs WHERE id % 5 = 1 GROUP BY id / 1000;
        INSERT INTO redrive.run_passes (block, epoch, worker, run_ids, started_at, ended_at)
        SELECT id >> 8, 1, 'w', array_agg(id), array_agg(now()), array_agg(now())
        FROM redrive.runs WHERE id % 5 = 3 GROUP BY id >> 8;
        INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
        SELECT queue, next_retry_at, id, category, submitted_at, false FROM redrive.run_states WHERE waits;
        INSERT INTO redrive.items
            (upload, group_name, name, content_url, size_bytes, sha256, updated_at)
        SELECT 'tiles', 'g', 'tile' || n, 'file:a', 1, 'ab', now()
        FROM generate_series(1, {count}) AS n;
        INSERT INTO redrive.upload_groups (upload, group_name, lease_owner, lease_until)
        SELECT 'tiles', 'g' || n, CASE WHEN n % 9 = 1 THEN 'w' END, CASE WHEN n % 9 = 1 THEN now() END
        FROM generate_series(1, {count}) AS n;
        INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, status,
            current_run_id, record_count, attempt_count, updated_at)
        SELECT 's' || n % 2, 'c' || n, 'q', date '2026-03-01', status, 'r', 1, 1, now()
        FROM (
            SELECT n, (ARRAY['failed', 'pending', 'success', 'success'])[n % 4 + 1]
            FROM generate_series(1, {count}) AS n
        ) AS given (n, status);
        INSERT INTO redrive.partition_work (partition_id, source, kind, lane, requested_at,
            requested_by, run_id, lease_owner, lease_until)
        SELECT id, source, 'retry', CASE WHEN id % 8 = 1 THEN 'fresh' ELSE 'backfill' END, now(), 'a',
            CASE WHEN id % 16 = 1 THEN 'r' END, CASE WHEN id % 16 = 1 THEN 'w' END,
            CASE WHEN id % 16 = 1 THEN now() END
        FROM redrive.partition_state WHERE status = 'pending';
        INSERT INTO redrive.pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at,
            started_by, status, ended_at, lease_owner, lease_until)
        SELECT 'p', '{{a,b}}', '{{}}', 1, 's', now(), 'a', CASE WHEN live THEN 'running' ELSE 'failed' END,
            CASE WHEN NOT live THEN now() END, CASE WHEN live THEN 'w' END, CASE WHEN live THEN now() END
        FROM (SELECT n % 9 = 1 FROM generate_series(1, {count} / 100 + 2) AS n) AS given (live);
        INSERT INTO redrive.samples (run_id, line, data, status, error_message, next_retry_at, lease_owner,
            lease_until)
        SELECT n % ({count} / 100 + 2) + 1, n, '1', status, 'e', CASE WHEN n % 7 = 3 THEN now() END,
            CASE WHEN n % 7 = 4 THEN 'w' END, CASE WHEN n % 7 = 4 THEN now() END
        FROM (
            SELECT n, (ARRAY['dlq', 'skipped', 'succeeded', 'pending', 'pending', 'pending', 'succeeded'])[n % 7 + 1]
            FROM generate_series(1, {count}) AS n
        ) AS given (n, status);
        INSERT INTO redrive.attempts (kind, unit_id, attempt, counted, started_at, ended_at, outcome, worker)
        SELECT 'run', id, 1, true, now(), now(), 'success', 'w' FROM redrive.runs WHERE id % 5 IN (2, 4);
        ANALYZE redrive.runs, redrive.run_states, redrive.ready_runs, redrive.due_runs, redrive.run_claims,
            redrive.run_passes, redrive.attempts, redrive.items, redrive.upload_groups, redrive.partition_state,
            redrive.partition_work, redrive.pipeline_runs, redrive.samples"
    );
    raw.batch_execute(&fill).await.unwrap();
    raw.batch_execute(SESSION_SETTINGS).await.unwrap();
    raw
}

fn query(name: &str) -> &'static SqlQuery {
    QUERIES.iter().find(|query| query.name() == name).unwrap()
}

/// The name of a query, and its selection. See [`prepare`].
fn parts(name: &str) -> (&str, &str) {
    let (name, selection) = name.split_once(" where ").unwrap_or((name, "true"));
    (name.strip_prefix("newest ").unwrap_or(name), selection)
}

/// `NAME where CONDITION` is a query over a selection, `newest NAME` one in descending order.
pub(crate) async fn prepare(raw: &Client, name: &str) {
    let (beyond, order) = if name.starts_with("newest ") { ("<", "DESC") } else { (">", "ASC") };
    let (name, selection) = parts(name);
    let runs = if selection == "true" { "redrive.runs" } else { "redrive.run_states" };
    let sql = query(name).sql().replace("{selection}", selection).replace("{runs}", runs);
    let sql = sql.replace("{beyond}", beyond).replace("{order}", order);
    raw.batch_execute(&format!("PREPARE {name} AS {sql}")).await.unwrap();
}

/// The plan that is kept for a statement. Its values make no difference to it.
async fn plan(raw: &Client, name: &str) -> String {
    prepare(raw, name).await;
    let (name, _) = parts(name);
    let nulls = vec!["NULL"; query(name).parameters().len()].join(", ");
    let values = if nulls.is_empty() { nulls } else { format!("({nulls})") };
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE {name} {values}");
    let lines = raw.query(&explain, &[]).await.unwrap();
    raw.batch_execute(&format!("DEALLOCATE {name}")).await.unwrap();
    lines.iter().map(|line| line.get::<_, String>(0) + "\n").collect()
}

pub(crate) async fn check(count: u32, expected: &[(&str, &[&str])]) {
    check_in(&filled(count).await, count, expected).await;
}

async fn check_in(raw: &Client, count: u32, expected: &[(&str, &[&str])]) {
    for (name, parts) in expected {
        let plan = plan(raw, name).await;
        // Claims are few.
        let others = plan.replace("Seq Scan on run_claims", "");
        assert!(!others.contains("Seq Scan"), "{name} with {count} runs:\n{plan}");
        for part in *parts {
            assert!(plan.contains(part), "{name} with {count} runs lacks {part:?}:\n{plan}");
        }
    }
}

// PLN-1, PLN-3
#[tokio::test]
async fn the_units_of_a_plan_are_found_by_its_id() {
    for count in [10, 10_000] {
        let raw = filled(count).await;
        let fill = format!(
            "INSERT INTO redrive.plans (action, options, selection, created_at, created_by)
            VALUES ('run.retry', '{{}}', '{{}}', now(), 'a');
            INSERT INTO redrive.plan_units (plan_id, unit_id, state, version, outcome, outcome_at)
            SELECT 1, n, 's', 0, CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'recovered' END, now()
            FROM generate_series(1, {count}) AS n;
            ANALYZE redrive.plans, redrive.plan_units"
        );
        raw.batch_execute(&fill).await.unwrap();
        let expected: [(&str, &[&str]); 4] = [
            ("plan_units_page", &["using plan_units_key"]),
            ("pending_plan_units", &["using plan_units_pending"]),
            ("write_plan_units", &["using plan_units_key"]),
            ("newest_entries", &["using journal_unit"]),
        ];
        check_in(&raw, count, &expected).await;
    }
}

// RUN-2
#[tokio::test]
async fn rows_are_found_by_their_keys_whatever_the_size_of_the_table() {
    let from = "(category = allowed.category) AND (ROW(submitted_at, id) >= ROW(";
    let (claims, passes) = ("using run_claims_epoch", "using run_passes_block");
    let tid = "TID Cond: (ctid = few.tid)";
    let states = "using run_states_pkey";
    for count in [3, 30, 300, 3_000, 100_000] {
        check(
            count,
            &[
                (
                    "finish_runs",
                    &[
                        "using runs_pkey",
                        "(id = given",
                        claims,
                        "using run_claims_pkey",
                        states,
                        tid,
                    ],
                ),
                ("renew_run_leases", &[claims, "using run_claims_pkey"]),
                (
                    "release_runs",
                    &["using runs_pkey", "(id = given", claims, "using run_claims_pkey"],
                ),
                ("claim_runs_any", &["using ready_runs_key", from, tid, "using runs_pkey", states]),
                ("claim_runs_of", &["using ready_runs_key", from, tid, "using runs_pkey", states]),
                ("promote_due_runs", &["using due_runs_key", tid]),
                ("look_for_older_runs", &["Tid Range Scan on ready_runs"]),
                ("idempotent_runs", &["using runs_idempotency", "(queue = requested.queue)"]),
                ("next_due", &["using due_runs_key", "Index Cond: (queue = $1)"]),
                (
                    "runs_by_id",
                    &["using runs_pkey", states, "ready_runs_key", "due_runs_key", passes],
                ),
                ("attempts_of", &["attempts_unit_id_kind_stage_attempt_key", passes]),
                ("attempts_at", &["attempts_unit_id_kind_stage_attempt_key", passes]),
                ("ledger_page", &["attempts_unit_id_kind_stage_attempt_key", passes]),
                ("prunable_runs", &["using runs_pkey", states, passes]),
                ("lock_due_runs", &["using runs_pkey", states, "using due_runs_key"]),
                ("lock_ready_runs", &["using runs_pkey", "using ready_runs_key"]),
                ("moving_runs", &["using runs_pkey", states, "ready_runs_key", "due_runs_key"]),
                ("runs_page", &["using runs_pkey"]),
                ("newest runs_page", &["Backward using runs_pkey"]),
                ("states_of_runs", &["runs_pkey"]),
                ("retry_runs", &["Index Cond: (id = named", "TID Cond: (ctid = named"]),
                ("restore_runs", &["Index Cond: (id = named", "TID Cond: (ctid = named"]),
                ("cancel_runs", &["Index Scan using runs_pkey", "Index Cond: (id = named"]),
                ("resume_queue", &["paused_queues_queue_key"]),
                ("move_items", &["Index Scan using items_pkey", "Index Cond: (id = step.id)"]),
                ("named_items", &["items_upload_group_name_name_key", "(name = requested.name)"]),
                ("increment_upload_attempts", &["Index Cond: (id = $1)"]),
                ("items_page", &["using items_pkey"]),
                ("newest items_page", &["Backward using items_pkey"]),
                ("item_counts", &["items"]),
            ],
        )
        .await;
    }
}

// CAU-5
#[tokio::test]
async fn what_failed_is_found_without_what_ended() {
    for count in [3_000, 100_000] {
        check(
            count,
            &[
                (
                    "causes",
                    &["using run_states_cause", "using samples_cause", "Index Cond: (hour >= $1)"],
                ),
                (
                    "runs_page where fingerprint = 'f' AND status = 'error'",
                    &["using run_states_cause", "(fingerprint = 'f'::text)"],
                ),
                (
                    "runs_page where error_code = '5' AND status = 'error'",
                    &["using run_states_pkey"],
                ),
                ("runs_page where status = 'cancelled'", &["using run_states_not_passed"]),
                (
                    "items_page where error_code = '5' AND fingerprint IS NOT NULL",
                    &["using items_open"],
                ),
            ],
        )
        .await;
    }
}

// CAU-3
#[tokio::test]
async fn the_few_runs_in_a_state_are_found_without_what_ended() {
    let count = 100_000;
    let raw = filled(count).await;
    raw.batch_execute(
        "UPDATE redrive.run_states SET status = 'passed', waits = false, next_retry_at = NULL WHERE id > 20;
        DELETE FROM redrive.ready_runs WHERE id > 20;
        DELETE FROM redrive.due_runs WHERE id > 20;
        DELETE FROM redrive.run_claims WHERE first_run > 20;
        ANALYZE redrive.run_states, redrive.ready_runs, redrive.due_runs, redrive.run_claims",
    )
    .await
    .unwrap();
    let expected: &[(&str, &[&str])] =
        &[("runs_page where status = 'cancelled'", &["run_states_not_passed"])];
    check_in(&raw, count, expected).await;
}

// OPS-3
#[tokio::test]
async fn a_stretch_of_the_ledger_is_read_by_its_place_whatever_the_size_of_the_table() {
    let stretch = "Index Cond: ((id > $1) AND (id <= $2))";
    for count in [3, 30, 300, 3_000, 100_000] {
        check(
            count,
            &[
                ("activity_counts", &["using attempts_pkey", "using run_passes_pkey", stretch]),
                ("activity_lags", &["using attempts_pkey", "using run_passes_pkey", stretch]),
                ("activity_lags", &["using runs_pkey"]),
            ],
        )
        .await;
    }
}

// PAR-9, PAR-10, DMN-1
#[tokio::test]
async fn partitions_are_found_by_their_keys_whatever_the_size_of_the_table() {
    let (key, work) = ("using partition_state_key", "using partition_work_partition_id_key");
    let first = "using attempts_unit_id_kind_stage_attempt_key";
    for count in [30, 300, 3_000, 100_000] {
        check(
            count,
            &[
                ("claimable_partitions", &["using partition_work_ready", "Limit"]),
                ("claim_partitions", &["using partition_work_pkey", "(id = taken.id)"]),
                ("renew_partition_leases", &["Index Cond: (id = held.id)"]),
                ("release_partitions", &["Index Cond: (id = given.id)", "partition_state_pkey"]),
                ("expired_partition_leases", &["using partition_work_held"]),
                ("next_partition_lease_end", &["using partition_work_held"]),
                ("claimable_partitions_of", &["using partition_work_customers", "Limit"]),
                ("partition_customers", &["using partition_work_customers", "Limit"]),
                ("partition_backlog", &["Index Cond: (source = $1)", "partition_work_held"]),
                ("lock_partitions", &[key, "LockRows"]),
                ("lock_partition_work", &[key, work, "LockRows"]),
                ("write_partitions", &["using partition_state_pkey", "(id = given.id)"]),
                ("remove_partition_work", &[work, "(partition_id = done.id)"]),
                ("partitions_by_key", &[key, work, first]),
                ("partitions_by_id", &["using partition_state_pkey", work, first]),
                ("partitions_at_work", &["partition_work_pkey", "partition_state_pkey", first]),
                ("partitions_page", &[key, work, first, "<= ROW("]),
                (
                    "partitions_page where state.status = 'failed'",
                    &["using partition_state_failed", work, "<= ROW("],
                ),
                ("partition_dates", &[key]),
            ],
        )
        .await;
    }
}

// PAR-9
#[tokio::test]
async fn a_backfill_compares_no_row_with_every_other() {
    for count in [30, 3_000] {
        let raw = filled(count).await;
        raw.batch_execute(BEGIN_BACKFILL).await.unwrap();
        let plan = plan(&raw, "backfill_partitions").await;
        assert!(plan.contains("Hash Join") && !plan.contains("Nested Loop"), "{plan}");
        assert!(!plan.contains("Seq Scan"), "{plan}");
    }
}

// UPL-7
#[tokio::test]
async fn groups_are_found_by_their_keys_whatever_the_size_of_the_table() {
    for count in [300, 3_000, 100_000] {
        check(
            count,
            &[
                ("group_holder", &["using upload_groups_name"]),
                ("renew_group_leases", &["Index Cond: (id = held.id)"]),
                ("release_groups", &["Index Cond: (id = given.id)"]),
                ("expired_group_leases", &["using upload_groups_held"]),
            ],
        )
        .await;
    }
}

// PAR-9, DMN-1
#[tokio::test]
async fn a_page_of_partitions_is_read_in_order_and_no_further() {
    for count in [300, 30_000] {
        let raw = filled(count).await;
        for name in [
            "partitions_page",
            "newest partitions_page",
            "partitions_page where state.status = 'failed'",
            "partitions_by_id",
        ] {
            let plan = plan(&raw, name).await;
            assert!(!plan.contains("Sort"), "{name} with {count} partitions:\n{plan}");
        }
    }
}

#[tokio::test]
async fn the_backlog_of_a_queue_finds_by_index_what_is_ready_held_and_due() {
    for count in [3, 3_000, 100_000] {
        let raw = filled(count).await;
        for name in ["backlog_any", "backlog_of"] {
            let plan = plan(&raw, name).await;
            for index in ["paused_queues_queue_key", "ready_runs_key", "due_runs_key"] {
                let part = format!("using {index}");
                assert!(plan.contains(&part), "{name} with {count} runs lacks {part:?}:\n{plan}");
            }
            let others = plan.replace("Seq Scan on run_claims", "");
            assert!(!others.contains("Seq Scan"), "{name} with {count} runs:\n{plan}");
        }
    }
}

/// With hash joins off, a join would compare each of a thousand entries with each of a thousand runs.
#[tokio::test]
async fn a_finish_looks_its_journal_entries_up_in_a_hash_table() {
    let plan = plan(&filled(3_000).await, "finish_runs").await;
    assert!(plan.contains("hashed SubPlan"), "{plan}");
}

/// Values by the names of the parameters, as SQL.
pub(crate) type Values<'a> = &'a [(&'a str, &'a str)];

/// Pages of tables and indexes that a statement touches, with everything below its top node.
pub(crate) async fn pages_touched(raw: &Client, name: &str, values: Values<'_>) -> u64 {
    raw.batch_execute("BEGIN").await.unwrap();
    let value = |parameter: &&str| values.iter().find(|(name, _)| name == parameter).unwrap().1;
    let values: Vec<&str> = query(name).parameters().iter().map(value).collect();
    let values = values.join(", ");
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {name} ({values})");
    let messages = raw.simple_query(&explain).await.unwrap();
    raw.batch_execute("ROLLBACK").await.unwrap();
    let text: String = messages
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    let plan: Value = serde_json::from_str(&text).unwrap();
    let blocks = |kind: &str| plan[0]["Plan"][kind].as_u64().unwrap();
    blocks("Shared Hit Blocks") + blocks("Shared Read Blocks")
}

/// A claim of five runs of the category `rare`.
const CLAIM: [(&str, &str); 10] = [
    ("categories", "'{rare}'"),
    ("most", "'{5}'"),
    ("queue", "'q'"),
    ("limit", "5"),
    ("owner", "'w'"),
    ("lease_until", "'2030-01-01'"),
    ("claimed_at", "'2030-01-01'"),
    ("to_the_limit", "false"),
    ("from_submitted_at", "'-infinity'"),
    ("from_id", "0"),
];

// RUN-6
#[tokio::test]
async fn a_claim_of_a_paused_queue_touches_nothing_of_what_is_ready() {
    let raw = filled(30_000).await;
    let pause = "INSERT INTO redrive.paused_queues (queue, paused_at, paused_by)
        VALUES ('q', 'epoch', 'ada')";
    raw.batch_execute(pause).await.unwrap();
    let claim = CLAIM.map(|(name, value)| match name {
        "categories" => (name, "'{c0,c1}'"),
        "most" => (name, "'{5,5}'"),
        "to_the_limit" => (name, "true"),
        _ => (name, value),
    });
    for name in ["claim_runs_any", "claim_runs_of"] {
        prepare(&raw, name).await;
        let pages = pages_touched(&raw, name, &claim).await;
        assert!(pages < 10, "{name} touches {pages} pages");
    }
}

// RUN-2, GAT-3: runs behind closed gates are of categories that a claim leaves out.
#[tokio::test]
async fn a_claim_costs_the_same_with_a_million_waiting_and_a_million_that_are_not_allowed() {
    let raw = Database::migrated().await.raw().await;
    let ahead = "
        INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
        SELECT 'q', 'common', '2020-01-01', n, true FROM generate_series(1000, 1000999) AS n;
        INSERT INTO redrive.due_runs (queue, due_at, id, category, submitted_at, fresh)
        SELECT 'q', '2100-01-01', n, 'rare', '2020-01-01', false FROM generate_series(2000000, 2999999) AS n;";
    let wanted = "
        INSERT INTO redrive.runs (queue, category, payload, submitted_at)
        SELECT 'q', 'rare', '{}', timestamptz '2026-01-01' FROM generate_series(1, 10);
        INSERT INTO redrive.ready_runs (queue, category, submitted_at, id, fresh)
        SELECT queue, category, submitted_at, id, true FROM redrive.runs;
        ANALYZE redrive.runs, redrive.ready_runs, redrive.due_runs";
    let claim = &CLAIM;
    let due = &[("queue", "'q'"), ("now", "'2026-01-02'"), ("limit", "10000")];
    raw.batch_execute(wanted).await.unwrap();
    raw.batch_execute(SESSION_SETTINGS).await.unwrap();
    prepare(&raw, "claim_runs_of").await;
    prepare(&raw, "promote_due_runs").await;
    let few = pages_touched(&raw, "claim_runs_of", claim).await
        + pages_touched(&raw, "promote_due_runs", due).await;
    raw.batch_execute(ahead).await.unwrap();
    raw.batch_execute("ANALYZE redrive.ready_runs, redrive.due_runs").await.unwrap();
    let many = pages_touched(&raw, "claim_runs_of", claim).await
        + pages_touched(&raw, "promote_due_runs", due).await;
    assert!(many < few + 60, "{few} pages without, {many} with two million ahead");
    prepare(&raw, "ready_categories").await;
    let categories = pages_touched(&raw, "ready_categories", &[("queue", "'q'")]).await;
    assert!(categories < 60, "{categories} pages to find two categories");
}

/// Rows of the table that a renewal reads, seen from a trigger inside it.
const SPY_ON_READS: &str = "
    CREATE TABLE public.reads (id bigint GENERATED ALWAYS AS IDENTITY, rows bigint);
    CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.reads (rows) SELECT pg_catalog.pg_stat_get_xact_tuples_fetched(TG_RELID)
            + coalesce(sum(pg_catalog.pg_stat_get_xact_tuples_fetched(indexrelid)), 0)
        FROM pg_catalog.pg_index WHERE indrelid = TG_RELID;
        RETURN NULL;
    END $$;
    CREATE TRIGGER spy AFTER UPDATE ON redrive.run_claims EXECUTE FUNCTION public.look()";

/// Whatever a plan was made for, it is made again before long.
#[tokio::test]
async fn a_plan_made_for_an_empty_table_does_not_last() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    raw.batch_execute(SPY_ON_READS).await.unwrap();
    raw.batch_execute("ANALYZE redrive.run_claims").await.unwrap();
    let options = PostgresOptions { max_connections: 1, ..PostgresOptions::default() };
    let store = PostgresStore::connect(&database.url, options).await.unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let lease = LeaseRef { id: 7, epoch: Epoch(7) };
    assert_eq!(store.renew_leases(Leased::Run, &[lease], now).await.unwrap(), [Written::Stale]);
    let grow = "
        INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
        SELECT n, 'q', 'w', 'epoch', n, n, ARRAY[n] FROM generate_series(1::bigint, 5000) AS n";
    raw.batch_execute(grow).await.unwrap();
    for _ in 0..64 {
        store.renew_leases(Leased::Run, &[lease], now).await.map(drop).unwrap();
    }
    // The server counts on until it gets round to publishing.
    let sql = "SELECT rows FROM public.reads ORDER BY id DESC LIMIT 2";
    let counts = raw.query(sql, &[]).await.unwrap();
    let read = counts[0].get::<_, i64>(0) - counts[1].get::<_, i64>(0);
    assert!(read < 100, "{read} rows were read to renew one lease");
}

#[tokio::test]
async fn a_store_pins_the_plans_of_its_own_connections() {
    let database = Database::migrated().await;
    let raw = database.raw().await;
    let spy = "
        CREATE TABLE public.seen (name text, setting text);
        CREATE FUNCTION public.look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO public.seen SELECT name, setting FROM pg_catalog.pg_settings;
            RETURN NULL;
        END $$;
        CREATE TRIGGER spy AFTER INSERT ON redrive.runs EXECUTE FUNCTION public.look()";
    raw.batch_execute(spy).await.unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let run = NewRun::new("q", &json!(1), now).unwrap();
    database.store().await.submit_runs(&[run], now).await.unwrap();
    for (name, expected) in [
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("enable_incremental_sort", "off"),
        ("jit", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        ("default_transaction_isolation", "read committed"),
        ("search_path", "pg_catalog, pg_temp"),
        ("statement_timeout", "30000"),
        ("idle_in_transaction_session_timeout", "30000"),
        ("application_name", "redrive"),
    ] {
        let sql = "SELECT setting FROM public.seen WHERE name = $1";
        let setting: String = raw.query_one(sql, &[&name]).await.unwrap().get(0);
        assert_eq!(setting, expected, "{name}");
    }
}
