//! `redrive gate`, and what gates keep back.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    browser::Browser,
    databases::one_of_each,
    fair::Serving,
    folder::Folder,
    shop::{Shop, Worker},
    upload_server::{Received, Reply},
    upload_shop::{SOON, UploadShop},
};

const CONFIG: &str = r#"
[[gate]]
name = "api"
per = "customer"

[[gate]]
name = "all"

[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "10ms", max-hint = "1h" }
gates = ["api"]

[[queue]]
name = "other"
handler = { exec = ["/bin/sh", "work.sh"] }
gates = ["all"]
"#;

/// The service limits the rate of acme while there is a file.
const HANDLER: &str = r#"
if [ "$REDRIVE_CATEGORY" = acme ] && [ -e limited ]; then
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "slow down", "retry_after": 600}}'
    exit
fi
echo '{"ok": true}'
"#;

/// Runs of the customer that is limited.
const ACME: usize = 60;

fn shops() -> [Shop; 2] {
    let [sqlite, postgres] = [Folder::new(), Folder::new()];
    let [_, postgres_url] = one_of_each(&sqlite);
    [(sqlite, "sqlite:store.db".to_owned()), (postgres, postgres_url)]
        .map(|(folder, url)| Shop::selling(folder, &url, CONFIG, HANDLER))
}

fn gate(shop: &Shop, arguments: &[&str]) -> Value {
    shop.run(&[&["gate"], arguments, &["-o", "json"]].concat()).json()
}

/// Attempts of each run, by id.
fn attempts(shop: &Shop) -> Vec<u64> {
    let runs = shop.run(&["runs", "list", "-o", "json"]).json();
    runs.as_array().unwrap().iter().map(|run| run["attempts"].as_u64().unwrap()).collect()
}

// GAT-2, GAT-3, GAT-6
#[test]
fn a_rate_limited_run_keeps_the_others_of_its_customer_back() {
    for shop in shops() {
        shop.folder.write("limited", "");
        let lines = ["{\"category\": \"acme\"}"; ACME].join("\n");
        shop.folder.write("runs.jsonl", lines);
        shop.run(&["runs", "submit", "--queue", "work", "--from", "runs.jsonl"]).ok();
        let bolt = shop.submit("bolt");
        let mut worker = shop.start_worker(&["--concurrency", "1"]);
        worker.wait_for("succeeded");
        assert_eq!(shop.status(bolt), "passed");
        let tried = attempts(&shop)[..ACME].iter().filter(|attempts| **attempts > 0).count();
        // Some may be claimed and started before the first refusal is written.
        assert!((1..ACME / 2).contains(&tried), "{tried} were refused");
        let shut = gate(&shop, &["list", "--shut"]);
        assert_eq!(shut.as_array().unwrap().len(), 1, "{shut}");
        let acme = &shut[0];
        let closed = [&acme["gate"], &acme["key"], &acme["status"], &acme["waiting"]];
        let waiting = json!(ACME - tried);
        assert_eq!(closed, [&json!("api"), &json!("acme"), &json!("closed"), &waiting]);
        let by = acme["closed_by"].as_str().unwrap();
        assert!(by.starts_with("run:") && acme["reason"] == "429: slow down", "{acme}");
        let why = shop.run(&["why", &format!("run:{ACME}"), "-o", "json"]).json();
        let because = why["next"]["because"].as_str().unwrap();
        assert!(because.contains("waits for gate api/acme, closed until"), "{because}");
        assert!(because.contains(&format!("{by}: 429: slow down")), "{because}");

        std::fs::remove_file(shop.folder.path().join("limited")).unwrap();
        let opened = gate(&shop, &["open", "api", "acme", "--reason", "the quota was raised"]);
        assert_eq!(opened["status"], "open");
        for _ in tried..ACME {
            worker.wait_for("succeeded");
        }
        assert_eq!(attempts(&shop), [1; ACME + 1]);
        worker.signal("-TERM");
        worker.end();
        shop.run(&["doctor", "-q"]).ok();
    }
}

// GAT-2, GAT-6
#[test]
fn a_gate_is_closed_and_opened_by_command() {
    for shop in shops() {
        let closed = gate(&shop, &["close", "all", "--for", "30m", "--reason", "maintenance"]);
        assert_eq!(closed["status"], "closed");
        assert_eq!(closed["places"], json!(["queue:other"]));
        let until = closed["closed_until"].as_str().unwrap();
        let id = shop.submit_to("other", "bolt");
        let why = shop.run(&["why", &format!("run:{id}"), "-o", "json"]).json();
        let because = why["next"]["because"].as_str().unwrap();
        assert!(because.contains(&format!("gate all, closed until {until}")), "{because}");
        assert!(because.contains("maintenance"), "{because}");
        let listed = shop.run(&["gate", "list"]).ok();
        assert!(listed.contains("maintenance"), "{listed}");
        gate(&shop, &["open", "all"]);
        shop.drain();
        assert_eq!(shop.status(id), "passed");

        gate(&shop, &["close", "api", "two words"]);
        let id = shop.submit("two words");
        let why = shop.why(id)["next"]["because"].to_string();
        assert!(why.contains("closed until `redrive gate open api 'two words'` opens it"), "{why}");
        let keys = gate(&shop, &["show", "api"]);
        assert_eq!(keys[0]["key"], "two words", "{keys}");
    }
}

// GAT-1, GAT-6
#[test]
fn a_gate_that_no_place_names_any_more_is_gone() {
    for shop in shops() {
        gate(&shop, &["close", "all", "--reason", "maintenance"]);
        let id = shop.submit_to("other", "bolt");
        shop.folder
            .write("redrive.toml", shop.folder.read("redrive.toml").replace("[\"all\"]", "[]"));
        shop.drain();
        assert_eq!(shop.status(id), "passed");
        let id = shop.submit_to("other", "bolt");
        let because = shop.why(id)["next"]["because"].to_string();
        assert!(
            because.contains("the next free worker claims the run") && !because.contains("gate"),
            "{because}"
        );
        assert_eq!(gate(&shop, &["list"]), json!([]));
        let complaint = shop.run(&["gate", "close", "all"]).failed(1);
        assert!(complaint.contains("no queue, source, upload or stage names it"), "{complaint}");
    }
}

// GAT-6, PLN-4
#[test]
fn a_plan_names_the_gate_that_keeps_its_units_back() {
    for shop in shops() {
        shop.folder.write("work.sh", "exit 64\n");
        shop.submit_to("other", "bolt");
        shop.drain();
        gate(&shop, &["close", "all", "--reason", "maintenance"]);
        shop.run(&["plan", "new", "retry", "--kind", "run", "--queue", "other", "-q"]).ok();
        shop.run(&["plan", "apply", "1", "-q"]).ok();
        let waits = shop.run(&["plan", "show", "1", "-o", "json"]).json()["waits_for"].to_string();
        let why = "run:1 is pending: it waits for gate all, closed until `redrive gate open all` opens it";
        assert!(waits.contains(why) && waits.contains("maintenance"), "{waits}");
    }
}

// GAT-1, GAT-6
#[test]
fn units_without_a_key_have_an_empty_one() {
    for shop in shops() {
        gate(&shop, &["close", "api", ""]);
        let id = shop.submit_to("work", "");
        let because = shop.why(id)["next"]["because"].to_string();
        assert!(because.contains("closed until `redrive gate open api ''` opens it"), "{because}");
        let complaint = shop.run(&["gate", "open", "api", "(no customer)"]).failed(2);
        assert!(complaint.contains("their key is ''"), "{complaint}");
        let complaint = shop.run(&["gate", "close", "api", &"k".repeat(600)]).failed(2);
        assert!(complaint.contains("the key has 600 bytes, 512 are allowed"), "{complaint}");
        gate(&shop, &["open", "api", ""]);
        shop.drain();
        assert_eq!(shop.status(id), "passed");
    }
}

// GAT-5, GAT-6
#[test]
fn a_gate_with_limits_says_what_it_lets_through_and_who_waits() {
    let limited =
        CONFIG.replace("name = \"all\"", "name = \"all\"\nrate = \"1/d\"\nconcurrency = 2");
    for (folder, url) in {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, postgres_url] = one_of_each(&sqlite);
        [(sqlite, "sqlite:store.db".to_owned()), (postgres, postgres_url)]
    } {
        let shop = Shop::selling(folder, &url, &limited, HANDLER);
        let ids = [shop.submit_to("other", "bolt"), shop.submit_to("other", "bolt")];
        let mut worker = shop.start_worker(&["--queues", "other"]);
        worker.wait_for("succeeded");
        worker.signal("-TERM");
        worker.end();
        let shown = gate(&shop, &["show", "all"]);
        let told = [&shown["status"], &shown["limits"], &shown["waiting"]];
        assert_eq!(told, [&json!("open"), &json!("1/d, 2 at once"), &json!(1)], "{shown}");
        let because = shop.why(ids[1])["next"]["because"].to_string();
        assert!(
            because.contains("passes gate all, which lets 1/d, 2 at once through"),
            "{because}"
        );
    }
}

// GAT-6
#[test]
fn a_person_closes_a_gate_for_a_time_and_opens_it() {
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", CONFIG, HANDLER);
    gate(&shop, &["close", "api", "acme", "--reason", "over\nthe quota"]);
    let server = Serving::start(&shop, "127.0.0.1:0", &[]);
    let browser = Browser::at(server.address);
    browser.look(390, "dark");
    browser.open("/gates");
    browser.wait_for("main", "until it is opened");
    browser.wait_for("main", "over the quota");
    browser.picture("gates");
    let width = "return document.documentElement.scrollWidth <= window.innerWidth \
        && [...document.querySelectorAll('.scroll')].every(it => it.scrollWidth <= it.clientWidth)";
    assert_eq!(browser.run(width), json!(true), "all of a gate is seen without scrolling sideways");
    browser.run("document.querySelectorAll('details').forEach(it => it.open = true)");
    browser.write("form[action='/gates/close'] input[name=for]", "30m");
    browser.write("form[action='/gates/close'] input[name=reason]", "maintenance");
    browser.click("form[action='/gates/close'] button");
    browser.wait_for("main", "maintenance");
    let all = server.get("/v1/gates/all");
    assert!(all["status"] == "closed" && all["closed_until"].is_string(), "{all}");
    assert_eq!(server.get("/v1/gates?shut=true")["items"].as_array().unwrap().len(), 2);
    assert!(server.text("/metrics").contains("redrive_gate_shut_keys{gate=\"all\"} 1"));
    browser.open("/");
    browser.wait_for("main", "maintenance");
    browser.open("/gates?shut=true");
    browser.run("document.querySelectorAll('details').forEach(it => it.open = true)");
    browser.click("tr:has(input[value=acme]) form[action='/gates/open'] button");
    browser.wait_for("main", "maintenance");
    assert_eq!(gate(&shop, &["show", "api", "acme"])["status"], "open");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// A queue, a source and a pipeline before one service.
const ALL_KINDS: &str = r#"
[[gate]]
name = "api"
per = "customer"
key = "/data/customer"

[raw]
url = "file:raw"

[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "10ms", max-hint = "1h" }
gates = ["api"]

[[source]]
name = "ads"
customers = ["acme", "bolt"]
queries = ["daily"]
extract = { exec = ["/bin/sh", "extract.sh"] }
gates = ["api"]

[[pipeline]]
name = "texts"
source = { jsonl = "in.jsonl" }

[[pipeline.stage]]
name = "clean"
handler = { exec = ["/bin/sh", "clean.sh"] }

[[pipeline.stage]]
name = "ask"
handler = { exec = ["/bin/sh", "ask.sh"] }
gates = ["api"]
"#;

/// Says whose sample it is.
const CLEAN: &str = r#"
read -r call
case "$call" in
*acme*) echo '{"ok": {"customer": "acme"}}' ;;
*) echo '{"ok": {"customer": "bolt"}}' ;;
esac
"#;

/// The service limits the rate of the customer that it is called for: runs say which.
const LIMITS: &str = r#"
[ "$REDRIVE_CATEGORY" = acme ] &&
    echo '{"error": {"class": "rate_limited", "code": 429, "message": "slow down", "retry_after": 600}}' ||
    echo '{"ok": true}'
"#;

// GAT-1, GAT-3, GAT-6
#[test]
fn one_gate_keeps_back_units_of_every_kind() {
    for (folder, url) in {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, postgres_url] = one_of_each(&sqlite);
        [(sqlite, "sqlite:store.db".to_owned()), (postgres, postgres_url)]
    } {
        let shop = Shop::selling(folder, &url, ALL_KINDS, LIMITS);
        shop.folder
            .write("extract.sh", "echo \"$REDRIVE_CUSTOMER_ID\" >> extracted; echo '{\"n\": 1}'\n")
            .write("clean.sh", CLEAN)
            .write(
                "ask.sh",
                "echo \"$REDRIVE_SAMPLE\" >> asked; echo '{\"ok\": {\"answer\": 1}}'\n",
            )
            .write("in.jsonl", "{\"customer\": \"acme\"}\n{\"customer\": \"bolt\"}\n");
        let run = shop.submit("acme");
        let mut first = shop.start_worker(&["--queues", "work"]);
        first.wait_for("retry in");
        first.signal("-TERM");
        first.end();
        assert_eq!(gate(&shop, &["show", "api", "acme"])["status"], "closed");

        shop.run(&[
            "state",
            "backfill",
            "--source",
            "ads",
            "--since",
            "2026-01-01",
            "--until",
            "2026-01-01",
            "--yes",
        ])
        .ok();
        let mut worker = shop.start_worker(&["--sources", "ads"]);
        worker.wait_for("success");
        worker.signal("-TERM");
        worker.end();
        assert_eq!(shop.folder.read("extracted"), "bolt\n");
        let unit = "partition:ads/acme/daily/2026-01-01";
        let why = shop.run(&["why", unit, "-o", "json"]).json();
        let because = why["next"]["because"].as_str().unwrap();
        assert!(because.contains("waits for gate api/acme, closed until"), "{because}");
        assert!(because.contains(&format!("run:{run}: 429")), "{because}");

        let pipeline = Worker::start(shop.command(&["pipeline", "run", "texts"]));
        let because = || {
            let ended = shop.run(&["why", "sample:1", "-o", "json"]);
            if ended.code == Some(0) {
                ended.json()["next"]["because"].to_string()
            } else {
                String::new()
            }
        };
        while !shop.folder.path().join("asked").exists()
            || !because().contains("at stage ask; but it waits for gate api/acme")
        {}
        assert_eq!(shop.folder.read("asked"), "2\n");
        let acme = gate(&shop, &["show", "api", "acme"]);
        assert_eq!(
            acme["waiting"], 2,
            "the partition and the sample; the run waits for its retry: {acme}"
        );
        let places = ["queue:work", "source:ads", "stage:texts/ask"];
        let shown = acme["places"].as_array().unwrap();
        assert!(places.iter().all(|place| shown.contains(&json!(place))), "{acme}");
        gate(&shop, &["open", "api", "acme"]);
        pipeline.end();
        assert_eq!(shop.folder.read("asked"), "2\n1\n");
    }
}

const UPLOAD: &str = r#"
concurrency = 4
max-item-attempts = 3
gates = ["api"]

[[gate]]
name = "api"
per = "group"
"#;

// GAT-1, GAT-2, GAT-3, GAT-4
#[test]
fn a_rate_limited_item_keeps_the_others_of_its_group_back() {
    let since: Mutex<Option<Instant>> = Mutex::default();
    let (since, refused) = (Arc::new(since), Arc::new(AtomicUsize::new(0)));
    let script = {
        let refused = refused.clone();
        move |_: &Received| {
            let since = *since.lock().unwrap().get_or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_millis(900) {
                return Reply::status(200);
            }
            refused.fetch_add(1, Ordering::SeqCst);
            Reply::Status(429, "retry-after: 1\r\n", String::new())
        }
    };
    let shop = UploadShop::on_sqlite(&format!("{SOON}{UPLOAD}"), script);
    for n in 0..40 {
        shop.add(&format!("{n}.jpg"), "a photo");
    }
    let summary = shop.uploaded(0);
    assert_eq!(summary["uploaded"], 40, "{summary}");
    let refused = refused.load(Ordering::SeqCst);
    assert!((1..=12).contains(&refused), "{refused} of 40 items were refused");
    let shown = gate(&shop.shop, &["show", "api", "g"]);
    assert_eq!([&shown["status"], &shown["held"]], [&json!("open"), &json!(0)], "{shown}");
    shop.doctor();
}

// GAT-6
#[test]
fn wrong_orders_to_gates_are_refused_with_what_is_right() {
    let shop = Shop::selling(Folder::new(), "sqlite:store.db", CONFIG, HANDLER);
    let cases: [(&[&str], i32, &str); 6] = [
        (&["gate", "open", "all"], 4, "gate all is open already; nothing was changed"),
        (&["gate", "close", "api"], 2, "gate api is divided by customer: name the customer"),
        (&["gate", "close", "all", "x"], 2, "gate all is not divided: it has no key \"x\""),
        (&["gate", "close", "al"], 1, "there is no gate \"al\""),
        (&["gate", "show", "none"], 1, "there is no gate \"none\""),
        (&["gate", "close", "all", "--for", "soon"], 2, "--for"),
    ];
    for (arguments, code, message) in cases {
        let complaint = shop.run(arguments).failed(code);
        assert!(complaint.contains(message), "{arguments:?}: {complaint}");
    }
    let suggested = shop.run(&["gate", "close", "al"]).failed(1);
    assert!(suggested.contains("`all`"), "{suggested}");
}

// GAT-1
#[test]
fn a_gate_that_nobody_declares_is_a_problem_of_the_configuration() {
    let folder = Folder::with_config(
        r#"
        [[gate]]
        name = "ads-api"
        concurrency = 0
        trip = { failures = 1.5, of = 20, within = "1m" }
        [[gate]]
        name = "other"
        rate = "fast"
        base = "1m"
        cap = "1s"
        [[queue]]
        name = "work"
        handler = { exec = ["/bin/true"] }
        gates = ["adsapi"]
        "#,
    );
    let ended = folder.run(&["check"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let report = ended.stderr;
    for part in [
        "there is no gate \"adsapi\"",
        "did you mean `ads-api`",
        "`gate.concurrency`",
        "is not a rate",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}
