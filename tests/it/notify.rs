//! `[[notify]]`: events that reach a real server.

use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use serde_json::{Value, json};

use crate::{
    databases::one_of_each,
    folder::Folder,
    http_worker::read_request,
    prune::{CORN, HANDLER},
    shop::Shop,
};

/// A server that is told. It lives as long as the tests.
struct EventServer {
    address: SocketAddr,
    received: Receiver<(String, Value)>,
}

impl EventServer {
    /// Answers each request by the next of these statuses, and with 204 when there are no more.
    fn answering(statuses: &'static [u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        thread::spawn(move || {
            let mut statuses = statuses.iter();
            for stream in listener.incoming() {
                converse(stream.unwrap(), &sender, &mut || *statuses.next().unwrap_or(&204));
            }
        });
        Self { address, received }
    }

    /// What has come so far.
    fn received(&self) -> Vec<(String, Value)> {
        self.received.try_iter().collect()
    }
}

/// One request for each connection.
fn converse(stream: TcpStream, sender: &Sender<(String, Value)>, status: &mut dyn FnMut() -> u16) {
    let mut stream = BufReader::new(stream);
    let Some(request) = read_request(&mut stream) else { return };
    let answer =
        format!("HTTP/1.1 {} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", status());
    // Before the answer, so that whoever knows of the answer finds the request.
    sender.send(request).unwrap();
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
}

const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 2, base = "10ms", cap = "50ms" }

[[source]]
name = "days"
customers = ["1"]
queries = ["q"]
extract = { exec = ["/bin/sh", "-c", "echo broken >&2; exit 65"] }
policy = { max-attempts = 1 }

[[pipeline]]
name = "mill"
source = { jsonl = "corn.jsonl" }
failure-budget = { rate = 0.1, every = 2, min-samples = 1 }

[[pipeline.stage]]
name = "grind"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 2, base = "10ms", cap = "50ms", retriable = "by-class" }
concurrency = 1

[[upload]]
name = "tiles"
url = "http://ADDRESS/tiles"
max-in-call-retries = 0
max-item-attempts = 1

[[notify]]
name = "oncall"
url = "http://ADDRESS/events?team=data"
source = "urn:example:shop"
headers = { x-team = "data" }
dead-letters = { every = 1 }
policy = { max-attempts = 3, base = "10ms", cap = "50ms" }
"#;

const QUEUE: &str = "redrive.notify.oncall";

/// A shop on each store with a server of its own, whose notifier has begun.
fn shops(statuses: &'static [u16]) -> [(Shop, EventServer); 2] {
    one_of_each(&Folder::new()).map(|store| {
        let server = EventServer::answering(statuses);
        let folder = Folder::new();
        folder.write("corn.jsonl", CORN);
        let store = match store.starts_with("sqlite:") {
            true => "sqlite:store.db".to_owned(),
            false => store,
        };
        let config = CONFIG.replace("ADDRESS", &server.address.to_string());
        (Shop::selling(folder, &store, &config, HANDLER), server)
    })
}

/// The runs of the notifier.
fn told(shop: &Shop) -> Vec<Value> {
    let runs = shop.run(&["runs", "list", "--queue", QUEUE, "-o", "json"]).json();
    runs.as_array().unwrap().clone()
}

// OPS-3
#[test]
fn a_unit_that_is_given_up_is_told_as_a_cloud_event() {
    for (shop, server) in shops(&[]) {
        let ids = shop.drained(&["bad", "fine", "down"]);
        let mut events = server.received();
        assert_eq!(events.len(), 2, "{events:?}");
        events.sort_by_key(|(_, event)| event["subject"].to_string());
        let (headers, event) = &events[0];
        assert!(headers.starts_with("POST /events?team=data HTTP/1.1"), "{headers}");
        assert!(headers.contains("content-type: application/cloudevents+json\r\n"), "{headers}");
        assert!(headers.contains("x-team: data\r\n"), "{headers}");
        let run = format!("run:{}", ids[0]);
        for (name, value) in [
            ("specversion", "1.0"),
            ("source", "urn:example:shop"),
            ("type", "redrive.run.giveup"),
            ("subject", &run),
            ("datacontenttype", "application/json"),
        ] {
            assert_eq!(event[name], value, "{event}");
        }
        assert!(event["id"].as_str().unwrap().starts_with("journal:"), "{event}");
        event["time"].as_str().unwrap().parse::<redrive::jiff::Timestamp>().unwrap();
        let data = &event["data"];
        assert_eq!((&data["queue"], &data["category"]), (&"work".into(), &"bad".into()), "{event}");
        assert_eq!((&data["reason"], &data["attempts"]), (&"final".into(), &1.into()), "{event}");
        assert_eq!(events[1].1["data"]["reason"], "attempts_exhausted");

        shop.drain();
        assert_eq!(server.received(), [], "each is told once");
        let runs = told(&shop);
        assert_eq!(runs.len(), 2);
        assert!(runs.iter().all(|run| run["status"] == "passed"), "{runs:?}");
        let story = shop.why(runs[0]["id"].as_i64().unwrap());
        assert_eq!(story["attempts"][0]["outcome"], "success", "{story}");
        shop.run(&["doctor"]).ok();
    }
}

// CAU-4
#[test]
fn a_cause_that_comes_back_is_told_once() {
    for (shop, server) in shops(&[]) {
        shop.drained(&["bad"]);
        let cause = shop.run(&["causes", "-o", "json"]).json()[0]["fingerprint"].take();
        let cause = cause.as_str().unwrap();
        shop.run(&["causes", "mark", cause, "fixed"]).ok();
        for _ in 0..2 {
            shop.drained(&["bad"]);
        }
        shop.drain();
        let mut events = server.received();
        events.retain(|(_, event)| event["type"] == "redrive.cause.return");
        let [(_, event)] = &events[..] else { panic!("it is told once: {events:?}") };
        assert_eq!(event["subject"], format!("cause:{cause}"), "{event}");
        assert_eq!(event["data"]["kind"], "run", "{event}");
        assert!(event["data"]["message"].is_string(), "{event}");
    }
}

// OPS-3, DMN-3
#[test]
fn a_partition_that_nothing_retries_is_told() {
    for (shop, server) in shops(&[]) {
        shop.drain();
        let day = ["--since", "2026-01-31", "--until", "2026-01-31", "-q"];
        shop.run(&[&["state", "backfill", "--source", "days"], &day[..]].concat()).ok();
        shop.run(&["worker", "--drain", "--sources", "days", "-q", "-q"]).ok();
        for _ in 0..2 {
            assert_eq!(shop.run(&["daemon", "--once", "-q", "-q"]).code, Some(0));
            shop.run(&["worker", "--drain", "--notifiers", "oncall", "-q", "-q"]).ok();
        }
        let events = server.received();
        assert_eq!(events.len(), 1, "the daemon tells the journal once: {events:?}");
        let event = &events[0].1;
        assert_eq!(event["type"], "redrive.partition.giveup", "{event}");
        assert_eq!(event["subject"], "partition:days/1/q/2026-01-31", "{event}");
        assert_eq!(event["data"]["logical_date"], "2026-01-31", "{event}");
        assert!(event["data"]["error_message"].as_str().unwrap().contains("broken"), "{event}");
    }
}

// OPS-3, UPL-2
#[test]
fn an_item_that_is_given_up_is_told() {
    for (shop, server) in shops(&[422]) {
        shop.drain();
        shop.folder.write("tile.json", "{}");
        let of_group = ["--upload", "tiles", "--group", "g"];
        shop.run(&[&["uploads", "add"], &of_group[..], &["tile.json"]].concat()).ok();
        let ended = shop.run(&[&["uploads", "run"], &of_group[..], &["-q", "-q"]].concat());
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let sent = server.received();
        assert!(matches!(&sent[..], [(headers, _)] if headers.starts_with("POST /tiles ")));
        for _ in 0..2 {
            shop.run(&["worker", "--drain", "--notifiers", "oncall", "-q", "-q"]).ok();
        }
        let events = server.received();
        let [(_, event)] = &events[..] else { panic!("it is told once: {events:?}") };
        assert_eq!(event["type"], "redrive.upload.giveup", "{event}");
        assert!(event["subject"].as_str().unwrap().starts_with("item:"), "{event}");
        assert_eq!(event["data"]["attempts"], 1, "{event}");
        assert!(event["data"]["last_rejection_reason"].is_string(), "{event}");
    }
}

// OPS-3, PIP-6
#[test]
fn an_aborted_pipeline_and_dead_letters_are_told() {
    for (shop, server) in shops(&[]) {
        shop.drain();
        assert_eq!(shop.run(&["pipeline", "run", "mill", "-q", "-q"]).code, Some(1), "aborted");
        assert_eq!(server.received(), [], "who runs a pipeline tells nobody");
        shop.run(&["worker", "--drain", "--notifiers", "oncall", "-q", "-q"]).ok();
        let events: Vec<Value> = server.received().into_iter().map(|(_, event)| event).collect();
        let of = |kind: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["type"] == kind).collect()
        };
        let aborts = of("redrive.pipeline.abort");
        assert_eq!(aborts.len(), 1, "{events:?}");
        assert_eq!(aborts[0]["subject"], "pipeline-run:1");
        assert_eq!(aborts[0]["data"]["pipeline"], "mill");
        assert!(aborts[0]["data"]["why"].is_string() && aborts[0]["data"]["rate"].is_number());
        let dead = of("redrive.pipeline.dead-letters");
        assert_eq!(dead.len(), 1, "they were many at once: {events:?}");
        assert_eq!(dead[0]["data"]["passed"], dead[0]["data"]["dlq"]);
        assert_eq!(events.len(), 2, "dead samples are no give-ups of their own: {events:?}");
        shop.run(&["worker", "--drain", "--notifiers", "oncall", "-q", "-q"]).ok();
        assert_eq!(server.received(), []);
    }
}

// OPS-3, CLS-2
#[test]
fn a_server_that_fails_at_first_is_told_again() {
    for (shop, server) in shops(&[500]) {
        shop.drained(&["bad"]);
        let events = server.received();
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(events[0].1, events[1].1, "the same event");
        let runs = told(&shop);
        assert_eq!((&runs[0]["status"], &runs[0]["attempts"]), (&"passed".into(), &2.into()));
    }
}

#[test]
fn nobody_is_told_that_nobody_could_be_told() {
    for (shop, server) in shops(&[410, 410, 410]) {
        shop.drained(&["bad"]);
        let runs = told(&shop);
        assert_eq!((runs.len(), &runs[0]["status"]), (1, &"error".into()), "given up");
        shop.drain();
        assert_eq!((told(&shop).len(), server.received().len()), (1, 1));
        let stats = shop.run(&["runs", "stats", "-o", "json"]).json();
        let stats = stats.as_array().unwrap().iter().find(|queue| queue["queue"] == QUEUE);
        assert_eq!(stats.unwrap()["unroutable"], false, "it is a queue that is served");
        let status = shop.run(&["status"]).ok();
        assert!(status.starts_with("1 run given up"), "a delivery is no work: {status}");
        assert!(status.contains(QUEUE), "it is among the queues: {status}");
    }
}

#[test]
fn what_happened_before_a_notifier_was_there_is_not_told() {
    for (shop, server) in shops(&[]) {
        shop.submit("bad");
        shop.run(&["worker", "--drain", "--queues", "work", "-q", "-q"]).ok();
        shop.drain();
        assert_eq!(server.received(), []);
        shop.drained(&["bad"]);
        assert_eq!(server.received().len(), 1, "from there on it is");
    }
}

// RUN-7
#[test]
fn two_workers_tell_of_each_give_up_once() {
    const RUNS: usize = 6;
    for (shop, server) in shops(&[]) {
        let workers = [(); 2].map(|()| {
            let mut worker = shop.start_worker(&[]);
            worker.wait_for("working");
            worker
        });
        // Both have begun when what they are told of happens: the first drain has begun the notifier.
        shop.drain();
        let ids: Vec<i64> = (0..RUNS).map(|_| shop.submit("bad")).collect();
        let mut events: Vec<Value> = (0..RUNS).map(|_| server.received.recv().unwrap().1).collect();
        workers.iter().for_each(|worker| worker.signal("-TERM"));
        for worker in workers {
            assert_eq!(worker.end().0, Some(143));
        }
        shop.drain();
        events.extend(server.received().into_iter().map(|(_, event)| event));
        let mut subjects: Vec<&str> =
            events.iter().map(|event| event["subject"].as_str().unwrap()).collect();
        subjects.sort_unstable();
        let mut expected: Vec<String> = ids.iter().map(|id| format!("run:{id}")).collect();
        expected.sort_unstable();
        assert_eq!(subjects, expected);
    }
}

#[test]
fn mistakes_in_a_notifier_are_pointed_at() {
    let good = "[[notify]]\nname = \"a\"\nurl = \"http://127.0.0.1/\"\n";
    for (config, complaint) in [
        ("[[notify]]\nname = \"a\"\n".to_owned(), "missing key `url`"),
        (good.replace("http", "ftp"), "is not a URL"),
        (format!("{good}{good}"), "two notifiers have the name \"a\""),
        (format!("{good}events = [\"deaths\"]\n"), "giveup"),
        (format!("{good}events = []\n"), "must not be empty"),
        (
            format!("{good}events = [\"abort\"]\ndead-letters = {{ every = 9 }}\n"),
            "does not belong here",
        ),
        (format!("{good}dead-letters = {{ every = 0 }}\n"), "every"),
        (
            format!("{good}headers = {{ authorization = \"secret\" }}\n"),
            "a secret must not be in the file",
        ),
        (
            format!("{good}headers = {{ Content-Type = \"text/plain\" }}\n"),
            "must not set content-type",
        ),
        (format!("{good}source = \"two words\"\n"), "is not an event source"),
        (good.replace("\"a\"", &format!("{:?}", "a".repeat(510))), "is too long"),
        (
            "[[queue]]\nname = \"redrive.own\"\nhandler = { exec = [\"x\"] }\n".to_owned(),
            "names that begin with redrive. are reserved for Redrive",
        ),
    ] {
        let ended = Folder::with_config(&config).run(&["check"]);
        assert_eq!(ended.code, Some(1), "{config}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(complaint), "{config}: {said}");
    }
    let checked = Folder::with_config(good).run(&["check", "-o", "json"]).json();
    let notifier = &checked["notifiers"][0];
    assert_eq!(notifier["queue"], "redrive.notify.a");
    assert_eq!(
        notifier["events"],
        json!(["giveup", "abort", "dead-letters", "cause-return", "gate"])
    );
    assert_eq!(
        (&notifier["dead_letters_every"], &notifier["source"]),
        (&100.into(), &"/redrive".into())
    );
}
