//! `redrive runs list | show | stats`.

use serde_json::{Value, json};

use crate::{folder::Folder, shop::Shop};

/// The ids that a listing has.
#[track_caller]
fn listed(shop: &Shop, arguments: &[&str]) -> Vec<i64> {
    let list = shop.run(&[&["runs", "list", "-o", "json"], arguments].concat()).json();
    list.as_array().unwrap().iter().map(|run| run["id"].as_i64().unwrap()).collect()
}

// RUN-6, OPS-4
#[test]
fn runs_are_listed_by_id_and_by_exact_filters() {
    for shop in Shop::both() {
        let [fine, bad, review] = shop.drained(&["fine", "bad", "review"])[..] else { panic!() };
        let waiting = shop.submit_to("patient", "down");
        assert_eq!(listed(&shop, &[]), [fine, bad, review, waiting]);
        assert_eq!(listed(&shop, &["--queue", "work"]), [fine, bad, review]);
        assert_eq!(listed(&shop, &["--queue", "wor%"]), Vec::<i64>::new());
        assert_eq!(listed(&shop, &["--category", "bad"]), [bad]);
        assert_eq!(listed(&shop, &["--status", "error"]), [bad]);
        assert_eq!(listed(&shop, &["--status", "needs_review", "--queue", "work"]), [review]);
        assert_eq!(listed(&shop, &["--status", "passed", "--category", "bad"]), Vec::<i64>::new());
        assert_eq!(listed(&shop, &["--limit", "2"]), [fine, bad]);
        assert_eq!(
            listed(&shop, &["--limit", "2", "--after", &bad.to_string()]),
            [review, waiting]
        );
        assert_eq!(listed(&shop, &["--after", &i64::MAX.to_string()]), Vec::<i64>::new());

        let table = shop.run(&["runs", "list", "--limit", "2"]).ok();
        assert!(table.contains("ID  QUEUE  CATEGORY  STATE     ATTEMPTS"), "{table}");
        assert!(
            table.ends_with(&format!("there may be more; continue with --after {bad}\n")),
            "{table}"
        );
        let lines = shop.run(&["runs", "list", "-o", "jsonl"]).ok();
        assert_eq!(lines.lines().count(), 4);
        let many = "{\"queue\": \"idle\"}\n".repeat(1_010);
        shop.run_reading(many, &["runs", "submit", "--from", "-", "-q", "--allow-unknown"]).ok();
        let table = shop.run(&["runs", "list", "--queue", "idle", "--limit", "2000"]).ok();
        assert!(table.ends_with("10 rows are not shown; -o jsonl prints all\n"), "{table}");
    }
}

// OPS-4
#[test]
fn wrong_questions_about_runs_are_refused() {
    #[track_caller]
    fn check(arguments: &[&str], part: &str) {
        let complaint = Folder::new().run(&[&["runs"], arguments].concat()).failed(2);
        assert!(complaint.contains(part), "{part:?} is not in {complaint}");
    }
    for wrong in ["0", "10001", "-1", "ten", ""] {
        check(&["list", &format!("--limit={wrong}")], "--limit <N>");
    }
    for wrong in ["-1", "x", "9223372036854775808"] {
        check(&["list", "--after", wrong], "--after <ID>");
    }
    check(&["list", "--status", "done"], "discovered, processing, passed");
    check(&["show"], "<ID>");
    for wrong in ["0", "-1", "+1", "01", "one", "", "9223372036854775808"] {
        check(&["show", wrong], "an id is a whole number, 1 or greater");
        check(&["retry", wrong], "an id is a whole number, 1 or greater");
        check(&["cancel", wrong], "an id is a whole number, 1 or greater");
    }
}

// OPS-4
#[test]
fn who_only_looks_makes_no_store() {
    let looks: [&[&str]; 6] = [
        &["runs", "list"],
        &["runs", "show", "1"],
        &["runs", "stats"],
        &["runs", "retry", "1"],
        &["queue", "list"],
        &["why", "run:1"],
    ];
    for look in looks {
        let folder = Folder::new();
        let complaint = folder.run(look).failed(1);
        assert!(complaint.contains("there is no such file"), "{look:?}: {complaint}");
        assert!(!folder.path().join("redrive.db").exists(), "{look:?}");
    }
}

// OPS-4
#[test]
fn runs_are_shown_in_the_order_they_were_asked_for() {
    for shop in Shop::both() {
        let [one, two] = [shop.submit("fine").to_string(), shop.submit("bad").to_string()];
        let shown = shop.run(&["runs", "show", &two, &one, "-o", "json"]).json();
        assert_eq!((&shown[0]["category"], &shown[1]["category"]), (&json!("bad"), &json!("fine")));
        let alone = shop.run(&["runs", "show", &one, "-o", "json"]).json();
        assert_eq!(alone.as_array().unwrap().len(), 1, "a list, also of one");
        let table = shop.run(&["runs", "show", &one, &two]).ok();
        assert!(table.contains("category           fine\n"), "{table}");

        let some = shop.run(&["runs", "show", "77", &one, "78", "-o", "json"]);
        assert_eq!(some.code, Some(3));
        assert!(some.stderr.contains("there is no run 77, 78"), "{}", some.stderr);
        let none = shop.run(&["runs", "show", "77"]).failed(1);
        assert!(none.contains("there is no run 77"), "{none}");
    }
}

// RUN-6
#[test]
fn stats_count_every_state_and_mark_what_nobody_serves() {
    for shop in Shop::both() {
        shop.drained(&["fine", "fine", "bad", "wrong"]);
        shop.submit("fine");
        let late = ["--not-before", "2999-01-01T00:00:00Z"];
        shop.run(&[&["runs", "submit", "--queue", "work"], &late[..]].concat()).ok();
        shop.submit_to("nobody", "fine");
        shop.run(&["queue", "pause", "patient"]).ok();

        let stats = shop.run(&["runs", "stats", "-o", "json"]).json();
        let [nobody, patient, work] = &stats.as_array().unwrap()[..] else { panic!("{stats}") };
        let expected = json!({
            "discovered": 2, "processing": 0, "waiting_for_retry": 0, "given_up": 1,
            "passed": 2, "needs_review": 0, "failed": 1, "cancelled": 0,
        });
        assert_eq!(work["runs"], expected);
        assert_eq!(work["next_due_at"], "2999-01-01T00:00:00Z");
        assert!(work["oldest_ready_age_s"].as_f64().unwrap() >= 0.0);
        assert_eq!(work["unroutable"], false);
        assert_eq!((&nobody["queue"], &nobody["unroutable"]), (&json!("nobody"), &json!(true)));
        assert_eq!(
            (&patient["queue"], patient["paused_at"].is_string()),
            (&json!("patient"), true)
        );

        let table = shop.run(&["runs", "stats"]).ok();
        let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("nobody").ends_with("unroutable"), "{table}");
        assert!(row("patient").contains("none") && row("patient").ends_with("paused"), "{table}");
        assert!(row("work").contains("2 discovered, 1 given_up, 2 passed, 1 failed"), "{table}");
    }
}

#[test]
fn without_a_configuration_no_queue_is_called_unroutable() {
    let folder = Folder::new();
    folder.run(&["runs", "submit", "--queue", "q"]).ok();
    let stats = folder.run(&["runs", "stats", "-o", "json"]).json();
    assert_eq!(stats[0]["unroutable"], Value::Null);
}
