//! Calls to a program that stays running, compared with a bare loop over the same pipes.

use std::{
    io::{self, BufRead, BufReader, BufWriter, Write},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use redrive::{AttemptNumber, RunId, Unit};
use redrive_engine::{Call, CallLog, Handler, Outcome, Stopper, StreamHandler, StreamSpec};
use redrive_store::Store;
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::{
    error::{BenchError, failed},
    measurement::Measurement,
    run_backend::PAYLOAD,
    runs::{RunsBenchArgs, drain},
};

const IN_FLIGHT: usize = 64;

/// Far longer than a call takes.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Calls per second of the handler alone and of a bare loop, then of the whole engine.
pub(crate) async fn measure(
    args: &RunsBenchArgs,
    store: &Arc<dyn Store>,
    count: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let mut measurements = Vec::new();
    for (measure, in_flight, count) in
        [("calls one by one", 1, count / 4), ("calls, 64 in flight", IN_FLIGHT, count)]
    {
        let count = count.max(in_flight);
        let bare = tokio::task::spawn_blocking(move || bare_calls(count, in_flight)).await;
        let bare = bare.map_err(failed)?.map_err(failed)?;
        let calls = calls(handler(in_flight)?, count, in_flight).await?;
        measurements.push(Measurement::rate(measure, calls, bare));
    }
    let (_, drained) = drain(args.concurrency, store, handler(IN_FLIGHT)?, count).await?;
    measurements.push(Measurement::alone("runs drained", drained.per_second.round(), "per second"));
    Ok(measurements)
}

/// The command that answers calls: this program with `echo`.
fn echo_command() -> Result<Vec<String>, BenchError> {
    let program = std::env::current_exe().map_err(failed)?;
    let program = program.to_str().ok_or_else(|| {
        BenchError::new("the path of redrive-bench is not UTF-8; move the program")
    })?;
    Ok(vec![program.to_owned(), "echo".to_owned()])
}

fn handler(in_flight: usize) -> Result<Arc<dyn Handler>, BenchError> {
    let spec = StreamSpec { in_flight, ..StreamSpec::new(echo_command()?, ".") };
    Ok(Arc::new(StreamHandler::new(spec).map_err(failed)?))
}

fn call(n: usize) -> Call {
    let payload = serde_json::from_str(PAYLOAD).unwrap_or(Value::Null);
    let details = Map::from_iter([
        ("queue".to_owned(), "bench".into()),
        ("category".to_owned(), "".into()),
        ("payload".to_owned(), payload),
    ]);
    let unit = Unit::Run(RunId(n as i64));
    Call { unit, attempt: AttemptNumber(1), run_id: None, details, log: CallLog::default() }
}

/// Calls per second of a handler with `in_flight` calls at any time.
async fn calls(
    handler: Arc<dyn Handler>,
    count: usize,
    in_flight: usize,
) -> Result<f64, BenchError> {
    let (_stopper, stop) = Stopper::new();
    // The first call starts the program, which is not measured.
    handler.handle(&call(0), TIME_LIMIT, stop.clone()).await;
    let mut tasks = JoinSet::new();
    let start = Instant::now();
    for lane in 0..in_flight {
        let (handler, stop) = (handler.clone(), stop.clone());
        tasks.spawn(async move {
            for n in (lane + 1..=count).step_by(in_flight) {
                if let Outcome::Failed(failure) =
                    handler.handle(&call(n), TIME_LIMIT, stop.clone()).await
                {
                    return Err(BenchError::new(failure.message().as_str()));
                }
            }
            Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(failed)??;
    }
    let per_second = count as f64 / start.elapsed().as_secs_f64();
    handler.release().await;
    Ok(per_second)
}

/// Calls per second of a loop that writes `in_flight` lines at a time and reads as many replies.
fn bare_calls(count: usize, in_flight: usize) -> io::Result<f64> {
    let argv =
        echo_command().map_err(|_| io::Error::other("cannot find the path of redrive-bench"))?;
    let mut argv = argv.iter();
    let mut child = Command::new(argv.next().map_or("", String::as_str))
        .args(argv)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the program started without its pipes"));
    };
    let mut replies = BufReader::new(stdout);
    let mut reply = String::new();
    let start = Instant::now();
    for first in (0..count).step_by(in_flight) {
        let mut lines = String::new();
        for n in first..(first + in_flight).min(count) {
            lines.push_str(&format!("{{\"id\":\"run:{n}#1\",\"payload\":{PAYLOAD}}}\n"));
        }
        stdin.write_all(lines.as_bytes())?;
        for _ in first..(first + in_flight).min(count) {
            reply.clear();
            replies.read_line(&mut reply)?;
        }
    }
    let per_second = count as f64 / start.elapsed().as_secs_f64();
    drop(stdin);
    child.wait()?;
    Ok(per_second)
}

/// Answers every call on standard input, as a program that stays running does.
pub(crate) fn answer_calls() -> Result<(), BenchError> {
    const ID: &[u8] = b"{\"id\":\"";
    let mut calls = BufReader::with_capacity(256 * 1024, io::stdin().lock());
    let mut replies = BufWriter::with_capacity(256 * 1024, io::stdout().lock());
    let mut line = Vec::new();
    while calls.read_until(b'\n', &mut line).map_err(failed)? > 0 {
        let id = line.strip_prefix(ID).and_then(|rest| rest.split(|byte| *byte == b'"').next());
        for part in [ID, id.unwrap_or_default(), b"\",\"ok\":null}\n"] {
            replies.write_all(part).map_err(failed)?;
        }
        line.clear();
        // Calls that were read together are answered with one write.
        if calls.buffer().is_empty() {
            replies.flush().map_err(failed)?;
        }
    }
    Ok(())
}
