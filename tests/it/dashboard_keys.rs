//! The dashboard with a keyboard: lists, selected rows and the help.

use crate::{browser::Browser, fair::Fair};

const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// The key of the row that has the focus.
fn focused(browser: &Browser) -> String {
    let key = "const row = document.activeElement.closest('tr'); return row ? row.dataset.key : ''";
    browser.run(key).as_str().unwrap().to_owned()
}

fn selected(browser: &Browser) -> String {
    let boxes = "return [...document.querySelectorAll('input[name=ids]:checked')].map((it) => it.value).join()";
    browser.run(boxes).as_str().unwrap().to_owned()
}

// OPS-3, OPS-4
#[test]
fn a_person_selects_runs_with_keys_and_looks_at_their_retry() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/runs?queue=work&state=given_up");
    browser.wait_for("#live", "live");
    for (key, row) in [("j", "5"), ("j", "3"), ("j", "2"), ("j", "2"), ("k", "3"), ("k", "5")] {
        browser.press(key);
        assert_eq!(focused(&browser), row, "{key}");
    }
    assert!(browser.text("main").contains("3 runs") && !browser.text("main").contains("Selected"));
    browser.press("x");
    browser.press("j");
    browser.press("x");
    assert_eq!((selected(&browser).as_str(), focused(&browser).as_str()), ("5,3", "3"));
    browser.wait_for("#selected", "Selected");
    browser.picture("runs-selected");

    // The list goes on under the hands of the person.
    fair.told(&["runs", "cancel", "2", "--yes"]);
    browser.wait_until(|| !browser.has("tr[data-key='2']"), "the list is kept up to date");
    assert_eq!((selected(&browser).as_str(), focused(&browser).as_str()), ("5,3", "3"));

    browser.press("r");
    browser.wait_for("h1", "Retry 2 runs: 5, 3");
    browser.follow("Go back");
    browser.wait_for("h1", "Runs");
    assert_eq!(browser.place(), "/runs?queue=work&state=given%5Fup");

    // Without a selection the key is about the row, and on a page of a unit about the unit.
    browser.press("j");
    browser.press("r");
    browser.wait_for("h1", "Retry 1 run: 5");
    browser.open("/runs/3");
    browser.wait_for("#live", "live");
    browser.press("r");
    browser.wait_for("h1", "Retry 1 run: 3");
    browser.click("button.primary");
    browser.wait_for("main", "Retry: 1 done.");
    assert_eq!(browser.place(), "/runs/3?did=retry%3A1%3A0");
    assert_eq!(browser.complaints(), [""; 0]);
}

// PAR-8, OPS-4
#[test]
fn a_person_selects_days_of_a_calendar_with_keys_and_by_dragging() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(1280, "light");
    browser.open("/partitions?month=2026-11&months=2");
    browser.wait_for("#live", "live");
    let day = |query: &str, day: u32| {
        format!("a[href='/partitions/ads/1234/{query}/2026%2D11%2D0{day}']")
    };
    browser.run(&format!("document.querySelector(\"{}\").focus()", day("daily", 2)));
    browser.press("x");
    browser.press("\u{e014}");
    browser.press("\u{e015}");
    browser.press("x");
    let keys = "ads/1234/daily/2026-11-02,ads/1234/hourly/2026-11-03";
    assert_eq!(selected(&browser), keys);
    browser.wait_for("#selected", "Selected");

    browser.drag(&day("daily", 3), &day("daily", 6));
    let place = browser.place();
    assert!(place.starts_with("/partitions?"), "a drag follows no link: {place}");
    let days = selected(&browser);
    assert_eq!(days.matches("daily/").count(), 5, "{days}");
    browser.picture("partitions-selected");
    browser.drag(&day("daily", 6), &day("daily", 4));
    assert_eq!(
        selected(&browser),
        "ads/1234/daily/2026-11-02,ads/1234/daily/2026-11-03,ads/1234/hourly/2026-11-03"
    );
    browser.press("r");
    browser.wait_for("h1", "Retry 3 partitions: ads/1234/daily/2026-11-02");
    browser.click("main a[href^='/partitions?']");
    browser.wait_for("h2", "2026-10 to 2026-11");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn new_units_appear_above_and_the_focus_stays_with_its_row() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.open("/runs");
    browser.wait_for("#live", "live");
    browser.press("j");
    let before = focused(&browser);
    for _ in 0..2 {
        fair.told(&["runs", "submit", "--queue", "work", "--payload", "1"]);
    }
    let first = "tbody tr:first-child td:nth-child(2)";
    let newest = (before.parse::<u32>().unwrap() + 2).to_string();
    browser.wait_for(first, &newest);
    assert_eq!(focused(&browser), before);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn keys_search_and_help_and_can_be_turned_off() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.open("/runs");
    browser.wait_for("#live", "live");
    browser.press("/");
    assert_eq!(browser.run("return document.activeElement.name"), "search");
    // A key in a field is text.
    browser.press("j");
    assert_eq!(browser.run("return document.activeElement.value"), "j");
    browser.press(ESCAPE);
    browser.press("?");
    browser.wait_for("dialog[open]", "Next and previous row");
    browser.picture("keys");
    browser.click("dialog input[type=checkbox]");
    browser.press(ESCAPE);
    browser.wait_until(|| !browser.has("dialog[open]"), "the help is closed");
    browser.press("j");
    assert_eq!(focused(&browser), "");
    browser.press("?");
    browser.wait_for("dialog[open]", "Use keys");
    browser.click("dialog input[type=checkbox]");
    browser.click("dialog button");
    browser.press("j");
    assert_ne!(focused(&browser), "");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn the_rows_of_a_list_are_a_few_stops_away() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    for path in ["/runs", "/uploads", "/dead-letters", "/partitions?month=2026-11"] {
        browser.open(path);
        browser.wait_for("#live", "live");
        browser.press(TAB);
        browser.press(TAB);
        assert_eq!(browser.run("return document.activeElement.textContent"), "Skip to the rows");
        browser.press(ENTER);
        browser.press(TAB);
        let inside = "return document.activeElement.closest('#rows') !== null";
        assert_eq!(browser.run(inside), true, "{path}");
    }
}

#[test]
fn the_targets_of_lists_are_large_enough_for_a_finger() {
    const SMALL: &str = "
        const reached = document.querySelectorAll(`#rows input:not([type=hidden], .unseen), #rows button, #rows td.name a,
            .filter-bar button, .filter-bar summary, .filter-bar input[type=search], .chips a.filter, .pages a`);
        return [...reached].filter((it) => it.checkVisibility()).map((it) => [it, it.getBoundingClientRect()])
            .filter(([, at]) => at.height < 24).map(([it, at]) => at.height + ' ' + it.outerHTML.slice(0, 100))";
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    browser.look(390, "light");
    for path in ["/runs?queue=work", "/uploads", "/dead-letters", "/partitions?month=2026-11"] {
        browser.open(path);
        browser.wait_for("footer", "Redrive");
        assert_eq!(browser.run(SMALL), serde_json::json!([]), "{path}");
    }
}
