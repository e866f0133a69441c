//! Workers that serve pipelines.

use std::collections::BTreeSet;

use super::mill::{Mill, counts};
use crate::shop::Worker;

// OPS-7, PIP-1
#[test]
fn workers_share_a_run_and_nothing_is_done_twice() {
    for mill in Mill::both(&["fine"; 60]) {
        mill.detached();
        let drain = ["worker", "--drain", "--pipelines", "flour", "--concurrency", "2"];
        let workers = [0, 1, 2].map(|_| Worker::start(mill.shop.command(&drain)));
        for worker in workers {
            let (code, log) = worker.end();
            assert_eq!(code, Some(0), "{log}");
        }
        assert_eq!(counts(&mill.status()), [60, 60, 0, 0, 0]);
        let calls = mill.calls();
        assert_eq!(calls.len(), 120);
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), 120, "each once");
        mill.doctor();
    }
}

// OPS-7
#[test]
fn a_worker_serves_the_pipelines_it_is_asked_for_and_all_by_default() {
    for mill in Mill::both(&["fine"]) {
        mill.detached();
        for others in [&["--queues", "work"][..], &["--queues", ""]] {
            mill.run(&[&["worker", "--drain", "-q", "-q"], others].concat());
            assert_eq!(counts(&mill.status())[1], 0, "{others:?}");
        }
        mill.run(&["worker", "--drain", "-q", "-q"]).ok();
        assert_eq!(mill.status()["status"], "completed");
        let complaint = mill.run(&["worker", "--pipelines", "flower"]).failed(2);
        assert!(complaint.contains("no pipeline \"flower\""), "{complaint}");
        assert!(complaint.contains("did you mean `flour`?"), "{complaint}");
    }
}

// OPS-7
#[test]
fn a_worker_takes_a_run_that_starts_while_it_runs() {
    for mill in Mill::both(&["fine", "flaky"]) {
        let mut worker = mill.shop.start_worker(&[]);
        worker.wait_for("working");
        mill.detached();
        worker.wait_for("reading the source");
        while mill.status()["status"] != "completed" {
            std::thread::yield_now();
        }
        worker.signal("-TERM");
        assert_eq!(worker.end().0, Some(143));
    }
}
