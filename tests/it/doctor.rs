//! `redrive doctor`.

use rusqlite::Connection;

use crate::{
    archive::Archive,
    databases::{execute, one_of_each},
    folder::{Ended, Folder},
    shop::Shop,
};

fn doctor(folder: &Folder, store: &str) -> Ended {
    folder.run(&["doctor", "--store", store, "-o", "json"])
}

/// What is wrong, as rows of `check` and `detail`.
fn findings(ended: &Ended) -> Vec<(String, String)> {
    let rows: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter();
    rows.filter(|row| row["ok"] == false)
        .map(|row| (text(&row["check"]), text(&row["detail"])))
        .collect()
}

// OPS-4
#[test]
fn a_store_as_it_must_be_has_no_findings() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        folder.run(&["db", "migrate", "--store", &store]).ok();
        let ended = doctor(&folder, &store);
        assert_eq!((ended.code, findings(&ended)), (Some(0), Vec::new()));
        for check in [
            "version",
            "configuration",
            "schema",
            "store",
            "lease clock",
            "durability",
            "invariants",
        ] {
            assert!(ended.stdout.contains(check), "{check} was not looked at");
        }
        assert!(!ended.stdout.contains("redrive_test:"), "no password: {}", ended.stdout);
    }
}

// OPS-4
#[test]
fn a_store_that_may_lose_what_was_acknowledged_is_a_warning_and_no_finding() {
    let folder = Folder::new();
    folder.run(&["db", "migrate", "--store", "sqlite:store.db"]).ok();
    for (synchronous, warns) in [("full", false), ("normal", true)] {
        let store =
            format!("[store]\nurl = \"sqlite:store.db\"\nsynchronous = \"{synchronous}\"\n");
        folder.write("redrive.toml", store);
        let ended = folder.run(&["doctor", "-o", "json"]);
        assert_eq!((ended.code, findings(&ended)), (Some(0), Vec::new()));
        let rows: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let rows = rows.as_array().unwrap();
        let durability = rows.iter().find(|row| row["check"] == "durability").unwrap();
        assert_eq!(durability["warning"], warns, "{durability}");
        let table = folder.run(&["doctor"]).stdout;
        assert_eq!(table.contains("warning"), warns, "{table}");
    }
}

// OPS-4
#[test]
fn a_store_without_a_schema_is_a_finding_and_is_left_alone() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        let ended = doctor(&folder, &store);
        assert_eq!(ended.code, Some(1));
        let [(check, detail)] = &findings(&ended)[..] else { panic!("{}", ended.stdout) };
        assert_eq!(check, "schema");
        assert!(detail.contains("redrive db migrate"), "{detail}");
    }
    assert!(!folder.path().join("store.db").exists());
}

// OPS-4
#[test]
fn a_broken_invariant_is_a_finding_on_both_stores() {
    let folder = Folder::new();
    let [sqlite, postgres] = one_of_each(&folder);
    for store in [&sqlite, &postgres] {
        folder.run(&["db", "migrate", "--store", store]).ok();
    }
    let connection = Connection::open(folder.path().join("store.db")).unwrap();
    let insert = "INSERT INTO runs (queue, payload, submitted_at, status, ready)
        VALUES ('q', '{}', 0, 'passed', 0)";
    connection.execute(insert, []).unwrap();
    execute(
        &postgres,
        "INSERT INTO redrive.runs (queue, payload, submitted_at) VALUES ('q', '{}', 'epoch');
            INSERT INTO redrive.run_states (id, queue, category, submitted_at, status)
            VALUES (1, 'q', '', 'epoch', 'passed')",
    );
    for store in [&sqlite, &postgres] {
        let ended = doctor(&folder, store);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        let [(check, detail)] = &findings(&ended)[..] else { panic!("{}", ended.stdout) };
        assert_eq!(check, "invariants");
        assert!(detail.contains("run:1: the run is passed"), "{detail}");
    }
}

// OPS-4, CAU-5
#[test]
fn a_count_of_a_cause_that_is_not_in_the_ledger_is_a_finding_on_both_stores() {
    let folder = Folder::new();
    let [sqlite, postgres] = one_of_each(&folder);
    for store in [&sqlite, &postgres] {
        folder.run(&["db", "migrate", "--store", store]).ok();
    }
    let columns = "(hour, fingerprint, kind, place, attempts, last_at, unit_id)";
    let insert = |table: &str, epoch: &str| {
        format!(
            "INSERT INTO {table} {columns} VALUES ({epoch}, '68af3934cc71cda7', 'run', 'q', 2, {epoch}, 1)"
        )
    };
    let connection = Connection::open(folder.path().join("store.db")).unwrap();
    connection.execute(&insert("cause_hours", "0"), []).unwrap();
    execute(&postgres, &insert("redrive.cause_hours", "'epoch'"));
    for store in [&sqlite, &postgres] {
        let ended = doctor(&folder, store);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        let [(check, detail)] = &findings(&ended)[..] else { panic!("{}", ended.stdout) };
        assert_eq!(check, "invariants");
        let wrong = "cause:68af3934cc71cda7: 2 failed run attempts are counted in the hour from \
                     1970-01-01T00:00:00Z, but the ledger has 0";
        assert!(detail.starts_with(wrong), "{detail}");
        assert!(detail.contains("find out who changed the tables"), "{detail}");
    }
}

// OPS-4
#[test]
fn everything_is_looked_at_also_after_the_first_trouble() {
    let folder = Folder::with_config("[store]\nurl = \"sqlite:store.db\"\ntypo = 1\n");
    let ended = folder.run(&["doctor", "-o", "json"]);
    let checks: Vec<String> = findings(&ended).into_iter().map(|(check, _)| check).collect();
    assert_eq!(checks, ["configuration", "store"], "no other store is looked at instead");
    let ended = folder.run(&["doctor", "--store", "sqlite:other.db", "-o", "json"]);
    let checks: Vec<String> = findings(&ended).into_iter().map(|(check, _)| check).collect();
    assert_eq!(checks, ["configuration", "schema"]);
}

#[test]
fn a_store_is_looked_at_and_not_changed() {
    let folder = Folder::new();
    folder.run(&["db", "migrate", "--store", "sqlite:store.db"]).ok();
    let before = std::fs::read(folder.path().join("store.db")).unwrap();
    folder.run(&["doctor", "--store", "sqlite:store.db"]).ok();
    folder.run(&["db", "status", "--store", "sqlite:store.db"]).ok();
    assert!(std::fs::read(folder.path().join("store.db")).unwrap() == before);
}

// OPS-4
#[test]
fn a_raw_sink_or_a_schema_that_cannot_be_used_is_a_finding() {
    let folder = Folder::new();
    let declared = |raw: &str| {
        format!(
            "[raw]\nurl = {raw:?}\n[[source]]\nname = \"ads\"\ncustomers = [\"1\"]\nqueries = [\"q\"]\n\
             extract = {{ exec = [\"true\"] }}\nvalidate = {{ schema = \"row.json\" }}\n"
        )
    };
    folder.write("row.json", r#"{"required": ["clicks"]}"#);
    folder.write("redrive.toml", declared("file:raw"));
    let store = "sqlite:store.db";
    folder.run(&["db", "migrate", "--store", store]).ok();
    let ended = doctor(&folder, store);
    assert_eq!((ended.code, findings(&ended)), (Some(0), Vec::new()));
    assert!(ended.stdout.contains("raw sink"), "{}", ended.stdout);
    assert!(!folder.path().join("raw").exists(), "it looks and changes nothing");

    folder.write("raw", "a file");
    folder.write("row.json", r#"{"type": "objekt"}"#);
    let ended = doctor(&folder, store);
    assert_eq!(ended.code, Some(1));
    let [(schema, why), (sink, where_to)] = &findings(&ended)[..] else {
        panic!("{}", ended.stdout)
    };
    assert_eq!((sink.as_str(), schema.as_str()), ("raw sink", "schema of rows"));
    assert!(where_to.contains("raw: not a directory"), "{where_to}");
    assert!(
        why.starts_with("source ads: ") && why.contains("row.json is not a usable JSON Schema"),
        "{why}"
    );
    assert!(why.contains("/type"), "{why}");

    folder.write("redrive.toml", declared("az://container/raw"));
    let found = findings(&doctor(&folder, store));
    assert!(found[1].1.contains("az://container/raw cannot hold raw partitions"), "{found:?}");
}

// PAR-11, OPS-4
#[test]
fn raw_data_that_is_missing_or_changed_is_a_finding() {
    for archive in Archive::both() {
        let keys =
            [1, 2, 3].map(|day| archive.good(&format!("ads/7/daily/2026-03-0{day}"), &["{}"]));
        archive.pending("ads/7/daily/2026-03-04");
        let clean = archive.run(&["doctor"]).ok();
        assert!(
            clean.contains("3 read as a sample of 4 partitions; `redrive state verify`"),
            "{clean}"
        );
        let payload = |place: usize| {
            let run_id = archive.partition(&keys[place]).unwrap().current_run_id.unwrap();
            archive.raw.location(&keys[place], &run_id).payload
        };
        std::fs::write(payload(1), "{\"n\": 1}\n").unwrap();
        std::fs::remove_file(payload(2)).unwrap();
        let ended = archive.run(&["doctor", "-o", "json"]);
        assert_eq!(ended.code, Some(1));
        let found = findings(&ended);
        assert_eq!(found.len(), 2, "{found:?}");
        for ((check, detail), key) in found.iter().zip(&keys[1..]) {
            assert_eq!(check, "raw partitions");
            assert!(detail.starts_with(&format!("partition:{key}: ")), "{detail}");
            assert!(detail.ends_with("`redrive state verify` checks all"), "{detail}");
        }
    }
}

// OPS-4
#[test]
fn units_that_no_worker_serves_are_warnings() {
    for shop in Shop::both() {
        let served = "the configuration declares the place of every unfinished unit";
        shop.submit("fine");
        assert!(shop.run(&["doctor"]).ok().contains(served));
        shop.run(&["runs", "submit", "--queue", "wrok", "-q", "--allow-unknown"]).ok();
        let day = ["--since", "2026-01-01", "--until", "2026-01-02", "--allow-unknown", "-q"];
        let names = ["--source", "adds", "--customer-id", "1", "--query-name", "q"];
        shop.run(&[&["state", "backfill"], &names[..], &day].concat()).ok();
        shop.run(&["runs", "submit", "--queue", "patient", "--category", "slow", "-q"]).ok();
        let config = shop.folder.read("redrive.toml");
        let upload = "[[upload]]\nname = \"tiles\"\nurl = \"http://127.0.0.1:1\"\n";
        shop.folder.write("redrive.toml", format!("{config}\n{upload}"));
        shop.run(&["uploads", "add", "--upload", "tiles", "--group", "g", "work.sh"]).ok();
        shop.folder.write("redrive.toml", config);
        let rows = shop.run(&["doctor", "-o", "json"]).json();
        let rows = rows.as_array().unwrap().iter().filter(|row| row["check"] == "served units");
        let rows: Vec<_> =
            rows.map(|row| (&row["warning"], row["detail"].as_str().unwrap())).collect();
        let which = "which no worker of this configuration serves";
        let runs = format!("1 run in queue \"wrok\", {which}");
        let partitions = format!("2 pending partitions of source \"adds\", {which}");
        let slow =
            "1 run of category \"slow\" in queue \"patient\", which the queue does not accept";
        let items = "1 pending item of upload \"tiles\", which the configuration does not declare";
        let warns = serde_json::Value::Bool(true);
        assert_eq!(rows, [slow, &runs, &partitions, items].map(|detail| (&warns, detail)));
    }
}

// PLN-3, OPS-4
#[test]
fn a_plan_that_disagrees_with_its_units_or_the_journal_is_a_finding() {
    let lost_outcome = "UPDATE plan_units SET outcome = NULL, outcome_at = NULL WHERE unit_id = 2";
    let cases = [
        (
            "UPDATE plans SET recovered = 1, pending = 1",
            &["plan:1: pending is 1, but counting the units gives 2 (counts)"][..],
        ),
        (
            lost_outcome,
            &[
                "plan:1: changed is 2, but counting the units gives 1 (counts)",
                "plan:1: the plan is done, but 1 units were neither changed nor skipped (counts)",
            ],
        ),
        (
            "UPDATE plan_counts SET units = units + 1 WHERE outcome = 'pending'",
            &["plan:1: the counts that are kept differ from the units: 3 of state error, given up \
               and pending (counts)"],
        ),
        (
            "INSERT INTO journal (at, actor, action, unit, details)
             SELECT at, actor, action, unit, details FROM journal WHERE action = 'run.retry' AND unit = 'run:1'",
            &["plan:1: the plan changed 2 units, but the journal has 3 run.retry entries that name \
               the plan (plan-recorded)"],
        ),
    ];
    for (sql, expected) in cases {
        let shop = Shop::on_sqlite();
        shop.submit("bad");
        shop.submit("bad");
        shop.run(&["worker", "--drain", "-q", "-q"]).ok();
        shop.run(&["plan", "new", "retry", "--kind", "run", "--queue", "work", "-q"]).ok();
        shop.run(&["plan", "apply", "1", "-q"]).ok();
        shop.run(&["doctor"]).ok();
        let connection = Connection::open(shop.folder.path().join("store.db")).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
        let ended = shop.run(&["doctor", "-o", "json"]);
        assert_eq!(ended.code, Some(1), "{sql}: {}", ended.stdout);
        let found: Vec<String> = findings(&ended).into_iter().map(|(_, detail)| detail).collect();
        assert_eq!(found, expected, "{sql}");
    }
}
