//! What keeps the tree readable and its tests repeatable, checked by machine.
//!
//! Each check lists every offender with its place. Each also has a planted offender beside it, so that
//! a check which finds nothing is known to be able to.

mod shape;
mod stores;
mod words;

use crate::source_tree::source_files;

/// Fails with all of them at once.
#[track_caller]
fn none(offenders: Vec<String>, advice: &str) {
    assert!(offenders.is_empty(), "{advice}:\n  {}\n", offenders.join("\n  "));
}

#[test]
fn rust_files_are_short_enough_to_read() {
    none(
        source_files().iter().filter_map(shape::too_long).collect(),
        "split these files by concept; tests can have their own files",
    );
}

#[test]
fn files_and_folders_are_named_by_responsibility() {
    none(
        source_files().iter().filter_map(|file| shape::vaguely_named(&file.path)).collect(),
        "name these by what they are responsible for",
    );
}

#[test]
fn tests_are_named_as_sentences() {
    none(
        source_files().iter().flat_map(shape::tests_with_a_prefix).collect(),
        "name these tests as sentences that say what holds",
    );
}

#[test]
fn every_manifest_takes_the_lints_of_the_workspace() {
    none(
        source_files().iter().filter_map(shape::without_workspace_lints).collect(),
        "add `[lints] workspace = true`",
    );
}

#[test]
fn words_stay_where_they_belong() {
    let mut offenders = Vec::new();
    for rule in words::RULES {
        for file in source_files() {
            offenders.extend(words::offenders(rule, file));
        }
    }
    none(offenders, "these words have their own places, or none");
}

#[test]
fn no_exception_outlives_its_file() {
    none(words::outlived_exceptions(source_files()), "remove these exceptions");
}

#[test]
fn both_stores_have_the_same_migrations_up_and_down() {
    none(stores::unequal_migrations(source_files()), "both stores migrate in the same steps");
}

#[test]
fn both_stores_have_the_same_queries() {
    none(stores::unequal_queries(source_files()), "one file per query, the same names in both");
}
