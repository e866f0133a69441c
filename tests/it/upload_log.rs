//! What an upload says of itself while it goes on.

use serde_json::{Value, json};

use crate::{
    upload_server::{Received, Reply},
    upload_shop::{SOON, UploadShop},
};

fn by_name(item: &Received) -> Reply {
    match item.name.as_str() {
        "bad" => Reply::Status(422, "", "broken tile".to_owned()),
        _ => Reply::status(201),
    }
}

// UPL-2, UPL-8
#[test]
fn the_log_has_the_settings_every_retry_and_every_give_up_once() {
    let config = format!("{SOON}max-item-attempts = 3\nmax-in-call-retries = 9\n");
    for shop in UploadShop::both(&config, by_name) {
        shop.add("bad", "x");
        shop.add("good", "y");
        let ended = shop.shop.run(&["uploads", "run", "--upload", "tiles", "--group", "g"]);
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        let lines = |words: &str| -> Vec<&str> {
            ended.stderr.lines().filter(|line| line.contains(words)).collect()
        };
        let check = |line: &str, parts: &[&str]| {
            let missing: Vec<_> = parts.iter().filter(|part| !line.contains(**part)).collect();
            assert!(missing.is_empty(), "{missing:?} in {line}");
        };
        let start = lines("uploading with retries");
        assert_eq!(start.len(), 1, "{}", ended.stderr);
        check(start[0], &["INFO", "max_in_call_retries=9", "max_item_attempts=3"]);
        check(start[0], &["backoff_base=10ms", "backoff_multiplier=2", "backoff_cap=50ms"]);
        let retries = lines("retrying the pending items");
        assert_eq!(retries.len(), 2, "{}", ended.stderr);
        check(
            retries[0],
            &["INFO", "attempt_number=1", "sleep_s=0.01", "remaining_pending_count=1"],
        );
        check(
            retries[1],
            &["INFO", "attempt_number=2", "sleep_s=0.02", "remaining_pending_count=1"],
        );
        let given_up = lines("gave up on an item");
        assert_eq!(given_up.len(), 1, "{}", ended.stderr);
        check(given_up[0], &["ERROR", "attempts=3", "name=bad", "broken tile"]);
        check(given_up[0], &["uploads reset", "uploads replace"]);
        // For people, too: the summary has how many.
        check(&ended.stdout, &["1 item is given up", "uploads reset", "uploads replace"]);
    }
}

#[test]
fn other_content_is_no_advice_where_the_receiver_was_down() {
    let config = format!("{SOON}max-item-attempts = 1\n");
    let down = |_: &Received| Reply::Status(503, "", "busy".to_owned());
    let shop = UploadShop::on_sqlite(&config, down);
    shop.add("one", "x");
    shop.add("two", "y");
    let ended = shop.shop.run(&["uploads", "run", "--upload", "tiles", "--group", "g"]);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    assert!(ended.stderr.contains("uploads reset"), "{ended:#?}");
    assert!(!ended.stderr.contains("uploads replace"), "{ended:#?}");
    assert!(ended.stdout.contains("2 items are given up"), "{ended:#?}");
    let because = shop.shop.run(&["why", "item:1", "-o", "json"]).json()["next"]["because"].clone();
    assert!(!because.as_str().unwrap().contains("replace"), "{because}");
}

// UPL-8
#[test]
fn a_json_log_has_numbers_and_nothing_else_between_its_lines() {
    let config = format!("{SOON}max-item-attempts = 2\n");
    let shop = UploadShop::on_sqlite(&config, by_name);
    shop.add("bad", "x");
    shop.add("good", "y");
    let run = ["uploads", "run", "--upload", "tiles", "--group", "g", "--log-format", "json"];
    let ended = shop.shop.run(&run);
    assert_eq!(ended.code, Some(3), "{ended:#?}");
    let lines: Vec<Value> =
        ended.stderr.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let line = |words: &str| {
        let has = |line: &&Value| line["message"].as_str().unwrap().starts_with(words);
        lines.iter().find(has).unwrap_or_else(|| panic!("no {words:?} in {}", ended.stderr))
    };
    let retry = line("retrying the pending items");
    let fields = ["attempt_number", "sleep_s", "remaining_pending_count"].map(|name| &retry[name]);
    assert_eq!(fields, [&json!(1), &json!(0.01), &json!(1)]);
    assert_eq!(line("gave up on an item")["attempts"], 2);
    assert_eq!(line("rejected bad: ")["level"], "info");
}

// UPL-8, OPS-4
#[test]
fn a_name_makes_no_line_of_its_own_and_says_nothing_to_a_terminal() {
    let shop = UploadShop::on_sqlite(SOON, by_name);
    let name = "evil\u{1b}[31m\nERROR forged";
    shop.shop.folder.write("tile", "x");
    let line = serde_json::json!({ "path": "tile", "name": name }).to_string();
    let add = ["uploads", "add", "--upload", "tiles", "--group", "g", "--from", "-"];
    let added = shop.shop.run_reading(line, &add);
    assert_eq!(added.code, Some(0), "{added:#?}");
    let ended = shop.shop.run(&["uploads", "run", "--upload", "tiles", "--group", "g"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("uploaded evil\\u{1b}[31m\\nERROR forged\n"), "{ended:#?}");
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
}
