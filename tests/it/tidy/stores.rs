//! The two stores side by side: the same migrations, the same queries.

use std::collections::{BTreeMap, BTreeSet};

use crate::source_tree::SourceFile;

const SQLITE: &str = "crates/redrive-sqlite";
const POSTGRES: &str = "crates/redrive-postgres";

/// Queries that one database alone needs, and why.
const ONE_SIDED_QUERIES: &[(&str, &str, &str)] = &[
    (POSTGRES, "read_server_clock.sql", "SQLite has no server to ask for the time"),
    (POSTGRES, "integrity_problems.sql", "SQLite has PRAGMA integrity_check"),
    (POSTGRES, "backfill_partitions.sql", "SQLite takes one at a time"),
    (POSTGRES, "lock_partitions.sql", "SQLite has one writer"),
    (POSTGRES, "lock_partition_work.sql", "SQLite has one writer"),
    (POSTGRES, "lock_pipeline_runs.sql", "SQLite has one writer"),
    (POSTGRES, "lock_runs.sql", "SQLite has one writer"),
    (POSTGRES, "lock_due_runs.sql", "SQLite has one writer"),
    (POSTGRES, "lock_ready_runs.sql", "SQLite has one writer"),
    (POSTGRES, "look_for_older_runs.sql", "SQLite keeps no dead index entries"),
    (POSTGRES, "lock_run_claims.sql", "SQLite has one writer"),
    (POSTGRES, "moving_runs.sql", "SQLite has one writer"),
    (POSTGRES, "pass_samples.sql", "SQLite finishes one sample at a time"),
    (POSTGRES, "lock_samples.sql", "SQLite has one writer"),
    (POSTGRES, "lock_plan.sql", "SQLite has one writer"),
    (POSTGRES, "lock_items.sql", "SQLite has one writer"),
    (POSTGRES, "lock_gates.sql", "SQLite has one writer"),
    (POSTGRES, "share_gates.sql", "SQLite has one writer"),
    (POSTGRES, "unsettled_gate_keys.sql", "SQLite reads the rows one by one anyway"),
    (POSTGRES, "notify_wake.sql", "SQLite has no other process to tell"),
    (POSTGRES, "notify_at_commit.sql", "SQLite has no other process to tell"),
    (POSTGRES, "next_due.sql", "SQLite's backlog query is cheap as a whole"),
    (POSTGRES, "insert_keyless_runs.sql", "SQLite takes one run at a time, with or without a key"),
    (POSTGRES, "queue_stats.sql", "SQLite counts what changed since it last did"),
    (POSTGRES, "record_causes.sql", "SQLite counts a batch in memory and writes it row by row"),
    (SQLITE, "place_of_unit.sql", "PostgreSQL's record_causes does it itself"),
    (SQLITE, "count_cause.sql", "PostgreSQL's record_causes does it itself"),
    (SQLITE, "insert_cause.sql", "PostgreSQL's record_causes does it itself"),
    (SQLITE, "return_cause.sql", "PostgreSQL's record_causes does it itself"),
    (SQLITE, "put_partition_failure.sql", "PostgreSQL's record_causes does it itself"),
    (SQLITE, "run_ends.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "prunes.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "held_stretches.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "changed_stretches.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "run_states.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "queue_heads.sql", "PostgreSQL counts all runs at once"),
    (SQLITE, "last_item_attempt.sql", "PostgreSQL's move_items does it itself"),
    (SQLITE, "lone_category.sql", "PostgreSQL's claim counts its categories itself"),
    (SQLITE, "claim_runs_in.sql", "PostgreSQL's claim counts its categories itself"),
    (SQLITE, "live_pipeline_runs.sql", "PostgreSQL's claims look for the runs themselves"),
    (SQLITE, "claim_due_samples.sql", "PostgreSQL's claim takes what is due and what is ready"),
    (SQLITE, "prune_attempts.sql", "PostgreSQL's prune_runs and prune_samples do it themselves"),
    (SQLITE, "prune_logs.sql", "PostgreSQL's prune_runs and prune_samples do it themselves"),
    (SQLITE, "count_pruned_samples.sql", "PostgreSQL's prune_samples does it itself"),
    (SQLITE, "end_pruning.sql", "a setting of PostgreSQL's transaction ends with it"),
    (SQLITE, "read_lease_clock.sql", "the boot clock's anchor is kept in the file"),
    (SQLITE, "set_lease_clock.sql", "the boot clock's anchor is kept in the file"),
    (SQLITE, "end_group_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "end_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "end_partition_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "end_sample_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "end_feed_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "end_plan_leases_of_other_boots.sql", "a server's clock goes on across boots"),
    (SQLITE, "remove_workers_of_other_boots.sql", "a server's clock goes on across boots"),
];

pub(super) fn unequal_migrations(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let sqlite = migrations(files, SQLITE, &mut problems);
    let postgres = migrations(files, POSTGRES, &mut problems);
    missing(&sqlite, &postgres, POSTGRES, "migrations", &mut problems);
    missing(&postgres, &sqlite, SQLITE, "migrations", &mut problems);
    problems
}

pub(super) fn unequal_queries(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut sqlite = names_in(files, SQLITE, "queries");
    let mut postgres = names_in(files, POSTGRES, "queries");
    for (store, query, _) in ONE_SIDED_QUERIES {
        let (one, other) =
            if *store == SQLITE { (&mut sqlite, &postgres) } else { (&mut postgres, &sqlite) };
        if !one.remove(*query) || other.contains(*query) {
            problems.push(format!("{store}/queries/{query}:1: is listed as one-sided and is not"));
        }
    }
    missing(&sqlite, &postgres, POSTGRES, "queries", &mut problems);
    missing(&postgres, &sqlite, SQLITE, "queries", &mut problems);
    problems
}

/// The names `NNNN_what` of a store's migrations, complaining about gaps and missing halves.
fn migrations(files: &[SourceFile], store: &str, problems: &mut Vec<String>) -> BTreeSet<String> {
    let mut halves: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for file in names_in(files, store, "migrations") {
        let half = ["up", "down"]
            .iter()
            .find_map(|half| Some((file.strip_suffix(&format!(".{half}.sql"))?.to_owned(), *half)));
        match half {
            Some((name, half)) => _ = halves.entry(name).or_default().insert(half),
            None => problems.push(format!(
                "{store}/migrations/{file}:1: is neither NNNN_what.up.sql nor NNNN_what.down.sql"
            )),
        }
    }
    for ((name, halves), number) in halves.iter().zip(1..) {
        for half in ["up", "down"].iter().filter(|half| !halves.contains(**half)) {
            problems.push(format!("{store}/migrations/{name}.{half}.sql:1: is missing"));
        }
        if !name.starts_with(&format!("{number:04}_")) {
            problems.push(format!("{store}/migrations/{name}:1: should be number {number:04}"));
        }
    }
    halves.into_keys().collect()
}

fn names_in(files: &[SourceFile], store: &str, folder: &str) -> BTreeSet<String> {
    let prefix = format!("{store}/{folder}/");
    files
        .iter()
        .filter_map(|file| file.path.strip_prefix(&prefix))
        .filter(|name| name.ends_with(".sql"))
        .map(str::to_owned)
        .collect()
}

fn missing(
    has: &BTreeSet<String>,
    lacks: &BTreeSet<String>,
    store: &str,
    folder: &str,
    problems: &mut Vec<String>,
) {
    for name in has.difference(lacks) {
        problems.push(format!("{store}/{folder}/{name}:1: is missing; the other store has it"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[String]) -> Vec<SourceFile> {
        paths.iter().map(|path| SourceFile::planted(path, "")).collect()
    }

    /// Two equal stores, then a change; checks how many problems that makes.
    #[track_caller]
    fn check(change: fn(&mut Vec<String>), problems: usize) {
        let mut paths = Vec::new();
        for store in [SQLITE, POSTGRES] {
            for name in ["0001_runs", "0002_items"] {
                paths.push(format!("{store}/migrations/{name}.up.sql"));
                paths.push(format!("{store}/migrations/{name}.down.sql"));
            }
            paths.push(format!("{store}/queries/claim_runs.sql"));
        }
        for (store, query, _) in ONE_SIDED_QUERIES {
            paths.push(format!("{store}/queries/{query}"));
        }
        change(&mut paths);
        let files = tree(&paths);
        let found = [unequal_migrations(&files), unequal_queries(&files)].concat();
        assert_eq!(found.len(), problems, "{found:#?}");
    }

    #[test]
    fn equal_stores_are_left_alone() {
        check(|_| (), 0);
    }

    #[test]
    fn a_migration_without_its_way_back_is_found() {
        check(
            |paths| paths.retain(|path| path != &format!("{SQLITE}/migrations/0001_runs.down.sql")),
            1,
        );
    }

    #[test]
    fn a_migration_of_one_store_alone_is_found() {
        check(
            |paths| paths.retain(|path| !path.starts_with(&format!("{POSTGRES}/migrations/0002"))),
            1,
        );
    }

    #[test]
    fn a_gap_or_a_stray_file_among_the_migrations_is_found() {
        check(|paths| paths.retain(|path| !path.contains("0001")), 2);
        check(|paths| paths.push(format!("{SQLITE}/migrations/0003.sql")), 1);
    }

    #[test]
    fn a_query_of_one_store_alone_is_found() {
        check(|paths| paths.push(format!("{SQLITE}/queries/finish_runs.sql")), 1);
        check(|paths| paths.push(format!("{POSTGRES}/queries/finish_runs.sql")), 1);
    }

    #[test]
    fn a_one_sided_query_that_is_not_is_found() {
        check(|paths| paths.push(format!("{SQLITE}/queries/read_server_clock.sql")), 2);
        check(|paths| paths.retain(|path| !path.ends_with("set_lease_clock.sql")), 1);
    }
}
