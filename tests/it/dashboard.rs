//! The dashboard as people meet it: a real browser, the real program, a real store.

use crate::{browser::Browser, fair::Fair};

/// Every kind of page, by name.
pub(crate) const PAGES: [(&str, &str); 27] = [
    ("overview", "/"),
    ("partitions", "/partitions?month=2026-11"),
    ("partition", "/partitions/ads/1234/daily/2026-11-02"),
    ("partition-good", "/partitions/ads/1234/daily/2026-11-01"),
    ("partitions-3", "/partitions?month=2026-11&months=3"),
    ("partitions-list", "/partitions?state=failed&view=list"),
    ("partition-rows", "/partitions/ads/1234/daily/2026-11-01/rows"),
    ("partitions-preview", "/partitions/preview?action=retry&source=ads"),
    ("runs", "/runs?queue=work"),
    ("run", "/runs/2"),
    ("uploads", "/uploads?upload=tiles&group=g"),
    ("item", "/uploads/1"),
    ("pipelines", "/pipelines"),
    ("pipeline", "/pipelines/1"),
    ("dead-letters", "/dead-letters"),
    ("dead-letter", "/dead-letters/1"),
    ("causes", "/causes"),
    ("plans", "/plans"),
    ("plan", "/plans/1"),
    ("plan-units", "/plans/1/units"),
    ("workers", "/workers"),
    ("queue", "/queues/work?range=24h"),
    ("source", "/sources/ads"),
    ("upload", "/uploads/tiles?range=7d"),
    ("pipeline-of-runs", "/pipelines/flour?range=30d"),
    ("journal", "/journal"),
    ("nothing", "/runs/999"),
];

/// One with a plan, for the pages about plans.
pub(crate) fn fair_with_plan() -> Fair {
    let fair = Fair::on_sqlite("");
    fair.told(&["plan", "new", "retry", "--kind", "run", "--queue", "work"]);
    fair
}

// OPS-3
#[test]
fn a_person_sees_what_failed_retries_it_and_watches_it_become_good() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/");
    let overview = browser.text("main");
    for words in ["failed partitions", "quota exceeded", "is torn", "this cannot be <b>read</b>"] {
        assert!(overview.contains(words), "{words}: {overview}");
    }
    browser.follow("Causes of failures");
    browser.wait_for("h1", "Causes");
    browser.click("a[href^='/partitions?cause=']");
    browser.wait_for("main", "quota exceeded");
    browser.click("main a[href^='/causes/']");
    browser.wait_for("h1", "Cause 75");
    browser.follow("partition ads");
    assert!(browser.place().starts_with("/partitions/ads/1234/"), "{}", browser.place());
    browser.open("/partitions/ads/1234/daily/2026-11-02");
    browser.wait_for("h1", "failed");
    browser.write("form[action='/partitions/act/retry'] input[name=reason]", "the quota is back");
    browser.click("form[action='/partitions/act/retry'] button");
    browser.wait_for("main", "1 done");
    browser.wait_for("h1", "pending");
    browser.wait_for("main", "the quota is back");
    browser.wait_for("#live", "live");
    browser.run("window.untouched = true");
    fair.mend();
    fair.work();
    browser.wait_for("h1", "success");
    assert_eq!(browser.run("return window.untouched"), true, "the page was not loaded again");
    browser.picture("watched");
    assert_eq!(browser.complaints(), [""; 0]);
}

// CAU-2, CAU-3, CAU-4
#[test]
fn a_person_finds_a_cause_marks_it_and_brings_all_its_units_back() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/causes");
    browser.wait_for("main", "quota exceeded for 1234");
    browser.picture("causes");
    browser.click("a[href^='/runs/preview?action=retry&cause=']");
    browser.wait_for("main", "Nothing has been done yet. 2 would be done.");
    browser.write("input[name=reason]", "the form is new");
    browser.click("button.primary");
    browser.wait_for("h1", "Plan 1: Retry 2 runs");
    browser.click("main a[href^='/causes/']");
    browser.wait_for("h1", "Cause 65");
    browser.write("textarea[name=note]", "an old form");
    browser.write("input[name=ticket]", "OPS-7");
    browser.run("document.querySelector('select[name=mark]').value = 'fixed'");
    browser.click("form[action^='/causes/'] button");
    browser.wait_for("h1", "fixed");
    browser.wait_for("main", "an old form");
    browser.picture("cause");
    let given_up = server.get("/v1/runs?state=given_up")["items"].as_array().unwrap().len();
    assert_eq!(given_up, 1, "the run of another cause stays");
    browser.open("/runs/1");
    browser.write("form[action='/runs/act/note'] textarea", "seen in the browser");
    browser.click("form[action='/runs/act/note'] button");
    browser.wait_for("main", "Note: 1 done.");
    browser.wait_for("main", "seen in the browser");
    assert_eq!(browser.complaints(), [""; 0]);
}

// OPS-3
#[test]
fn a_person_brings_dead_letters_back_after_a_look_at_what_would_happen() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/dead-letters");
    browser.wait_for("main", "is torn");
    browser.follow("Reprocess all that match");
    browser.wait_for("main", "Nothing has been done yet. 6 would be done.");
    browser.picture("dead-letters-preview");
    assert_eq!(server.get("/v1/dead-letters")["items"].as_array().unwrap().len(), 6);
    browser.write("input[name=reason]", "new sacks");
    browser.click("button.primary");
    browser.wait_for("h1", "Plan 1: Reprocess 6 samples");
    assert_eq!(server.get("/v1/dead-letters")["items"].as_array().unwrap().len(), 0);
    browser.open("/journal");
    browser.wait_for("main", "new sacks");
    browser.wait_for("main", "local (dashboard)");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_a_person_types_stays_on_a_page_that_changes_until_it_is_left() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.open("/runs/2");
    browser.wait_for("#live", "live");
    browser.click("details.edit summary");
    browser.write("textarea[name=payload]", " and more");
    // A cancelled run has no form for its payload, and so no part around the form.
    fair.told(&["runs", "cancel", "2", "--yes"]);
    browser.wait_for("h1", "cancelled");
    let typed = || browser.run("return document.querySelector('textarea[name=payload]').value");
    assert!(typed().as_str().unwrap().ends_with(" and more"), "{}", typed());
    assert!(browser.has("form[action='/runs/act/retry']"), "the rest of the page is that of now");
    assert!(!browser.has("form[action='/runs/act/cancel']"), "the rest of the page is that of now");

    // Text that is not saved stays, also without the focus.
    browser.run("document.activeElement.blur()");
    fair.told(&["runs", "retry", "2", "--yes"]);
    browser.wait_for("h1", "discovered");
    assert!(typed().as_str().unwrap().ends_with(" and more"), "{}", typed());
    fair.told(&["runs", "cancel", "2", "--yes"]);
    browser.wait_for("h1", "cancelled");
    browser.run(
        "const it = document.querySelector('textarea[name=payload]');
        it.focus(); it.value = it.defaultValue; it.blur()",
    );
    browser
        .wait_until(|| !browser.has("textarea[name=payload]"), "a form that was left is removed");

    // A field with the focus stays although nothing is typed yet.
    browser.click("form[action='/runs/act/retry'] input[name=reason]");
    fair.told(&["runs", "retry", "2", "--yes"]);
    browser.wait_for("h1", "discovered");
    assert_eq!(browser.run("return document.activeElement.name"), "reason");
    assert!(browser.has("form[action='/runs/act/retry']") && browser.has("textarea[name=payload]"));
    browser.run("document.activeElement.blur()");
    let is_gone = || !browser.has("form[action='/runs/act/retry']");
    browser.wait_until(is_gone, "a form that was left is removed");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn people_sign_in_and_see_as_much_as_their_token_allows() {
    let (operator, viewer) = ("operator-token-0123456789", "viewer-token-0123456789");
    let tokens = [("OPERATOR", operator), ("VIEWER", viewer)];
    let fair = Fair::on_sqlite(
        "[server]\noperator-token = { env = \"OPERATOR\" }\nviewer-token = { env = \"VIEWER\" }\n",
    );
    let server = fair.serve(&tokens);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/runs");
    browser.wait_for("h1", "Sign in");
    assert_eq!(browser.place(), "/login?next=%2Fruns", "without a token nothing is shown");
    browser.picture("login");
    let sign_in = |token: &str| {
        browser.write("input[name=token]", token);
        browser.click("button.primary");
    };
    sign_in("something else entirely");
    browser.wait_for("main", "wrong token");
    sign_in(viewer);
    browser.wait_for("h1", "Runs");
    browser.open("/runs/2");
    browser.wait_for("h1", "given up");
    assert!(!browser.has("form[action='/runs/act/retry']"), "a viewer has no buttons");
    browser.wait_for("#live", "live");
    browser.click("form[action='/logout'] button");
    browser.wait_for("h1", "Sign in");
    sign_in(operator);
    browser.wait_for("h1", "Overview");
    browser.open("/runs/2");
    browser.click("form[action='/runs/act/retry'] button");
    browser.wait_for("main", "1 done");
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|it| it.contains("401")), "{complaints:?}");
}

#[test]
fn a_page_whose_token_was_changed_says_sign_in_again() {
    let fair = Fair::on_sqlite("[server]\nviewer-token = { env = \"VIEWER\" }\n");
    let server = fair.serve(&[("VIEWER", "viewer-token-0123456789")]);
    let browser = Browser::at(server.address);
    browser.open("/login");
    browser.write("input[name=token]", "viewer-token-0123456789");
    browser.click("button.primary");
    browser.wait_for("#live", "live");
    let address = server.address.to_string();
    drop(server);
    let _changed = fair.serve_at(&address, &[("VIEWER", "another-token-0123456789")]);
    browser.wait_for("#live", "sign in again");
    browser.click("#live a");
    browser.wait_for("main", "Your session has ended");
}

#[test]
fn without_scripts_everything_works_but_pages_do_not_change_by_themselves() {
    let fair = fair_with_plan();
    let server = fair.serve(&[]);
    let browser = Browser::without_scripts(server.address);
    for (_, path) in PAGES {
        browser.open(path);
        browser.wait_for("h1", "");
    }
    browser.open("/partitions/ads/1234/daily/2026-11-02");
    browser.click("form[action='/partitions/act/retry'] button");
    browser.wait_for("main", "1 done");
    browser.wait_for("#live", "as of now");
    browser.open("/dead-letters");
    browser.follow("Reprocess all that match");
    browser.click("button.primary");
    browser.wait_for("h1", "Reprocess 6 samples");
    browser.open("/partitions/preview?action=retry&source=ads");
    browser.click("input[name=clear_terminal]");
    browser.click("form.options button");
    browser.wait_for("form[method=post] input[name=clear_terminal][value=true]", "");
    browser.open("/plans/1");
    browser.write("input[name=pace]", "fast");
    browser.click("button.primary");
    browser.wait_for("[role=alert]", "pace");
    browser.write("input[name=reason]", "not now");
    browser.click("button.danger");
    browser.wait_for("main", "Discarded: aborted by local (dashboard): not now");
}

// PLN-1, PLN-2, PLN-4
#[test]
fn a_person_keeps_a_plan_applies_it_with_a_canary_and_undoes_it() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/runs?queue=work&state=given_up");
    browser.follow("Plan …");
    browser.wait_for("h1", "Retry 3 runs: queue work, given up");
    browser.write("input[name=pace]", "1/h");
    browser.click("button[formmethod=get]");
    browser.wait_for("main", "About 3h at this pace.");
    browser.picture("plan-preview");
    browser.click("button[name=keep]");
    browser.wait_for("h1", "Plan 1: Retry 3 runs");
    browser.run(
        "document.querySelector('input[name=pace]').value = '1/h';
        document.querySelector('input[name=canary]').value = '1'",
    );
    browser.click("button.primary");
    browser.wait_for("h1", "running");
    browser.wait_for("main", "1 pending");
    browser.wait_for("main", "1 unit: 0 recovered, 0 failed again, 1 pending");
    browser.open("/");
    browser.wait_for("main", "Plan 1: Retry 3 runs");
    browser.follow("Plan 1: Retry 3 runs");
    browser.write("input[name=reason]", "a mistake");
    browser.click("button[formaction='/plans/1/undo']");
    browser.wait_for("main", "Undone by local (dashboard)");
    browser.wait_for("main", "1 undone");
    browser.picture("plan-undone");
    assert_eq!(server.get("/v1/runs?state=given_up")["items"].as_array().unwrap().len(), 3);
    assert_eq!(browser.complaints(), [""; 0]);
}
