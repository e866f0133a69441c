//! `redrive uploads`, against a server that receives.

use std::{
    sync::{Arc, Barrier},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    up::Process,
    upload_server::{Received, Reply, Server},
    upload_shop::{SOON, UploadShop},
};

/// What becomes of an item is in its name.
pub(crate) fn by_name(item: &Received) -> Reply {
    match (item.name.as_str(), item.time) {
        ("flaky", 1) => Reply::Status(503, "", "not yet".to_owned()),
        ("dropped", 1) => Reply::Drop,
        ("limited", 1) => Reply::Status(429, "Retry-After: 0\r\n", String::new()),
        ("bad", _) => Reply::Status(422, "", "broken tile".to_owned()),
        _ => Reply::status(201),
    }
}

// UPL-1, UPL-2, UPL-7, UPL-8, UPL-9
#[test]
fn ac_13_what_is_acknowledged_is_never_sent_again_and_what_is_not_comes_with_the_same_key() {
    let config = format!("{SOON}giveup-file = \"giveups.jsonl\"\n");
    for shop in UploadShop::both(&config, by_name) {
        for name in ["good", "flaky", "dropped", "limited", "bad"] {
            shop.add(name, format!("the bytes of {name}\n"));
        }
        let summary = shop.uploaded(3);
        let counts = ["uploaded", "rejected", "given_up", "retry_count", "pending", "total"];
        assert_eq!(counts.map(|count| &summary[count]), [4, 1, 0, 3, 1, 5]);
        assert_eq!(
            (&summary["outcome"], &summary["interrupted"]),
            (&json!("partial"), &json!(false))
        );
        assert!(summary["next_retry_at"].is_string());
        assert_eq!(summary["rejections"][0]["code"], "422");
        let times: Vec<(String, usize)> = shop.server.times().into_iter().collect();
        let expected = [("bad", 4), ("dropped", 2), ("flaky", 2), ("good", 1), ("limited", 2)];
        assert_eq!(times, expected.map(|(name, count)| (name.to_owned(), count)));
        for item in shop.server.received() {
            assert_eq!(item.body, format!("the bytes of {}\n", item.name).into_bytes());
            let first = shop.server.received().into_iter().find(|first| first.name == item.name);
            assert_eq!(first.unwrap().key, item.key, "one key for every attempt at an item");
        }
        assert!(shop.server.received().iter().all(|item| item.key.starts_with("item:")));
        assert_eq!(shop.item("bad")["upload_attempts"], 4);
        shop.doctor();

        // Later the rest alone is sent, rejected for the fifth time and given up.
        shop.server.forget();
        let summary = shop.uploaded(3);
        assert_eq!((&summary["given_up"], &summary["given_up_in_all"]), (&json!(1), &json!(1)));
        assert_eq!(summary["next_retry_at"], Value::Null);
        assert_eq!(shop.server.times().into_iter().collect::<Vec<_>>(), [("bad".to_owned(), 1)]);
        assert_eq!(shop.item("bad")["status"], "upload_giveup");
        let told: Value = serde_json::from_str(&shop.shop.folder.read("giveups.jsonl")).unwrap();
        assert_eq!((&told["event"], &told["attempts"]), (&json!("upload.giveup"), &json!(5)));
        let reason = told["last_rejection_reason"].as_str().unwrap();
        assert!(reason.contains("422") && reason.contains("broken tile"), "{reason}");

        // Then nothing is pending, and it still says that not all is well.
        shop.server.forget();
        let summary = shop.uploaded(3);
        assert_eq!((&summary["outcome"], &summary["uploaded"]), (&json!("partial"), &json!(0)));
        assert_eq!(shop.server.received(), []);
        shop.doctor();
    }
}

// UPL-5, OPS-3
#[test]
fn an_operator_brings_back_what_was_given_up_and_its_story_says_so() {
    let config = format!("{SOON}max-item-attempts = 2\nmax-in-call-retries = 9\n");
    for shop in UploadShop::both(&config, by_name) {
        shop.add("bad", "x");
        shop.add("good", "y");
        shop.uploaded(3);
        let id = shop.item("bad")["id"].to_string();
        let unasked = shop.shop.run(&["uploads", "reset", &id]).failed(4);
        assert!(unasked.contains("--yes"), "{unasked}");
        let dry = shop.shop.run(&["uploads", "reset", &id, "--dry-run", "-o", "json"]).json();
        assert_eq!(dry[0]["outcome"], "would_be_done");
        assert_eq!(shop.item("bad")["status"], "upload_giveup");
        let group = ["uploads", "reset", "--upload", "tiles", "--group", "g", "--yes"];
        let reset = [&group[..], &["--reason", "repaired", "-o", "json"]].concat();
        assert_eq!(shop.shop.run(&reset).json()[0]["outcome"], "done");
        let item = shop.item("bad");
        let columns = ["status", "upload_attempts", "attempts_at_reset"].map(|name| &item[name]);
        assert_eq!(columns, [&json!("pending"), &json!(2), &json!(2)]);
        shop.shop.run(&group).failed(4);

        // It is given up again, as many attempts later.
        shop.uploaded(3);
        let item = shop.item("bad");
        assert_eq!(
            (&item["status"], &item["upload_attempts"]),
            (&json!("upload_giveup"), &json!(4))
        );

        let story = shop.shop.run(&["why", &format!("item:{id}"), "-o", "json"]).json();
        let actions = story["journal"].as_array().unwrap().iter();
        let actions: Vec<&str> = actions.map(|row| row["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["upload.add", "upload.giveup", "upload.reset", "upload.giveup"]);
        let rules = story["attempts"].as_array().unwrap().iter();
        let rules: Vec<bool> =
            rules.map(|row| row["rule"].as_str().unwrap().contains("given up")).collect();
        assert_eq!(rules, [false, true, false, true]);
        let outcomes = story["attempts"].as_array().unwrap().iter();
        let outcomes: Vec<&Value> = outcomes.map(|row| &row["outcome"]).collect();
        assert_eq!(outcomes, ["retrying", "failed", "retrying", "failed"]);
        let because = story["next"]["because"].as_str().unwrap();
        assert!(because.contains("uploads reset") && because.contains("replace"), "{because}");
        let unknown = shop.shop.run(&["why", "item:99"]).failed(1);
        assert!(unknown.contains("there is no item:99"), "{unknown}");

        let mixed = shop.shop.run(&["uploads", "reset", &id, "2", "99", "--yes", "-o", "json"]);
        assert_eq!(mixed.code, Some(3), "{mixed:#?}");
        let shown = shop.shop.run(&["uploads", "show", &id, "99", "-o", "json"]);
        assert_eq!((shown.code, shown.stderr.as_str()), (Some(3), "there is no item 99\n"));
        shop.doctor();
    }
}

/// A tile is good when it says so.
pub(crate) fn by_content(item: &Received) -> Reply {
    match item.body.starts_with(b"good") {
        true => Reply::status(201),
        false => Reply::Status(422, "", "broken tile".to_owned()),
    }
}

// FIX-1, FIX-6
#[test]
fn a_file_that_was_repaired_is_replaced_and_arrives() {
    let config = format!("{SOON}max-item-attempts = 2\nmax-in-call-retries = 9\n");
    for shop in UploadShop::both(&config, by_content) {
        shop.add("a.png", "bad");
        shop.add("b.png", "good b");
        shop.uploaded(3);
        let given_up = shop.item("a.png");
        assert_eq!(given_up["status"], "upload_giveup");
        let old_key = shop.server.received()[0].key.clone();

        let group = ["--upload", "tiles", "--group", "g"];
        let unchanged = ["uploads", "replace", "a.png", "--file", "a.png"];
        let unchanged = shop.shop.run(&[&unchanged[..], &group].concat()).failed(4);
        let reset = format!("uploads reset {}", given_up["id"]);
        assert!(
            unchanged.contains("this content already") && unchanged.contains(&reset),
            "{unchanged}"
        );
        let in_place = ["uploads", "replace", "a.png", "--file", "a.png", "--in-place"];
        let unchanged = shop.shop.run(&[&in_place[..], &group].concat()).failed(4);
        assert!(unchanged.contains(&reset), "{unchanged}");
        assert_eq!(shop.item("a.png")["status"], "upload_giveup");

        shop.shop.folder.write("a.png", "good a");
        let add = shop.shop.run(&[&["uploads", "add"], &group[..], &["a.png"]].concat());
        assert!(add.stdout.contains("uploads replace"), "{add:#?}");
        let replace = |name: &str| {
            let replace = ["uploads", "replace", name, "--file", "a.png", "-o", "json"];
            shop.shop.run(&[&replace[..], &group].concat())
        };
        let unknown = replace("c.png").failed(1);
        assert!(
            unknown.contains("no item \"c.png\"") && unknown.contains("uploads list"),
            "{unknown}"
        );
        let acknowledged = replace("b.png").failed(4);
        assert!(acknowledged.contains("another name"), "{acknowledged}");
        let replaced = replace("a.png").json();
        let columns =
            ["status", "upload_attempts", "attempts_at_reset"].map(|name| &replaced[0][name]);
        assert_eq!(columns, [&json!("pending"), &json!(2), &json!(2)]);
        assert_ne!(replaced[0]["sha256"], given_up["sha256"]);
        let same = replace("a.png").failed(4);
        assert!(same.contains("this content already"), "{same}");

        shop.uploaded(0);
        let sent = shop.server.received().into_iter().rfind(|item| item.name == "a.png").unwrap();
        assert_eq!(sent.body, b"good a");
        assert_ne!(sent.key, old_key, "other content has another key");
        let id = given_up["id"].to_string();
        let story = shop.shop.run(&["why", &format!("item:{id}"), "-o", "json"]).json();
        let journal = story["journal"].as_array().unwrap();
        let entry = journal.iter().find(|row| row["action"] == "upload.replace").unwrap();
        assert_eq!(entry["details"]["replaced"]["sha256"], given_up["sha256"]);
        assert_eq!(story["attempts"].as_array().unwrap().len(), 3, "the old attempts stay");
        shop.doctor();
    }
}

// FIX-1
#[test]
fn an_item_that_is_dropped_no_longer_counts() {
    let config = format!("{SOON}max-item-attempts = 1\n");
    for shop in UploadShop::both(&config, by_content) {
        shop.add("a.png", "bad");
        shop.add("b.png", "good");
        shop.uploaded(3);
        let id = shop.item("a.png")["id"].to_string();
        let unasked = shop.shop.run(&["uploads", "drop", &id]).failed(4);
        assert!(unasked.contains("--yes"), "{unasked}");
        let good = shop.item("b.png")["id"].to_string();
        let both = shop.shop.run(&["uploads", "drop", &id, &good, "--yes", "-o", "json"]);
        assert_eq!(both.code, Some(3), "{both:#?}");
        assert!(both.stdout.contains("never sent again"), "{}", both.stdout);
        shop.uploaded(0);
        shop.doctor();
        shop.add("a.png", "good again");
        shop.uploaded(0);
        assert_ne!(shop.item("a.png")["id"].to_string(), id);
        shop.doctor();
    }
}

#[test]
fn an_item_that_becomes_pending_during_a_call_is_not_counted_as_uploaded() {
    let config = format!("{SOON}max-item-attempts = 1\n");
    let gate = Arc::new(Barrier::new(2));
    let held = gate.clone();
    let hold_good = move |item: &Received| {
        if item.body == b"good" {
            held.wait();
            held.wait();
        }
        by_content(item)
    };
    for shop in UploadShop::both(&config, hold_good) {
        shop.add("a.png", "bad");
        shop.uploaded(3);
        shop.add("b.png", "good");
        let upload = shop.start();
        gate.wait();
        // The call has passed the place of this item.
        let id = shop.item("a.png")["id"].to_string();
        shop.shop.run(&["uploads", "reset", &id, "--yes"]).ok();
        gate.wait();
        let (code, summary, said) = upload.end();
        assert_eq!(code, Some(3), "{summary} {said}");
        assert_eq!((&summary["uploaded"], &summary["pending"]), (&json!(1), &json!(1)));
    }
}

// FIX-1
#[test]
fn files_in_place_that_have_changed_are_offered_as_replacements() {
    let config = format!("{SOON}max-item-attempts = 1\n");
    for shop in UploadShop::both(&config, by_content) {
        let group = ["--upload", "tiles", "--group", "g"];
        for name in ["a.png", "b.png"] {
            shop.shop.folder.write(name, "bad");
        }
        let add = [&["uploads", "add", "--in-place", "a.png", "b.png"], &group[..]].concat();
        shop.shop.run(&add).ok();
        shop.uploaded(3);
        shop.shop.folder.write("a.png", "good");
        let changed = [&["uploads", "add", "--changed", "-o", "json"], &group[..]].concat();
        let unasked = shop.shop.run(&changed).failed(4);
        assert!(unasked.contains("Replace the content of 1 item"), "{unasked}");
        shop.shop.folder.write("c.png", "good c");
        let counts = |more: &[&str]| {
            let told = shop.shop.run(&[&changed[..], &["--dry-run"], more].concat()).json();
            ["accepted", "duplicate", "replaced", "refused"]
                .map(|name| told[name].as_u64().unwrap())
        };
        assert_eq!(counts(&[]), [0, 1, 1, 0]);
        assert_eq!(counts(&["a.png", "b.png", "c.png"]), [1, 1, 1, 0]);
        assert_eq!(shop.item("a.png")["status"], "upload_giveup", "a dry run changes nothing");
        let with_new = [&changed[..], &["a.png", "c.png"]].concat();
        let some = shop.shop.run(&with_new);
        assert_eq!(some.code, Some(4), "{some:#?}");
        assert!(some.stderr.contains("files added: 1, items replaced: 0"), "{some:#?}");
        let replaced = shop.shop.run(&[&changed[..], &["--yes"]].concat()).json();
        assert_eq!((&replaced["replaced"], &replaced["duplicate"]), (&json!(1), &json!(1)));
        shop.uploaded(3);
        assert_eq!(shop.item("a.png")["status"], "uploaded");
        assert_eq!(shop.item("b.png")["status"], "upload_giveup");
        shop.doctor();
    }
}

// UPL-7
#[test]
fn an_early_call_asks_before_it_spends_an_attempt() {
    let config = "backoff-base = \"10ms\"\nbackoff-cap = \"1h\"\nmax-in-call-retries = 0\n";
    for shop in UploadShop::both(config, by_content) {
        shop.add("a.png", "bad");
        let run = |more: &[&str]| {
            let run = ["uploads", "run", "--upload", "tiles", "--group", "g", "-q", "-q"];
            shop.shop.run(&[&run[..], more].concat())
        };
        assert_eq!(run(&[]).code, Some(3));
        let early = run(&[]).failed(4);
        assert!(early.contains("should wait until") && early.contains("--now"), "{early}");
        let server = Process::start(shop.shop.command(&["serve", "--listen", "127.0.0.1:0"]));
        let mut server = server.listening();
        let send = "/v1/uploads/tiles/groups/g/send";
        let (status, refused) = server.post(send, "{}");
        assert_eq!(status, 428, "{refused}");
        assert!(refused.contains("should wait until") && refused.contains("now"), "{refused}");
        let page = server.get("/uploads?upload=tiles&group=g").1;
        assert!(page.contains("should wait until") && page.contains("Send pending items now"));
        assert_eq!(shop.item("a.png")["upload_attempts"], 1, "nothing was spent");
        assert_eq!(run(&["--now"]).code, Some(3));
        assert_eq!(shop.item("a.png")["upload_attempts"], 2);
        let (status, sent) = server.post(send, "{\"now\": true}");
        assert_eq!(status, 202, "{sent}");
        server.wait_for("sent the group");
        assert_eq!(shop.item("a.png")["upload_attempts"], 3);
        // What was added since may be sent, but not without the question.
        shop.add("b.png", "good");
        run(&[]).failed(4);
        let reset = shop.item("a.png")["id"].to_string();
        shop.shop.run(&["uploads", "drop", &reset, "--yes"]).ok();
        assert_eq!(run(&[]).code, Some(0));
    }
}

// UPL-5
#[test]
fn the_receivers_verdict_is_noted_and_final() {
    for shop in UploadShop::both(SOON, by_content) {
        shop.add("a.png", "good a");
        shop.add("b.png", "good b");
        shop.add("c.png", "bad");
        shop.uploaded(3);
        let id = |name: &str| shop.item(name)["id"].to_string();
        shop.shop.run(&["uploads", "mark", "trusted", &id("a.png"), "--yes"]).ok();
        let refused =
            ["uploads", "mark", "rejected", &id("b.png"), "--yes", "--reason", "unreadable"];
        shop.shop.run(&refused).ok();
        assert_eq!(shop.item("a.png")["status"], "trusted");
        assert_eq!(shop.item("b.png")["status"], "rejected");
        let pending = shop.shop.run(&["uploads", "mark", "trusted", &id("c.png"), "--yes"]);
        assert_eq!(pending.code, Some(1));
        assert!(pending.stdout.contains("uploads run"), "{}", pending.stdout);
        let again = shop.shop.run(&["uploads", "mark", "rejected", &id("a.png"), "--yes"]);
        assert!(again.stdout.contains("the mark is final"), "{}", again.stdout);
        let story = shop.shop.run(&["why", &format!("item:{}", id("b.png")), "-o", "json"]).json();
        let journal = story["journal"].as_array().unwrap();
        let entry = journal.iter().find(|row| row["action"] == "upload.refuse").unwrap();
        assert_eq!(entry["details"]["reason"], "unreadable");
        shop.doctor();
    }
}

// UPL-1, UPL-3
#[test]
fn a_server_that_cannot_be_reached_is_an_error_that_costs_nothing() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for shop in UploadShop::both(SOON, by_name) {
        shop.add("good", "x");
        let config = shop.shop.folder.read("redrive.toml");
        let moved = config.replace(&shop.server.url(), &format!("http://{nobody}/items"));
        shop.shop.folder.write("redrive.toml", moved);
        let complaint = shop.upload().failed(1);
        assert!(complaint.contains("cannot be reached"), "{complaint}");
        let item = shop.item("good");
        assert_eq!((&item["upload_attempts"], &item["last_attempt"]), (&json!(0), &json!(0)));
        shop.shop.folder.write("redrive.toml", config);
        shop.uploaded(0);
    }
}

// UPL-1
#[test]
fn an_upload_that_is_not_ready_sends_nothing() {
    let checks = [
        ("ready = { exec = [\"/bin/sh\", \"-c\", \"test -e landed\"] }\n", "landed"),
        ("ready = { exec = [\"/bin/sh\", \"ready.sh\"] }\n", "landed"),
    ];
    for (check, file) in checks {
        let shop = UploadShop::on_sqlite(&format!("{SOON}{check}"), by_name);
        let script =
            "if [ -e landed ]; then echo '{\"ok\": true}'; else echo '{\"ok\": false}'; fi\n";
        shop.shop.folder.write("ready.sh", script);
        shop.add("good", "x");
        let complaint = shop.upload().failed(1);
        assert!(complaint.contains("not ready"), "{complaint}");
        assert_eq!(shop.server.received(), []);
        shop.shop.folder.write(file, "");
        shop.uploaded(0);
    }
    let gate = Server::new(|_| Reply::Status(503, "", "in the air".to_owned()));
    let check = format!("{SOON}ready = {{ http = {{ url = \"{}\" }} }}\n", gate.url());
    let shop = UploadShop::on_sqlite(&check, by_name);
    shop.add("good", "x");
    let complaint = shop.upload().failed(1);
    assert!(complaint.contains("not ready") && complaint.contains("in the air"), "{complaint}");
    assert_eq!(shop.server.received(), []);
}

// UPL-1
#[test]
fn a_server_that_wants_to_know_who_sends_refuses_the_batch_and_learns_nothing() {
    let script = |item: &Received| match item.headers.get("authorization").map(String::as_str) {
        Some("Bearer planted-5e1f") => Reply::status(200),
        _ => Reply::Status(401, "", format!("who is this? {:?}", item.headers)),
    };
    let header = "headers = { authorization = { env = \"TOKEN\", prefix = \"Bearer \" } }\n";
    for shop in UploadShop::both(&format!("{SOON}{header}"), script) {
        shop.add("good", "x");
        shop.upload().failed(1);
        let refused = shop.upload_with(&[("TOKEN", "wrong-7c41")]);
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        let summary: Value = serde_json::from_str(&refused.stdout).unwrap();
        assert_eq!(summary["outcome"], "failure");
        let refusal = summary["refusal"].as_str().unwrap();
        assert!(refusal.contains("[$TOKEN]") && !refusal.contains("wrong-7c41"), "{refusal}");
        assert_eq!(shop.item("good")["upload_attempts"], 0);
        let well = shop.upload_with(&[("TOKEN", "planted-5e1f")]);
        assert_eq!(well.code, Some(0), "{well:#?}");
    }
}

// UPL-1, UPL-2
#[test]
fn an_answer_that_comes_too_late_is_a_rejection() {
    let script = |item: &Received| match (item.name.as_str(), item.time) {
        ("late", 1) => Reply::Silence,
        _ => Reply::status(200),
    };
    for shop in UploadShop::both(&format!("{SOON}timeout = \"300ms\"\n"), script) {
        shop.add("late", "x");
        let summary = shop.uploaded(0);
        assert_eq!((&summary["uploaded"], &summary["retry_count"]), (&json!(1), &json!(1)));
        let story = shop.shop.run(&["why", "item:1", "-o", "json"]).json();
        assert_eq!(story["attempts"][0]["code"], "timeout");
        assert_eq!(story["attempts"][1]["outcome"], "success");
    }
}

// UPL-6, UPL-9
#[test]
fn ac_10_without_retries_the_bare_uploader_is_used_and_says_so() {
    for shop in UploadShop::both(&format!("{SOON}disable-retry = true\n"), by_name) {
        shop.add("bad", "x");
        shop.add("good", "y");
        let arguments = ["uploads", "run", "--upload", "tiles", "--group", "g"];
        let ended = shop.shop.run(&arguments);
        assert_eq!(ended.code, Some(3), "{ended:#?}");
        assert!(ended.stderr.contains("retries are disabled"), "{}", ended.stderr);
        assert!(ended.stderr.contains("INFO"), "{}", ended.stderr);
        assert_eq!(shop.server.times()["bad"], 1);
        let item = shop.item("bad");
        assert_eq!((&item["upload_attempts"], &item["last_attempt"]), (&json!(0), &json!(1)));
        shop.doctor();
    }
}

// UPL-7
#[test]
fn a_second_upload_of_a_group_is_refused_until_the_first_is_done_or_its_lease_has_ended() {
    let script = |item: &Received| match item.time {
        1 => Reply::Silence,
        _ => Reply::status(200),
    };
    for shop in UploadShop::both(SOON, script) {
        shop.add("held", "x");
        let first = shop.start();
        shop.server.arrivals.recv_timeout(Duration::from_secs(60)).unwrap();
        let refused = shop.upload().failed(4);
        assert!(refused.contains("is being uploaded by w-"), "{refused}");
        assert_eq!(shop.server.received().len(), 1);
        let busy = shop.shop.run(&["uploads", "drop", "--group", "g", "--yes"]);
        assert!(busy.code == Some(4) && busy.stdout.contains("drop it afterwards"), "{busy:?}");
        // Renewed, it outlives the length of its lease.
        let renewed = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < renewed {
            shop.upload().failed(4);
        }
        first.signal("-KILL");
        first.end();
        let begun = Instant::now();
        let ended = loop {
            let ended = shop.upload();
            if ended.code != Some(4) {
                break ended;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{ended:#?}");
        };
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let keys: Vec<String> = shop.server.received().into_iter().map(|item| item.key).collect();
        assert_eq!(keys.len(), 2);
        assert_eq!(keys[0], keys[1]);
        shop.doctor();
    }
}
