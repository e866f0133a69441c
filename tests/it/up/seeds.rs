//! What `[up]` names is put into the store once.

use super::{Process, folder};
use crate::databases::one_of_each;

// RUN-6
#[test]
fn starting_again_adds_nothing() {
    let here = folder();
    for store in one_of_each(&here) {
        let told = |arguments: &[&str]| {
            here.run(&[arguments, &["--store", &store, "-o", "json"]].concat()).json()
        };
        for _ in 0..2 {
            let mut up = Process::up(&here, &["--store", &store]);
            up.until("the pipeline is through", || {
                told(&["pipeline", "list"])[0]["status"] == "completed"
            });
            up.signal("-TERM");
            assert_eq!(up.end().0, Some(143));
        }
        assert_eq!(told(&["runs", "list"]).as_array().unwrap().len(), 1);
        assert_eq!(told(&["pipeline", "list"]).as_array().unwrap().len(), 1);
        let file = "{\"queue\": \"work\", \"payload\": 7, \"idempotency_key\": \"first\"}\n";
        here.write("runs.jsonl", file);
        let up = Process::up(&here, &["--store", &store]);
        up.signal("-TERM");
        let (code, log) = up.end();
        assert_eq!(code, Some(143));
        assert!(
            log.contains("the idempotency_key exists with other content"),
            "said, and left as it was: {log}"
        );
        here.write("runs.jsonl", "{\"queue\": \"work\", \"idempotency_key\": \"first\"}\n");
        here.run(&["doctor", "--store", &store]).ok();
    }
}

/// Killed when it has told the journal, and before there is a run: rather none than two.
// OPS-6
#[cfg(feature = "failpoints")]
#[test]
fn a_process_that_dies_between_telling_of_a_pipeline_and_starting_it_leaves_that_to_people() {
    let here = folder();
    let points = ["sqlite.pipeline_start.row:1", "postgres.pipeline_start.row:1"];
    for (store, point) in one_of_each(&here).into_iter().zip(points) {
        let told = |arguments: &[&str]| {
            here.run(&[arguments, &["--store", &store, "-o", "json"]].concat()).json()
        };
        let started = || told(&["pipeline", "list"]).as_array().unwrap().len();
        let up = ["up", "--store", &store, "--listen", "127.0.0.1:0"];
        let died = here.run_with(&[("REDRIVE_KILL_AT", point)], &up);
        assert_eq!(died.code, None, "it was killed: {}", died.stderr);
        let mut up = Process::up(&here, &["--store", &store]);
        up.until("the first run is through", || told(&["runs", "list"])[0]["status"] == "passed");
        assert_eq!(started(), 0);
        up.signal("-TERM");
        assert_eq!(up.end().0, Some(143));
        here.run(&["pipeline", "run", "flour", "--store", &store]).ok();
        assert_eq!(started(), 1);
        here.run(&["doctor", "--store", &store]).ok();
    }
}
