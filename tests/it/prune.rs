//! `redrive prune`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use redrive_engine::sha256_of;
use serde_json::Value;

use crate::{
    databases::{one_of_each, texts},
    folder::Folder,
    shop::Shop,
};

/// A queue and a pipeline of two stages.
pub(crate) const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms" }

[[queue]]
name = "patient"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 9, base = "1h", cap = "2h" }

[[pipeline]]
name = "mill"
source = { jsonl = "corn.jsonl" }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms", retriable = "by-class" }

[[pipeline.stage]]
name = "sift"
handler = { exec = ["/bin/sh", "work.sh"] }
lease = "1s"
policy = { max-attempts = 9, base = "10ms", cap = "50ms", retriable = "by-class" }
"#;

/// Runs fail by their category, samples by what they say.
pub(crate) const HANDLER: &str = r#"
read -r call
case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT:$call" in
flaky:1:*|down:*) exit 75 ;;
bad:*|*'"do":"bad"'*) exit 65 ;;
esac
echo '{"ok": {"do": "fine"}}'
"#;

/// Two go through, one dies, one is no sample.
pub(crate) const CORN: &str = r#"{"do":"fine"}
{"do":"fine"}
{"do":"bad"}
stones
"#;

/// Everything that was written to the folder `archive`.
pub(crate) struct Archive {
    /// Files by name.
    files: BTreeMap<String, String>,
}

impl Archive {
    pub(crate) fn read(shop: &Shop) -> Self {
        let folder = fs::read_dir(shop.folder.path().join("archive")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let whole = names.filter(|name| name.ends_with(".jsonl"));
        let read = |name: String| {
            let text = shop.folder.read(&format!("archive/{name}"));
            (name, text)
        };
        Self { files: whole.map(read).collect() }
    }

    /// The rows of a kind, each once: a prune that died has left some that the next one wrote again.
    fn rows(&self, kind: &str) -> Vec<Value> {
        let files = self.files.iter().filter(|(name, _)| name.starts_with(&format!("{kind}-")));
        let lines: BTreeSet<&str> = files.flat_map(|(_, text)| text.lines()).collect();
        lines.into_iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn statuses(&self, kind: &str) -> Vec<String> {
        let rows = self.rows(kind).into_iter();
        let mut statuses: Vec<_> =
            rows.map(|row| row["status"].as_str().unwrap().to_owned()).collect();
        statuses.sort();
        statuses
    }

    /// How many attempts each unit says it had.
    pub(crate) fn attempts(&self, kind: &str) -> Vec<(i64, u64)> {
        let of = |row: &Value| (row["id"].as_i64().unwrap(), row["attempts"].as_u64().unwrap());
        self.rows(kind).iter().map(of).collect()
    }

    /// Stage and number of every attempt at a unit.
    pub(crate) fn ledger(&self, kind: &str, id: i64) -> Vec<(String, u64)> {
        let rows = self.rows("attempts").into_iter();
        let of_unit = rows.filter(|row| row["kind"] == kind && row["unit_id"] == id);
        of_unit
            .map(|row| {
                (row["stage"].as_str().unwrap().to_owned(), row["attempt"].as_u64().unwrap())
            })
            .collect()
    }

    /// What the journal tells of files is so.
    #[track_caller]
    pub(crate) fn check_against_journal(&self, shop: &Shop, context: &str) {
        let told = texts(shop.store(), "SELECT details FROM journal WHERE action = 'prune.start'");
        assert!(!told.is_empty(), "{context}");
        for details in told {
            let details: Value = serde_json::from_str(&details).unwrap();
            for file in details["files"].as_array().unwrap() {
                let text = &self.files[file["name"].as_str().unwrap()];
                assert_eq!(file["sha256"], sha256_of(text.as_bytes()), "{context}: {file}");
                assert_eq!(file["rows"], text.lines().count(), "{context}: {file}");
            }
        }
    }
}

/// Finished runs, one that waits, and a pipeline run that ended, on each store.
fn shops() -> [Shop; 2] {
    let stores = one_of_each(&Folder::new());
    stores.map(|store| {
        let folder = Folder::new();
        let store = match store.starts_with("sqlite:") {
            true => format!("sqlite:{}", folder.path().join("store.db").display()),
            false => store,
        };
        folder.write("corn.jsonl", CORN);
        let shop = Shop::selling(folder, &store, CONFIG, HANDLER);
        for category in ["fine", "flaky", "bad"] {
            shop.submit(category);
        }
        shop.submit_to("patient", "down");
        shop.run(&["worker", "--drain", "--queues", "work", "-q", "-q"]).ok();
        assert_eq!(shop.run(&["pipeline", "run", "mill", "-q", "-q"]).code, Some(3));
        shop
    })
}

fn count(shop: &Shop, table: &str) -> u64 {
    // On PostgreSQL the ledger is two tables.
    let passes = "(SELECT id FROM attempts UNION ALL SELECT unit_id FROM pass_attempts) AS ledger";
    let in_two = table == "attempts" && shop.store().starts_with("postgres");
    let table = if in_two { passes } else { table };
    let counts = texts(shop.store(), &format!("SELECT CAST(count(*) AS text) FROM {table}"));
    counts[0].parse().unwrap()
}

const PRUNE: [&str; 5] = ["prune", "--older-than", "0s", "--export", "archive"];

fn prune(shop: &Shop, more: &[&str]) -> Value {
    shop.run(&[&PRUNE, more, &["--yes", "-o", "json"]].concat()).json()
}

fn pipeline_run(shop: &Shop) -> Value {
    shop.run(&["pipeline", "status", "1", "-o", "json"]).json()
}

// OPS-8
#[test]
fn what_is_finished_and_old_goes_to_files_and_leaves_the_store() {
    for shop in shops() {
        let before = pipeline_run(&shop);
        let (attempts, journal) = (count(&shop, "attempts"), count(&shop, "journal"));
        let young = shop.run(&[
            "prune",
            "--older-than",
            "1h",
            "--export",
            "archive",
            "--yes",
            "-o",
            "json",
        ]);
        assert_eq!(young.json()["runs"], 0, "nothing is that old");

        let done = prune(&shop, &["--reason", "spring"]);
        assert_eq!(
            (&done["runs"], &done["samples"], &done["left"]),
            (&3.into(), &4.into(), &0.into())
        );
        assert_eq!(done["attempts"], attempts, "the run that waits has none yet");
        let archive = Archive::read(&shop);
        archive.check_against_journal(&shop, shop.store());
        assert_eq!(archive.statuses("runs"), ["error", "passed", "passed"]);
        assert_eq!(archive.statuses("samples"), ["dlq", "dlq", "succeeded", "succeeded"]);
        assert_eq!(archive.rows("attempts").len() as u64, attempts);
        assert_eq!(archive.attempts("runs"), [(1, 1), (2, 2), (3, 1)]);
        assert_eq!(archive.ledger("run", 2), [("".to_owned(), 1), ("".to_owned(), 2)]);
        assert_eq!((count(&shop, "runs"), count(&shop, "samples")), (1, 0));
        assert_eq!(count(&shop, "attempts"), 0);
        assert_eq!(count(&shop, "journal"), journal + 2, "who did it, and how it ended");
        let told = "SELECT actor || ' ' || details FROM journal WHERE action = 'prune.start'";
        assert!(texts(shop.store(), told)[0].contains("\"reason\":\"spring\""));

        let mut after = pipeline_run(&shop);
        assert_eq!((&before["pruned"], after["pruned"].take()), (&0.into(), 4.into()));
        assert_eq!(before["total"], 4);
        for name in ["total", "succeeded", "skipped", "dlq", "pending", "status", "success_rate"] {
            assert_eq!(after[name], before[name], "{name}");
        }
        let status = shop.run(&["pipeline", "status", "1"]).ok();
        assert!(status.contains("4 of its 4 samples were pruned"), "{status}");
        shop.run(&["doctor"]).ok();
        let again = prune(&shop, &[]);
        assert_eq!((&again["runs"], &again["files"]), (&0.into(), &Value::Array(Vec::new())));
    }
}

// OPS-8
#[test]
fn an_exported_unit_has_every_field_that_was_shown_of_it() {
    for shop in shops() {
        let runs = shop.run(&["runs", "show", "1", "2", "3", "-o", "json"]).json();
        let dead = shop.run(&["dlq", "export"]).stdout;
        let dead = dead.lines().map(|line| serde_json::from_str(line).unwrap());
        let dead: Vec<Value> = dead.collect();
        prune(&shop, &[]);
        let archive = Archive::read(&shop);
        for (kind, shown) in [("runs", runs.as_array().unwrap()), ("samples", &dead)] {
            let rows = archive.rows(kind);
            assert!(!shown.is_empty());
            for unit in shown {
                let row = rows.iter().find(|row| row["id"] == unit["id"]).unwrap();
                let fields = unit.as_object().unwrap().iter();
                for (name, value) in fields.filter(|(name, _)| *name != "dlq_reason") {
                    assert_eq!(row.get(name), Some(value), "{kind} {name}: {row}");
                }
                assert!(row["lease_epoch"].is_i64(), "{row}");
                assert!(kind == "samples" || row.get("result").is_some(), "{row}");
            }
        }
    }
}

// OPS-8, RUN-6
#[test]
fn an_idempotency_key_is_free_when_its_run_is_gone() {
    for shop in shops() {
        let submit = [
            "runs",
            "submit",
            "--queue",
            "work",
            "--category",
            "fine",
            "--idempotency-key",
            "k",
            "-o",
            "json",
        ];
        let first = shop.run(&submit).json()["id"].as_i64().unwrap();
        shop.run(&["worker", "--drain", "--queues", "work", "-q", "-q"]).ok();
        assert_eq!(shop.run(&submit).json()["id"], first, "the same run");
        prune(&shop, &["--queue", "work"]);
        assert!(shop.run(&submit).json()["id"].as_i64().unwrap() > first, "another one");
    }
}

// OPS-8, OPS-4
#[test]
fn a_dry_run_and_a_question_that_nobody_answers_remove_nothing() {
    for shop in shops() {
        let dry = shop.run(&[&PRUNE[..], &["--dry-run", "-o", "json"]].concat()).json();
        assert_eq!(
            (&dry["runs"], &dry["samples"], &dry["dry_run"]),
            (&3.into(), &4.into(), &true.into())
        );
        let refused = shop.run(&PRUNE).failed(4);
        assert!(refused.contains("Write 3 runs, 4 samples and 0 plans to archive"), "{refused}");
        assert_eq!((count(&shop, "runs"), count(&shop, "samples")), (4, 4));
        assert!(!shop.folder.path().join("archive").exists());
    }
}

// OPS-8
#[test]
fn a_queue_or_a_pipeline_can_be_pruned_alone() {
    for shop in shops() {
        let done = prune(&shop, &["--pipeline", "other"]);
        assert_eq!((&done["runs"], &done["samples"]), (&0.into(), &0.into()));
        let done = prune(&shop, &["--queue", "work"]);
        assert_eq!((&done["runs"], &done["samples"]), (&3.into(), &0.into()));
        let done = prune(&shop, &["--queue", "work", "--pipeline", "mill"]);
        assert_eq!((&done["runs"], &done["samples"]), (&0.into(), &4.into()));
    }
}

// OPS-8, OPS-2
#[test]
fn a_pruned_store_goes_down_and_up_again_and_is_sound() {
    for shop in shops() {
        prune(&shop, &[]);
        shop.run(&["db", "rollback", "--to", "6", "--yes", "-q"]).ok();
        shop.run(&["db", "migrate", "-q"]).ok();
        assert_eq!(pipeline_run(&shop)["pruned"], 4);
        shop.run(&["doctor"]).ok();
    }
}

// OPS-8
#[test]
fn a_folder_that_cannot_be_written_removes_nothing() {
    for shop in shops() {
        shop.folder.write("file", "not a folder");
        let refused =
            shop.run(&["prune", "--older-than", "0s", "--export", "file/below", "--yes"]).failed(1);
        assert!(refused.contains("file/below"), "{refused}");
        assert_eq!((count(&shop, "runs"), count(&shop, "samples")), (4, 4));
    }
}

// OPS-8
#[test]
fn the_folder_is_that_of_the_command_or_of_the_file_or_nothing_is_removed() {
    let [shop, _] = shops();
    let refused = shop.run(&["prune", "--older-than", "0s", "--yes"]).failed(2);
    assert!(refused.contains("--export DIR") && refused.contains("[prune]"), "{refused}");
    let config = shop.folder.read("redrive.toml");
    shop.folder.write("redrive.toml", format!("[prune]\nexport = \"archive\"\n{config}"));
    let done = shop.run(&["prune", "--older-than", "0s", "--yes", "-o", "json"]).json();
    assert!(done["files"][0]["path"].as_str().unwrap().starts_with("[FOLDER]/archive/"), "{done}");
    assert!(!Archive::read(&shop).files.is_empty());
}
