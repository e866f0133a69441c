//! `redrive plan`.

use serde_json::{Value, json};

use crate::shop::Shop;

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
            why.starts_with("1 of 1 canary units failed again, all of the same cause"),
            "{why}"
        );
        assert_eq!(given_up(&shop), 3);
    }
}

#[test]
fn what_no_plan_can_do_is_refused_with_what_it_can() {
    let shop = Shop::on_sqlite();
    let refused = shop.run(&["plan", "new", "reset", "--kind", "run"]).failed(2);
    assert!(refused.contains("the actions are retry --kind run"), "{refused}");
    shop.submit("bad");
    shop.run(&["plan", "new", "cancel", "--kind", "run", "--queue", "work", "-q"]).ok();
    shop.run(&["plan", "apply", "1", "-q"]).ok();
    let refused = shop.run(&["plan", "undo", "1"]).failed(4);
    assert!(refused.contains("run.cancel cannot be undone; nothing was changed"), "{refused}");
    let unknown = shop.run(&["plan", "apply", "7"]).failed(1);
    assert!(unknown.contains("there is no plan 7") && unknown.contains("plan list"), "{unknown}");
}
