//! `redrive plan`.

use serde_json::{Value, json};

use crate::{
    archive::Archive,
    shop::{Shop, Worker},
};

/// Runs that were given up, on both stores.
fn shops_with_given_up_runs() -> [Shop; 2] {
    let shops = Shop::both();
    for shop in &shops {
        for _ in 0..3 {
            shop.submit("bad");
        }
        shop.run(&["worker", "--drain", "-q", "-q"]).ok();
    }
    shops
}

fn new_plan(shop: &Shop) -> Value {
    let new = ["plan", "new", "retry", "--kind", "run", "--queue", "work"];
    shop.run(&[&new[..], &["-q", "-o", "json"]].concat()).json()
}

/// A plan of the queue, kept with settings.
fn kept_plan(shop: &Shop, settings: &[&str]) -> Value {
    let new = ["plan", "new", "retry", "--kind", "run", "--queue", "work"];
    shop.run(&[&new[..], settings, &["-q", "-o", "json"]].concat()).json()
}

fn shown(shop: &Shop, id: &str) -> Value {
    shop.run(&["plan", "show", id, "-o", "json"]).json()
}

fn given_up(shop: &Shop) -> usize {
    let list = shop.run(&["runs", "list", "--state", "given-up", "-o", "json"]).json();
    list.as_array().unwrap().len()
}

/// Compares counts of a plan: total, changed, skipped, pending, same cause, undone.
#[track_caller]
fn check_plan(plan: &Value, status: &str, counts: [u64; 6]) {
    let names = ["total", "changed", "skipped", "pending", "same_cause", "undone"];
    assert_eq!(plan["status"], status, "{plan}");
    assert_eq!(names.map(|name| plan[name].as_u64().unwrap()), counts, "{plan}");
}

// PLN-1, PLN-4
#[test]
fn a_plan_is_made_applied_and_undone() {
    for shop in shops_with_given_up_runs() {
        check_plan(&new_plan(&shop), "draft", [3, 0, 0, 0, 0, 0]);
        assert_eq!(given_up(&shop), 3, "a new plan changes nothing");
        let applied = shop.run(&["plan", "apply", "1", "-q", "-o", "json"]).json();
        check_plan(&applied, "done", [3, 3, 0, 3, 0, 0]);
        assert_eq!(given_up(&shop), 0);
        let undone = shop.run(&["plan", "undo", "1", "-q", "-o", "json"]).json();
        check_plan(&undone, "undone", [3, 3, 0, 0, 0, 3]);
        assert_eq!(given_up(&shop), 3);
        let refused = shop.run(&["plan", "undo", "1"]).failed(4);
        assert!(refused.contains("plan 1 is undone; nothing was changed"), "{refused}");
        let listed = shop.run(&["plan", "list", "-o", "json"]).json();
        check_plan(&listed[0], "undone", [3, 3, 0, 0, 0, 3]);
    }
}

// PLN-3
#[test]
fn a_unit_that_changed_since_the_plan_was_made_is_skipped() {
    for shop in shops_with_given_up_runs() {
        new_plan(&shop);
        shop.run(&["runs", "retry", "1", "-q"]).ok();
        let applied = shop.run(&["plan", "apply", "1", "-q", "-o", "json"]).json();
        check_plan(&applied, "done", [3, 2, 1, 2, 0, 0]);
        let skipped = applied["units"].as_array().unwrap().iter();
        let skipped: Vec<&Value> = skipped.filter(|alike| alike["outcome"] == "skipped").collect();
        assert_eq!(skipped.len(), 1, "{applied}");
        assert_eq!(skipped[0]["units"], 1, "{applied}");
        let listed = ["plan", "units", "1", "--outcome", "skipped", "-o", "json"];
        let listed = shop.run(&listed).json();
        assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(1)));
        assert!(listed[0]["reason"].as_str().is_some_and(|why| !why.is_empty()), "{listed}");
    }
}

// PLN-1, PLN-4
#[test]
fn a_bulk_command_counts_only_what_its_plan_has_come_to() {
    let shop = Shop::on_sqlite();
    for _ in 0..3 {
        shop.submit("ok");
    }
    // Somebody pauses the plan as soon as it runs.
    let pause = "CREATE TRIGGER pause AFTER UPDATE OF status ON plans WHEN NEW.status = 'running'
                 BEGIN UPDATE plans SET status = 'paused' WHERE id = NEW.id; END";
    let database = rusqlite::Connection::open(shop.folder.path().join("store.db")).unwrap();
    database.execute_batch(pause).unwrap();
    let cancelled = shop.run(&["runs", "cancel", "--queue", "work", "-o", "json"]);
    assert_eq!((cancelled.code, cancelled.stdout.trim()), (Some(3), "[]"), "{cancelled:?}");
    let left = "3 runs left unchanged: plan 1 is paused";
    assert!(cancelled.stderr.contains(left), "{cancelled:?}");
}

// PLN-2, PLN-5
#[test]
fn a_canary_that_fails_aborts_the_plan_with_exit_code_3() {
    for shop in shops_with_given_up_runs() {
        new_plan(&shop);
        let mut worker = shop.command(&["worker", "-q", "-q"]);
        let mut worker = worker.stderr(std::process::Stdio::null()).spawn().unwrap();
        let aborted = shop.run(&["plan", "apply", "1", "--canary", "1", "-q", "-q"]);
        worker.kill().unwrap();
        worker.wait().unwrap();
        assert_eq!(aborted.code, Some(3), "{aborted:?}");
        let plan = shop.run(&["plan", "show", "1", "-o", "json"]).json();
        check_plan(&plan, "aborted", [3, 1, 0, 0, 1, 0]);
        let why = plan["stop_reason"].as_str().unwrap();
        assert!(
            why.starts_with("1 of 1 canary units failed again, each of the same cause as before"),
            "{why}"
        );
        assert_eq!(given_up(&shop), 3);
    }
}

// PLN-2
#[test]
fn a_draft_keeps_its_settings_and_apply_replaces_those_that_it_names() {
    for shop in shops_with_given_up_runs() {
        let draft = kept_plan(&shop, &["--canary", "2", "--pace", "50/s", "--ramp", "10m"]);
        assert_eq!(draft["settings"], "canary 2, pace 50/s, ramp 10m, abort-if 20%");
        shop.run(&["plan", "apply", "1", "--pace", "1/h", "--ramp", "0s", "--detach", "-q"]).ok();
        assert_eq!(shown(&shop, "1")["settings"], "canary 2, pace 1/h, abort-if 20%");
        let paced = shop.run(&["plan", "new", "retry", "--kind", "run", "--all", "--pace", "7/m"]);
        assert!(paced.stderr.contains("it would take 26s"), "{}", paced.stderr);
    }
}

// PLN-2
#[test]
fn a_canary_that_protects_nothing_is_refused() {
    for shop in shops_with_given_up_runs() {
        let too_large = "the canary (5000) must be smaller than the plan (3 units)";
        let new = ["plan", "new", "retry", "--kind", "run", "--queue", "work"];
        let refused = shop.run(&[&new[..], &["--canary", "5000"]].concat()).failed(2);
        assert!(refused.contains(too_large), "{refused}");
        let plans = shop.run(&["plan", "list", "-o", "json"]).json();
        assert_eq!(plans, json!([]), "there is no plan");
        let id = new_plan(&shop)["id"].to_string();
        let refused = shop.run(&["plan", "apply", &id, "--canary", "5000"]).failed(2);
        assert!(refused.contains(too_large), "{refused}");
        assert_eq!(shown(&shop, &id)["status"], "draft");
        let cancel = ["plan", "new", "cancel", "--kind", "run", "--queue", "work", "--canary", "1"];
        let refused = shop.run(&cancel).failed(2);
        assert!(refused.contains("run.cancel tries no unit again"), "{refused}");
        assert!(refused.contains("run.retry, upload.reset, partition.retry"), "{refused}");
    }
}

// PLN-4
#[test]
fn an_undo_with_nothing_to_return_keeps_the_plan() {
    for shop in shops_with_given_up_runs() {
        new_plan(&shop);
        shop.run(&["plan", "apply", "1", "-q", "--reason", "mended"]).ok();
        shop.run(&["worker", "--drain", "-q", "-q"]).ok();
        assert_eq!(shown(&shop, "1")["pending"], 0, "the drain noted what became of the units");
        let refused = shop.run(&["plan", "undo", "1"]).failed(4);
        assert!(refused.contains("nothing to return"), "{refused}");
        let plan = shown(&shop, "1");
        check_plan(&plan, "done", [3, 3, 0, 0, 3, 0]);
        assert_eq!(plan["reason"], "mended");
        let text = shop.run(&["plan", "show", "1"]).ok();
        assert!(text.contains("all 3 changed units failed again"), "{text}");
        assert!(text.contains("--queue work") && text.contains("mended"), "{text}");
        let refused = shop.run(&["plan", "apply", "1"]).failed(4);
        assert!(refused.contains("plan 1 is done") && refused.contains("plan new"), "{refused}");
    }
}

// PLN-1, CAU-4
#[test]
fn the_journal_of_a_cause_names_the_plans_that_were_made_for_it() {
    for shop in shops_with_given_up_runs() {
        let cause = new_plan(&shop)["units"][0]["cause"].as_str().unwrap().to_owned();
        let new =
            ["plan", "new", "retry", "--kind", "run", "--cause", &cause, "--reason", "mended"];
        let plan = shop.run(&[&new[..], &["-q", "-o", "json"]].concat()).json();
        assert_eq!(plan["flags"], format!("--cause {cause}"));
        let cause = shop.run(&["causes", "show", &cause, "-o", "json"]).json();
        let told = cause["journal"].as_array().unwrap();
        assert_eq!(told.len(), 1, "the plan over the queue is not of the cause: {cause}");
        let entry = ["plan", "reason"].map(|name| told[0]["details"][name].clone());
        assert_eq!(entry, [plan["id"].clone(), json!("mended")]);
    }
}

// PLN-3
#[test]
fn a_plan_that_changes_nothing_says_why_and_fails() {
    for shop in shops_with_given_up_runs() {
        new_plan(&shop);
        shop.run(&["runs", "retry", "--queue", "work", "-q"]).ok();
        let applied = shop.run(&["plan", "apply", "1", "-q"]);
        assert_eq!(applied.code, Some(3), "{applied:?}");
        assert!(applied.stdout.ends_with("no unit was changed\n"), "{}", applied.stdout);
        let shown = shown(&shop, "1");
        let why = "the run was error, given up and is discovered now";
        assert_eq!(shown["units"][0]["refusal"], why, "{shown}");
        assert_eq!(shown["units"][0]["units"], 3, "{shown}");
    }
}

// PLN-2
#[test]
fn a_canary_that_no_worker_tries_says_so() {
    for shop in shops_with_given_up_runs() {
        new_plan(&shop);
        let apply = ["plan", "apply", "1", "--canary", "2", "--pace", "1/s", "--detach", "-q"];
        shop.run(&apply).ok();
        let config = shop.folder.path().join("other.toml");
        std::fs::write(&config, "[[queue]]\nname = \"other\"\nhandler.exec = [\"true\"]\n")
            .unwrap();
        let other = ["--config", config.to_str().unwrap()];
        let mut executor = shop.command(&["plan", "resume", "1", "-q"]);
        let mut executor = executor.stderr(std::process::Stdio::null()).spawn().unwrap();
        let mut plan = shown(&shop, "1");
        while plan["changed"] != 2 {
            plan = shown(&shop, "1");
        }
        let shown = shop.run(&[&other[..], &["plan", "show", "1", "-o", "json"]].concat()).json();
        let waits =
            "2 pending units cannot end, because no worker of this configuration serves queue work";
        assert_eq!(shown["waits_for"], json!([waits]), "{shown}");
        assert_eq!(shown["canary"], "2 of 2 units have not ended yet");
        assert_eq!((&shown["left_s"], shown["executed_by"].is_string()), (&Value::Null, true));
        let status = shop.run(&["status"]).ok();
        assert!(status.contains("run.retry") && status.contains("2 of 3 changed"), "{status}");
        shop.run(&["plan", "abort", "1", "-q"]).ok();
        assert_eq!(executor.wait().unwrap().code(), Some(3));
    }
}

#[test]
fn a_plan_over_everything_or_over_many_units_is_confirmed() {
    let shop = Shop::on_sqlite();
    for _ in 0..21 {
        shop.submit("bad");
    }
    let new = ["plan", "new", "cancel", "--kind", "run", "-q"];
    let refused = shop.run(&new).failed(4);
    assert!(refused.contains("no runs are selected") && refused.contains("--all"), "{refused}");
    shop.run(&[&new[..], &["--all"]].concat()).ok();
    let refused = shop.run(&["plan", "apply", "1"]).failed(4);
    assert!(refused.contains("run.cancel for 21 runs") && refused.contains("--yes"), "{refused}");
    assert_eq!(shown(&shop, "1")["status"], "draft");
    shop.run(&["plan", "apply", "1", "--yes", "-q"]).ok();
}

#[test]
fn wrong_input_names_the_value_and_what_is_allowed() {
    let shop = Shop::on_sqlite();
    shop.run(&["db", "migrate", "-q"]).ok();
    let check = |arguments: &[&str], parts: &[&str]| {
        let refused = shop.run(arguments).failed(2);
        assert!(parts.iter().all(|part| refused.contains(part)), "{arguments:?}: {refused}");
        assert!(!refused.contains("Usage: redrive <"), "{arguments:?}: {refused}");
    };
    let new = |more: &[&'static str]| [&["plan", "new", "retry", "--kind", "run"], more].concat();
    check(&["plan", "new", "retry", "--kind", "cow"], &["cow", "run, partition, item, sample"]);
    check(&new(&["--state", "tired"]), &["tired", "--state", "given-up"]);
    check(&new(&["--failed-since", "yesterday"]), &["yesterday", "--failed-since"]);
    check(&new(&["--all", "--pace", "-5/s"]), &["-5/s", "--pace"]);
    check(&["plan", "apply", "abc"], &["abc", "<ID>", "a whole number"]);
    check(&["plan", "apply", "99999999999999999999"], &["<ID>", "a whole number"]);
    check(&["why", "plan:7"], &["redrive plan show 7"]);
    check(&["runs", "retry", "5", "--plan"], &["--plan", "filters"]);
    let none = shop.run(&new(&["--queue", "none"])).failed(4);
    assert!(none.contains("no run matches") && !none.contains("--dry-run"), "{none}");
    let day = ["plan", "new", "retry", "--kind", "partition", "--logical-date", "2026-03-01"];
    shop.run(&day).failed(4);
}

#[test]
fn what_no_plan_can_do_is_refused_with_what_it_can() {
    let shop = Shop::on_sqlite();
    let refused = shop.run(&["plan", "new", "reset", "--kind", "run"]).failed(2);
    assert!(refused.contains("the actions of runs are retry, cancel"), "{refused}");
    shop.submit("bad");
    shop.run(&["plan", "new", "cancel", "--kind", "run", "--queue", "work", "-q"]).ok();
    shop.run(&["plan", "apply", "1", "-q"]).ok();
    let refused = shop.run(&["plan", "undo", "1"]).failed(4);
    assert!(refused.contains("run.cancel cannot be undone; nothing was changed"), "{refused}");
    let unknown = shop.run(&["plan", "apply", "7"]).failed(1);
    assert!(unknown.contains("there is no plan 7") && unknown.contains("plan list"), "{unknown}");
}

// PLN-1, PLN-3, PAR-8, FIX-4
#[test]
fn a_partition_that_lost_its_raw_data_since_is_skipped_with_the_reason() {
    for archive in Archive::both() {
        for day in 1..=2 {
            archive.failed(&format!("ads/7/daily/2026-03-{day:02}"), 1);
        }
        let new = ["plan", "new", "retry", "--kind", "partition", "--source", "ads"];
        let plan = archive.run(&[&new[..], &["-q", "-o", "json"]].concat()).json();
        assert_eq!(plan["units"], json!([plan["units"][0]]), "both would be changed: {plan}");
        std::fs::remove_dir_all(archive.folder.path().join("raw")).unwrap();
        let applied = archive.run(&["plan", "apply", "1", "-q", "-o", "json"]);
        assert_eq!(applied.code, Some(3), "nothing was changed: {applied:?}");
        let applied: Value = serde_json::from_str(&applied.stdout).unwrap();
        assert_eq!(json!([applied["changed"], applied["skipped"]]), json!([0, 2]), "{applied}");
        let units = archive.run(&["plan", "units", "1", "--outcome", "skipped", "-o", "json"]);
        assert!(units.stdout.contains("is gone from the raw sink; --force"), "{}", units.stdout);
        let forced = archive.run(&[&new[..], &["--force", "-q", "-o", "json"]].concat()).json();
        assert_eq!(forced["total"], 2, "{forced}");
        let applied = archive.run(&["plan", "apply", "2", "-q", "-o", "json"]).json();
        assert_eq!(applied["changed"], 2, "{applied}");
        let pause = ["plan", "new", "pause", "--kind", "partition", "--source", "ads", "-q"];
        archive.run(&pause).ok();
        archive.run(&["plan", "apply", "3", "-q"]).ok();
        let refused = archive.run(&["plan", "undo", "3"]).failed(4);
        assert!(refused.contains("`redrive state resume` takes it back"), "{refused}");
    }
}

/// A plan over partitions of `ads` with raw data.
fn plan_over_partitions(archive: &Archive) {
    for day in 1..=3 {
        archive.failed(&format!("ads/7/daily/2026-03-{day:02}"), 1);
    }
    archive.run(&["plan", "new", "retry", "--kind", "partition", "--source", "ads", "-q"]).ok();
}

// PLN-3, FIX-4
#[test]
fn a_plan_waits_for_a_raw_sink_that_cannot_be_read() {
    for archive in Archive::both() {
        plan_over_partitions(&archive);
        let (raw, away) = (archive.folder.path().join("raw"), archive.folder.path().join("away"));
        std::fs::rename(&raw, &away).unwrap();
        std::os::unix::fs::symlink("raw", &raw).unwrap();
        let mut applied = Worker::start(archive.command(&["plan", "apply", "1"]));
        let why = applied.wait_for("cannot read the raw sink");
        assert!(why.contains("trying again"), "{why}");
        let plan = archive.run(&["plan", "show", "1", "-o", "json"]).json();
        check_plan(&plan, "running", [3, 0, 0, 0, 0, 0]);
        assert!(plan["waits_for"][0].as_str().unwrap().contains("cannot read the raw sink"));
        std::fs::remove_file(&raw).unwrap();
        std::fs::rename(&away, &raw).unwrap();
        assert_eq!(applied.end().0, Some(0));
        let plan = archive.run(&["plan", "show", "1", "-o", "json"]).json();
        check_plan(&plan, "done", [3, 3, 0, 3, 0, 0]);
    }
}

// PLN-3, FIX-4
#[test]
fn a_process_that_does_not_know_the_source_leaves_its_plans_to_others() {
    for archive in Archive::both() {
        plan_over_partitions(&archive);
        let other = archive.folder.path().join("elsewhere");
        std::fs::create_dir(&other).unwrap();
        let config = other.join("other.toml");
        std::fs::write(&config, "[[queue]]\nname = \"q\"\nhandler.exec = [\"true\"]\n").unwrap();
        let config = ["--config", config.to_str().unwrap()];
        archive.run(&["plan", "apply", "1", "--detach", "-q"]).ok();
        let mut server = Worker::start(
            archive.command(&[&config[..], &["serve", "--listen", "127.0.0.1:0"]].concat()),
        );
        server.wait_for("does not declare the source");
        let mut other =
            Worker::start(archive.command(&[&config[..], &["plan", "resume", "1"]].concat()));
        other.wait_for("does not declare source ads");
        let plan = archive.run(&["plan", "show", "1", "-o", "json"]).json();
        check_plan(&plan, "running", [3, 0, 0, 0, 0, 0]);
        let resumed = archive.run(&["plan", "resume", "1", "-q", "-o", "json"]).json();
        check_plan(&resumed, "done", [3, 3, 0, 3, 0, 0]);
        assert_eq!(other.end().0, Some(0), "another process did it");
    }
}
