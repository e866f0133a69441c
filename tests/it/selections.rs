//! What selects units means the same on the command line, in the API and on pages.

use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    web::{FORM, ask, send},
};

/// The fields of the form of a page, some of them filled in, as a browser sends them. No value needs an escape.
#[track_caller]
fn filled_in(page: &str, action: &str, filled: &[(&str, &str)]) -> String {
    let form =
        page.rsplit_once(&format!("action=\"{action}\"")).unwrap_or_else(|| panic!("{page}"));
    let form = form.1.split("</form>").next().unwrap();
    let attribute = |tag: &str, name: &str| {
        let (_, value) = tag.split_once(&format!(" {name}=\""))?;
        Some(value.split('"').next().unwrap().to_owned())
    };
    let tags = form.split('<').filter(|tag| tag.starts_with("input") || tag.starts_with("select"));
    let fields = tags.map(|tag| {
        let name = attribute(tag, "name").unwrap();
        let filled = filled.iter().find(|(field, _)| *field == name);
        let value = filled.map(|(_, value)| (*value).to_owned()).or(attribute(tag, "value"));
        format!("{name}={}", value.unwrap_or_default())
    });
    fields.collect::<Vec<_>>().join("&")
}

/// The addresses of links with this text.
fn links(page: &str, text: &str) -> Vec<String> {
    let end = format!("\">{text}</a>");
    let link = |before: &str| before.rsplit("href=\"").next().unwrap().replace("&amp;", "&");
    let mut found: Vec<String> = page.split(&end).map(link).collect();
    found.pop();
    found
}

/// The partitions of a preview, without the source and the customer.
fn previewed(server: &Serving, link: &str) -> Vec<String> {
    let page = server.text(link);
    let units = page.split(">partition:ads/1234/").skip(1);
    units.map(|unit| unit.split('<').next().unwrap().to_owned()).collect()
}

fn post(server: &Serving, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = ask(server.address, "POST", path, Some(body));
    (status, serde_json::from_str(&answer).unwrap())
}

// PAR-8, OPS-4
#[test]
fn one_day_cannot_be_combined_with_a_first_or_a_last_day() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let refusal = "either `logical_date`, or `since` and `until`, each once";
    for other in ["since", "until"] {
        let days = ["--logical-date", "2026-11-02", &format!("--{other}"), "2026-11-03"];
        for command in ["inspect", "retry"] {
            let refused = fair.shop.run(&[&["state", command], &days[..]].concat()).failed(2);
            assert!(refused.contains(refusal), "{refused}");
        }
        let body = json!({ "logical_date": "2026-11-02", other: "2026-11-03", "dry_run": true });
        let (status, refused) = post(&server, "/v1/partitions/retry", &body);
        assert_eq!(status, 400, "{refused}");
        assert!(refused.to_string().contains(refusal), "{refused}");
        let query = format!("?{other}=2026-11-03&logical_date=2026-11-02");
        for path in ["/v1/partitions", "/partitions"] {
            let (status, refused) = ask(server.address, "GET", &format!("{path}{query}"), None);
            assert_eq!(status, 400, "{refused}");
            assert!(refused.contains(refusal), "{refused}");
        }
    }
}

// PIP-7, CAU-3
#[test]
fn filters_of_dead_letters_never_take_other_samples() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let note = ["dlq", "note", "--pipeline", "flour", "--text", "torn sacks", "--dry-run"];
        let noted = fair.printed(&note);
        assert_eq!(noted.as_array().unwrap().len(), 6, "{noted:#}");
        let body = json!({ "pipeline": "flour", "text": "torn sacks", "dry_run": true });
        let (status, noted) = post(&server, "/v1/dead-letters/note", &body);
        assert_eq!((status, &noted["count"]), (200, &json!(6)), "{noted:#}");
        let given_up = fair.printed(&["dlq", "list", "--state", "given-up"]);
        assert_eq!(given_up.as_array().unwrap().len(), 6);
        for command in [&["list"][..], &["list", "--group"], &["export"], &["reprocess", "--all"]] {
            let other = fair.shop.run(&[&["dlq"], command, &["--state", "succeeded"]].concat());
            assert!(other.failed(2).contains("the states are dlq, given-up"), "{command:?}");
        }
        for path in ["/v1/dead-letters", "/v1/dead-letters/causes", "/dead-letters"] {
            let path = format!("{path}?state=succeeded");
            let (status, refused) = ask(server.address, "GET", &path, None);
            assert!(status == 400 && refused.contains("dlq, given_up"), "{path}: {refused}");
        }
        let newest = server.get("/v1/dead-letters?newest=true");
        assert_eq!(newest["items"].as_array().unwrap().len(), 6);
        for query in ["newest=1", "newest=true&after=1"] {
            let path = format!("/v1/dead-letters?{query}");
            assert_eq!(ask(server.address, "GET", &path, None).0, 400, "{query}");
        }
    }
}

// OPS-4, PAR-8
#[test]
fn the_filters_of_the_page_of_partitions_and_its_actions_take_what_they_show() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let submit = |page: &str, filled: &[(&str, &str)]| {
        server.text(&format!("/partitions?{}", filled_in(page, "/partitions", filled)))
    };
    let of_month = server.text("/partitions?month=2026-11");
    let listed = submit(&of_month, &[("error", "quota")]);
    assert_eq!(links(&listed, "2026-11-02").len(), 2, "{listed}");
    let other_month = submit(&of_month, &[("error", "quota"), ("month", "2026-10")]);
    assert!(other_month.contains("No partitions match."), "{other_month}");
    let day = submit(&of_month, &[("logical_date", "2026-11-02")]);
    assert_eq!(day.matches("aria-label=\"2026-11-").count(), 2, "{day}");
    let [retry] = &links(&day, "Retry …")[..] else { panic!("{day}") };
    assert_eq!(previewed(&server, retry), ["daily/2026-11-02", "hourly/2026-11-02"]);
    let good = submit(&of_month, &[("state", "success"), ("since", "2026-11-02")]);
    let [pause] = &links(&good, "Pause …")[..] else { panic!("{good}") };
    assert_eq!(previewed(&server, pause), ["daily/2026-11-04", "hourly/2026-11-04"]);
    let newest = submit(&server.text("/partitions"), &[("state", "terminal")]);
    assert!(newest.contains("No partitions match in this month."), "{newest}");
}

// OPS-4, CAU-3
#[test]
fn every_filter_of_a_page_has_an_action_on_all_that_match() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let retry = "Retry all that match …";
    for (page, name, count) in [
        ("/runs?code=65", retry, 2),
        ("/runs?state=given_up", retry, 3),
        ("/runs?queue=work&class=final", retry, 2),
        ("/partitions?error=quota", retry, 8),
        ("/uploads?code=422", "Reset all that match …", 2),
        ("/uploads?state=given_up", "Reset all that match …", 2),
        ("/dead-letters?code=65", "Reprocess all that match …", 6),
    ] {
        let [preview] = &links(&server.text(page), name)[..] else { panic!("{page}") };
        let preview = server.text(preview);
        assert!(preview.contains(&format!("{count} would be done.")), "{page}: {preview}");
    }
    assert!(!server.text("/runs").contains(retry), "no filter");
    assert!(!server.text("/runs?code=999").contains(retry), "no match");
}

// OPS-4
#[test]
fn a_state_is_a_filter_of_an_action() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        for (command, path, state, count) in [
            (["runs", "retry"], "/v1/runs/retry", "given-up", 3),
            (["state", "retry"], "/v1/partitions/retry", "failed", 8),
            (["uploads", "reset"], "/v1/items/reset", "given-up", 2),
            (["dlq", "reprocess"], "/v1/dead-letters/reprocess", "dlq", 6),
        ] {
            let planned = fair.printed(&[&command[..], &["--state", state, "--dry-run"]].concat());
            assert_eq!(planned.as_array().unwrap().len(), count, "{command:?}: {planned:#}");
            let (status, planned) =
                post(&server, path, &json!({ "state": state, "dry_run": true }));
            assert_eq!((status, &planned["count"]), (200, &json!(count)), "{path}: {planned:#}");
            let kept = post(&server, path, &json!({ "state": state, "keep": true }));
            assert_eq!((kept.0, &kept.1["is_open"]), (201, &json!(true)), "{path}: {kept:?}");
        }
        let both = ask(server.address, "GET", "/v1/runs?status=passed&state=given_up", None);
        assert!(both.0 == 400 && both.1.contains("more than once"), "{both:?}");
    }
}

// OPS-4
#[test]
fn a_preview_by_ids_can_be_confirmed() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let preview = server.text("/runs/preview?action=retry&ids=2&ids=5");
    let body = filled_in(&preview, "/runs/act/retry", &[("reason", "again")]);
    let (status, done) = send(server.address, "POST", "/runs/act/retry", FORM, &body);
    assert_eq!((status, done.as_str()), (303, ""));
    for run in ["/runs/2", "/runs/5"] {
        assert!(server.text(run).contains("again"), "the journal of {run}");
    }
}

// OPS-4, CAU-3
#[test]
fn the_causes_of_dead_letters_link_to_actions_with_the_filters_of_the_page() {
    let fair = Fair::on_sqlite("");
    let page = fair.serve(&[]).text("/dead-letters?run=1&error=sack");
    let reprocess = links(&page, "Reprocess …");
    assert!(!reprocess.is_empty(), "{page}");
    for link in reprocess {
        assert!(link.contains("run=1&") && link.contains("error=sack"), "{link}");
    }
}

// PAR-8, OPS-4
#[test]
fn a_partition_is_found_by_any_spelling_of_its_key() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        for source in ["01_ads", "-ads"] {
            let backfill = ["state", "backfill", "--source", source, "--customer-id", "c"];
            let day = ["--query-name", "q", "--since", "2026-01-31", "--until", "2026-01-31"];
            fair.shop.run(&[&backfill[..], &day, &["--allow-unknown"]].concat()).ok();
            let key = format!("partition:{source}/c/q/2026-01-31");
            let paused = fair.printed(&["state", "pause", &key]);
            assert_eq!((&paused[0]["outcome"], &paused[0]["unit"]), (&json!("done"), &json!(key)));
            let (status, resumed) =
                post(&server, "/v1/partitions/resume", &json!({ "ids": [key] }));
            assert_eq!((status, &resumed["changes"][0]["outcome"]), (200, &json!("done")));
        }
        let encoded = "partition:ads/1234/d%61ily/2026-11-02";
        assert_eq!(fair.printed(&["state", "inspect", encoded])[0]["query_name"], "daily");
        let short = fair.shop.run(&["state", "retry", "ads/12/34/daily/2026-11-02"]).failed(2);
        assert!(short.contains("SOURCE/CUSTOMER/QUERY/DATE") && short.contains("%2F"), "{short}");
        let bare = "ads/1234/daily/2026-11-02";
        assert_eq!(fair.printed(&["why", bare])["unit"], format!("partition:{bare}"));
        assert_eq!(
            server.get(&format!("/v1/why?unit={bare}"))["unit"],
            format!("partition:{bare}")
        );
        let no_day = fair.shop.run(&["why", "ads/m\u{fc}ller/daily/2026-09-77"]).failed(2);
        assert!(no_day.contains("\"2026-09-77\" is not allowed: there is no such day"), "{no_day}");
        let zero = fair.shop.run(&["runs", "show", "02"]).failed(2);
        assert!(zero.contains("an id is a whole number, 1 or greater"), "{zero}");
        assert_eq!(post(&server, "/v1/runs/retry", &json!({ "ids": ["02"] })).0, 400);
    }
}

// OPS-4
#[test]
fn the_api_refuses_options_that_an_action_does_not_have() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let key = "ads/1234/daily/2026-11-02";
    for (path, id, option, value) in [
        ("/v1/runs/retry", "2", "force", json!(true)),
        ("/v1/runs/retry", "2", "lane", json!("fresh")),
        ("/v1/runs/retry", "2", "text", json!("a remark")),
        ("/v1/items/reset", "1", "clear_terminal", json!(true)),
        ("/v1/partitions/reprocess", key, "clear_terminal", json!(true)),
        ("/v1/partitions/pause", key, "lane", json!("fresh")),
        ("/v1/partitions/note", key, "force", json!(true)),
    ] {
        let (status, refused) = post(&server, path, &json!({ "ids": [id], option: value }));
        let detail = format!("unknown field `{option}`");
        assert_eq!((status, &refused["detail"]), (400, &json!(detail)), "{path}: {refused}");
    }
    let body = json!({ "ids": [key], "clear_terminal": true, "force": true, "lane": "backfill" });
    let (status, done) = post(&server, "/v1/partitions/retry", &body);
    assert_eq!((status, &done["changes"][0]["outcome"]), (200, &json!("done")), "{done}");
}

// OPS-4
#[test]
fn a_wrong_request_is_answered_with_what_is_allowed_and_the_way_back() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let (status, refused) = ask(server.address, "GET", "/v1/causes?knd=run", None);
    let refused: Value = serde_json::from_str(&refused).unwrap();
    let expected = json!([400, "unknown field `knd`", "kind, since, search, limit"]);
    assert_eq!(json!([status, refused["detail"], refused["allowed"]]), expected);
    let home = format!("http://{}", server.address);
    let page = |method, path, from: &str, body| {
        let kind = format!("{FORM}\r\nAccept: text/html\r\nReferer: {from}");
        send(server.address, method, path, &kind, body)
    };
    let (status, refused) = page("GET", "/runs/abc", "", "");
    assert!(
        status == 404 && refused.contains("an id is a whole number, 1 or greater"),
        "{refused}"
    );
    assert!(refused.contains("<a href=\"/runs\">Go back</a>"), "{refused}");
    for (from, back) in [
        (format!("{home}/runs/2?x=1"), "/runs/2?x=1"),
        ("http://elsewhere.example/runs/2".to_owned(), "/runs"),
        (format!("{home}//elsewhere.example"), "/runs"),
        (format!("{home}.elsewhere.example/"), "/runs"),
    ] {
        let (status, refused) = page("POST", "/runs/act/note", &from, "ids=2&text=+");
        let link = format!("<a href=\"{back}\">Go back</a>");
        assert!(status == 400 && refused.contains(&link), "{from}: {refused}");
    }
}

// FIX-1, OPS-4
#[test]
fn a_drop_that_fails_midway_reports_the_groups_that_are_dropped() {
    let fair = Fair::on_sqlite("");
    fair.shop.folder.write("three.png", "three");
    fair.told(&["uploads", "add", "--upload", "tiles", "--group", "h", "three.png"]);
    fair.told(&["uploads", "run", "--upload", "tiles", "--group", "h"]);
    let store = rusqlite::Connection::open(fair.shop.folder.path().join("store.db")).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE DELETE ON items WHEN old.group_name = 'h' \
                  BEGIN SELECT RAISE(ABORT, 'no'); END";
    store.execute_batch(refuse).unwrap();
    let dropped = fair.shop.run(&["uploads", "drop", "--upload", "tiles", "--yes", "-o", "json"]);
    assert_eq!(dropped.code, Some(1), "{dropped:#?}");
    assert!(dropped.stderr.contains("the other items are unchanged"), "{}", dropped.stderr);
    let rows: Value = serde_json::from_str(&dropped.stdout).unwrap();
    let done = json!([["item:1", "done"], ["item:2", "done"]]);
    let row = |row: &Value| json!([row["unit"], row["outcome"]]);
    assert_eq!(rows.as_array().unwrap().iter().map(row).collect::<Value>(), done);
    let left = fair.printed(&["uploads", "list"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["name"]), (1, &json!("three.png")));
}
