//! Causes: `redrive causes`, what selects units by their last failure, and remarks on units.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    shop::Shop,
    web::{FORM, ask, send},
};

/// The fingerprint of the cause whose message has these words.
#[track_caller]
fn cause_of(fair: &Fair, words: &str) -> String {
    let causes = fair.printed(&["causes"]);
    let found = causes.as_array().unwrap().iter();
    let mut found = found.filter(|cause| cause["message"].as_str().unwrap().contains(words));
    let cause = found.next().unwrap_or_else(|| panic!("{words}: {causes:#}"));
    cause["fingerprint"].as_str().unwrap().to_owned()
}

// CAU-1, CAU-2
#[test]
fn causes_of_all_kinds_are_listed_with_the_units_that_they_stop() {
    for fair in Fair::both() {
        let causes = fair.printed(&["causes"]);
        let rows: Vec<Value> = causes
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| {
                let kind = &cause["kinds"][0];
                json!([
                    kind["kind"],
                    cause["code"],
                    kind["stuck"],
                    kind["attempts"],
                    cause["places"][0]["place"]
                ])
            })
            .collect();
        assert_eq!(
            rows,
            [
                json!(["partition", "75", 8, 8, "ads"]),
                json!(["sample", "65", 6, 18, "flour/grind"]),
                json!(["item", "422", 2, 2, "tiles"]),
                json!(["run", "65", 2, 2, "work"]),
                json!(["run", "75", 1, 2, "work"]),
            ],
            "{causes:#}"
        );
        for cause in causes.as_array().unwrap() {
            assert_eq!(cause["last_day"].as_array().unwrap().len(), 24);
            let [first, last] = ["first_at", "last_at"].map(|name| {
                cause[name].as_str().unwrap().parse::<redrive::jiff::Timestamp>().unwrap()
            });
            assert!(first <= last, "{cause}");
            let example = cause["example"].as_str().unwrap();
            fair.printed(&["why", example]);
        }
        let of_runs = fair.printed(&["causes", "--kind", "run", "--since", "2h"]);
        assert_eq!(of_runs.as_array().unwrap().len(), 2);
        for (text, found) in [("QUOTA", 1), ("422", 1), ("sack", 1), ("nothing like it", 0)] {
            let causes = fair.printed(&["causes", "--search", text]);
            assert_eq!(causes.as_array().unwrap().len(), found, "{text}: {causes}");
        }
        assert_eq!(fair.printed(&["causes", "--limit", "1"]), json!([causes[0]]));
        let table = fair.shop.run(&["causes"]).ok();
        assert!(
            table.contains("quota exceeded for 1234") && table.contains("pipeline flour/grind"),
            "{table}"
        );
        let cause = cause_of(&fair, "quota");
        let terminal = "also terminal ones …";
        let retry = format!("once it is fixed:\n  redrive state retry --cause {cause}\n");
        let shown = fair.shop.run(&["causes", "show", &cause]).ok();
        assert!(shown.ends_with(&retry), "{shown}");
        let server = fair.serve(&[]);
        let searched = server.text("/causes?search=Quota&kind=&since=");
        assert!(searched.contains(&format!("75 <code>{}</code>", &cause[..8])), "{searched}");
        assert!(!searched.contains("sack"), "{searched}");
        assert!(!server.text(&format!("/causes/{cause}")).contains(terminal));
        fair.told(&["state", "mark-terminal", "partition:ads/1234/daily/2026-11-02"]);
        let shown = fair.shop.run(&["causes", "show", &cause]).ok();
        let clear = format!("{retry}  redrive state retry --cause {cause} --clear-terminal\n");
        assert!(shown.ends_with(&clear), "{shown}");
        assert!(server.text(&format!("/causes/{cause}")).contains(terminal));
    }
}

/// A list, an action, and the words, the code, the class and the number of units of a cause.
type CauseCase<'a> = (&'a [&'a str], &'a [&'a str], &'a str, &'a str, &'a str, usize);

// CAU-3
#[test]
fn every_list_and_every_action_selects_units_by_their_last_failure() {
    for fair in Fair::both() {
        let count = |arguments: &[&str]| fair.printed(arguments).as_array().map_or(0, Vec::len);
        let kinds: [CauseCase<'_>; 4] = [
            (&["runs", "list"], &["runs", "retry"], "<b>read</b>", "65", "final", 2),
            (&["state", "inspect"], &["state", "retry"], "quota", "75", "retryable", 8),
            (&["uploads", "list"], &["uploads", "reset"], "no such tile", "422", "final", 2),
            (&["dlq", "list"], &["dlq", "reprocess"], "torn", "65", "final", 6),
        ];
        for (list, act, words, code, class, units) in kinds {
            let cause = cause_of(&fair, words);
            let terms: [&[&str]; 7] = [
                &["--cause", &cause],
                &["--code", code],
                &["--class", class, "--code", code],
                &["--error", words],
                &["--failed-since", "1h", "--cause", &cause],
                &["--failed-since", "2020-01-01", "--code", code],
                &["--failed-until", "9999-01-01T00:00:00Z", "--code", code],
            ];
            for terms in terms {
                assert_eq!(count(&[list, terms].concat()), units, "{list:?} {terms:?}");
                let planned = fair.printed(&[act, terms, &["--dry-run"]].concat());
                let done = |change: &&Value| change["outcome"] == "would_be_done";
                let done = planned.as_array().unwrap().iter().filter(done).count();
                assert_eq!(done, units, "{act:?} {terms:?}: {planned:#}");
            }
            let none = fair.shop.run(&[act, &["--code", "999", "--dry-run"]].concat());
            assert_eq!(none.code, Some(4), "{act:?}: {}", none.stderr);
            assert_eq!(count(&[list, &["--cause", &cause, "--failed-until", "1h"]].concat()), 0);
        }
        let empty = fair.shop.run(&["runs", "retry", "--error", "", "--dry-run"]).failed(2);
        assert!(empty.contains("the text is empty"), "{empty}");
        let wrong = fair.shop.run(&["runs", "list", "--cause", "quota"]).failed(2);
        assert!(wrong.contains("`redrive causes` shows them"), "{wrong}");
    }
}

// CAU-3
#[test]
fn a_run_that_waits_is_not_among_those_that_were_given_up() {
    for shop in Shop::both() {
        shop.folder.write(
            "redrive.toml",
            "[[queue]]\nname = \"work\"\nhandler = { exec = [\"/bin/sh\", \"-c\", \
             'case $REDRIVE_CATEGORY in wait) exit 75 ;; *) exit 65 ;; esac'] }\n\
             policy = { max-attempts = 9, base = \"1h\", cap = \"1h\" }\n",
        );
        let ids = ["wait", "bad"].map(|category| shop.submit(category));
        let mut worker = shop.start_worker(&[]);
        worker.wait_for("given up");
        while shop.show(ids[0])["next_retry_at"].is_null() {}
        worker.signal("-TERM");
        worker.end();
        let listed = |state: &str| {
            let rows = shop.run(&["runs", "list", "--state", state, "-o", "json"]).json();
            rows.as_array()
                .unwrap()
                .iter()
                .map(|run| run["id"].as_i64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!((listed("waiting"), listed("given-up")), (vec![ids[0]], vec![ids[1]]));
        let table = shop.run(&["runs", "list"]).ok();
        assert!(table.contains("waiting_for_retry") && table.contains("given_up"), "{table}");
        let waiting = shop.show(ids[0])["fingerprint"].as_str().unwrap().to_owned();
        let retry = ["runs", "retry", "--cause", &waiting];
        let none = shop.run(&retry).failed(4);
        assert!(none.contains("1 run waits for its retry; `--state waiting` takes them"), "{none}");
        let shown = shop.run(&["causes", "show", &waiting]).ok();
        assert!(
            shown.contains(&format!("redrive {} --state waiting\n", retry.join(" "))),
            "{shown}"
        );
        let server = Serving::start(&shop, "127.0.0.1:0", &[]);
        let body = json!({ "cause": waiting, "dry_run": true });
        let (status, none) = ask(server.address, "POST", "/v1/runs/retry", Some(&body));
        assert!(status == 422 && none.contains("1 run waits for its retry"), "{none}");
        let page = server.text(&format!("/causes/{waiting}"));
        let preview = page.split("href=\"").find(|link| link.contains("Retry 1 waiting …"));
        let preview = preview.unwrap().split('"').next().unwrap().replace("&amp;", "&");
        assert!(server.text(&preview).contains("1 would be done."), "{preview}");
        let retried = shop.run(&["runs", "retry", "--queue", "work", "-o", "json"]).json();
        assert_eq!(retried[0]["unit"], format!("run:{}", ids[1]));
        assert_eq!(retried.as_array().unwrap().len(), 1, "what waits goes on waiting");
        let planned = ["runs", "retry", "--state", "waiting", "--dry-run", "-o", "json"];
        assert_eq!(shop.run(&planned).json()[0]["unit"], format!("run:{}", ids[0]));
    }
}

// CAU-4
#[test]
fn a_cause_that_was_fixed_and_comes_back_is_reported_once() {
    for shop in Shop::both() {
        shop.drained(&["bad"]);
        let cause = shop.run(&["causes", "-o", "json"]).json()[0]["fingerprint"].take();
        let cause = cause.as_str().unwrap();
        shop.run(&["causes", "note", cause, "--text", "the form is old", "--ticket", "OPS-7"]).ok();
        let marked = shop.run(&["causes", "mark", cause, "fixed", "-o", "json"]).json();
        assert_eq!(
            json!([marked["mark"], marked["note"], marked["ticket"], marked["returned_at"]]),
            json!(["fixed", "the form is old", "OPS-7", null])
        );
        assert!(shop.run(&["causes"]).ok().contains("fixed"));
        shop.drained(&["bad", "bad"]);
        let back = shop.run(&["causes", "show", cause, "-o", "json"]).json();
        assert!(back["returned_at"].is_string(), "{back}");
        assert!(shop.run(&["causes"]).ok().contains("came back"));
        let shown = shop.run(&["causes", "show", cause]).ok();
        for words in ["; came back at ", "cause.note", "cause.mark", "cause.return"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let known = shop.run(&["causes", "mark", cause, "known", "-o", "json"]).json();
        assert_eq!(json!([known["mark"], known["returned_at"]]), json!(["known", null]));
        let unmarked = shop.run(&["causes", "mark", cause, "none", "-o", "json"]).json();
        assert_eq!(json!([unmarked["mark"], unmarked["ticket"]]), json!([null, "OPS-7"]));
        let unknown = shop.run(&["causes", "mark", "0123456789abcdef", "fixed"]).failed(1);
        assert!(unknown.contains("there is no cause 0123456789abcdef"), "{unknown}");
        let long = shop.run(&["causes", "note", cause, "--text", &"x".repeat(2_001)]).failed(2);
        assert!(long.contains("the note has 2001 characters, and may have 2000"), "{long}");
        let empty = shop.run(&["causes", "note", cause]).failed(2);
        assert!(empty.contains("--text") && empty.contains("--ticket"), "{empty}");
    }
}

// CAU-4
#[test]
fn the_journal_tells_once_that_a_cause_came_back() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let cause = cause_of(&fair, "<b>read</b>");
        let path = format!("/v1/causes/{cause}");
        let (status, marked) = ask(
            server.address,
            "POST",
            &path,
            Some(&json!({ "mark": "fixed", "reason": "new form" })),
        );
        assert_eq!(status, 200, "{marked}");
        fair.told(&["queue", "resume", "work"]);
        for _ in 0..2 {
            fair.told(&["runs", "retry", "--cause", &cause]);
            fair.work();
        }
        let told = server.get("/v1/journal?action=cause.return");
        let rows = told["items"].as_array().unwrap();
        assert_eq!(rows.len(), 1, "{told:#}");
        assert_eq!(rows[0]["details"]["cause"], cause.as_str());
        assert_eq!(rows[0]["details"]["kind"], "run");
        let marks = server.get("/v1/journal?action=cause.mark");
        assert_eq!(marks["items"][0]["actor"], "local (api)");
        assert_eq!(marks["items"][0]["details"]["reason"], "new form");
        let bad = [
            (format!("{path}?x=1"), json!({ "mark": "broken" }), 400),
            ("/v1/causes/0123456789abcdef".to_owned(), json!({}), 404),
            ("/v1/causes/quota".to_owned(), json!({}), 400),
            (path.clone(), json!({}), 400),
            (path.clone(), json!({ "ticket": "x".repeat(201) }), 400),
        ];
        for (path, body, expected) in bad {
            let (status, answer) = ask(server.address, "POST", &path, Some(&body));
            assert_eq!(status, expected, "{path}: {answer}");
        }
    }
}

// OPS-4
#[test]
fn a_remark_on_any_unit_is_in_its_journal() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let partition = "partition:ads/1234/daily/2026-11-02";
        let units = [
            ("runs", "/v1/runs", "2", "run:2"),
            ("uploads", "/v1/items", "1", "item:1"),
            ("state", "/v1/partitions", partition, partition),
            ("dlq", "/v1/dead-letters", "1", "sample:1"),
        ];
        for (command, path, id, unit) in units {
            let noted = fair.printed(&[command, "note", id, "--text", "seen by ada"]);
            assert_eq!(noted[0]["outcome"], "done", "{noted}");
            let id = id.strip_prefix("partition:").unwrap_or(id);
            let body = json!({ "ids": [id], "text": "seen over HTTP" });
            let (status, noted) = ask(server.address, "POST", &format!("{path}/note"), Some(&body));
            assert_eq!(status, 200, "{noted}");
            let story = fair.printed(&["why", unit]);
            let journal = story["journal"].as_array().unwrap().iter();
            let notes = journal.filter_map(|entry| entry["details"]["note"].as_str());
            assert_eq!(notes.collect::<Vec<_>>(), ["seen by ada", "seen over HTTP"], "{story:#}");
            let missing = json!({ "ids": [id] });
            let (status, no_text) =
                ask(server.address, "POST", &format!("{path}/note"), Some(&missing));
            assert_eq!(status, 400, "{no_text}");
        }
        let unknown = fair.shop.run(&["runs", "note", "999", "--text", "nobody"]);
        assert_eq!(unknown.code, Some(1), "{}", unknown.stdout);
        fair.shop.run(&["runs", "note", "2", "--text", " "]).failed(2);
        let body = json!({ "ids": [2], "text": "x" });
        let (status, answer) = ask(server.address, "POST", "/v1/runs/retry", Some(&body));
        assert_eq!(status, 400, "{answer}");
    }
}

// CAU-4, OPS-4
#[test]
fn a_note_of_several_lines_stays_as_it_is_however_often_it_is_saved() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let cause = cause_of(&fair, "quota");
    let path = format!("/causes/{cause}");
    let journal = || fair.printed(&["causes", "show", &cause])["journal"].take();
    for _ in 0..2 {
        let page = server.text(&path);
        let token = page.split("name=\"token\" value=\"").nth(1).unwrap();
        let token = token.split('"').next().unwrap();
        let form = format!("token={token}&mark=&note=one%0D%0Atwo%0Dthree&ticket=OPS-7");
        let (status, answer) = send(server.address, "POST", &path, FORM, &form);
        assert_eq!(status, 303, "{answer}");
        assert_eq!(server.get(&format!("/v1{path}"))["note"], "one\ntwo\nthree");
        assert_eq!(
            journal().as_array().unwrap().len(),
            1,
            "nothing was changed by the second save"
        );
    }
    assert!(server.text(&path).contains("cause.note"), "the page has the journal");
    assert_eq!(server.get(&format!("/v1{path}"))["journal"], journal());
    fair.told(&["causes", "note", &cause, "--text", "by\r\nhand", "--ticket", "OPS-7"]);
    assert_eq!(journal()[1]["details"]["note"], "by\nhand");
    assert_eq!(journal()[1]["details"]["ticket"], Value::Null, "the ticket is not new");
    assert_eq!(fair.printed(&["causes"])[0].get("journal"), None, "lists are short");

    fair.told(&["runs", "note", "2", "--text", "by\r\nhand"]);
    let body = json!({ "ids": [2], "text": "over\rHTTP" });
    assert_eq!(ask(server.address, "POST", "/v1/runs/note", Some(&body)).0, 200);
    let form = "ids=2&text=on%0D%0Aa+page";
    assert_eq!(send(server.address, "POST", "/runs/act/note", FORM, form).0, 303);
    let story = fair.printed(&["why", "run:2"]);
    let notes = story["journal"].as_array().unwrap().iter();
    let notes: Vec<&str> = notes.filter_map(|entry| entry["details"]["note"].as_str()).collect();
    assert_eq!(notes, ["by\nhand", "over\nHTTP", "on\na page"], "{story:#}");
}

// OPS-4
#[test]
fn a_note_that_is_too_long_is_refused_everywhere() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    for (text, refusal) in [
        ("x".repeat(2_001), "the note has 2001 characters, and may have 2000"),
        ("ä".repeat(9_000), "the note has 9000 characters, and may have 2000"),
    ] {
        let refused = fair.shop.run(&["runs", "note", "2", "--text", &text]).failed(2);
        assert!(refused.contains(refusal), "{refused}");
        let body = json!({ "ids": [2], "text": text });
        let (status, refused) = ask(server.address, "POST", "/v1/runs/note", Some(&body));
        assert!(status == 400 && refused.contains(refusal), "{refused}");
        let form = format!("ids=2&text={text}");
        let (status, refused) = send(server.address, "POST", "/runs/act/note", FORM, &form);
        assert!(status == 400 && refused.contains(refusal), "{refused}");
    }
    let story = fair.printed(&["why", "run:2"]);
    assert!(!story.to_string().contains("run.note"), "{story:#}");
    fair.told(&["runs", "note", "2", "--text", &"ä".repeat(2_000)]);
}

// OPS-3, CAU-2
#[test]
fn the_state_of_everything_fits_on_one_screen() {
    for fair in Fair::both() {
        let screen = fair.shop.run(&["status"]).ok();
        for words in [
            "8 failed partitions, 3 runs given up, 2 items given up and 6 dead letters.",
            "last hour: ",
            "6 succeeded, 6 dlq",
            "paused",
            "quota exceeded for 1234",
            "due for a retry, after failure 1",
        ] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
        assert!(screen.lines().count() <= 40, "{screen}");
        let server = fair.serve(&[]);
        let (printed, overview) = (fair.printed(&["status"]), server.get("/v1/overview"));
        for field in ["units", "queues", "causes", "due", "sources"] {
            let strip = |value: &Value| {
                value.to_string().split("oldest_ready_age_s").next().unwrap_or_default().to_owned()
            };
            assert_eq!(strip(&printed[field]), strip(&overview[field]), "{field}");
        }
    }
}

// OPS-3
#[test]
fn a_watched_status_prints_a_line_for_each_change() {
    for shop in Shop::both() {
        let refused = shop.run(&["status", "--watch"]).failed(2);
        assert!(refused.contains("--watch needs a terminal, or -o jsonl"), "{refused}");
        let mut watch = shop.command(&["status", "--watch", "-o", "jsonl"]);
        let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
        let mut discovered = || {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            let units = line["units"].as_array().unwrap().iter();
            let mut runs = units.filter(|row| row["state"] == "discovered");
            runs.next().map_or(0, |row| row["count"].as_u64().unwrap())
        };
        assert_eq!(discovered(), 0);
        shop.submit("fine");
        while discovered() != 1 {}
        watch.kill().unwrap();
        watch.wait().unwrap();
    }
}
