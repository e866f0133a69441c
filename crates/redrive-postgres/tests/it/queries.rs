//! The statements: every file is used, and every statement fits the schema.

use std::{collections::BTreeSet, fs, path::Path};

use redrive_postgres::QUERIES;

use crate::server::Database;

/// Statements that only one of the databases needs.
const SQLITE_ALONE: [&str; 29] = [
    "remove_workers_of_other_boots",
    "count_cause",
    "insert_cause",
    "place_of_unit",
    "put_partition_failure",
    "return_cause",
    "changed_stretches",
    "held_stretches",
    "prunes",
    "queue_heads",
    "run_ends",
    "run_states",
    "claim_due_samples",
    "count_pruned_samples",
    "end_pruning",
    "last_item_attempt",
    "claim_runs_in",
    "end_feed_leases_of_other_boots",
    "end_group_leases_of_other_boots",
    "end_leases_of_other_boots",
    "end_partition_leases_of_other_boots",
    "end_plan_leases_of_other_boots",
    "end_sample_leases_of_other_boots",
    "live_pipeline_runs",
    "lone_category",
    "prune_attempts",
    "prune_logs",
    "read_lease_clock",
    "set_lease_clock",
];
const POSTGRES_ALONE: [&str; 25] = [
    "look_for_older_runs",
    "lock_gates",
    "share_gates",
    "unsettled_gate_keys",
    "pass_samples",
    "lock_due_runs",
    "lock_ready_runs",
    "lock_run_claims",
    "lock_runs",
    "moving_runs",
    "record_causes",
    "queue_stats",
    "insert_keyless_runs",
    "integrity_problems",
    "backfill_partitions",
    "lock_partition_work",
    "lock_partitions",
    "lock_pipeline_runs",
    "lock_items",
    "lock_plan",
    "lock_samples",
    "next_due",
    "notify_at_commit",
    "notify_wake",
    "read_server_clock",
];

fn files_of(krate: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("queries");
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|file| file.strip_suffix(".sql").expect("a statement").to_owned())
        .collect()
}

// OPS-1
#[tokio::test]
async fn every_statement_fits_the_schema() {
    let raw = Database::migrated().await.raw().await;
    raw.batch_execute("SET search_path = pg_catalog").await.unwrap();
    for query in QUERIES {
        let name = query.name();
        let sql = query.sql().replace("{selection}", "true").replace("{runs}", "redrive.runs");
        let sql = sql.replace("{beyond}", "<").replace("{order}", "DESC");
        let prepared = raw.prepare(&sql).await;
        let prepared =
            prepared.unwrap_or_else(|error| panic!("{name}: {}", error.as_db_error().unwrap()));
        assert_eq!(prepared.params().len(), query.parameters().len(), "{name}");
    }
}

#[test]
fn every_file_is_listed_once() {
    let listed: Vec<&str> = QUERIES.iter().map(|query| query.name()).collect();
    let distinct: BTreeSet<String> = listed.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(listed.len(), distinct.len());
    assert_eq!(distinct, files_of("redrive-postgres"));
}

// OPS-1
#[test]
fn the_names_are_those_of_the_other_store() {
    let without = |krate, alone: &[&str]| -> BTreeSet<String> {
        let mut files = files_of(krate);
        for name in alone {
            assert!(files.remove(*name), "{name}");
        }
        files
    };
    assert_eq!(
        without("redrive-postgres", &POSTGRES_ALONE),
        without("redrive-sqlite", &SQLITE_ALONE)
    );
}

/// No SQL asks a clock, decides a delay or names the schema's tables without the schema.
#[test]
fn statements_name_the_schema_and_ask_no_clock() {
    for query in QUERIES {
        let (name, lines) = (query.name(), query.sql().lines());
        let code: String = lines.filter(|line| !line.trim_start().starts_with("--")).collect();
        assert!(!code.contains("now()") && !code.contains("CURRENT_"), "{name}");
        let tables = [
            "runs",
            "run_states",
            "paused_queues",
            "items",
            "upload_groups",
            "partition_state",
            "partition_work",
            "pipeline_runs",
            "samples",
            "attempts",
            "journal",
            "journal_readers",
            "plans",
            "plan_units",
            "gates",
            "gate_keys",
            "gate_permits",
            "workers",
            "attempt_counts",
        ];
        for table in tables {
            for word in ["FROM", "JOIN", "INTO", "UPDATE"] {
                assert!(!code.contains(&format!("{word} {table} ")), "{name}: {word} {table}");
            }
        }
    }
}

/// Two arrays of one type that change places are an error that neither the compiler nor the server sees:
/// each array must be bound under the name of the column that it becomes.
#[test]
fn every_array_is_named_after_its_column() {
    let mut arrays = 0;
    for query in QUERIES {
        let (name, parameters) = (query.name(), query.parameters());
        // Arrays that are stored have no parameter.
        let calls =
            query.sql().split("unnest(").skip(1).filter(|call| call.trim_start().starts_with('$'));
        for call in calls {
            let (values, rest) = call.split_once(')').expect("the end of the call");
            let columns = rest.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            let columns = columns.expect("the names of the columns").0.split(',').map(str::trim);
            for (value, column) in values.split(',').map(str::trim).zip(columns) {
                let number = value.strip_prefix('$').and_then(|value| value.split_once("::"));
                let number: usize = number.expect("$number::type").0.parse().unwrap();
                let parameter = parameters[number - 1];
                let names = [column.to_owned(), format!("{column}s"), format!("pass_{column}")];
                let known = names.iter().any(|name| name == parameter);
                let plural = parameter == "categories" && column == "category";
                assert!(known || plural, "{name}: {parameter} as {column}");
                arrays += 1;
            }
        }
    }
    assert!(arrays > 200, "only {arrays} arrays were found");
}
