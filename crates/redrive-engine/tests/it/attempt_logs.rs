//! What handlers log is kept with the attempt, and with no other.

use std::{path::Path, sync::Arc, time::Duration};

use redrive_core::{AttemptNumber, Class, Code, Failure};
use redrive_engine::{
    Call, Clock, Engine, ExecHandler, ExecSpec, Handler, LogLimits, Outcome, Queue, Stopper,
    SystemClock, Until, WorkerLimits, handler_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{AttemptLog, NewRun, Store, UnitKind, UnitRow};
use serde_json::{Value, json};

use crate::{program::soon, streaming::Streaming};

fn store() -> Arc<dyn Store> {
    let now = SystemClock.now();
    Arc::new(SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap())
}

async fn submit(store: &Arc<dyn Store>, payloads: impl IntoIterator<Item = Value>) {
    let now = SystemClock.now();
    let runs: Vec<NewRun> =
        payloads.into_iter().map(|payload| NewRun::new("q", &payload, now).unwrap()).collect();
    store.submit_runs(&runs, now).await.unwrap();
}

fn queue(handler: Arc<dyn Handler>, log: LogLimits) -> Queue {
    let limits = WorkerLimits { log, ..WorkerLimits::default() };
    Queue { limits, ..Queue::new("q", handler) }
}

async fn drain(store: &Arc<dyn Store>, queue: Queue) {
    let engine = Engine::new(store.clone()).with_queue(queue);
    let (_stopper, stop) = Stopper::new();
    soon(engine.run(stop, Until::Drained)).await.unwrap();
}

async fn log_of(store: &Arc<dyn Store>, run: i64, attempt: u32) -> Option<AttemptLog> {
    let row = UnitRow::new(UnitKind::Run, run);
    store.log_of(&row, AttemptNumber(attempt)).await.unwrap()
}

async fn text_of(store: &Arc<dyn Store>, run: i64, attempt: u32) -> String {
    log_of(store, run, attempt).await.map(|log| log.text).unwrap_or_default()
}

fn sh(script: &str, env: &[&str]) -> Arc<dyn Handler> {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let mut spec = ExecSpec::new(argv, Path::new("."));
    spec.env = env.iter().map(|name| (*name).to_owned()).collect();
    Arc::new(ExecHandler::new(spec).unwrap())
}

// LOG-1
#[tokio::test]
async fn what_a_program_prints_is_kept_with_its_attempt() {
    let store = store();
    submit(&store, [json!(1)]).await;
    let script = r#"printf 'to stdout\n'; printf '\033[31mred\033[0m\n' >&2; exit 64"#;
    drain(&store, queue(sh(script, &[]), LogLimits::default())).await;
    let log = log_of(&store, 1, 1).await.unwrap();
    let mut lines: Vec<&str> = log.text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["red", "to stdout"]);
    assert_eq!(log.printed, 10 + 13);
    assert_eq!(log_of(&store, 1, 2).await, None);
}

// LOG-1
#[tokio::test]
async fn the_beginning_and_the_end_of_a_flood_are_kept() {
    let store = store();
    submit(&store, [json!(1)]).await;
    let script = "echo begin >&2; yes 'a line that is repeated' | head -c 3000000 >&2; echo end >&2; exit 64";
    drain(&store, queue(sh(script, &[]), LogLimits::default())).await;
    let log = log_of(&store, 1, 1).await.unwrap();
    assert!(log.text.starts_with("begin\na line") && log.text.ends_with("end\n"), "{log:?}");
    assert!(log.text.contains(" bytes left out …]\n"));
    assert!(log.text.len() <= 64 * 1024 + 64, "{}", log.text.len());
    assert_eq!(log.printed, 6 + 3_000_000 + 4);
}

// LOG-1
#[tokio::test]
async fn secrets_of_the_environment_are_neither_in_the_log_nor_in_the_message() {
    let store = store();
    submit(&store, [json!(1)]).await;
    // The tests of the workspace may not change their environment; cargo sets this one.
    let value = std::env::var("CARGO_PKG_AUTHORS").unwrap();
    assert!(value.len() >= 4, "{value}");
    let script = r#"echo "with $CARGO_PKG_AUTHORS" >&2; exit 64"#;
    drain(&store, queue(sh(script, &["CARGO_PKG_AUTHORS"]), LogLimits::default())).await;
    assert_eq!(text_of(&store, 1, 1).await, "with [$CARGO_PKG_AUTHORS]\n");
    let row = UnitRow::new(UnitKind::Run, 1);
    let attempts = store.attempts_of(&row, AttemptNumber(0), 9).await.unwrap();
    let message = attempts[0].message.as_deref().unwrap();
    assert!(message.contains("[$CARGO_PKG_AUTHORS]") && !message.contains(&value), "{message}");
}

// LOG-2
#[tokio::test]
async fn a_unit_never_shows_a_line_of_another_unit() {
    let store = store();
    submit(&store, (1..=200).map(|n| json!(n))).await;
    // Holds two calls, logs for both in turn, and answers the second one first.
    let script = r#"
mark() { printf '\036%s %s of %s\n' "$1" "$2" "$1" >&2; }
fail() { printf '{"id":"%s","error":{"code":"no","class":"final"}}\n' "$1"; }
while next; do
  first=$id; next || exit 1
  mark "$id" begin; mark "$first" begin; echo 'of nobody' >&2; mark "$id" end; mark "$first" end
  fail "$id"; fail "$first"
done
"#;
    let streaming = Streaming::with(script, |spec| spec.in_flight = 2);
    drain(&store, queue(streaming.handler.clone(), LogLimits::default())).await;
    for run in 1..=200 {
        let expected = format!("begin of run:{run}#1\nend of run:{run}#1\n");
        assert_eq!(text_of(&store, run, 1).await, expected, "run {run}");
    }
}

// LOG-3
#[tokio::test]
async fn failures_keep_their_logs_and_of_successes_a_sample() {
    let handler = handler_fn(|call: Call| async move {
        call.log.line(&format!("payload {}", call.details["payload"]));
        match call.details["payload"].as_i64() {
            Some(n) if n % 2 == 0 => {
                let what = format!("{n} is even");
                Outcome::Failed(Failure::reported(Some(Class::Final), Code::name("even"), &what))
            }
            _ => Outcome::Answered { value: None, verdict: None },
        }
    });
    let store = store();
    submit(&store, (1..=100).map(|n| json!(n))).await;
    let log = LogLimits { successes: "5/h".parse().ok(), ..LogLimits::default() };
    drain(&store, queue(handler.clone(), log)).await;
    let mut successes = 0;
    for run in 1..=100 {
        let log = log_of(&store, run, 1).await;
        match run % 2 {
            0 => assert_eq!(log.unwrap().text, format!("payload {run}\n")),
            _ => successes += u32::from(log.is_some()),
        }
    }
    assert_eq!(successes, 5);

    submit(&store, [json!(1), json!(2)]).await;
    let none = LogLimits { bytes: 0, ..LogLimits::default() };
    drain(&store, queue(handler, none)).await;
    assert_eq!((log_of(&store, 101, 1).await, log_of(&store, 102, 1).await), (None, None));
}

// LOG-1
#[tokio::test]
async fn the_log_of_a_running_attempt_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let script = format!(
        "echo begun >&2; while [ ! -e {0} ]; do sleep 0.05; done; echo over >&2; exit 0",
        go.display()
    );
    let store = store();
    submit(&store, [json!(1)]).await;
    let none = LogLimits { successes: "1/d".parse().ok(), ..LogLimits::default() };
    let engine = Engine::new(store.clone()).with_queue(queue(sh(&script, &[]), none));
    let (_stopper, stop) = Stopper::new();
    let running = tokio::spawn(async move { engine.run(stop, Until::Drained).await });
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let wait = async {
        while text_of(&store, 1, 1).await != "begun\n" {
            ticks.tick().await;
        }
    };
    soon(wait).await;
    let row = UnitRow::new(UnitKind::Run, 1);
    assert_eq!(store.attempts_of(&row, AttemptNumber(0), 9).await.unwrap(), [], "it runs");
    std::fs::write(&go, "").unwrap();
    soon(running).await.unwrap().unwrap();
    assert_eq!(text_of(&store, 1, 1).await, "begun\nover\n");
}
