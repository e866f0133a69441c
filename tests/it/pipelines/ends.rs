//! How runs end, and what the program says of it.

use serde_json::{Value, json};

use super::mill::{Mill, counts};

// PIP-1, PIP-3, PIP-5, PIP-8, OPS-4
#[test]
fn a_run_ends_with_the_status_and_the_code_that_its_samples_come_to() {
    let nineteen = ["fine"; 19];
    let cases: [(&[&str], &str, i32, [u64; 5]); 8] = [
        (&["fine", "flaky"], "completed", 0, [2, 2, 0, 0, 0]),
        (&[&nineteen[..], &["bad"]].concat(), "completed", 0, [20, 19, 0, 1, 0]),
        (&[&nineteen[..17], &["bad"]].concat(), "partial_success", 3, [18, 17, 0, 1, 0]),
        (&["fine", "bad"], "partial_success", 3, [2, 1, 0, 1, 0]),
        (&["fine", "bad", "not JSON"], "failed", 1, [3, 1, 0, 2, 0]),
        (&["fine", "skip", "skip"], "completed", 0, [3, 1, 2, 0, 0]),
        (&["skip"], "completed", 0, [1, 0, 1, 0, 0]),
        (&[], "completed", 0, [0, 0, 0, 0, 0]),
    ];
    for mill in Mill::both(&[]) {
        for (samples, status, code, expected) in &cases {
            mill.deliver(samples);
            let run = mill.grind(*code);
            assert_eq!((&run["status"], counts(&run)), (&json!(status), *expected), "{samples:?}");
            assert_eq!(run["source_done"], true);
            assert_eq!(mill.status(), run, "what it printed is how it stands");
        }
        let listed = mill.told(&["pipeline", "list"], 0);
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|run| &run["id"]).collect();
        assert_eq!(ids, [8, 7, 6, 5, 4, 3, 2, 1], "the newest come first");
        mill.doctor();
    }
}

// PIP-1, PIP-3, PIP-5, PIP-8
#[test]
fn a_stage_that_fails_half_of_the_time_loses_what_fails_three_times() {
    for mill in Mill::both(&["half"; 100]) {
        let run = mill.grind(3);
        assert_eq!(
            (&run["status"], counts(&run)),
            (&json!("partial_success"), [100, 88, 0, 12, 0])
        );
        let stats = mill.told(&["pipeline", "stats", "1"], 0);
        let histogram = stats["stages"][0]["retry_histogram"].as_array().unwrap().iter();
        let histogram: Vec<_> =
            histogram.map(|row| json!([row["retries"], row["samples"]])).collect();
        assert_eq!(histogram, [json!([0, 50]), json!([1, 25]), json!([2, 25])]);
        let dead = "SELECT CAST(id AS TEXT) FROM samples WHERE status = 'dlq' AND attempts = 3 ORDER BY samples.id";
        let expected: Vec<String> = (7..100).step_by(8).map(|id: u32| id.to_string()).collect();
        assert_eq!(mill.texts(dead), expected);
        mill.doctor();
    }
}

// PIP-3, OPS-3
#[test]
fn a_json_log_names_the_run_the_stage_and_the_wait_of_every_retry() {
    for mill in Mill::both(&["fine", "down"]) {
        let ended = mill.run(&["pipeline", "run", "flour", "--log-format", "json"]);
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        let lines = ended.stderr.lines().map(|line| serde_json::from_str(line).expect(line));
        let lines: Vec<Value> = lines.filter(|line: &Value| line["sample"] == 2).collect();
        let told: Vec<_> = lines
            .iter()
            .map(|line| {
                let place = [&line["pipeline"], &line["pipeline_run"], &line["stage"]];
                assert_eq!(place, [&json!("flour"), &json!(1), &json!("grind")]);
                json!([line["attempt"], line["next_delay_ms"], line["message"]])
            })
            .collect();
        let expected = [
            json!([1, 10, "retry in 10ms"]),
            json!([2, 20, "retry in 20ms"]),
            json!([3, null, "dead: attempts_exhausted"]),
        ];
        assert_eq!(told, expected);
    }
}

// PLN-2
#[test]
fn a_plan_says_that_its_dead_letters_wait_for_an_aborted_run() {
    let config = super::mill::CONFIG
        .replace("every = 30", "every = 2")
        .replace("lease = \"1s\"", "lease = \"1s\"\nconcurrency = 1");
    for mill in Mill::both_of(&config, &["bad", "bad", "fine", "fine"]) {
        assert_eq!(mill.grind(1)["status"], "aborted");
        let new = ["plan", "new", "reprocess", "--kind", "sample", "--pipeline", "flour"];
        let plan = mill.told(&new, 0);
        let plan = mill.told(&["plan", "apply", &plan["id"].to_string()], 0);
        let waits = "2 pending units cannot end, because pipeline run 1 is aborted: `redrive pipeline resume 1`";
        assert_eq!((&plan["status"], &plan["waits_for"]), (&json!("done"), &json!([waits])));
        let shown = mill.run(&["plan", "show", "1"]).ok();
        assert!(shown.contains(waits), "{shown}");
    }
}

// PIP-6, PIP-8
#[test]
fn a_run_over_its_budget_is_aborted_and_goes_on_when_it_is_resumed() {
    let config = super::mill::CONFIG
        .replace("every = 30", "every = 2")
        .replace("lease = \"1s\"", "lease = \"1s\"\nconcurrency = 1");
    for mill in Mill::both_of(&config, &["bad", "bad", "fine", "flaky", "fine", "fine"]) {
        let run = mill.grind(1);
        assert_eq!(run["status"], "aborted");
        let because = run["stop_reason"].as_str().unwrap();
        assert_eq!(because, "failure rate 100 % exceeds the budget of 50 %: 2 of 2 failed");
        let [total, succeeded, skipped, dlq, pending] = counts(&run);
        assert_eq!(total, succeeded + skipped + dlq + pending);
        assert_eq!((dlq, run["budget_exceeded"].as_bool()), (2, Some(true)));
        let reprocessed = mill.run(&["dlq", "reprocess", "1"]);
        let stopped = "run 1 is aborted, so workers leave its samples alone; `redrive pipeline resume 1` continues it\n";
        assert_eq!((reprocessed.code, reprocessed.stderr.as_str()), (Some(0), stopped));
        let run = mill.told(&["pipeline", "resume", "1"], 3);
        assert_eq!((&run["status"], counts(&run)), (&json!("partial_success"), [6, 4, 0, 2, 0]));
        mill.mend();
        mill.told(&["dlq", "reprocess", "--run", "1"], 0);
        let run = mill.told(&["pipeline", "resume", "1"], 0);
        assert_eq!((&run["status"], counts(&run)), (&json!("completed"), [6, 6, 0, 0, 0]));
        assert_eq!((&run["stop_reason"], &run["budget_exceeded"]), (&Value::Null, &json!(false)));
        mill.doctor();
    }
}

// PIP-8, OPS-4
#[test]
fn a_cancelled_run_does_nothing_more_until_it_is_resumed() {
    for mill in Mill::both(&["fine", "fine"]) {
        let id = mill.detached();
        let cancelled = mill.told(&["pipeline", "cancel", &id, "--reason", "wrong corn"], 0);
        assert_eq!(cancelled["status"], "cancelled");
        let because = cancelled["stop_reason"].as_str().unwrap();
        assert!(because.ends_with(": wrong corn"), "{because}");
        mill.run(&["worker", "--drain", "-q", "-q"]).ok();
        assert_eq!(counts(&mill.status())[1], 0);
        let complaint = mill.run(&["pipeline", "cancel", &id]).failed(1);
        assert!(complaint.contains("run 1 is cancelled; nothing was changed"), "{complaint}");
        let resumed = mill.told(&["pipeline", "resume", &id], 0);
        assert_eq!(
            (&resumed["status"], &resumed["stop_reason"]),
            (&json!("completed"), &json!(null))
        );
        let complaint = mill.run(&["pipeline", "cancel", &id]).failed(1);
        assert!(complaint.contains("run 1 is completed"), "{complaint}");
    }
}

// PIP-8, OPS-6
#[test]
fn a_signal_stops_the_work_and_says_how_to_go_on() {
    for (mill, (signal, code)) in
        Mill::both(&["fine", "gate"]).iter().zip([("-TERM", 143), ("-INT", 130)])
    {
        mill.shop.make_gate();
        let arguments = ["pipeline", "run", "flour", "--grace", "50ms", "-v"];
        let mut run = crate::shop::Worker::start(mill.shop.command(&arguments));
        run.wait_for("the source was read to its end");
        let reached = "SELECT 'x' FROM samples WHERE status = 'succeeded' OR lease_owner IS NOT NULL \
                       AND line = 2";
        while mill.texts(reached).len() < 2 {
            std::thread::yield_now();
        }
        run.signal(signal);
        let (ended, said) = run.end();
        assert_eq!(ended, Some(code), "{said}");
        assert!(said.contains("`redrive pipeline resume 1` continues it"), "{said}");
        let run = mill.status();
        assert_eq!((&run["status"], &run["pending"]), (&json!("running"), &json!(1)));
        let handed_back = "SELECT 'x' FROM journal WHERE action = 'sample.handback'";
        assert_eq!(
            mill.texts(handed_back).len(),
            1,
            "{:?}",
            mill.texts("SELECT action FROM journal")
        );
        mill.deliver(&["fine", "gate"]);
        std::fs::remove_file(mill.shop.folder.path().join("gate")).unwrap();
        mill.shop.folder.write("gate", "open\n");
        assert_eq!(mill.told(&["pipeline", "resume", "1"], 0)["status"], "completed");
        mill.doctor();
    }
}

// PIP-6
#[test]
fn a_run_whose_samples_all_fail_is_aborted_after_min_samples() {
    let config = super::mill::CONFIG.replace("{ rate = 0.5, every = 30 }", "{ min-samples = 100 }");
    for mill in Mill::both_of(&config, &["bad"; 1000]) {
        let run = mill.grind(1);
        let [total, succeeded, skipped, dlq, pending] = counts(&run);
        assert_eq!((&run["status"], succeeded, skipped), (&json!("aborted"), 0, 0));
        // Samples end normally that were running, or had ended, when the excess was written.
        assert!(dlq >= 100 && pending > 0 && dlq + pending == total, "{run}");
        let why = run["stop_reason"].as_str().unwrap();
        assert!(why.ends_with("100 of 100 failed"), "{why}");
        mill.doctor();
    }
}
