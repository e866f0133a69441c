//! How the dashboard looks: on wide and narrow screens, in light and dark, with a keyboard, while things change.

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    dashboard::{PAGES, fair_with_plan},
    fair::Fair,
};

const SCREENS: [(u32, &str); 4] = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")];

/// How much wider than the screen a page is, and what sticks out.
const EXCESS: &str = "
    const wide = document.documentElement.scrollWidth - innerWidth;
    return wide <= 0 ? [] : [wide, ...[...document.querySelectorAll('body *')]
        .filter((it) => it.getBoundingClientRect().right > innerWidth + 1 && !it.closest('.scroll'))
        .map((it) => it.tagName + '.' + it.className).slice(0, 8)]";

/// How WebDriver writes the key.
const TAB: &str = "\u{e004}";

const FOCUSED: &str = "
    const it = document.activeElement;
    return it === document.body ? null : it.textContent";

/// What can be reached with a keyboard and does not show that it was.
const UNSEEN_FOCUS: &str = "
    document.querySelectorAll('details').forEach((it) => { it.open = true; });
    const reached = document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, textarea');
    return [...reached].filter((it) => it.checkVisibility()).filter((it) => {
        it.focus();
        const style = getComputedStyle(it);
        return document.activeElement !== it || style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2;
    }).map((it) => it.outerHTML.slice(0, 120))";

/// What moved by itself since the page was opened: how much of the screen, and by how much.
const MOVED: &str = "
    return [...window.moved].filter((it) => it.value > 0.002)
        .map((it) => it.value + ': ' + it.sources.map((at) => at.node && at.node.nodeName).join())";

const WATCH_MOVES: &str = "
    window.moved = [];
    new PerformanceObserver((list) => window.moved.push(...list.getEntries().filter((it) => !it.hadRecentInput)))
        .observe({ type: 'layout-shift', buffered: true })";

#[test]
fn every_page_fits_its_screen_in_light_and_dark() {
    let fair = fair_with_plan();
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    for (width, colours) in SCREENS {
        browser.look(width, colours);
        for (name, path) in PAGES {
            browser.open(path);
            browser.wait_for("footer", "Redrive");
            assert_eq!(browser.run(EXCESS), json!([]), "{name} is wider than {width}");
            browser.picture(&format!("{name}-{width}-{colours}"));
        }
    }
    let complaints = browser.complaints();
    assert!(complaints.iter().all(|it| it.contains("/runs/999")), "{complaints:?}");
}

#[test]
fn with_a_keyboard_one_sees_where_one_is() {
    let fair = fair_with_plan();
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    for (width, colours) in [(1280, "light"), (390, "dark")] {
        browser.look(width, colours);
        for (name, path) in PAGES {
            browser.open(path);
            // A page that was just opened may not listen yet.
            while browser.run(FOCUSED) == Value::Null {
                browser.press(TAB);
            }
            assert_eq!(browser.run(FOCUSED), "Skip to the content", "{name} at {width}");
            assert_eq!(browser.run(UNSEEN_FOCUS), json!([]), "{name} at {width}");
        }
    }
}

#[test]
fn a_page_that_changes_by_itself_does_not_jump() {
    let fair = fair_with_plan();
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    let version = "return document.querySelector('main').dataset.live";
    // Something changes, and no list on these pages becomes longer.
    let submit =
        || fair.told(&["runs", "submit", "--queue", "other", "--payload", "1", "--allow-unknown"]);
    submit();
    for (width, colours) in [(1280, "light"), (390, "dark")] {
        browser.look(width, colours);
        for (name, path) in PAGES {
            browser.open(path);
            if !browser.has("main[data-live]") {
                continue;
            }
            browser.run(WATCH_MOVES);
            browser.wait_for("#live", "live");
            let before = browser.run(version);
            submit();
            browser.wait_until(|| browser.run(version) != before, "the page is kept up to date");
            assert_eq!(browser.run(MOVED), json!([]), "{name} at {width} jumps");
        }
    }
    assert_eq!(browser.complaints().iter().filter(|it| !it.contains("/runs/999")).count(), 0);
}

#[test]
fn as_many_pages_can_be_open_as_one_likes() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let browser = Browser::at(server.address);
    let mut tabs = vec![browser.tab()];
    browser.open("/runs/2");
    // A browser has six connections to a server.
    for _ in 0..8 {
        tabs.push(browser.new_tab());
        browser.open("/runs/2");
        browser.wait_for("#live", "live");
    }
    fair.told(&["runs", "retry", "2", "--yes"]);
    for tab in tabs {
        browser.turn_to(&tab);
        browser.wait_for("h1", "discovered");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}
