//! The API and the command line tell the same of every object.

use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    web::ask,
};

/// Without what differs from one moment to the next.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("oldest_ready_age_s");
            fields.values_mut().for_each(|value| *value = timeless(value.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = timeless(value.take())),
        _ => {}
    }
    value
}

/// What a path answers, the rows of a page alone.
#[track_caller]
fn answered(server: &Serving, path: &str) -> Value {
    let answered = server.get(path);
    match answered.get("items") {
        Some(items) => {
            assert_eq!(answered["next"], Value::Null, "{path} is one page");
            timeless(items.clone())
        }
        None => timeless(answered),
    }
}

/// Compares what a path answers with what a command prints.
#[track_caller]
fn same(fair: &Fair, server: &Serving, path: &str, arguments: &[&str]) -> Value {
    let mut answer = answered(server, path);
    let mut printed = timeless(fair.printed(arguments));
    // Commands that take many print a list also of one.
    if let (Value::Object(_), Some([one])) = (&answer, printed.as_array().map(Vec::as_slice)) {
        printed = one.clone();
    }
    if answer != printed {
        // Words such as "in 4m59s" change by the second: what is printed lies between two answers.
        answer = answered(server, path);
    }
    assert_eq!(answer, printed, "GET {path}\n{answer:#}\n{arguments:?}\n{printed:#}");
    assert!(answer.as_array().is_none_or(|rows| !rows.is_empty()), "{path} has rows");
    printed
}

/// Adds a file to a group and has the group sent, by either face.
#[track_caller]
fn add_and_send(fair: &Fair, server: &Serving, by_api: bool, group: &str) {
    let of_group = ["--upload", "tiles", "--group", group];
    if !by_api {
        fair.told(&[&["uploads", "add"][..], &of_group, &["one.png"]].concat());
        return fair.told(&[&["uploads", "run"][..], &of_group].concat());
    }
    let path = format!("/v1/uploads/tiles/groups/{group}");
    let (status, added) = server.put(&format!("{path}/items/one.png"), "one.png");
    assert_eq!(status, 201, "{added}");
    let (status, begun) = ask(server.address, "POST", &format!("{path}/send"), Some(&json!({})));
    assert_eq!(status, 202, "{begun}");
    while !server.get(&path)["sending_since"].is_null() {}
}

/// The item of a group, without what no two items share.
fn sent(fair: &Fair, group: &str) -> Value {
    let mut item = fair.printed(&["uploads", "list", "--group", group])[0].take();
    for field in ["id", "group", "updated_at"] {
        item[field].take();
    }
    assert_eq!(item["status"], "upload_giveup", "{item}");
    item
}

// OPS-3
#[test]
fn the_api_and_the_command_line_tell_the_same_of_every_object() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let same = |path: &str, arguments: &[&str]| same(&fair, &server, path, arguments);
        let runs = same("/v1/runs", &["runs", "list"]);
        same(
            "/v1/runs?queue=work&status=error",
            &["runs", "list", "--queue", "work", "--status", "error"],
        );
        for run in runs.as_array().unwrap() {
            let id = run["id"].to_string();
            same(&format!("/v1/runs/{id}"), &["runs", "show", &id]);
            same(&format!("/v1/why?unit=run:{id}"), &["why", &format!("run:{id}")]);
        }
        same("/v1/queues/stats", &["runs", "stats"]);
        same("/v1/queues", &["queue", "list"]);
        let partitions = same("/v1/partitions", &["state", "inspect"]);
        assert_eq!(partitions.as_array().unwrap().len(), 12);
        same(
            "/v1/partitions?status=failed&query_name=daily",
            &["state", "inspect", "--status", "failed", "--query-name", "daily"],
        );
        for partition in partitions.as_array().unwrap() {
            let part = |name: &str| partition[name].as_str().unwrap();
            let parts = ["source", "customer_id", "query_name", "logical_date"].map(part);
            let (key, unit) = (parts.join("/"), format!("partition:{}", parts.join("/")));
            same(&format!("/v1/partitions/{key}"), &["state", "inspect", &unit]);
            same(&format!("/v1/partitions/{key}/history"), &["state", "history", &unit]);
            same(&format!("/v1/why?unit={unit}"), &["why", &unit]);
        }
        same(
            "/v1/gaps?since=2026-11-01&until=2026-11-06",
            &["state", "gaps", "--since", "2026-11-01", "--until", "2026-11-06"],
        );
        let items = same(
            "/v1/items?upload=tiles&group=g",
            &["uploads", "list", "--upload", "tiles", "--group", "g"],
        );
        for item in items.as_array().unwrap() {
            let id = item["id"].to_string();
            same(&format!("/v1/items/{id}"), &["uploads", "show", &id]);
            same(&format!("/v1/why?unit=item:{id}"), &["why", &format!("item:{id}")]);
        }
        for (face, group) in [("the API", "by-api"), ("the command line", "by-hand")] {
            add_and_send(&fair, &server, face == "the API", group);
            same(
                &format!("/v1/items?upload=tiles&group={group}"),
                &["uploads", "list", "--upload", "tiles", "--group", group],
            );
        }
        let [by_api, by_hand] = ["by-api", "by-hand"].map(|group| sent(&fair, group));
        assert_eq!(by_api, by_hand, "it is the same who sends what");
        same("/v1/pipeline-runs", &["pipeline", "list"]);
        same("/v1/pipeline-runs/1", &["pipeline", "status", "1"]);
        same("/v1/pipeline-runs/1/stats", &["pipeline", "stats", "1"]);
        let output = fair.shop.run(&["pipeline", "output", "1", "-q", "-q"]).ok();
        assert_eq!(server.text("/v1/pipeline-runs/1/output"), output);
        let letters = same("/v1/dead-letters", &["dlq", "list"]);
        same("/v1/dead-letters/causes", &["dlq", "list", "--group"]);
        for letter in letters.as_array().unwrap() {
            let id = letter["id"].to_string();
            same(&format!("/v1/samples/{id}"), &["dlq", "show", &id]);
            same(&format!("/v1/why?unit=sample:{id}"), &["why", &format!("sample:{id}")]);
        }
        let journal = server.get("/v1/journal");
        let audit = fair.printed(&["state", "audit", "--source", "ads", "--limit", "1000"]);
        let about_partitions: Vec<&Value> = journal["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["unit"].as_str().is_some_and(|unit| unit.starts_with("partition:")))
            .collect();
        assert!(!about_partitions.is_empty());
        assert_eq!(about_partitions, audit.as_array().unwrap().iter().collect::<Vec<_>>());
    }
}
