//! `redrive dlq`.

use serde_json::{Value, json};

use super::mill::{Mill, counts};
use crate::shop::Worker;

fn ids(rows: &Value) -> Vec<i64> {
    let changed = |row: &Value| {
        row["unit"].as_str()?.strip_prefix("sample:")?.split('/').next()?.parse().ok()
    };
    let id = |row: &Value| row["id"].as_i64().or_else(|| changed(row)).unwrap();
    rows.as_array().unwrap().iter().map(id).collect()
}

// PIP-3, PIP-7, OPS-4
#[test]
fn dead_letters_are_found_by_every_filter() {
    for mill in Mill::both(&["bad", "fine", "down", "down", "not JSON", "bad"]) {
        mill.grind(1);
        let listed = mill.told(&["dlq", "list"], 0);
        assert_eq!(ids(&listed), [1, 3, 4, 5, 6]);
        let reason = &listed[1]["dlq_reason"];
        assert_eq!(
            (&reason["stage"], &reason["error"], &reason["attempts"]),
            (&json!("grind"), &json!("wheel 3 stands still"), &json!(3))
        );
        reason["last_attempt_at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert_eq!((&listed[3]["stage"], &listed[3]["line"]), (&json!("source"), &json!(5)));
        assert!(listed[0].get("data").is_none(), "a list has no room for samples");

        let causes = mill.told(&["dlq", "list", "--group"], 0);
        let told: Vec<_> = causes
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| json!([cause["count"], cause["stage"], cause["code"], cause["first_id"]]))
            .collect();
        let expected = [
            json!([2, "grind", "65", 1]),
            json!([2, "grind", "75", 3]),
            json!([1, "source", "bad_line", 5]),
        ];
        assert_eq!(told, expected);
        let cause = causes[1]["fingerprint"].as_str().unwrap();
        for (filter, found) in [
            (&["--stage", "grind"][..], &[1, 3, 4, 6][..]),
            (&["--stage", "source"], &[5]),
            (&["--stage", "sift"], &[]),
            (&["--code", "65"], &[1, 6]),
            (&["--error", "stands still"], &[3, 4]),
            (&["--error", "%"], &[]),
            (&["--cause", cause], &[3, 4]),
            (&["--pipeline", "flour", "--run", "1", "--code", "75", "--error", "wheel"], &[3, 4]),
            (&["--run", "2"], &[]),
            (&["--limit", "2", "--after", "1"], &[3, 4]),
            (&["--failed-since", "2020-01-01T00:00:00Z"], &[1, 3, 4, 5, 6]),
            (&["--failed-since", "2999-01-01T00:00:00Z"], &[]),
            (&["--failed-until", "2020-01-01T00:00:00Z"], &[]),
        ] {
            assert_eq!(
                ids(&mill.told(&[&["dlq", "list"], filter].concat(), 0)),
                found,
                "{filter:?}"
            );
        }
        let newest = mill.told(&["dlq", "list", "--newest"], 0);
        let times: Vec<&str> = newest
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["dlq_reason"]["last_attempt_at"].as_str().unwrap())
            .collect();
        assert!(times.len() == 5 && times.is_sorted_by(|a, b| a >= b), "{times:?}");
        let second = mill.told(&["dlq", "list", "--newest", "--failed-until", times[0]], 0);
        assert!(ids(&second).iter().all(|id| ids(&newest)[1..].contains(id)), "{second}");
        mill.run(&["dlq", "list", "--newest", "--after", "1"]).failed(2);
        let table = mill.run(&["dlq", "list", "--group"]).ok();
        assert!(table.starts_with("COUNT  CAUSE "), "{table}");
    }
}

// PIP-7
#[test]
fn a_dead_letter_is_shown_and_exported_with_all_that_is_known_of_it() {
    for mill in Mill::both(&["down", "not JSON", "fine"]) {
        mill.grind(1);
        let shown = mill.told(&["dlq", "show", "1", "3"], 0);
        let outcomes = |shown: &Value| {
            let rows = shown["ledger"].as_array().unwrap().iter();
            rows.map(|row| {
                format!("{} {} {}", row["stage"], row["attempt"], row["outcome"]).replace('"', "")
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(outcomes(&shown[0]), ["grind 1 retrying", "grind 2 retrying", "grind 3 failed"]);
        assert_eq!(shown[0]["data"], json!({ "do": "down" }));
        assert_eq!(outcomes(&shown[1]), ["grind 1 success", "sift 1 success"]);
        assert_eq!(mill.run(&["dlq", "show", "1", "9", "-q"]).code, Some(3));
        let complaint = mill.run(&["dlq", "show", "9"]).failed(1);
        assert!(complaint.contains("there is no sample 9"), "{complaint}");

        let ended = mill.run(&["dlq", "export"]);
        assert_eq!(
            (ended.code, ended.stderr.as_str()),
            (Some(0), "wrote 2 dead letters to standard output\n")
        );
        let lines: Vec<Value> =
            ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["data"], json!({ "do": "down" }));
        assert_eq!(
            (&lines[1]["dlq_reason"]["stage"], lines[1].get("data")),
            (&json!("source"), None)
        );
        mill.run(&["dlq", "export", "--to", "dead.jsonl", "-q"]).ok();
        assert_eq!(mill.shop.folder.read("dead.jsonl"), ended.stdout);
        let complaint = mill.run(&["dlq", "export", "--to", "dead.jsonl"]).failed(4);
        assert!(complaint.contains("already exists"), "{complaint}");
        mill.run(&["dlq", "export", "--to", "dead.jsonl", "--force", "--stage", "sift", "-q"]).ok();
        assert_eq!(mill.shop.folder.read("dead.jsonl"), "");
        mill.run(&["dlq", "export", "--to", "no/such/folder.jsonl"]).failed(1);
    }
}

// PIP-7, OPS-4
#[test]
fn a_dry_run_says_what_the_real_one_does() {
    for mill in Mill::both(&["down", "not JSON", "down"]) {
        mill.grind(1);
        let arguments = ["dlq", "reprocess", "--run", "1"];
        let before = mill.told(&["dlq", "list"], 0);
        let mut foreseen = mill.told(&[&arguments[..], &["--dry-run"]].concat(), 3);
        assert_eq!(mill.told(&["dlq", "list"], 0), before, "nothing was changed");
        let done = mill.told(&arguments, 3);
        for row in foreseen.as_array_mut().unwrap() {
            if row["outcome"] == "would_be_done" {
                row["outcome"] = json!("done");
            }
        }
        assert_eq!(foreseen, done);
        let outcomes: Vec<_> = done.as_array().unwrap().iter().map(|row| &row["outcome"]).collect();
        assert_eq!(outcomes, ["done", "refused", "done"]);
        assert!(
            done[1]["why"].as_str().unwrap().contains("line 2 of the source is not a valid sample")
        );
        assert_eq!(counts(&mill.status()), [3, 0, 0, 1, 2]);
        assert_eq!(mill.status()["status"], "running");
        let complaint = mill.told(&["dlq", "reprocess", "--stage", "source"], 1);
        assert_eq!(complaint[0]["outcome"], "refused");
        mill.doctor();
    }
}

// PIP-7, POL-2
#[test]
fn a_reprocessed_sample_has_a_new_count_and_can_die_again() {
    for mill in Mill::both(&["down", "fine", "down"]) {
        mill.grind(1);
        let reason = ["--reason", "the wheel was oiled"];
        mill.told(&[&["dlq", "reprocess", "1", "3"][..], &reason].concat(), 0);
        let run = mill.told(&["pipeline", "resume", "1"], 1);
        assert_eq!(counts(&run), [3, 1, 0, 2, 0]);
        let numbers = "SELECT attempt || ' ' || outcome FROM attempts WHERE kind = 'sample' AND unit_id = 1 ORDER BY attempt";
        let expected =
            ["1 retrying", "2 retrying", "3 failed", "4 retrying", "5 retrying", "6 failed"];
        assert_eq!(mill.texts(numbers), expected);
        mill.mend();
        mill.told(&["dlq", "reprocess", "--all", "--limit", "1"], 0);
        mill.run(&["worker", "--drain", "-q", "-q"]).ok();
        assert_eq!(counts(&mill.status()), [3, 2, 0, 1, 0]);
        assert_eq!(mill.texts(numbers).last().unwrap(), "7 success");
        let refused = mill.told(&["dlq", "reprocess", "1", "99"], 1);
        let outcomes = [&refused[0]["why"], &refused[1]["why"]];
        assert_eq!(outcomes, ["the sample is succeeded", "there is no such sample"]);
        let journal = "SELECT unit || ' ' || details FROM journal WHERE action = 'sample.reprocess' ORDER BY id";
        let journal = mill.texts(journal);
        assert_eq!(journal.len(), 3);
        assert!(journal[0].starts_with("sample:1/grind "), "{journal:?}");
        assert!(journal[0].contains("the wheel was oiled"), "{journal:?}");
        mill.doctor();
    }
}

// PIP-7, OPS-4
#[test]
fn many_dead_letters_are_asked_about_and_an_empty_filter_is_refused() {
    for mill in Mill::both(&["bad"; 21]) {
        mill.grind(1);
        let complaint = mill.run(&["dlq", "reprocess"]).failed(4);
        assert!(complaint.contains("no samples are selected"), "{complaint}");
        let complaint = mill.run(&["dlq", "reprocess", "--code", "65"]).failed(4);
        assert!(complaint.contains("dlq reprocess: change 21 samples"), "{complaint}");
        let complaint = mill.run(&["dlq", "reprocess", "--code", "66"]).failed(4);
        assert!(complaint.contains("no dead letter matches"), "{complaint}");
        assert_eq!(counts(&mill.status()), [21, 0, 0, 21, 0]);
        mill.told(&["dlq", "reprocess", "--code", "65", "--limit", "20"], 0);
        assert_eq!(counts(&mill.status()), [21, 0, 0, 1, 20]);
        mill.told(&["dlq", "reprocess", "--all", "--yes"], 0);
        assert_eq!(counts(&mill.status()), [21, 0, 0, 0, 21]);
    }
}

/// The data of a sample.
fn data(mill: &Mill, id: i64) -> Value {
    mill.told(&["dlq", "show", &id.to_string()], 0)[0]["data"].clone()
}

// FIX-2, FIX-6
#[test]
fn a_dead_letter_is_edited_and_a_line_that_was_no_sample_becomes_one() {
    for mill in Mill::both(&["bad", "fine", "not JSON"]) {
        mill.grind(1);
        let edit = |id: &str, script: &str| {
            mill.shop.folder.write("edit.sh", script);
            let mut command = mill.shop.command(&["dlq", "edit", id, "-o", "json", "-q"]);
            command.env("EDITOR", "/bin/sh edit.sh").env_remove("VISUAL");
            mill.shop.folder.ended(command.output().unwrap())
        };
        let write = |json: &str| format!("printf '%s' '{json}' > \"$1\"\n");
        let unchanged = edit("1", "true").failed(4);
        assert!(unchanged.contains("the same as before"), "{unchanged}");
        let broken = edit("1", &write("{\"do\": ")).failed(4);
        assert!(broken.contains("not JSON") && broken.contains("what you wrote is in"), "{broken}");
        edit("1", "exit 3").failed(4);
        assert_eq!(data(&mill, 1), json!({ "do": "bad" }), "nothing was changed");
        let edited = edit("1", &write(r#"{"do": "fine", "n": 1}"#)).json();
        assert_eq!(edited[0]["data"], json!({ "do": "fine", "n": 1 }));
        let unchanged = edit("3", "true").failed(4);
        assert!(unchanged.contains("the same as before"), "{unchanged}");
        edit("3", &write(r#"{"do": "fine"}"#)).json();
        let story = mill.told(&["why", "sample:3"], 0);
        assert!(story["next"]["because"].as_str().unwrap().contains("dlq reprocess 3"), "{story}");
        let at_source = mill.told(&["dlq", "list", "--stage", "source"], 0);
        assert_eq!(at_source[0]["id"], 3, "it is dead at the source until it is reprocessed");
        let stats = mill.told(&["pipeline", "stats", "1"], 0);
        assert_eq!(stats["stages"][0]["dlq"], 1, "{stats}");
        mill.run(&["doctor"]).ok();
        let alive = edit("2", "true").failed(4);
        assert!(alive.contains("not a dead letter"), "{alive}");
        let mut command = mill.shop.command(&["dlq", "edit", "1"]);
        command.env_remove("EDITOR").env_remove("VISUAL");
        let no_editor = mill.shop.folder.ended(command.output().unwrap()).failed(4);
        assert!(no_editor.contains("--patch"), "{no_editor}");

        mill.run(&["dlq", "reprocess", "1", "3"]).ok();
        let run = mill.told(&["pipeline", "resume", "1"], 0);
        assert_eq!(counts(&run), [3, 3, 0, 0, 0], "all of them succeeded");
        let story = mill.told(&["why", "sample:1/grind"], 0);
        let journal = story["journal"].as_array().unwrap();
        let entry = journal.iter().find(|row| row["action"] == "sample.edit").unwrap();
        assert_eq!(entry["details"]["data"], json!({ "do": "bad" }));
        let story = mill.told(&["why", "sample:3"], 0);
        let actions: Vec<&Value> =
            story["journal"].as_array().unwrap().iter().map(|row| &row["action"]).collect();
        assert_eq!(actions, ["sample.dead", "sample.edit", "sample.reprocess"]);
        assert_eq!(story["stages"][0]["stage"], "source");
        assert_eq!(story["stages"][0]["outcome"], "done");
        mill.told(&["why", "sample:3/source"], 0);
        mill.run(&["doctor"]).ok();
    }
}

// FIX-2
#[test]
fn an_editor_that_is_interrupted_leaves_no_file_behind() {
    let mill = Mill::on_sqlite(super::mill::CONFIG, &["bad"]);
    mill.grind(1);
    mill.shop.make_gate();
    mill.shop.folder.write("edit.sh", "echo \"$1\" >&2; read -r word < gate; exit 1");
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut command = mill.shop.command(&["dlq", "edit", "1"]);
        command.env("EDITOR", "exec /bin/sh edit.sh").env_remove("VISUAL");
        let mut edit = Worker::start(command);
        let file = edit.wait_for(".json");
        edit.signal(signal);
        if signal == "-INT" {
            mill.shop.open_gate("Ctrl-C is for the editor");
        }
        assert_eq!(edit.end().0, Some(code));
        assert!(!std::path::Path::new(file.trim()).exists(), "{file}");
    }
    assert_eq!(data(&mill, 1), json!({ "do": "bad" }), "nothing was changed");
}

// FIX-2
#[test]
fn many_dead_letters_get_other_data_from_a_file_or_at_one_place() {
    for mill in Mill::both(&["bad", "bad", "bad", "not JSON", "fine"]) {
        mill.grind(1);
        mill.shop.folder.write(
            "patch.jsonl",
            "{\"id\": 1, \"data\": {\"do\": \"fine\"}, \"stage\": \"grind\"}\n\n\
             {\"id\": 4, \"data\": {\"do\": \"fine\"}}\n",
        );
        mill.shop.folder.write("empty.jsonl", "");
        let empty = mill.run(&["dlq", "reprocess", "--patch", "empty.jsonl"]).failed(4);
        assert!(empty.contains("the patch has no samples"), "{empty}");
        let place = ["dlq", "reprocess", "--all", "--set", "/do/deep=1"];
        for command in [&place[..], &[&place[..], &["--dry-run"]].concat()] {
            let wrong = mill.run(command).failed(4);
            assert!(wrong.contains("nothing was changed"), "{wrong}");
        }
        let whole = mill.run(&["dlq", "reprocess", "--all", "--set", "=1"]).failed(2);
        assert!(whole.contains("the path is empty"), "{whole}");
        mill.shop.folder.write("wrong.jsonl", "{\"id\": 1, \"data\": 1}\n{\"id\": 2}\n");
        let wrong = mill.run(&["dlq", "reprocess", "--patch", "wrong.jsonl"]).failed(2);
        assert!(wrong.contains("line 2") && wrong.contains("nothing was changed"), "{wrong}");
        let dry = mill.told(&["dlq", "reprocess", "--patch", "patch.jsonl", "--dry-run"], 0);
        assert_eq!(ids(&dry), [1, 4]);
        assert_eq!(data(&mill, 1), json!({ "do": "bad" }), "a dry run changes nothing");
        let exported = mill.run(&["dlq", "export", "--stage", "source", "-q"]).ok();
        let null = "{\"id\": 3, \"data\": null}\n";
        mill.shop.folder.write("export.jsonl", [null, &exported].concat());
        let export = mill.run(&["dlq", "reprocess", "--patch", "export.jsonl"]);
        assert!(export.stderr.contains("1 lines of the patch have no data"), "{export:#?}");
        assert!(export.stdout.contains("1 done, 0 refused"), "{export:#?}");
        assert_eq!(data(&mill, 3), Value::Null);
        mill.run(&["dlq", "reprocess", "--patch", "patch.jsonl"]).ok();
        let set = ["dlq", "reprocess", "--code", "65", "--set", "/do=fine", "--set", "/n/m=7"];
        mill.run(&set).ok();
        assert_eq!(data(&mill, 2), json!({ "do": "fine", "n": { "m": 7 } }));
        let run = mill.told(&["pipeline", "resume", "1"], 0);
        assert_eq!(counts(&run), [5, 5, 0, 0, 0]);
        mill.run(&["doctor"]).ok();
    }
}

// FIX-3
#[test]
fn a_patched_source_goes_on_by_line_number_and_dead_letters_are_read_again() {
    let budget = "failure-budget = { rate = 0.5, every = ";
    let config =
        super::mill::CONFIG.replace(&format!("{budget}30"), &format!("read-ahead = 2\n{budget}2"));
    for mill in Mill::both_of(&config, &["bad", "not JSON", "bad", "fine", "fine", "fine"]) {
        let run = mill.grind(1);
        assert_eq!(run["status"], "aborted", "{run}");
        mill.deliver(&["fine", "{\"do\": \"fine\"}", "bad", "fine", "fine", "fine"]);
        let resume = ["pipeline", "resume", "1", "-q", "-q"];
        let refused = mill.run(&resume).failed(4);
        assert!(refused.contains("--source-changed"), "{refused}");
        let accept = [&resume[..], &["--source-changed", "--reread-dead", "-o", "json"]].concat();
        let unasked = mill.run(&accept).failed(4);
        assert!(
            unasked.contains("2 changed lines") && unasked.contains("reprocess 2"),
            "{unasked}"
        );
        let ended = mill.run(&[&accept[..], &["--yes"]].concat());
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        let dead = mill.told(&["dlq", "list"], 0);
        assert_eq!(ids(&dead), [3], "what was not patched stays dead");
        mill.run(&["doctor"]).ok();
    }
}

// FIX-3
#[test]
fn lines_that_were_inserted_or_removed_are_warned_of() {
    let budget = "failure-budget = { rate = 0.5, every = ";
    let config =
        super::mill::CONFIG.replace(&format!("{budget}30"), &format!("read-ahead = 2\n{budget}2"));
    let [one, two] = ["{\"do\": \"bad\", \"n\": 1}", "{\"do\": \"bad\", \"n\": 2}"];
    let mill = Mill::on_sqlite(&config, &[one, two, "skip", "fine", "fine", "fine"]);
    assert_eq!(mill.grind(1)["status"], "aborted");
    let resume = ["pipeline", "resume", "1", "--source-changed", "--reread-dead"];
    for (lines, first) in [
        (&["half", one, two, "skip", "fine", "fine", "fine"][..], Some(1)),
        (&[one, "half", two, "skip", "fine", "fine", "fine"], Some(2)),
        (&[two, "skip", "fine", "fine", "fine"], Some(1)),
        (&["half", "down", "skip", "fine", "fine", "fine"], None),
    ] {
        mill.deliver(lines);
        let unasked = mill.run(&[&resume[..], &["-q"]].concat());
        assert_eq!(unasked.code, Some(4));
        let unasked = unasked.stderr;
        let warning = first.map(|line| format!("inserted or removed at line {line}, the first"));
        assert_eq!(unasked.contains("inserted or removed"), warning.is_some(), "{unasked}");
        assert!(warning.is_none_or(|warning| unasked.contains(&warning)), "{unasked}");
    }
}

// FIX-3
#[test]
fn a_dead_letter_of_a_later_stage_is_read_again_from_the_first_stage() {
    let budget = "failure-budget = { rate = 0.";
    let config = super::mill::CONFIG.replace(
        &format!("{budget}5, every = 30"),
        &format!("read-ahead = 1\n{budget}1, every = 1"),
    );
    let lines = ["one", "two", "three"];
    for mill in Mill::both_of(&config, &lines) {
        let stages = "read -r call; echo \"$REDRIVE_STAGE $REDRIVE_SAMPLE\" >> calls
            case \"$REDRIVE_STAGE $call\" in
            grind*new*) echo '{\"ok\": \"good\"}' ;;
            sift*good*) echo '{\"ok\": \"fed\"}' ;;
            *) [ $REDRIVE_STAGE$REDRIVE_SAMPLE != sift1 ] || exit 65; echo '{\"ok\": 7}' ;;
            esac";
        mill.shop.folder.write("work.sh", stages);
        assert_eq!(mill.grind(1)["status"], "aborted");
        assert_eq!(mill.told(&["dlq", "show", "1"], 0)[0]["stage"], "sift");
        mill.deliver(&["new", lines[1], lines[2]]);
        let resume = ["pipeline", "resume", "1", "--source-changed", "--reread-dead", "--yes"];
        mill.told(&[&resume[..3], &["--source-changed", "--detach", "--yes"]].concat(), 0);
        assert_eq!(mill.told(&["dlq", "show", "1"], 0)[0]["data"], 7, "only if it is asked for");
        mill.told(&[&resume[..], &["--detach"]].concat(), 0);
        let story = mill.told(&["why", "sample:1"], 0);
        let outcomes: Vec<_> = story["stages"].as_array().unwrap().iter().collect();
        let outcomes = outcomes.into_iter().map(|stage| stage["outcome"].clone());
        assert_eq!(outcomes.collect::<Vec<_>>(), ["current", "not reached"]);
        assert_eq!(counts(&mill.status())[2..4], [0, 0]);
        mill.doctor();
        assert_eq!(mill.told(&["pipeline", "resume", "1"], 0)["status"], "completed");
        assert_eq!(counts(&mill.status()), [3, 3, 0, 0, 0]);
        let output = mill.run(&["pipeline", "output", "-q"]).ok();
        assert_eq!(output, "\"fed\"\n7\n7\n");
        let ledger = "SELECT stage || ' ' || attempt || ' ' || outcome FROM attempts \
                      WHERE kind = 'sample' AND unit_id = 1 ORDER BY stage, attempt";
        let sift = ["sift 1 retrying", "sift 2 failed", "sift 3 success"];
        assert_eq!(mill.texts(ledger)[..2], ["grind 1 success", "grind 2 success"]);
        assert_eq!(mill.texts(ledger)[2..], sift);
        let stats = mill.told(&["pipeline", "stats", "1"], 0);
        let stages = stats["stages"].as_array().unwrap().iter();
        let stages: Vec<_> = stages.map(|it| json!([it["samples"], it["attempts"]])).collect();
        assert_eq!(stages, [json!([3, 4]), json!([3, 5])]);
        mill.doctor();
    }
}

// PIP-3, PIP-8
#[test]
fn a_line_that_is_no_sample_is_dead_at_the_source_everywhere() {
    for mill in Mill::both(&["fine", "not JSON", "bad"]) {
        let run = mill.run(&["pipeline", "run", "flour", "--log-format", "json"]);
        assert!(run.stderr.contains("\"stage\":\"source\""), "{}", run.stderr);
        let dead = |told: &Value| {
            let stages = told["stages"].as_array().unwrap().iter();
            stages.map(|stage| json!([stage["stage"], stage["dlq"]])).collect::<Vec<_>>()
        };
        let expected = [json!(["source", 1]), json!(["grind", 1]), json!(["sift", 0])];
        let status = mill.run(&["pipeline", "status", "1"]).ok();
        assert!(status.lines().any(|line| line.starts_with("source ")), "{status}");
        let stats = mill.told(&["pipeline", "stats", "1"], 0);
        assert_eq!(dead(&stats), expected);
        let bad_line = json!({ "code": "bad_line", "count": 1 });
        assert_eq!(stats["stages"][0]["errors"], json!([bad_line]));
        assert!(stats["errors"].as_array().unwrap().contains(&bad_line), "{stats}");
        let table = mill.run(&["pipeline", "stats", "1"]).ok();
        assert!(table.lines().any(|line| line.starts_with("source  bad_line ")), "{table}");
        let story = mill.told(&["why", "sample:2"], 0);
        let next = story["next"]["because"].as_str().unwrap();
        assert!(next.contains("`redrive dlq edit 2`"), "{next}");
        assert_eq!(ids(&mill.told(&["dlq", "list", "--stage", "source"], 0)), [2]);
        mill.run(&["doctor"]).ok();
    }
}
