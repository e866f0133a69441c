//! `redrive worker`.

use std::{fs::File, io::Read};

use serde_json::json;

use crate::{databases::fresh_postgres, folder::Folder, shop::Shop};

// OPS-7, RUN-3, CLS-1, CLS-4
#[test]
fn a_drained_queue_has_an_end_for_every_run() {
    for shop in Shop::both() {
        let categories = ["fine", "flaky", "limited", "bad", "down", "review", "wrong"];
        let ids = shop.drained(&categories);
        let ends: Vec<_> = ids
            .iter()
            .map(|id| {
                let run = shop.show(*id);
                json!([run["status"], run["attempts"], run["retry_count"], run["error_class"]])
            })
            .collect();
        let expected = [
            json!(["passed", 1, 0, null]),
            json!(["passed", 2, 0, null]),
            json!(["passed", 2, 0, null]),
            json!(["error", 1, 0, "final"]),
            json!(["error", 3, 2, "retryable"]),
            json!(["needs_review", 1, 0, null]),
            json!(["failed", 1, 0, null]),
        ];
        assert_eq!(ends, expected);
        assert_eq!(shop.show(ids[0])["result"], json!({ "answer": 42 }));
        assert_eq!(shop.show(ids[3])["error_message"], "cannot be read");
        shop.run(&["doctor"]).ok();
    }
}

// OPS-7
#[test]
fn a_drain_ends_at_once_when_there_is_nothing_to_do() {
    for shop in Shop::both() {
        shop.drain();
    }
}

// OPS-7
#[test]
fn a_drain_says_what_it_ignores_and_who_does_that_work() {
    let config = r#"
        [[source]]
        name = "ads"
        customers = ["1", "2"]
        queries = ["q"]
        extract = { exec = ["/bin/false"] }
        schedule = { every = "day", at = "00:00", start = "2024-01-01" }
    "#;
    for shop in Shop::both() {
        shop.folder.write("redrive.toml", config);
        let ended = shop.run(&["worker", "--drain"]);
        assert_eq!(ended.code, Some(0));
        let (said, _) = ended.stderr.split_once("\n--drain ignores schedules: ").unwrap();
        assert!(!said.contains("--drain"), "{said}");
        let command = "`redrive state backfill --source ads --since 2024-01-01 --until 20";
        assert!(ended.stderr.contains(command), "{}", ended.stderr);
        assert!(!ended.stderr.contains("failed partitions"), "{}", ended.stderr);
        let day = ["--since", "2024-01-01", "--until", "2024-01-01", "-q"];
        shop.run(&[&["state", "backfill", "--source", "ads"], &day[..]].concat()).ok();
        let ended = shop.run(&["worker", "--drain"]);
        let failed = "--drain ignores failed partitions: 0 are due for a retry now, 2 later; `redrive daemon`";
        assert!(ended.stderr.contains(failed), "{}", ended.stderr);
        assert_eq!(shop.run(&["worker", "--drain", "-q", "-q"]).ok(), "");
    }
}

// OPS-6
#[test]
fn a_signal_lets_running_work_end_and_takes_no_more() {
    for (shop, (signal, code)) in Shop::both().iter().zip([("-TERM", 143), ("-INT", 130)]) {
        shop.make_gate();
        let running = shop.submit("gate");
        let mut worker = shop.start_worker(&["--concurrency", "1"]);
        worker.wait_for("initial attempt");
        let waiting = shop.submit("fine");
        worker.signal(signal);
        worker.wait_for("stopping");
        shop.open_gate("through");
        let (ended, log) = worker.end();
        assert_eq!(ended, Some(code), "{log}");
        let run = shop.show(running);
        assert_eq!((&run["status"], &run["result"]), (&json!("passed"), &json!("through")));
        assert_eq!(shop.status(waiting), "discovered");
    }
}

// OPS-6
#[test]
fn work_that_does_not_end_in_time_is_handed_back_uncounted() {
    for shop in Shop::both() {
        shop.make_gate();
        let id = shop.submit("gate");
        let mut worker = shop.start_worker(&["--grace", "50ms"]);
        worker.wait_for("initial attempt");
        worker.signal("-TERM");
        let (code, log) = worker.end();
        assert_eq!(code, Some(143), "{log}");
        let story = shop.why(id);
        assert_eq!(story["attempts"], json!([]), "no attempt was spent");
        assert_eq!(story["journal"][0]["action"], "run.handback");
        assert_eq!(
            (&story["run"]["status"], &story["run"]["attempts"]),
            (&json!("discovered"), &json!(0))
        );
        assert!(story["next"]["because"].as_str().unwrap().starts_with("ready: "), "{story}");
    }
}

// OPS-6
#[test]
fn a_second_signal_ends_at_once_and_leaves_no_handler_behind() {
    for shop in Shop::both() {
        shop.make_gate();
        shop.make_pipe("alive");
        let id = shop.submit("stuck");
        let mut worker = shop.start_worker(&["--grace", "1h"]);
        // Opens when the handler has begun, and ends when it is gone.
        let mut alive = File::open(shop.folder.path().join("alive")).unwrap();
        worker.signal("-INT");
        worker.wait_for("stopping");
        worker.signal("-INT");
        let (code, log) = worker.end();
        assert_eq!(code, Some(130), "{log}");
        alive.read_to_string(&mut String::new()).unwrap();
        assert_eq!(shop.status(id), "processing", "its lease ends, and then it comes back");
    }
}

// RUN-6
#[test]
fn a_worker_leaves_queues_alone_that_it_does_not_serve() {
    for shop in Shop::both() {
        let ours = shop.submit("fine");
        let [other, stranger] = [("patient", "down"), ("wrok", "fine")]
            .map(|(queue, kind)| shop.submit_to(queue, kind));
        shop.run(&["worker", "--drain", "-q", "--queues", "work"]).ok();
        assert_eq!(shop.status(ours), "passed");
        for id in [other, stranger] {
            let run = shop.show(id);
            assert_eq!((&run["status"], &run["attempts"]), (&json!("discovered"), &json!(0)));
        }
    }
}

// OPS-4
#[test]
fn what_cannot_be_worked_on_is_refused_at_the_start() {
    #[track_caller]
    fn check(config: &str, arguments: &[&str], code: i32, parts: &[&str]) {
        let folder = Folder::with_config(config);
        let complaint = folder.run(&[&["worker"], arguments].concat()).failed(code);
        for part in parts {
            assert!(complaint.contains(part), "{part:?} is not in {complaint}");
        }
        assert!(!folder.path().join("redrive.db").exists(), "nothing was made");
    }
    let exec = "[[queue]]\nname = \"verify\"\nhandler = { exec = [\"./x\"] }\n";
    let http = "[[queue]]\nname = \"hooks\"\nhandler = { http = { url = \"http://a.example\", \
                headers = { x-api-key = { env = \"NOT_SET\" } } } }\n";
    check("", &[], 1, &["declares no queues", "[[queue]]"]);
    check(http, &[], 1, &["\"hooks\"", "header x-api-key", "variable NOT_SET"]);
    check(&format!("{exec}{http}"), &["--queues", "verify,hooks"], 1, &["\"hooks\""]);
    let loopback = "[[queue]]\nname = \"hooks\"\nhandler = { http = { url = \"http://127.0.0.1\", \
                    private-addresses = false } }\n";
    check(loopback, &[], 1, &["\"hooks\"", "private address 127.0.0.1"]);
    check(exec, &["--queues", "verfy"], 2, &["no queue \"verfy\"", "did you mean `verify`?"]);
    check(exec, &["--queues", ""], 2, &["no queue \"\"", "known names: verify"]);
    check(exec, &["--queues"], 2, &["--queues <NAMES>"]);
    for wrong in ["0", "-1", "10001", "many", "1.5"] {
        check(exec, &["--concurrency", wrong], 2, &["--concurrency <N>"]);
    }
    for wrong in ["5", "-1s", "soon"] {
        check(exec, &["--grace", wrong], 2, &["--grace <DURATION>"]);
    }
    let complaint = Folder::new().run(&["worker"]).failed(1);
    assert!(complaint.contains("there is no redrive.toml"), "{complaint}");
    let unmigrated = fresh_postgres();
    let complaint = Folder::with_config(exec).run(&["worker", "--store", &unmigrated]).failed(1);
    assert!(complaint.contains("redrive db migrate"), "{complaint}");
}
