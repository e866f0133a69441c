//! `redrive runs retry | cancel`.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{folder::Ended, shop::Shop};

/// What became of each run: its id and the outcome.
#[track_caller]
fn outcomes(ended: &Ended) -> Vec<(i64, String)> {
    let rows: Value = serde_json::from_str(&ended.stdout).expect(&ended.stderr);
    let rows = rows.as_array().unwrap().iter();
    let id = |row: &Value| row["unit"].as_str()?.strip_prefix("run:")?.parse().ok();
    rows.map(|row| (id(row).unwrap(), row["outcome"].as_str().unwrap().to_owned())).collect()
}

fn pairs(expected: &[(i64, &str)]) -> Vec<(i64, String)> {
    expected.iter().map(|(id, outcome)| (*id, (*outcome).to_owned())).collect()
}

// RUN-6, OPS-4, POL-2
#[test]
fn a_retry_starts_a_new_count_and_the_ledger_goes_on() {
    for shop in Shop::both() {
        let [id] = shop.drained(&["down"])[..] else { panic!() };
        let retry = ["runs", "retry", &id.to_string(), "--reason", "it is up again", "-o", "json"];
        let mut command = shop.command(&retry);
        let ended = shop.folder.ended(command.env("USER", "ada").output().unwrap());
        let done = json!([{ "unit": format!("run:{id}"), "outcome": "done", "before": "given_up", "why": null }]);
        assert_eq!(ended.json(), done);
        let run = shop.show(id);
        assert_eq!(
            json!([run["status"], run["retry_count"], run["attempts"], run["error_class"]]),
            json!(["discovered", 0, 3, "retryable"])
        );
        shop.drain();
        let story = shop.why(id);
        assert_eq!(story["run"]["attempts"], 6, "three more, numbered on");
        assert!(
            story["attempts"][3]["rule"].as_str().unwrap().starts_with("counted failure 1 of 3")
        );
        let journal = story["journal"].as_array().unwrap();
        let entry = journal.iter().find(|row| row["action"] == "run.retry").unwrap();
        assert_eq!(
            (&entry["actor"], &entry["details"]["reason"]),
            (&json!("ada"), &json!("it is up again"))
        );
        shop.run(&["doctor"]).ok();
    }
}

// FIX-5, FIX-6
#[test]
fn a_payload_that_was_wrong_is_edited_and_the_run_tried_again() {
    for shop in Shop::both() {
        let [bad, fine] = shop.drained(&["bad", "fine"])[..] else { panic!() };
        let edit = |id: i64, payload: &str| {
            shop.run(&["runs", "edit", &id.to_string(), "--payload", payload, "-o", "json"])
        };
        let before = shop.show(bad)["payload"].clone();
        let dry = ["runs", "edit", &bad.to_string(), "--payload", "7", "--dry-run", "-o", "json"];
        assert_eq!(shop.run(&dry).json()[0]["payload"], 7);
        assert_eq!(shop.show(bad)["payload"], before, "a dry run changes nothing");
        let edited = edit(bad, r#"{"day": "2026-01-31"}"#).json();
        assert_eq!(edited[0]["payload"], json!({ "day": "2026-01-31" }));
        assert_eq!(edited[0]["status"], "error", "an edit retries nothing");
        let story = shop.why(bad);
        let journal = story["journal"].as_array().unwrap();
        let entry = journal.iter().find(|row| row["action"] == "run.edit").unwrap();
        assert_eq!(entry["details"]["payload"], before, "the old payload stays in the journal");
        shop.run(&["runs", "retry", &bad.to_string()]).ok();

        let same = edit(bad, r#"{"day": "2026-01-31"}"#).failed(4);
        assert!(same.contains("this payload already"), "{same}");
        let passed = edit(fine, "1").failed(4);
        assert!(passed.contains("`runs submit`"), "{passed}");
        let unknown = edit(99, "1").failed(1);
        assert!(unknown.contains("there is no run 99"), "{unknown}");
        let wrong = edit(bad, "{day}").failed(2);
        assert!(wrong.contains("not JSON"), "{wrong}");
        shop.run(&["doctor"]).ok();
    }
}

// RUN-6, OPS-4
#[test]
fn each_run_is_done_refused_or_unknown() {
    for shop in Shop::both() {
        let [fine, bad] = shop.drained(&["fine", "bad"])[..] else { panic!() };
        let ids = [fine.to_string(), bad.to_string(), "99".to_owned()];
        let [fine_id, bad_id, unknown] = ids.each_ref().map(String::as_str);

        let some = shop.run(&["runs", "retry", unknown, bad_id, fine_id, "-o", "json"]);
        assert_eq!(some.code, Some(3));
        assert_eq!(outcomes(&some), pairs(&[(fine, "refused"), (bad, "done"), (99, "unknown")]));
        let none = shop.run(&["runs", "retry", fine_id, bad_id, "-o", "json"]);
        assert_eq!(none.code, Some(1), "the second is ready already");
        assert_eq!(outcomes(&none), pairs(&[(fine, "refused"), (bad, "refused")]));

        let table = shop.run(&["runs", "cancel", fine_id, bad_id]);
        assert_eq!(table.code, Some(3));
        assert!(
            table.stdout.contains("refused  passed      the run is passed"),
            "{}",
            table.stdout
        );
        assert!(table.stdout.ends_with("1 done, 1 refused\n"), "{}", table.stdout);
        assert_eq!(shop.status(bad), "cancelled");
        let again = shop.run(&["runs", "retry", bad_id, "-o", "json"]);
        assert_eq!(again.code, Some(0), "a cancelled run can be sent back");
    }
}

// RUN-6
#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    for shop in Shop::both() {
        let [fine, bad, down] = shop.drained(&["fine", "bad", "down"])[..] else { panic!() };
        let ready = shop.submit("fine");
        let before: Vec<Value> = [fine, bad, down, ready].map(|id| shop.show(id)).into();
        let journal = shop.why(bad)["journal"].clone();
        let dry = shop.run(&["runs", "retry", "--queue", "work", "--dry-run", "-o", "json"]);
        assert_eq!(outcomes(&dry), pairs(&[(bad, "would_be_done"), (down, "would_be_done")]));
        assert_eq!(dry.code, Some(0));
        let dry = shop.run(&["runs", "cancel", "--queue", "work", "--dry-run", "-o", "json"]);
        let would = [(bad, "would_be_done"), (down, "would_be_done"), (ready, "would_be_done")];
        let mut found = outcomes(&dry);
        found.sort_unstable();
        assert_eq!(found, pairs(&would));
        let dry = shop.run(&["runs", "retry", &fine.to_string(), "--dry-run"]);
        assert_eq!(dry.code, Some(1), "{}", dry.stdout);
        let after: Vec<Value> = [fine, bad, down, ready].map(|id| shop.show(id)).into();
        assert_eq!((after, shop.why(bad)["journal"].clone()), (before, journal));
    }
}

// RUN-6
#[test]
fn runs_of_a_queue_are_selected_by_status_and_category() {
    for shop in Shop::both() {
        let [bad, review, wrong] = shop.drained(&["bad", "review", "wrong"])[..] else { panic!() };
        let retry = |more: &[&str]| {
            outcomes(
                &shop.run(&[&["runs", "retry", "--queue", "work", "-o", "json"], more].concat()),
            )
        };
        assert_eq!(retry(&["--status", "needs_review"]), pairs(&[(review, "done")]));
        assert_eq!(
            retry(&[]),
            pairs(&[(bad, "done")]),
            "those that were given up, unless told otherwise"
        );
        assert_eq!(shop.status(wrong), "failed");
        let cancel = ["runs", "cancel", "--queue", "work", "--category", "bad", "-o", "json"];
        assert_eq!(outcomes(&shop.run(&cancel)), pairs(&[(bad, "done")]));
    }
}

// OPS-4
#[test]
fn a_selection_of_nothing_is_refused() {
    for shop in Shop::both() {
        shop.submit("fine");
        for command in ["retry", "cancel"] {
            let complaint = shop.run(&["runs", command]).failed(4);
            assert!(complaint.contains("no runs are selected"), "{complaint}");
            let complaint = shop.run(&["runs", command, "--queue", "wrok"]).failed(4);
            assert!(complaint.contains("nothing was changed"), "{complaint}");
            let complaint = shop.run(&["runs", command, "1", "--queue", "work"]).failed(2);
            assert!(complaint.contains("cannot be combined"), "{complaint}");
            let complaint = shop.run(&["runs", command, "1", "--status", "error"]).failed(2);
            assert!(complaint.contains("cannot be combined"), "{complaint}");
            let complaint = shop.run(&["runs", command, "--status", "error"]).failed(4);
            assert!(complaint.contains("no run matches"), "a state is a filter: {complaint}");
        }
        let complaint = shop.run(&["runs", "retry", "--queue", "work"]).failed(4);
        assert!(complaint.contains("no run matches"), "{complaint}");
    }
}

// OPS-4
#[test]
fn more_than_twenty_runs_are_asked_about() {
    for shop in Shop::both() {
        let lines = "{\"queue\": \"work\"}\n".repeat(21);
        shop.run_reading(lines, &["runs", "submit", "--from", "-"]).ok();
        let cancel = ["runs", "cancel", "--queue", "work"];
        let complaint = shop.run(&cancel).failed(4);
        assert!(complaint.contains("add --yes"), "{complaint}");
        assert_eq!(shop.status(21), "discovered");
        assert_eq!(shop.run(&["plan", "list", "-o", "json"]).json(), json!([]), "no draft is left");
        shop.run(&["runs", "cancel", "1", "-o", "json"]).ok();
        let done = shop.run(&[&cancel[..], &["-o", "json"]].concat());
        assert_eq!((done.code, outcomes(&done).len()), (Some(0), 20), "twenty are not");

        let lines = "{\"queue\": \"work\"}\n".repeat(21);
        shop.run_reading(lines, &["runs", "submit", "--from", "-"]).ok();
        let done = shop.run(&[&cancel[..], &["--yes", "-o", "json"]].concat());
        assert_eq!((done.code, outcomes(&done).len()), (Some(0), 21));
    }
}

// OPS-4
#[test]
fn on_a_terminal_the_answer_decides() {
    let shop = Shop::on_sqlite();
    let lines = "{\"queue\": \"work\"}\n".repeat(21);
    shop.run_reading(lines, &["runs", "submit", "--from", "-"]).ok();
    for (answer, code, status) in [("n\n", 4, "discovered"), ("y\n", 0, "cancelled")] {
        let program = env!("CARGO_BIN_EXE_redrive");
        let command = format!("{program} runs cancel --queue work --store sqlite:store.db");
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).current_dir(shop.folder.path());
        let mut child =
            script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script`");
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"[y/N]") {
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            asked.push(byte[0]);
        }
        // What comes after the question was not confirmed.
        let later = shop.submit("late");
        child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let asked = String::from_utf8_lossy(&asked);
        assert!(asked.contains("runs cancel: change 21 runs in sqlite:"), "{asked}");
        assert_eq!((output.status.code(), shop.status(21).as_str()), (Some(code), status));
        assert_eq!(shop.status(later), "discovered");
        shop.run(&["runs", "cancel", &later.to_string(), "-q"]).ok();
    }
}

// RUN-6
#[test]
fn a_cancelled_run_is_taken_from_its_worker() {
    for shop in Shop::both() {
        shop.make_gate();
        let id = shop.submit("gate");
        let mut worker = shop.start_worker(&["--grace", "50ms"]);
        worker.wait_for("initial attempt");
        assert_eq!(shop.status(id), "processing");
        shop.run(&["runs", "cancel", &id.to_string(), "-o", "json"]).ok();
        assert_eq!(shop.status(id), "cancelled");
        worker.signal("-TERM");
        assert_eq!(worker.end().0, Some(143));
        assert_eq!(shop.status(id), "cancelled", "whatever its worker had to say");
        let story = shop.why(id);
        assert_eq!(story["attempts"], json!([]));
        let next = story["next"]["because"].as_str().unwrap();
        assert!(next.starts_with("nothing: cancelled by operator at "), "{next}");
    }
}
