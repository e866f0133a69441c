//! `redrive why sample:ID`.

use serde_json::{Value, json};

use super::mill::{CONFIG, Mill};

/// The rules behind the attempts at a stage.
fn rules(story: &Value, stage: usize) -> Vec<&str> {
    let attempts = story["stages"][stage]["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["rule"].as_str().unwrap()).collect()
}

fn next(story: &Value) -> &str {
    story["next"]["because"].as_str().unwrap()
}

// OPS-3, PIP-3
#[test]
fn the_story_of_a_sample_goes_over_all_its_stages() {
    for mill in Mill::both(&["flaky", "down", "skip", "not JSON"]) {
        mill.grind(1);
        let why = |unit: &str| mill.told(&["why", unit], 0);
        let flaky = why("sample:1");
        assert_eq!(flaky["unit"], "sample:1/sift");
        assert_eq!(rules(&flaky, 0), ["counted failure 1 of 3: 10ms × 2^0 = 10ms", "succeeded"]);
        assert_eq!(rules(&flaky, 1), ["succeeded"]);
        assert_eq!(next(&flaky), "done: `redrive pipeline output 1` prints the sample");
        let down = why("sample:2");
        assert_eq!(rules(&down, 0)[2], "gave up: attempts_exhausted: counted failure 3 of 3");
        assert_eq!(down["stages"][1]["outcome"], "not reached");
        assert!(next(&down).ends_with("`redrive dlq reprocess 2` retries the sample"), "{down}");
        assert_eq!(next(&why("sample:3")), "done: stage grind skipped the sample: only stones");
        let line = why("sample:4");
        assert_eq!(line["stages"][0]["stage"], "source");
        assert!(next(&line).contains("the line in the source is not a sample"), "{line}");

        mill.told(&["dlq", "reprocess", "2", "--reason", "oiled"], 0);
        let back = why("sample:2");
        assert_eq!(next(&back), "ready: the next free worker claims the sample at stage grind");
        let actions = back["journal"].as_array().unwrap().iter().map(|row| &row["action"]);
        assert_eq!(actions.collect::<Vec<_>>(), ["sample.dead", "sample.reprocess"]);
        mill.told(&["pipeline", "cancel", "1"], 0);
        assert!(
            next(&why("sample:2"))
                .ends_with("run 1 is cancelled: `redrive pipeline resume 1` resumes the run")
        );
        mill.told(&["pipeline", "resume", "1"], 1);
        assert_eq!(
            rules(&why("sample:2"), 0)[3..],
            [
                "counted failure 1 of 3: 10ms × 2^0 = 10ms",
                "counted failure 2 of 3: 10ms × 2^1 = 20ms",
                "gave up: attempts_exhausted: counted failure 3 of 3",
            ],
            "the count begins anew"
        );
        let one = why("sample:1/grind");
        assert_eq!((one["stages"].as_array().unwrap().len(), rules(&one, 0).len()), (1, 2));
        let complaint = mill.run(&["why", "sample:1/sieve"]).failed(1);
        assert!(complaint.contains("the stages are grind, sift"), "{complaint}");
        let table = mill.run(&["why", "sample:2"]).ok();
        for part in
            ["\nstage grind: dead\nATTEMPT", "\nstage sift: not reached\n", "\nnext: nothing: "]
        {
            assert!(table.contains(part), "{part:?} is not in {table}");
        }
    }
}

// OPS-3
#[test]
fn a_sample_that_waits_says_until_when_and_why() {
    let config = CONFIG.replace("base = \"10ms\", cap = \"1s\"", "base = \"1h\", cap = \"2h\"");
    for mill in Mill::both_of(&config, &["down"]) {
        mill.detached();
        let mut worker = mill.shop.start_worker(&["--pipelines", "flour"]);
        worker.wait_for("retry in 1h");
        worker.signal("-TERM");
        worker.end();
        let story = mill.told(&["why", "sample:1"], 0);
        assert_eq!(story["next"]["state"], "waiting_for_retry");
        assert_eq!(story["next"]["at"], story["sample"]["next_retry_at"]);
        assert!(next(&story).contains("because counted failure 1 of 3: 1h × 2^0 = 1h"), "{story}");
        assert_eq!(mill.status()["pending"], json!(1));
    }
}
