//! The program, killed between the steps of its writes.
//!
//! Only a program with the feature `failpoints` can be; another has no trace of it.

#[cfg(feature = "failpoints")]
mod aftermath;
#[cfg(feature = "failpoints")]
mod partition_workload;
#[cfg(feature = "failpoints")]
mod pipeline_workload;
#[cfg(feature = "failpoints")]
mod plan_workload;
#[cfg(feature = "failpoints")]
mod prune_workload;
#[cfg(feature = "failpoints")]
mod steps;
#[cfg(feature = "failpoints")]
mod sweep;
#[cfg(feature = "failpoints")]
mod workload;

use std::collections::BTreeSet;

use crate::source_tree::source_files;

/// The names of all failpoints in the program.
fn failpoints_in_sources() -> BTreeSet<&'static str> {
    let written = source_files().iter().filter(|file| file.is_rust() && !file.is_test_code());
    let after_each = written.flat_map(|file| file.text.split("failpoint!(\"").skip(1));
    after_each.map(|rest| rest.split('"').next().unwrap()).collect()
}

#[cfg(not(feature = "failpoints"))]
#[test]
fn a_program_without_the_feature_has_no_failpoints() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_redrive")).unwrap();
    let program = String::from_utf8_lossy(&program);
    assert!(program.contains("REDRIVE_ATTEMPT"), "what the program knows is found in it");
    // One of each crate: looking for a word takes a while.
    let mut words: Vec<&str> = failpoints_in_sources().into_iter().collect();
    words.dedup_by_key(|name| name.split('.').next());
    words.push("REDRIVE_KILL_AT");
    for word in words {
        assert!(!program.contains(word), "{word}");
    }
}
