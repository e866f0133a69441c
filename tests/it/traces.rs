//! Attempts as spans, as a collector gets them (feature `otel`).

use std::{collections::BTreeMap, fs};

use serde_json::json;

use crate::{
    collector::{Collector, Script, Span, TAKES},
    databases::texts,
    shop::Worker,
    traced::Traced,
};

/// Spans, as [`Traced::ledger`] has attempts.
fn told(spans: &[Span]) -> Vec<String> {
    let line = |span: &Span| {
        let [kind, stage, attempt, outcome] = ["kind", "stage", "attempt", "outcome"]
            .map(|it| span.attribute(&format!("redrive.{it}")));
        format!("{kind} {stage} {attempt} {outcome}")
    };
    let mut lines: Vec<String> = spans.iter().map(line).collect();
    lines.sort();
    lines
}

/// Spans by unit, each in the order of attempts. Checks that they are linked as they should be.
#[track_caller]
fn linked(spans: &[Span]) -> BTreeMap<String, Vec<Span>> {
    let mut units: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for span in spans {
        units.entry(span.attribute("redrive.unit")).or_default().push(span.clone());
    }
    for (unit, spans) in &mut units {
        spans.sort_by_key(Span::attempt);
        let numbers: Vec<u32> = spans.iter().map(Span::attempt).collect();
        assert_eq!(numbers, (1..=spans.len() as u32).collect::<Vec<_>>(), "{unit}");
        assert!(spans[0].links().is_empty(), "{unit}: nothing came before the first");
        for pair in spans.windows(2) {
            assert_eq!(pair[1].links(), [pair[0].id()], "{unit}");
            assert_eq!(pair[0].text("traceId"), pair[1].text("traceId"), "{unit}");
            assert!(pair[0].nanos("endTimeUnixNano") <= pair[1].nanos("startTimeUnixNano"));
        }
    }
    units
}

#[test]
fn every_attempt_of_every_kind_is_a_span_linked_to_the_one_before() {
    let collector = Collector::new(TAKES);
    for traced in Traced::both(collector.address) {
        let before = collector.spans().len();
        traced.shop.submit("flaky");
        traced.shop.submit("bad");
        let day = ["--source", "ads", "--since", "2026-01-31", "--until", "2026-01-31"];
        traced.shop.run(&[&["state", "backfill"], &day[..]].concat()).ok();
        traced.drain();
        // Other processes make the next attempts, and know what the spans before were called.
        traced.shop.run(&["runs", "retry", "2", "-q"]).ok();
        traced.shop.run(&["state", "retry", "--source", "ads", "--force", "-q"]).ok();
        traced.drain();
        let run = traced.run(&["pipeline", "run", "score", "-q"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        traced.shop.folder.write("tile", "bytes");
        let group = ["--upload", "tiles", "--group", "g"];
        traced.shop.run(&[&["uploads", "add", "tile", "-q"], &group[..]].concat()).ok();
        let uploaded = traced.run(&[&["uploads", "run", "-q"], &group[..]].concat());
        assert_eq!(uploaded.code, Some(0), "{}", uploaded.stderr);

        let spans = collector.spans().split_off(before);
        assert_eq!(told(&spans), traced.ledger(), "one span for each row");
        let units = linked(&spans);
        let names: Vec<&str> = units.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "item:1",
                "partition:ads/1/daily/2026-01-31",
                "run:1",
                "run:2",
                "sample:1/ask",
                "sample:1/judge",
                "sample:2/ask",
                "sample:2/judge",
            ]
        );
        assert!(units.values().filter(|spans| spans.len() == 2).count() == 6, "{names:?}");
        assert_eq!(
            units["sample:1/ask"][0].text("traceId"),
            units["sample:1/judge"][0].text("traceId"),
            "a sample has one trace from its first stage to its last"
        );
        handlers_were_told(&traced, &units);
    }
}

/// Checks that programs and servers were given the span they were called in.
fn handlers_were_told(traced: &Traced, units: &BTreeMap<String, Vec<Span>>) {
    let log = traced.shop.folder.read("told");
    for line in log.lines() {
        let [unit, attempt, parent] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}");
        };
        let span = &units[unit][attempt.parse::<usize>().unwrap() - 1];
        assert_eq!(parent, span.traceparent(), "{unit}");
    }
    assert_eq!(log.lines().count(), 2 + 2 + 2 + 4, "two runs, a day and two samples, twice each");
    let of_tile = traced.server.received().into_iter().filter(|item| item.name == "tile");
    let parents: Vec<String> = of_tile.map(|item| item.headers["traceparent"].clone()).collect();
    assert_eq!(parents, [0, 1].map(|at| units["item:1"][at].traceparent()));
    let judged = traced.server.received().into_iter().filter(|item| item.name.is_empty());
    let mut parents: Vec<String> = judged.map(|call| call.headers["traceparent"].clone()).collect();
    parents.sort();
    let mut expected = ["sample:1/judge", "sample:2/judge"].map(|it| units[it][0].traceparent());
    expected.sort();
    assert_eq!(parents, expected);
}

#[test]
fn a_span_tells_what_the_ledger_has() {
    let collector = Collector::new(TAKES);
    let traced = Traced::on_sqlite(collector.address)
        .with("OTEL_SERVICE_NAME", "night shift")
        .with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=a%2Cb, team=ops")
        .with("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret");
    let id = traced.shop.submit("flaky");
    traced.drain();
    let requests = collector.received();
    let (head, request) = &requests[0];
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(head.contains("authorization: Bearer s3cret\r\n"), "{head}");
    assert_eq!(
        request["resourceSpans"][0]["resource"]["attributes"],
        json!([
            { "key": "deployment.environment", "value": { "stringValue": "a,b" } },
            { "key": "team", "value": { "stringValue": "ops" } },
            { "key": "service.name", "value": { "stringValue": "night shift" } },
        ])
    );
    let units = linked(&collector.spans());
    let [first, second] = &units[&format!("run:{id}")][..] else { panic!("{units:?}") };
    assert_eq!(first.text("name"), "run work");
    assert_eq!(first.0["status"]["code"], 2);
    assert_eq!(first.0["status"]["message"], "not yet");
    let attributes = ["class", "cause", "queue", "outcome", "counted"];
    assert_eq!(
        attributes.map(|name| first.attribute(&format!("redrive.{name}"))),
        ["retryable", "handler", "work", "retrying", "true"]
    );
    assert_eq!(first.attribute("error.type"), "75");
    assert!(first.attribute("redrive.delay_ms").parse::<u64>().unwrap() > 0);
    assert_eq!((&second.0["status"], second.attribute("error.type")), (&json!({}), String::new()));
    let times = texts(
        traced.shop.store(),
        "SELECT started_at || '000 ' || ended_at || '000' FROM attempts ORDER BY attempt",
    );
    let of = |span: &Span| {
        format!("{} {}", span.text("startTimeUnixNano"), span.text("endTimeUnixNano"))
    };
    assert_eq!(times, [of(first), of(second)]);
}

#[test]
fn the_attempt_of_a_lost_worker_is_told_by_who_finds_out() {
    let collector = Collector::new(TAKES);
    for traced in Traced::both(collector.address) {
        let before = collector.spans().len();
        let id = traced.shop.submit("fatal");
        assert_eq!(traced.run(&["worker", "--drain"]).code, None, "it was killed");
        assert_eq!(collector.spans().len(), before, "it had no time to tell");
        traced.drain();
        let spans = collector.spans().split_off(before);
        assert_eq!(told(&spans), traced.ledger());
        let units = linked(&spans);
        let [lost, after] = &units[&format!("run:{id}")][..] else { panic!("{units:?}") };
        assert_eq!(lost.attribute("redrive.cause"), "lost_worker");
        assert_ne!(lost.attribute("redrive.worker"), after.attribute("redrive.worker"));
        let parents = fs::read_to_string(traced.shop.folder.path().join("told")).unwrap();
        assert!(parents.contains(&lost.traceparent()), "the lost one knew the name of its span");
    }
}

#[test]
fn a_stream_finds_its_span_in_the_call() {
    let collector = Collector::new(TAKES);
    let traced = Traced::on_sqlite(collector.address);
    traced.shop.submit_to("stream", "fine");
    traced.drain();
    let call: serde_json::Value = serde_json::from_str(&traced.shop.folder.read("calls")).unwrap();
    assert_eq!(call["traceparent"], collector.spans()[0].traceparent());
}

/// Drains many runs, and says what was logged of spans.
#[track_caller]
fn drained(traced: &Traced, runs: usize) -> Vec<String> {
    let lines: String = (0..runs).map(|_| "{\"category\": \"fine\"}\n").collect();
    traced.shop.folder.write("runs.jsonl", lines);
    let submit = ["runs", "submit", "--from", "runs.jsonl", "--queue", "work", "-q"];
    traced.shop.run(&submit).ok();
    let log = traced.drain();
    let rows = traced.ledger();
    assert_eq!(rows, vec!["run  1 success".to_owned(); runs], "all work is done: {log}");
    log.lines().filter(|line| line.contains("spans")).map(str::to_owned).collect()
}

#[test]
fn a_collector_that_is_away_costs_spans_and_nothing_else() {
    let traced = Traced::on_sqlite(Collector::nowhere()).with("OTEL_BSP_MAX_QUEUE_SIZE", "3");
    let log = drained(&traced, 40);
    let [start, one, other, end] = &log[..] else { panic!("{log:#?}") };
    assert!(start.contains("sending spans"), "{start}");
    let mut both = [one, other];
    both.sort_by_key(|line| line.contains("dropped"));
    assert!(
        both[0].contains("cannot send spans to the collector; attempts continue without them"),
        "{log:#?}"
    );
    assert!(both[1].contains("some spans are dropped from now on"), "{log:#?}");
    assert!(end.contains("some spans were not sent"), "{end}");
    assert!(end.contains("sent=0 dropped=40"), "{end}");
}

#[test]
fn a_collector_that_hangs_does_not_keep_a_worker_from_ending() {
    let silent: Script = |_| None;
    let traced = Traced::on_sqlite(Collector::new(silent).address);
    let log = drained(&traced, 5);
    assert!(log.last().unwrap().contains("sent=0 dropped=5"), "{log:#?}");
}

#[test]
fn spans_are_sent_again_when_the_collector_asks_for_it_and_lost_when_it_rejects_them() {
    let script: Script = |number| match number {
        0 => Some((503, "Retry-After: 0\r\n", "echo")),
        1 => Some((200, "", r#"{"partialSuccess": {"rejectedSpans": "2"}}"#)),
        _ => Some((200, "", "")),
    };
    let collector = Collector::new(script);
    // One request holds all of them.
    let traced = Traced::on_sqlite(collector.address)
        .with("OTEL_BSP_SCHEDULE_DELAY", "600000")
        .with("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "6");
    (0..6).for_each(|_| _ = traced.shop.submit("fine"));
    let mut worker = Worker::start(traced.command(&["worker"]));
    worker.wait_for("cannot send spans to the collector; attempts continue without them");
    worker.wait_for("the collector accepts spans again");
    let rejected = worker.wait_for("the collector rejected spans");
    assert!(rejected.contains("rejected=2"), "{rejected}");
    assert_eq!(collector.spans().len(), 12, "all of them, twice");
    worker.signal("-TERM");
    let (code, log) = worker.end();
    assert_eq!(code, Some(143), "{log}");
    assert!(log.contains("sent=4 dropped=2"), "{log}");
}

#[test]
fn nothing_is_sent_unless_a_collector_is_named_and_a_wrong_name_is_refused() {
    let collector = Collector::new(TAKES);
    for (name, value) in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    ] {
        let traced = Traced::on_sqlite(collector.address).with(name, value);
        assert_eq!(drained(&traced, 1), Vec::<String>::new(), "{name}");
    }
    assert!(collector.received().is_empty());

    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "s3cret"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://s3cret@host/"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization s3cret"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "s3cret"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
    ] {
        let traced = Traced::on_sqlite(collector.address).with(name, value);
        let refused = traced.run(&["worker", "--drain", "-q"]);
        let complaint = refused.failed(1);
        assert!(complaint.contains(&format!("the environment variable {name} ")), "{complaint}");
        assert!(!complaint.contains("s3cret"), "{complaint}");
    }
}
