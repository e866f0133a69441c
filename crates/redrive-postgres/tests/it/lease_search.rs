//! What the reaper's two questions cost: a few pages, however much has ended.

use redrive_postgres::SESSION_SETTINGS;
use tokio_postgres::Client;

use crate::{
    plans::{pages_touched, prepare},
    server::Database,
};

/// `ended` finished rows of every kind beside `held` leases that end in 2100 and later. The samples are of a
/// run that goes on.
async fn filled(ended: u32, held: u32) -> Client {
    let raw = Database::migrated().await.raw().await;
    let fill = format!(
        "INSERT INTO redrive.runs (queue, payload, submitted_at)
        SELECT 'q', '{{}}', 'epoch' FROM generate_series(1, {ended});
        INSERT INTO redrive.run_claims (epoch, queue, owner, lease_until, first_run, last_run, run_ids)
        SELECT n, 'q', 'w', timestamptz '2100-01-01' + n * interval '1 s', n, n, ARRAY[n]
        FROM generate_series(1::bigint, {held}) AS n;
        INSERT INTO redrive.upload_groups (upload, group_name, lease_owner, lease_until)
        SELECT 'u', 'g' || n, CASE WHEN held THEN 'w' END, CASE WHEN held THEN timestamptz '2100-01-01' END
        FROM (SELECT n, n <= {held} FROM generate_series(1, {ended} / 10 + {held}) AS n) AS given (n, held);
        INSERT INTO redrive.partition_state (source, customer_id, query_name, logical_date, updated_at)
        SELECT 's', 'c' || n, 'q', '2026-03-01', 'epoch' FROM generate_series(1, {ended} / 10 + {held}) AS n;
        INSERT INTO redrive.partition_work (partition_id, source, kind, lane, requested_at, requested_by,
            run_id, lease_owner, lease_until)
        SELECT id, 's', 'retry', 'fresh', 'epoch', 'a', CASE WHEN held THEN 'r' END,
            CASE WHEN held THEN 'w' END, CASE WHEN held THEN timestamptz '2100-01-01' END
        FROM (SELECT id, id <= {held} FROM redrive.partition_state) AS given (id, held);
        INSERT INTO redrive.pipeline_runs (pipeline, stages, rules, read_ahead, source, started_at,
            started_by, status, ended_at, lease_owner, lease_until)
        SELECT 'p', '{{a}}', '{{}}', 1, 's', 'epoch', 'a', CASE WHEN held THEN 'running' ELSE 'failed' END,
            CASE WHEN NOT held THEN timestamptz 'epoch' END, CASE WHEN held THEN 'w' END,
            CASE WHEN held THEN timestamptz '2100-01-01' END
        FROM (SELECT n <= {held} FROM generate_series(1, {ended} / 10 + {held}) AS n) AS given (held);
        INSERT INTO redrive.samples (run_id, line, data, status, lease_owner, lease_until)
        SELECT 1, n, '{{}}', CASE WHEN held THEN 'pending' ELSE 'succeeded' END,
            CASE WHEN held THEN 'w' END, CASE WHEN held THEN timestamptz '2100-01-01' END
        FROM (SELECT n, n <= {held} FROM generate_series(1, {ended} / 10 + {held}) AS n) AS given (n, held);
        ANALYZE redrive.runs, redrive.upload_groups, redrive.partition_work, redrive.pipeline_runs, redrive.samples"
    );
    raw.batch_execute(&fill).await.unwrap();
    raw.batch_execute(SESSION_SETTINGS).await.unwrap();
    raw
}

// RUN-7
#[tokio::test]
async fn looking_for_ended_leases_reads_nothing_of_what_has_ended() {
    let raw = filled(1_000_000, 500).await;
    let expired = &[("now", "'2026-01-01'"), ("owner", "NULL"), ("after", "0"), ("limit", "500")];
    // Ended leases are found among all that are held: 500 rows fill some pages.
    for kind in ["run", "group", "partition", "feed", "sample"] {
        let most = 60;
        let (page, next) = (format!("expired_{kind}_leases"), format!("next_{kind}_lease_end"));
        prepare(&raw, &page).await;
        prepare(&raw, &next).await;
        let pages = pages_touched(&raw, &page, expired).await;
        assert!(pages <= most, "{page} reads {pages} pages");
        let pages = pages_touched(&raw, &next, &[("after", "'epoch'")]).await;
        assert!(pages <= most, "{next} reads {pages} pages");
    }
}
