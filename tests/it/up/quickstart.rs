//! `examples/quickstart` shows what the README says.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use super::{Process, days_ago};
use crate::{
    folder::Folder,
    source_tree::{root, source_files},
};

/// A copy of the example, with a fortnight of days whatever day it is.
pub(crate) struct Quickstart {
    pub(crate) folder: Folder,
    store: Option<String>,
}

impl Quickstart {
    /// A copy on its own store, or on another.
    pub(crate) fn copy(store: Option<String>) -> Self {
        let folder = Folder::new();
        let example = "examples/quickstart/";
        for file in source_files().iter().filter(|file| file.path.starts_with(example)) {
            let name = &file.path[example.len()..];
            folder.write(name, &file.text);
            let mode = fs::metadata(root().join(&file.path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o111 != 0, name.ends_with(".sh"), "{name} can be started or not");
            let copy = folder.path().join(name);
            fs::set_permissions(copy, fs::Permissions::from_mode(mode)).unwrap();
        }
        let config = folder.read("redrive.toml").replace("2026-11-01", &days_ago(14));
        folder.write("redrive.toml", config);
        Self { folder, store }
    }

    /// The flag that names the store, if it is not the one of the file.
    pub(crate) fn store(&self) -> Vec<&str> {
        self.store.as_deref().map(|store| vec!["--store", store]).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn told(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &self.store(), &["-o", "json", "-q", "-q"]].concat();
        self.folder.run(&arguments).json()
    }

    /// Whether all that goes on has come to its end: what failed once is good, the rest is given up.
    pub(crate) fn is_settled(&self) -> bool {
        let days = self.told(&["state", "inspect"]);
        let days = days.as_array().unwrap();
        let settled = |day: &Value| day["status"] == "success" || day["terminal"] == true;
        let runs = self.told(&["runs", "list"]);
        let runs = runs.as_array().unwrap();
        let ended = |run: &Value| {
            run["status"] != "discovered"
                && run["status"] != "processing"
                && run["next_retry_at"].is_null()
        };
        let pipelines = self.told(&["pipeline", "list"]);
        days.len() == 3 * 14
            && days.iter().all(settled)
            && !runs.is_empty()
            && runs.iter().all(ended)
            && pipelines[0]["status"] == "partial_success"
    }

    /// What the README shows can be seen.
    #[track_caller]
    pub(crate) fn check(&self) {
        let ends: Vec<Value> = self
            .told(&["runs", "list"])
            .as_array()
            .unwrap()
            .iter()
            .map(|run| json!([run["category"], run["status"], run["attempts"]]))
            .collect();
        assert_eq!(
            ends,
            [
                json!(["plain", "passed", 1]),
                json!(["plain", "passed", 1]),
                json!(["slow", "passed", 1]),
                json!(["flaky", "passed", 3]),
                json!(["busy", "passed", 2]),
                json!(["down", "error", 4]),
                json!(["broken", "error", 1]),
                json!(["odd", "needs_review", 1]),
                json!(["sold-out", "failed", 1]),
            ]
        );
        let days = self.told(&["state", "inspect"]);
        let days = days.as_array().unwrap();
        let of = |city: &str, end: &[char]| -> Vec<&Value> {
            let is_one = |day: &&Value| {
                let date = day["logical_date"].as_str().unwrap();
                day["customer_id"] == city && date.ends_with(end)
            };
            days.iter().filter(is_one).collect()
        };
        // Fourteen days in a row have every last digit.
        for (city, end, attempts, said) in [
            ("berlin", &['2', '7'][..], 2, None),
            ("lima", &['5'], 3, Some("struck by lightning")),
            ("nairobi", &['8'], 3, Some("celsius")),
        ] {
            let some = of(city, end);
            assert!(!some.is_empty(), "{city}");
            for day in some {
                assert_eq!(day["attempt_count"], attempts, "{day}");
                match said {
                    None => assert_eq!(day["status"], "success", "{day}"),
                    Some(said) => {
                        assert_eq!(
                            (&day["status"], &day["terminal"]),
                            (&json!("failed"), &json!(true))
                        );
                        assert!(day["error_message"].as_str().unwrap().contains(said), "{day}");
                    }
                }
            }
        }
        let run = &self.told(&["pipeline", "list"])[0];
        let counts =
            ["total", "succeeded", "skipped", "dlq"].map(|name| run[name].as_u64().unwrap());
        assert_eq!(counts, [12, 9, 1, 2], "{run}");
        let causes = self.told(&["dlq", "list", "--group"]);
        assert_eq!((&causes[0]["code"], &causes[0]["count"]), (&json!("unknown_word"), &json!(2)));
    }
}

// OPS-3, OPS-6, PAR-4, PIP-5, PIP-7, RUN-3
#[test]
fn one_command_shows_every_kind_of_failure_and_one_more_repairs_some() {
    let quickstart = Quickstart::copy(None);
    quickstart.folder.run(&["check"]).ok();
    let mut up = Process::up(&quickstart.folder, &["--interval", "1s", "."]);
    up.until("everything has come to its end", || quickstart.is_settled());
    quickstart.check();
    let (status, dead) = up.get("/v1/dead-letters");
    assert_eq!((status, dead.matches("unknown_word").count() > 0), (200, true), "{dead}");

    quickstart.folder.write("my-words.txt", "tee tea\nzucker sugar\n");
    quickstart.told(&["dlq", "reprocess", "--code", "unknown_word"]);
    up.until("the pipeline is completed", || {
        quickstart.told(&["pipeline", "list"])[0]["status"] == "completed"
    });
    let output = quickstart.folder.run(&["pipeline", "output"]).ok();
    assert!(output.contains("\"sugar\"") && output.lines().count() == 11, "{output}");
    up.signal("-TERM");
    assert_eq!(up.end().0, Some(143));
    quickstart.folder.run(&["doctor"]).ok();
}
