//! The API and the command line tell the same of every object.

use serde_json::{Value, json};

use crate::{
    fair::{Fair, Serving},
    web::ask,
};

/// Without what differs from one moment to the next: two who look never look at the same one.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::String(words) => {
            if let Some((before, wait)) = words.split_once(" retries the partition in ") {
                let (_, because) = wait.split_once(": ").unwrap();
                *words = format!("{before} retries the partition in a while: {because}");
            }
        }
        Value::Object(fields) => {
            fields.remove("oldest_ready_age_s");
            if fields.get("check").is_some_and(|check| check == "lease clock") {
                fields.remove("detail");
            }
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
    let answer = answered(server, path);
    let mut printed = timeless(fair.printed(arguments));
    // Commands that take many print a list also of one.
    if let (Value::Object(_), Some([one])) = (&answer, printed.as_array().map(Vec::as_slice)) {
        printed = one.clone();
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
    for field in ["id", "group", "updated_at", "last_failure_at"] {
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
        let runs = same("/v1/runs?data=true", &["runs", "list"]);
        same(
            "/v1/runs?data=true&queue=work&status=error",
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
        for cause in same("/v1/causes", &["causes"]).as_array().unwrap() {
            let cause = cause["fingerprint"].as_str().unwrap();
            same(&format!("/v1/causes/{cause}"), &["causes", "show", cause]);
        }
        same("/v1/causes?kind=run&limit=1", &["causes", "--kind", "run", "--limit", "1"]);
        same(
            "/v1/runs?data=true&state=given-up&class=final&failed_since=1h",
            &["runs", "list", "--state", "given-up", "--class", "final", "--failed-since", "1h"],
        );
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

// OPS-3, OPS-4, OPS-8, POL-9, PAR-12
#[test]
fn the_api_and_the_command_line_tell_the_same_of_policies_good_partitions_and_the_store() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let same = |path: &str, arguments: &[&str]| same(&fair, &server, path, arguments);
        for policy in same("/v1/policies", &["policy", "list"]).as_array().unwrap() {
            let name = policy["place"].as_str().or(policy["name"].as_str()).unwrap();
            let encoded = name.replace('/', "%2F");
            same(&format!("/v1/policies/{encoded}"), &["policy", "show", name]);
            let schedule = ["policy", "schedule", "--preset", name];
            same(&format!("/v1/schedule?policy={encoded}"), &schedule);
        }
        same(
            "/v1/schedule?policy=gentle&backoff=linear&base=2s&cap=1m&jitter=25%25&max_attempts=none\
             &attempts=12&unit=partition:ads/1234/daily/2026-11-02",
            &[
                "policy",
                "schedule",
                "--policy",
                "gentle",
                "--backoff",
                "linear",
                "--base",
                "2s",
                "--cap",
                "1m",
                "--jitter",
                "25%",
                "--max-attempts",
                "none",
                "--attempts",
                "12",
                "--unit",
                "partition:ads/1234/daily/2026-11-02",
            ],
        );
        let good = same("/v1/readable", &["consume", "list"]);
        assert_eq!(good.as_array().unwrap().len(), 4, "two days of two queries");
        same(
            "/v1/readable?query_name=daily&since=2026-11-02",
            &["consume", "list", "--query-name", "daily", "--since", "2026-11-02"],
        );
        let key = "ads/1234/daily/2026-11-01";
        let rows = fair.shop.run(&["consume", "cat", &format!("partition:{key}")]).ok();
        assert_eq!(server.text(&format!("/v1/partitions/{key}/rows")), rows);
        same("/v1/db", &["db", "status"]);
        assert_eq!(server.get("/v1/verify"), fair.printed(&["state", "verify"]), "all is well");
        let found = same("/v1/doctor", &["doctor"]);
        assert!(found.as_array().unwrap().iter().all(|row| row["ok"] == true), "{found:#}");
    }
}

// OPS-8, OPS-3
#[test]
fn a_prune_over_the_api_is_the_one_of_the_command_line() {
    for fair in Fair::both() {
        let server = fair.serve(&[]);
        let prune = |body: Value| {
            let (status, answer) = ask(server.address, "POST", "/v1/prune", Some(&body));
            (status, serde_json::from_str::<Value>(&answer).unwrap())
        };
        let now = redrive::Clock::now(&redrive::SystemClock).to_string();
        let (status, look) = prune(json!({ "before": now, "dry_run": true }));
        assert_eq!(status, 200, "{look}");
        let printed = fair.printed(&["prune", "--older-than", "0s", "--dry-run"]);
        for field in ["dry_run", "runs", "samples", "attempts", "left", "files"] {
            assert_eq!(look[field], printed[field], "{field}: {look} {printed}");
        }
        assert_eq!((&look["runs"], &look["samples"]), (&json!(5), &json!(12)));
        let (status, done) = prune(json!({ "before": now, "token": look["token"] }));
        assert_eq!((status, &done["runs"], &done["samples"]), (200, &json!(5), &json!(12)));
        for file in done["files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap();
            let name = path.rsplit('/').next().unwrap();
            let lines = fair.shop.folder.read(&format!("archive/{name}")).lines().count();
            assert_eq!(file["rows"], lines, "{file}");
        }
        assert_eq!(server.get("/v1/runs")["items"], json!([]));
        let told = server.get("/v1/journal?action=prune.start")["items"][0].clone();
        assert_eq!(told["actor"], "local (api)", "{told}");
        fair.shop.run(&["doctor"]).ok();
    }
}

// OPS-4
#[test]
fn a_server_tells_of_what_broke_while_it_runs() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let wrong = || {
        let found = server.get("/v1/doctor");
        let rows = found.as_array().unwrap().iter().filter(|row| row["ok"] == false);
        rows.map(|row| row["check"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(wrong(), [""; 0]);
    let store = rusqlite::Connection::open(fair.shop.folder.path().join("store.db")).unwrap();
    store.execute("UPDATE runs SET retry_count = 7 WHERE id = 1", []).unwrap();
    fair.shop.folder.write("redrive.toml", "[store]\ntypo = 1\n");
    assert_eq!(wrong(), ["configuration", "invariants"]);
    let good = server.get("/v1/readable?query_name=daily")["items"][0]["payload"].take();
    let good = good.as_str().unwrap().strip_prefix("[FOLDER]/").unwrap().to_owned();
    fair.shop.folder.write(&good, "{\"n\": 2}\n");
    let damaged = server.get("/v1/verify");
    assert_eq!((damaged[0]["invariant"].as_str(), damaged.get(1)), (Some("raw-data"), None));
    store.execute("UPDATE schema_migrations SET version = 99 WHERE version = 9", []).unwrap();
    assert_eq!(wrong(), ["configuration", "schema"]);
    assert_eq!(server.get("/v1/db").as_array().unwrap().last().unwrap()["version"], 99);
}

// RUN-6, PAR-9, OPS-4
#[test]
fn a_misspelt_name_is_refused_unless_it_is_said_to_be_meant() {
    let fair = Fair::on_sqlite("");
    let server = fair.serve(&[]);
    let days = json!({ "since": "2026-11-01", "until": "2026-11-01", "dry_run": true });
    let with = |fields: Value| {
        let mut body = days.clone();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let backfill = "/v1/partitions/backfill";
    let given = json!({ "customers": ["1234"], "queries": ["daily"] });
    let mut adds = with(given);
    adds["source"] = json!("adds");
    let alone = with(json!({ "source": "adds" }));
    let (status, refused) = ask(server.address, "POST", backfill, Some(&alone));
    assert_eq!(status, 400, "{refused}");
    assert!(refused.contains("`ads`"), "{refused}");
    for (path, mut body, named, meant) in [
        ("/v1/runs", json!({ "queue": "wrok" }), "no queue \"wrok\"", "`work`"),
        ("/v1/queues/wrok/pause", json!({}), "no queue \"wrok\"", "`work`"),
        (backfill, adds, "no source \"adds\"", "`ads`"),
        (
            backfill,
            with(json!({ "source": "ads", "customers": ["1243"] })),
            "no customer \"1243\"",
            "`1234`",
        ),
        (
            backfill,
            with(json!({ "source": "ads", "queries": ["dialy"] })),
            "no query \"dialy\"",
            "`daily`",
        ),
    ] {
        let (status, refused) = ask(server.address, "POST", path, Some(&body));
        assert_eq!(status, 400, "{path}: {refused}");
        let detail: Value = serde_json::from_str(&refused).unwrap();
        assert_eq!(detail["type"], "urn:redrive:problem:undeclared-name", "{path}");
        let detail = detail["detail"].as_str().unwrap();
        assert!(detail.contains(named) && detail.contains(meant), "{detail}");
        assert!(refused.contains("allow_unknown"), "{refused}");
        body["allow_unknown"] = json!(true);
        let (status, meant) = ask(server.address, "POST", path, Some(&body));
        assert!(matches!(status, 200 | 201), "{path}: {meant}");
    }
    let many = json!([{ "queue": "wrok" }, { "queue": "work" }]);
    let (status, some) = ask(server.address, "POST", "/v1/runs", Some(&many));
    let some: Value = serde_json::from_str(&some).unwrap();
    assert_eq!((status, &some["accepted"], &some["refused"]), (200, &json!(1), &json!(1)));
}
