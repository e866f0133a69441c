//! What the planner makes of statements about pipelines, and what they cost: the same whatever is beside
//! what they look for.

use redrive_postgres::SESSION_SETTINGS;
use tokio_postgres::Client;

use crate::{
    plans::{Values, check, pages_touched, prepare},
    server::Database,
};

// PIP-1, PIP-9
#[tokio::test]
async fn samples_are_found_by_their_keys_whatever_the_size_of_the_table() {
    let live = "using pipeline_runs_live";
    let run = "using pipeline_runs_pkey";
    for count in [300, 3_000, 100_000] {
        check(
            count,
            &[
                (
                    "claim_samples",
                    &[live, "using samples_due", "using samples_open", "(ctid = few.tid)"],
                ),
                ("unkeyed_samples", &[live, "using samples_due", "using samples_open"]),
                ("sample_keys", &[live, "using samples_open"]),
                ("claimable_samples", &[live, "using samples_open"]),
                (
                    "finish_samples",
                    &[
                        "Index Scan using samples_pkey",
                        "Index Cond: (id = given.id)",
                        "attempts_unit_id_kind_stage_attempt_key",
                    ],
                ),
                ("pass_samples", &["Index Scan using samples_pkey", "Index Cond: (id = given.id)"]),
                ("renew_sample_leases", &["Index Cond: (id = held.id)"]),
                ("release_samples", &["Index Cond: (id = given.id)", run]),
                ("reprocess_samples", &["Index Cond: (id = named.id)"]),
                (
                    "reread_samples",
                    &["Index Cond: (id = named.id)", "attempts_unit_id_kind_stage_attempt_key"],
                ),
                ("lock_samples", &["using samples_pkey", run, "LockRows"]),
                ("expired_sample_leases", &["using samples_open"]),
                ("next_sample_lease_end", &["using samples_open"]),
                ("next_sample_due", &[live, "using samples_due"]),
                ("pipeline_backlog", &[live, "using samples_open", "using samples_due"]),
                (
                    "stage_counts",
                    &[
                        "using samples_open",
                        "using samples_due",
                        "using samples_skipped",
                        "using samples_d",
                    ],
                ),
                ("samples_by_id", &["using samples_pkey"]),
                ("samples_page", &["using samples_pkey"]),
                ("samples_page where samples.status = 'dlq'", &["using samples_dead"]),
                ("dead_causes", &["using samples_d"]),
                (
                    "stage_executions",
                    &["using samples_line", "attempts_unit_id_kind_stage_attempt_key"],
                ),
                (
                    "stage_outcomes",
                    &["using samples_line", "attempts_unit_id_kind_stage_attempt_key"],
                ),
            ],
        )
        .await;
    }
}

// PIP-2
#[tokio::test]
async fn pipeline_runs_are_found_by_their_keys_whatever_the_size_of_the_table() {
    for count in [300, 100_000] {
        check(
            count,
            &[
                ("claim_feeds", &["using pipeline_runs_live", "LockRows"]),
                ("finish_feeds", &["using pipeline_runs_"]),
                ("renew_feed_leases", &["using pipeline_runs_"]),
                ("write_pipeline_runs", &["Index Cond: (id = given.id)"]),
                ("lock_pipeline_runs", &["using pipeline_runs_pkey", "LockRows"]),
                ("move_source", &["Index Cond: (id = $4)"]),
                ("expired_feed_leases", &["using pipeline_runs_held"]),
                ("next_feed_lease_end", &["using pipeline_runs_held"]),
                ("pipeline_runs_page", &["using pipeline_runs_pkey"]),
            ],
        )
        .await;
    }
}

/// A run of `p` that goes on, with ten samples that a claim at its second stage may take.
async fn with_ten_samples() -> Client {
    let raw = Database::migrated().await.raw().await;
    let wanted = "
        INSERT INTO redrive.pipeline_runs
            (pipeline, stages, rules, read_ahead, source, started_at, started_by, source_done)
        VALUES ('p', '{a,b}', '{}', 10000, 's', 'epoch', 'me', true);
        INSERT INTO redrive.samples (run_id, line, data, stage, claim_stage)
        SELECT 1, 2000000 + n, '{}', 1, 1 FROM generate_series(1, 10) AS n;
        ANALYZE redrive.pipeline_runs, redrive.samples";
    raw.batch_execute(wanted).await.unwrap();
    raw.batch_execute(SESSION_SETTINGS).await.unwrap();
    raw
}

/// Adds samples at a stage; the columns are status, next_retry_at, error_message.
async fn add(raw: &Client, count: u32, first_line: u32, stage: u32, columns: &str) {
    let sql = format!(
        "INSERT INTO redrive.samples
             (run_id, line, data, stage, claim_stage, status, next_retry_at, error_message)
         SELECT 1, {first_line} + n, '{{}}', {stage}, {stage}, {columns} FROM generate_series(1, {count}) AS n"
    );
    raw.batch_execute(&sql).await.unwrap();
}

const CLAIM: Values<'_> = &[
    ("pipeline", "'p'"),
    ("stages", "'{a,b}'"),
    ("run_id", "NULL"),
    ("stage", "1"),
    ("limit", "5"),
    ("owner", "'w'"),
    ("lease_until", "'2030-01-01'"),
    ("now", "'2026-01-01'"),
];

// PIP-1, PIP-9
#[tokio::test]
async fn a_claim_costs_the_same_with_a_million_that_are_through_and_as_many_unfinished_as_may_be() {
    let raw = with_ten_samples().await;
    prepare(&raw, "claim_samples").await;
    let few = pages_touched(&raw, "claim_samples", CLAIM).await;
    add(&raw, 1_000_000, 0, 1, "'succeeded', NULL::timestamptz, NULL").await;
    add(&raw, 5_000, 1_100_000, 0, "'pending', NULL::timestamptz, NULL").await;
    add(&raw, 5_000, 1_200_000, 1, "'pending', timestamptz '2100-01-01', 'busy'").await;
    add(&raw, 5_000, 1_300_000, 1, "'dlq', NULL::timestamptz, 'broken'").await;
    raw.batch_execute("ANALYZE redrive.samples").await.unwrap();
    let many = pages_touched(&raw, "claim_samples", CLAIM).await;
    assert!(many < few + 60, "{few} pages without, {many} with a million beside");
}

// PIP-6
#[tokio::test]
async fn a_claim_of_a_stopped_run_touches_none_of_its_samples() {
    let raw = with_ten_samples().await;
    add(&raw, 10_000, 0, 1, "'pending', NULL::timestamptz, NULL").await;
    let stop = "UPDATE redrive.pipeline_runs SET status = 'cancelled', ended_at = 'epoch'";
    raw.batch_execute(stop).await.unwrap();
    prepare(&raw, "claim_samples").await;
    let pages = pages_touched(&raw, "claim_samples", CLAIM).await;
    assert!(pages < 10, "{pages} pages");
}

// PIP-8
#[tokio::test]
async fn counting_what_is_unfinished_reads_nothing_of_what_is_through() {
    let raw = with_ten_samples().await;
    prepare(&raw, "stage_counts").await;
    let few = pages_touched(&raw, "stage_counts", &[("run_id", "1")]).await;
    add(&raw, 300_000, 0, 1, "'succeeded', NULL::timestamptz, NULL").await;
    raw.batch_execute("ANALYZE redrive.samples").await.unwrap();
    prepare_again(&raw).await;
    let many = pages_touched(&raw, "stage_counts", &[("run_id", "1")]).await;
    assert!(many < few + 60, "{few} pages without, {many} with many that are through");
}

/// As a session does that was told of new statistics.
async fn prepare_again(raw: &Client) {
    raw.batch_execute("DISCARD PLANS").await.unwrap();
}
