//! Tests that measure their process need one of their own: in the common one, others use memory too.

use std::{env, process::Command};

const ALONE: &str = "REDRIVE_TEST_ALONE";

/// Does the work of a test, named as the test binary names it, in a process where nothing else runs.
#[track_caller]
pub(crate) fn alone<F: Future<Output = ()>>(test: &str, work: impl FnOnce() -> F) {
    if env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(work());
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(said.contains("1 passed"), "there is no test {test}: {said}");
}
