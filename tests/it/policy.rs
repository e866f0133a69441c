//! `redrive policy`.

use serde_json::{Value, json};
use snapbox::{assert_data_eq, file};

use crate::{databases::one_of_each, folder::Folder, shop::Shop};

const CONFIG: &str = r#"
jitter-seed = 7

[policy.gentle]
max-attempts = 5
base = "2s"
cap = "30s"
max-age = "1h"
retriable = [429, 503, "timeout"]
"#;

fn schedule(arguments: &[&str]) -> Value {
    let arguments = [&["policy", "schedule", "-o", "json"], arguments].concat();
    Folder::new().run(&arguments).json()
}

/// The waits alone.
fn waits(arguments: &[&str]) -> Vec<f64> {
    let schedule = schedule(arguments);
    let rows = schedule.as_array().unwrap().iter();
    rows.map(|row| row["delay_s"].as_f64().unwrap()).collect()
}

// POL-8
#[test]
fn policy_list_shows_the_presets_with_their_numbers() {
    let folder = Folder::new();
    assert_data_eq!(folder.run(&["policy", "list"]).ok(), file!["policy/list.txt"].raw());
    assert_data_eq!(
        folder.run(&["policy", "list", "-o", "json"]).ok(),
        file!["policy/list.json.txt"].raw()
    );
}

// POL-9
#[test]
fn policy_list_adds_the_policies_of_the_file() {
    let listed = Folder::with_config(CONFIG).run(&["policy", "list", "-o", "json"]).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["partition", "run", "upload", "stage", "gentle"]);
}

// POL-10
#[test]
fn policy_show_prints_the_policy_of_every_place_and_where_each_setting_is_from() {
    let config = format!(
        "{CONFIG}[[queue]]\nname = \"orders\"\nhandler = {{ exec = [\"/bin/true\"] }}\npolicy = \"gentle\"\n\
         [[source]]\nname = \"ads\"\ncustomers = [\"1\"]\nqueries = [\"q\"]\n\
         extract = {{ exec = [\"/bin/true\"] }}\npolicy = {{ max-attempts = 4 }}\n\
         [[upload]]\nname = \"tiles\"\nurl = \"http://127.0.0.1:9/\"\nmax-in-call-retries = 1\n"
    );
    let folder = Folder::with_config(&config);
    let shown = folder.run(&["policy", "show", "-o", "json"]).json();
    let rows: Vec<_> = shown.as_array().unwrap().iter().collect();
    let told = |row: &Value| json!([row["place"], row["name"], row["base_s"], row["jitter"]]);
    assert_eq!(
        rows.iter().map(|row| told(row)).collect::<Vec<_>>(),
        [
            json!(["queue:orders", "gentle", 2, "none"]),
            json!(["source:ads", "inline", 300, "30s"]),
            json!(["upload:tiles", "upload", 2, "none"]),
        ]
    );
    let origin = |row: usize, setting: &str| rows[row]["origins"][setting].as_str().unwrap();
    assert_eq!((origin(0, "base"), origin(0, "jitter")), ("policy gentle", "preset run"));
    assert_eq!((origin(1, "max-attempts"), origin(1, "base")), ("inline", "preset partition"));
    assert_eq!(origin(2, "cap"), "preset upload");
    let one = folder.run(&["policy", "show", "queue:orders", "-o", "json"]).json();
    assert_eq!(one, json!([rows[0]]));
    assert_eq!(folder.run(&["policy", "show", "gentle", "-o", "json"]).json(), one);
    let waits = |name: &str| {
        let schedule = ["policy", "schedule", "--preset", name, "--attempts", "3", "-o", "json"];
        let rows = folder.run(&schedule).json();
        rows.as_array().unwrap().iter().map(|row| row["delay_s"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(waits("gentle"), [2, 4, 8], "over the preset of its place, without jitter");
    assert_eq!(waits("upload:tiles"), [2, 60, 2]);
    let table = folder.run(&["policy", "show", "source:ads"]).ok();
    assert!(table.contains("4  (inline)") && table.contains("5m  (preset partition)"), "{table}");
}

// POL-10
#[test]
fn a_rule_has_its_place_in_policy_show_and_a_schedule_of_its_own() {
    let config = "[[queue]]\nname = \"orders\"\nhandler = { exec = [\"/bin/true\"] }\n\
                  policy = { rule = [{ code = [529], base = \"5m\", max-attempts = 4 },\n\
                  { origin = [\"timeout\"], base = \"7s\", max-attempts = 2 }] }\n";
    let folder = Folder::with_config(config);
    let shown = folder.run(&["policy", "show", "queue:orders", "-o", "json"]).json();
    let rule = json!({ "code": [529], "base_s": 300, "max_attempts": 4 });
    assert_eq!(shown[0]["rules"][0], rule);
    assert_eq!(shown[0]["origins"]["rule"], "inline");
    let table = folder.run(&["policy", "show", "queue:orders"]).ok();
    assert!(table.contains("1. code 529: max-attempts 4, base 5m; 2. "), "{table}");
    let waits = |flags: &[&str]| {
        let arguments = [&["policy", "schedule", "--policy", "queue:orders", "-o", "json"], flags];
        let rows = folder.run(&arguments.concat()).json();
        rows.as_array().unwrap().iter().map(|row| row["delay_s"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(waits(&["--code", "529"]), [300, 600, 1200]);
    assert_eq!(waits(&["--attempts", "2"]), [60, 120]);
    assert_eq!(waits(&["--code", "timeout"]), [7], "a timeout has an origin of its own");
    assert_eq!(waits(&["--code", "404"]), [0; 0], "a final failure is not retried");
}

// POL-10, POL-6
#[test]
fn a_rule_decides_about_the_failures_that_it_names() {
    let config = "[[queue]]\nname = \"work\"\nhandler = { exec = [\"/bin/sh\", \"work.sh\"] }\n\
                  policy = { base = \"1ms\", max-attempts = 2, rule = [\n\
                  { code = [7], base = \"2ms\", max-attempts = 3 },\n\
                  { class = [\"final\"], retriable = \"all\", base = \"3ms\" }] }\n";
    let [sqlite, postgres] = [Folder::new(), Folder::new()];
    let [_, url] = one_of_each(&sqlite);
    for (folder, store) in [(sqlite, "sqlite:store.db"), (postgres, url.as_str())] {
        let shop = Shop::selling(folder, store, config, "exit \"$REDRIVE_CATEGORY\"");
        let ids = shop.drained(&["7", "8", "65"]);
        let rules = |place: usize| {
            let story = shop.why(ids[place]);
            let attempts = story["attempts"].as_array().unwrap().iter();
            attempts.map(|row| row["rule"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let exhausted = "gave up: attempts_exhausted: ";
        assert_eq!(
            rules(0),
            [
                "by rule 1: counted failure 1 of 3: 2ms × 2^0 = 2ms",
                "by rule 1: counted failure 2 of 3: 2ms × 2^1 = 4ms",
                &format!("by rule 1: {exhausted}counted failure 3 of 3"),
            ]
        );
        let plain = ["counted failure 1 of 2: 1ms × 2^0 = 1ms", "counted failure 2 of 2"];
        assert_eq!(rules(1), [plain[0].to_owned(), format!("{exhausted}{}", plain[1])]);
        let retried = "final, but retriable = all: ";
        assert_eq!(
            rules(2),
            [
                format!("by rule 2: counted failure 1 of 2: {retried}3ms × 2^0 = 3ms"),
                format!("by rule 2: {exhausted}{retried}counted failure 2 of 2"),
            ]
        );
    }
}

// POL-9
#[test]
fn policy_show_prints_every_setting() {
    let folder = Folder::with_config(CONFIG);
    assert_data_eq!(folder.run(&["policy", "show", "gentle"]).ok(), file!["policy/show.txt"].raw());
    assert_eq!(
        folder.run(&["policy", "show", "gentle", "-o", "json"]).json(),
        json!([{
            "name": "gentle",
            "place": null,
            "max_attempts": 5,
            "max_age_s": 3600,
            "backoff": "exponential",
            "base_s": 2,
            "multiplier": 2.0,
            "cap_s": 30,
            "jitter": "25%",
            "retriable": [429, 503, "timeout"],
            "max_hint_s": 86400,
            "max_deferrals": 100,
            "max_lost": null,
            "max_logical_age_s": null,
            "rules": [],
            "origins": {
                "max-attempts": "policy gentle", "max-age": "policy gentle", "backoff": "default",
                "base": "policy gentle", "multiplier": "default", "cap": "policy gentle",
                "jitter": "default", "retriable": "policy gentle", "max-hint": "default",
                "max-deferrals": "default", "max-lost": "default", "max-logical-age": "default",
                "rule": "default",
            },
        }])
    );
}

// POL-9
#[test]
fn a_schedule_in_json_is_a_plain_list_of_attempts_and_delays() {
    assert_eq!(
        schedule(&["--preset", "run", "--attempts", "8"]),
        json!([
            {"attempt": 1, "delay_s": 60},
            {"attempt": 2, "delay_s": 120},
            {"attempt": 3, "delay_s": 240},
            {"attempt": 4, "delay_s": 480},
            {"attempt": 5, "delay_s": 960},
            {"attempt": 6, "delay_s": 1920},
            {"attempt": 7, "delay_s": 3600},
            {"attempt": 8, "delay_s": 3600},
        ])
    );
    let lines = Folder::new()
        .run(&["policy", "schedule", "--preset", "upload", "--attempts", "2", "-o", "jsonl"])
        .ok();
    assert_eq!(lines, "{\"attempt\":1,\"delay_s\":2}\n{\"attempt\":2,\"delay_s\":4}\n");
}

// POL-9
#[test]
fn a_schedule_as_a_table_marks_where_the_policy_gives_up() {
    let folder = Folder::new();
    let past_the_end =
        ["policy", "schedule", "--preset", "stage", "--jitter", "none", "--attempts", "5"];
    assert_data_eq!(folder.run(&past_the_end).ok(), file!["policy/schedule.txt"].raw());
    let before_the_end = ["policy", "schedule", "--preset", "run", "--plot"];
    assert_data_eq!(folder.run(&before_the_end).ok(), file!["policy/plot.txt"].raw());
    let endless = ["policy", "schedule", "--preset", "partition", "--jitter", "none"];
    assert_data_eq!(folder.run(&endless).ok(), file!["policy/endless.txt"].raw());
}

// POL-9
#[test]
fn flags_override_the_fields_of_the_preset() {
    #[track_caller]
    fn check(arguments: &[&str], expected: &[f64]) {
        assert_eq!(waits(arguments), expected, "{arguments:?}");
    }
    // Three retries in one call; the next call comes after the cap, and begins again.
    let calls = [2.0, 4.0, 8.0, 60.0, 2.0, 4.0];
    check(&["--preset", "upload", "--attempts", "6"], &calls);
    check(&["--preset", "upload", "--cap", "10s"], &[2.0, 4.0, 8.0, 10.0]);
    check(
        &["--preset", "run", "--base", "1s", "--multiplier", "3", "--attempts", "3"],
        &[1., 3., 9.],
    );
    check(&["--preset", "run", "--backoff", "linear", "--attempts", "3"], &[60.0, 120.0, 180.0]);
    check(&["--preset", "run", "--backoff", "fixed", "--attempts", "3"], &[60.0, 60.0, 60.0]);
    check(&["--base", "250ms", "--jitter", "none", "--attempts", "2"], &[0.25, 0.5]);
    check(&["--preset", "run", "--max-attempts", "3"], &[60.0, 120.0]);
    check(&["--preset", "upload", "--max-attempts", "1"], &[2.0]);
    let endless = waits(&["--preset", "upload", "--max-attempts", "none"]);
    assert_eq!(endless.len(), 10);
}

// POL-5
#[test]
fn a_long_schedule_ends_at_the_cap() {
    let waits = waits(&["--preset", "run", "--attempts", "10000"]);
    assert_eq!((waits.len(), waits[9_999]), (10_000, 3_600.0));
}

// POL-3
#[test]
fn jitter_stays_within_its_bounds_after_the_cap() {
    let waits = waits(&["--base", "3s", "--cap", "3s", "--jitter", "25%", "--attempts", "1000"]);
    assert!(waits.iter().all(|wait| (2.25..=3.75).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait < 2.5) && waits.iter().any(|wait| *wait > 3.5));
}

// POL-4
#[test]
fn a_unit_waits_the_same_whenever_it_is_asked() {
    let of_unit = |unit: &str| waits(&["--preset", "stage", "--unit", unit, "--attempts", "5"]);
    assert_eq!(of_unit("run:7"), of_unit("run:7"));
    assert_ne!(of_unit("run:7"), of_unit("run:8"));
    assert_ne!(of_unit("run:7"), of_unit("sample:7/llm"));

    let arguments = ["policy", "schedule", "--preset", "stage", "-o", "json"];
    let seeded = Folder::with_config("jitter-seed = 1").run(&arguments).json();
    assert_ne!(seeded, Folder::with_config("jitter-seed = 2").run(&arguments).json());
    assert_eq!(
        Folder::with_config("jitter-seed = 0").run(&arguments).json(),
        Folder::new().run(&arguments).json()
    );
}

// POL-9
#[test]
fn a_policy_of_the_file_has_a_schedule_too() {
    let folder = Folder::with_config(CONFIG);
    let arguments = ["--preset", "gentle", "--jitter", "none", "-o", "json"];
    let schedule = folder.run(&[&["policy", "schedule"], &arguments[..]].concat()).json();
    let waits: Vec<_> = schedule.as_array().unwrap().iter().map(|row| &row["delay_s"]).collect();
    assert_eq!(waits, [2, 4, 8, 16]);
}

// POL-5, POL-9
#[test]
fn a_wrong_setting_is_refused_with_its_name_its_value_and_what_is_allowed() {
    #[track_caller]
    fn check(arguments: &[&str], parts: &[&str]) {
        let folder = Folder::new();
        let complaint = folder.run(&[&["policy", "schedule"], arguments].concat()).failed(2);
        for part in parts {
            assert!(complaint.contains(part), "{part:?} is not in {complaint}");
        }
    }
    check(&["--base", "90"], &["--base", "\"90\"", "the unit is missing"]);
    check(&["--base", "-5s"], &["--base", "\"-5s\"", "negative"]);
    check(&["--base", "0s"], &["--base", "0s", "longer than zero"]);
    check(&["--base", "5 parsecs"], &["--base", "\"5 parsecs\"", "write a number and a unit"]);
    check(&["--base", "1mo"], &["--base", "\"1mo\"", "days"]);
    check(&["--base", "99999999h"], &["--base", "\"99999999h\"", "36500d"]);
    check(&["--base", ""], &["--base", "write a number and a unit"]);
    check(&["--cap", "100ms"], &["--cap", "100ms", "at least the base, 1s"]);
    check(&["--multiplier", "NaN"], &["--multiplier", "NaN", "finite"]);
    check(&["--multiplier", "inf"], &["--multiplier", "inf", "finite"]);
    check(&["--multiplier", "1e999"], &["--multiplier", "1e999", "finite"]);
    check(&["--multiplier", "0"], &["--multiplier", "0", "from 1 to 1000"]);
    check(&["--multiplier", "-2"], &["--multiplier", "-2", "from 1 to 1000"]);
    check(&["--multiplier", "two"], &["--multiplier", "two", "number"]);
    check(&["--jitter", "0%"], &["--jitter", "0%", "above 0%"]);
    check(&["--jitter", "150%"], &["--jitter", "150%", "up to 100%"]);
    check(&["--jitter", "-5%"], &["--jitter", "-5%", "above 0%"]);
    check(&["--jitter", "nan%"], &["--jitter", "nan%", "a share such as 25%"]);
    check(&["--jitter", "25"], &["--jitter", "\"25\"", "a share such as 25%"]);
    check(&["--jitter", "0s"], &["--jitter", "0s", "longer than zero"]);
    check(&["--backoff", "quadratic"], &["--backoff", "quadratic", "fixed, linear, exponential"]);
    check(&["--max-attempts", "0"], &["--max-attempts", "0", "at least 1"]);
    check(&["--max-attempts", "-1"], &["--max-attempts", "-1", "from 1 to 4294967295"]);
    check(&["--max-attempts", "4294967296"], &["--max-attempts", "from 1 to 4294967295"]);
    check(&["--attempts", "0"], &["--attempts", "0", "1..=10000"]);
    check(&["--attempts", "10001"], &["--attempts", "10001", "1..=10000"]);
    check(&["--attempts", "1.5"], &["--attempts", "1.5"]);
    check(&["--unit", "seven"], &["--unit", "seven", "run:ID"]);
    check(&["--unit", "run:+7"], &["--unit", "+7", "a whole number from 1"]);
    check(&["--unit", "partition:a/b/c/2023-02-29"], &["--unit", "2023-02-29", "YYYY-MM-DD"]);
    check(&["--plot", "-o", "json"], &["--plot"]);
}

#[test]
fn a_wrong_setting_does_not_hide_another() {
    let folder = Folder::new();
    let arguments = ["policy", "schedule", "--max-attempts", "0", "--multiplier", "0.5"];
    let complaint = folder.run(&arguments).failed(2);
    assert!(complaint.contains("--max-attempts = 0"), "{complaint}");
    assert!(complaint.contains("--multiplier = 0.5"), "{complaint}");
}

#[test]
fn an_unknown_policy_is_refused_with_the_nearest_known_one() {
    let folder = Folder::with_config(CONFIG);
    for arguments in [&["show", "gentel"][..], &["schedule", "--preset", "gentel"]] {
        let complaint = folder.run(&[&["policy"], arguments].concat()).failed(2);
        assert_eq!(
            complaint,
            "error: there is no policy \"gentel\"\n  help: did you mean `gentle`?\n"
        );
    }
    let complaint = folder.run(&["policy", "show", "xyz"]).failed(2);
    assert!(
        complaint.contains("known names: partition, run, upload, stage, gentle"),
        "{complaint}"
    );
}
