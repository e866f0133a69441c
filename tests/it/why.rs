//! `redrive why`.

use serde_json::{Value, json};
use snapbox::{assert_data_eq, file};

use crate::{folder::Folder, shop::Shop};

/// The same story whenever and by whomever it happened.
fn timeless(value: &mut Value) {
    match value {
        Value::String(text) => {
            let words = text.split(' ').map(|word| {
                let bare = word.trim_end_matches([',', ';', ':', ')']);
                let is_worker = bare.len() == 18 && bare.starts_with("w-");
                let stand_in = match bare.parse::<jiff::Timestamp>() {
                    Ok(_) => "[TIME]",
                    Err(_) if is_worker => "[WORKER]",
                    Err(_) => bare,
                };
                format!("{stand_in}{}", &word[bare.len()..])
            });
            *text = words.collect::<Vec<_>>().join(" ");
        }
        Value::Array(values) => values.iter_mut().for_each(timeless),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "took_s" => *value = "[SECONDS]".into(),
                    _ => timeless(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What comes next, in words.
#[track_caller]
fn next(shop: &Shop, id: i64) -> String {
    shop.why(id)["next"]["because"].as_str().unwrap().to_owned()
}

/// The rule behind each attempt.
#[track_caller]
fn rules(shop: &Shop, id: i64) -> Vec<String> {
    let story = shop.why(id);
    let attempts = story["attempts"].as_array().unwrap().iter();
    attempts.map(|attempt| attempt["rule"].as_str().unwrap().to_owned()).collect()
}

// OPS-3, OPS-4
#[test]
fn a_story_is_told_in_full_on_both_stores() {
    for shop in Shop::both() {
        let [id] = shop.drained(&["down"])[..] else { panic!() };
        shop.run(&["runs", "cancel", &id.to_string(), "--reason", "enough", "-o", "json"]).ok();
        let mut story = shop.why(id);
        timeless(&mut story);
        let told = serde_json::to_string_pretty(&story).unwrap() + "\n";
        assert_data_eq!(told, file!["why/story.json.txt"].raw());
        let table = shop.run(&["why", &format!("run:{id}")]).ok();
        for part in ["attempts\nATTEMPT", "10ms × 2^1 = 20ms", "\njournal\n", "\nnext: nothing: "]
        {
            assert!(table.contains(part), "{part:?} is not in {table}");
        }
    }
}

// OPS-3
#[test]
fn the_rule_behind_each_decision_is_named() {
    for shop in Shop::both() {
        let [flaky, limited, bad] = shop.drained(&["flaky", "limited", "bad"])[..] else {
            panic!()
        };
        assert_eq!(rules(&shop, flaky), ["counted failure 1 of 3: 10ms × 2^0 = 10ms", "succeeded"]);
        assert_eq!(
            rules(&shop, limited)[0],
            "the server asked for 2s, max-hint allows 30ms, not counted"
        );
        assert_eq!(
            rules(&shop, bad),
            ["gave up: final: code 65 is final, or the handler reported a final failure"]
        );
        assert_eq!(next(&shop, flaky), "done: the handler's verdict is passed");
        let given_up = next(&shop, bad);
        assert!(given_up.contains("gave up: final"), "{given_up}");
        assert!(given_up.contains(&format!("redrive runs retry {bad}")), "{given_up}");
    }
}

// OPS-3, POL-7
#[test]
fn a_deferral_that_counts_is_told_as_such() {
    for shop in Shop::both() {
        let limits = "max-attempts = 4, max-deferrals = 1";
        let config = shop.folder.read("redrive.toml").replacen("max-attempts = 3", limits, 1);
        let handler = shop.folder.read("work.sh").replace("limited:1)", "limited:*)");
        shop.folder.write("redrive.toml", config);
        shop.folder.write("work.sh", handler.replace("\"retry_after\": 2", "\"retry_after\": 60"));
        let [id] = shop.drained(&["limited"])[..] else { panic!() };
        let rules = rules(&shop, id);
        assert!(rules[0].contains("not counted"), "{rules:?}");
        for (n, rule) in (1..).zip(&rules[1..4]) {
            assert!(
                rule.starts_with(&format!("counted failure {n} of 4: the server asked")),
                "{rule}"
            );
            assert!(rule.contains("counted after 1 in a row"), "{rule}");
        }
        assert!(rules[4].starts_with("gave up: attempts_exhausted"), "{rules:?}");
    }
}

// OPS-3
#[test]
fn a_wait_that_the_policy_of_today_does_not_give_is_told_as_such() {
    let shop = Shop::on_sqlite();
    let [id] = shop.drained(&["flaky"])[..] else { panic!() };
    let changed = shop.folder.read("redrive.toml").replace("\"10ms\"", "\"1s\"");
    shop.folder.write("redrive.toml", changed);
    assert_eq!(
        rules(&shop, id)[0],
        "counted failure 1 of 3: wait 10ms, by a policy that has changed since"
    );
    shop.folder.write("redrive.toml", "");
    assert_eq!(rules(&shop, id)[0], "counted failure 1: wait 10ms", "as far as it is known");
}

// OPS-3
#[test]
fn what_comes_next_is_said_with_its_reason() {
    for shop in Shop::both() {
        let retried = shop.submit_to("patient", "down");
        let other = shop.submit_to("patient", "fine");
        let mut worker = shop.start_worker(&[]);
        worker.wait_for("retry in 1h");
        worker.signal("-TERM");
        assert_eq!(worker.end().0, Some(143));
        let waits = next(&shop, retried);
        assert!(waits.starts_with("waits until "), "{waits}");
        assert!(waits.contains("(counted failure 1 of 3: 1h × 2^0 = 1h)"), "{waits}");
        assert_eq!(shop.why(retried)["next"]["state"], "waiting_for_retry");
        let ready = next(&shop, other);
        assert!(ready.ends_with("but the queue does not accept the category \"fine\""), "{ready}");

        let late = ["--not-before", "2999-01-01T00:00:00Z", "-o", "json"];
        let late = [&["runs", "submit", "--queue", "work"], &late[..]].concat();
        let late = shop.run(&late).json()["id"].as_i64().unwrap();
        let story = shop.why(late);
        assert_eq!(story["next"]["at"], "2999-01-01T00:00:00Z");
        assert!(next(&shop, late).contains("the run was submitted to start no sooner"));

        shop.run(&["runs", "submit", "--queue", "nobody", "-q", "--allow-unknown"]).ok();
        assert!(next(&shop, late + 1).ends_with("declares no queue \"nobody\": unroutable"));
    }
}

// OPS-3
#[test]
fn a_run_under_way_names_its_worker() {
    for shop in Shop::both() {
        shop.make_gate();
        let id = shop.submit("gate");
        let mut worker = shop.start_worker(&["--queues", "work"]);
        worker.wait_for("initial attempt");
        let held = next(&shop, id);
        assert!(held.starts_with("attempt 1 is under way, held by w-"), "{held}");
        assert!(held.ends_with("s more unless renewed"), "{held}");
        shop.open_gate("go");
        worker.signal("-TERM");
        assert_eq!(worker.end().0, Some(143));
    }
}

// OPS-3, OPS-4
#[test]
fn a_unit_that_has_no_story_is_one_clear_message() {
    let folder = Folder::new();
    folder.run(&["db", "migrate"]).ok();
    let complaint = folder.run(&["why", "run:7"]).failed(1);
    assert!(complaint.contains("there is no run:7 in sqlite:"), "{complaint}");
    let complaint = folder.run(&["why", "item:7"]).failed(1);
    assert!(complaint.contains("there is no item:7 in sqlite:"), "{complaint}");
    for unit in ["sample:7", "sample:7/score"] {
        let complaint = folder.run(&["why", unit]).failed(1);
        assert!(complaint.contains("there is no sample:7 in sqlite:"), "{complaint}");
    }
    let complaint = folder.run(&["why", "partition:ads/1/daily/2026-01-31"]).failed(1);
    assert!(complaint.contains("partition:ads/1/daily/2026-01-31 has no entry"), "{complaint}");
    for unit in ["7", "run:", "run:seven", "run:0", "run:-1", "", "job:7", "sample:7/"] {
        let complaint = folder.run(&["why", unit]).failed(2);
        assert!(complaint.contains("is not allowed"), "{complaint}");
    }
    for unit in ["sample:", "sample:0", "sample:+1"] {
        let complaint = folder.run(&["why", unit]).failed(2);
        assert!(complaint.contains("an id is a whole number, 1 or greater"), "{complaint}");
    }
    let json = folder.run(&["runs", "list", "-o", "json"]).json();
    assert_eq!(json, json!([]));
}
