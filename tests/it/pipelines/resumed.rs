//! `redrive pipeline resume`, after a kill and after what people do to sources.

use serde_json::json;

use super::mill::{CONFIG, Mill, counts};
use crate::{faults::lasted_a_lease, shop::Worker};

// PIP-1, PIP-2, OPS-6
#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    for mill in Mill::both(&["fine", "flaky", "gate", "fine"]) {
        mill.shop.make_gate();
        let mut run = Worker::start(mill.shop.command(&["pipeline", "run", "flour", "-v"]));
        run.wait_for("the source was read to its end");
        let done = "SELECT 'x' FROM samples WHERE status = 'succeeded'";
        while mill.texts(done).len() < 3 {
            std::thread::yield_now();
        }
        run.signal("-KILL");
        run.end();
        let run = mill.status();
        assert_eq!((&run["status"], counts(&run)), (&json!("running"), [4, 3, 0, 0, 1]));
        std::fs::remove_file(mill.shop.folder.path().join("gate")).unwrap();
        mill.shop.folder.write("gate", "open\n");
        let run = mill.told(&["pipeline", "resume", "1"], 0);
        assert_eq!((&run["status"], counts(&run)), (&json!("completed"), [4, 4, 0, 0, 0]));
        let calls = [
            "grind 1", "grind 2", "grind 2", "grind 3", "grind 3", "grind 4", "sift 1", "sift 2",
            "sift 3", "sift 4",
        ];
        assert_eq!(mill.calls(), calls, "nothing that was finished is done again");
        let lost = "SELECT code FROM attempts WHERE unit_id = 3 AND outcome = 'retrying'";
        assert_eq!(mill.texts(lost), ["lost_worker"]);
        let story = mill.run(&["why", "sample:3/grind", "-o", "json"]).json();
        lasted_a_lease(&story["stages"][0]["attempts"][0]);
        mill.doctor();
    }
}

// PIP-2, OPS-4
#[test]
fn a_source_that_has_changed_is_refused_and_one_that_has_grown_is_read_on() {
    let config = CONFIG.replace("rate = 0.5, every = 30", "rate = 0.1, every = 1");
    let config = config.replace(
        "[[pipeline.stage]]\nname = \"grind\"",
        "read-ahead = 1\n[[pipeline.stage]]\nname = \"grind\"",
    );
    for mill in Mill::both_of(&config, &["bad", "fine", "fine"]) {
        assert_eq!(mill.grind(1)["status"], "aborted");
        let before = mill.status();
        assert_eq!((&before["source_done"], &before["lines_read"]), (&json!(false), &json!(1)));
        mill.deliver(&["fine", "fine", "fine"]);
        let complaint = mill.run(&["pipeline", "resume", "1"]).failed(4);
        assert!(complaint.contains("in.jsonl has changed: its first 1 lines"), "{complaint}");
        assert_eq!(mill.status(), before, "nothing was changed");
        std::fs::remove_file(mill.shop.folder.path().join("in.jsonl")).unwrap();
        mill.run(&["pipeline", "resume", "1"]).failed(1);
        assert_eq!(mill.status(), before, "nothing was changed");
        mill.deliver(&["bad", "fine", "fine", "fine"]);
        let run = mill.told(&["pipeline", "resume", "1"], 3);
        assert_eq!(counts(&run), [4, 3, 0, 1, 0]);
        mill.doctor();
    }
}

// PIP-2, OPS-4
#[test]
fn a_run_is_resumed_by_the_pipeline_it_began_with_or_not_at_all() {
    for mill in Mill::both(&["fine"]) {
        let id = mill.detached();
        mill.told(&["pipeline", "cancel", &id], 0);
        let write = |config: &str| {
            mill.shop.folder.write("redrive.toml", config);
        };
        write(&CONFIG.replace("\"sift\"", "\"sieve\""));
        let complaint = mill.run(&["pipeline", "resume", &id]).failed(4);
        assert!(
            complaint.contains("run 1 started with the stages grind, sift, but"),
            "{complaint}"
        );
        write(&CONFIG.replace("\"flour\"", "\"bread\""));
        let complaint = mill.run(&["pipeline", "resume", &id]).failed(1);
        assert!(
            complaint.contains("pipeline \"flour\", which the configuration does not declare"),
            "{complaint}"
        );
        write(CONFIG);
        assert_eq!(mill.told(&["pipeline", "status"], 0)["status"], "cancelled");
        mill.told(&["pipeline", "resume", &id, "--detach"], 0);
        assert_eq!(mill.status()["status"], "running");
        mill.told(&["pipeline", "resume", &id], 0);
        let complaint = mill.run(&["pipeline", "resume", &id]).failed(1);
        assert!(complaint.contains("run 1 is completed: the run has ended"), "{complaint}");
        let complaint = mill.run(&["pipeline", "resume", "7"]).failed(1);
        assert!(complaint.contains("there is no pipeline run 7"), "{complaint}");
    }
}

// PIP-2
#[test]
fn a_command_that_is_read_on_is_run_again_and_its_first_lines_are_passed_over() {
    let config = CONFIG
        .replace("{ jsonl = \"in.jsonl\" }", "{ exec = [\"/bin/sh\", \"source.sh\"] }")
        .replace("rate = 0.5, every = 30", "rate = 0.1, every = 1")
        .replace(
            "[[pipeline.stage]]\nname = \"grind\"",
            "read-ahead = 1\n[[pipeline.stage]]\nname = \"grind\"",
        );
    for mill in Mill::both_of(&config, &["bad", "fine", "fine"]) {
        mill.shop.folder.write("source.sh", "echo run >> sources; cat in.jsonl");
        assert_eq!(mill.grind(1)["status"], "aborted");
        let run = mill.told(&["pipeline", "resume", "1"], 3);
        assert_eq!(counts(&run), [3, 2, 0, 1, 0]);
        assert_eq!(mill.shop.folder.read("sources"), "run\nrun\n");
        mill.shop
            .folder
            .write("source.sh", "echo '{\"do\": \"fine\"}'; echo 'no more corn' >&2; exit 3");
        let ended = mill.run(&["pipeline", "run", "flour"]);
        assert_eq!(ended.code, Some(1), "{ended:#?}");
        let run = mill.status();
        assert_eq!(run["status"], "aborted");
        let because = run["stop_reason"].as_str().unwrap();
        assert!(because.contains("the source cannot be read: no more corn"), "{because}");
        mill.doctor();
    }
}
