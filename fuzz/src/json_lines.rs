//! Runs as JSON lines: how a file is cut into lines, and what a line says.

use std::io::BufReader;

use redrive::{jiff::Timestamp, serde_json, store::NewRun};
use redrive_ops::read_run;
use serde_json::{Value, json};

// The program's own: it has no library.
#[allow(dead_code, unreachable_pub)]
#[path = "../../src/commands/runs/line_reader.rs"]
mod line_reader;

use line_reader::{InputLine, LineReader};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads through a buffer of a size.
fn cut(bytes: &[u8], buffer: usize) -> Vec<Vec<u8>> {
    let mut lines = LineReader::new(BufReader::with_capacity(buffer, bytes));
    let mut read = Vec::new();
    while let Ok(Some(line)) = lines.next() {
        match line {
            InputLine::Whole(line) => read.push(line.to_vec()),
            InputLine::TooLong => panic!("nothing here is as long as that"),
        }
    }
    assert_eq!((lines.number(), lines.bytes()), (read.len() as u64, bytes.len() as u64));
    read
}

/// No byte is lost however the file comes, and a line that is a run is the same run when it is written.
pub fn check(bytes: &[u8]) {
    let read = cut(bytes, 8 * 1024);
    assert_eq!(cut(bytes, 3), read, "however it comes");
    let mut together = read.join(&b'\n');
    if bytes.ends_with(b"\n") {
        together.push(b'\n');
    }
    assert_eq!(together, bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes), "nothing is lost");
    for line in read {
        match read_run(&line, Some("q"), None, Timestamp::UNIX_EPOCH) {
            Ok(run) => kept(&run),
            Err(refusal) => super::clear(&refusal.to_string(), 400),
        }
    }
}

fn kept(run: &NewRun) {
    let payload: Value = serde_json::from_str(run.payload()).unwrap_or_else(|error| {
        panic!("a payload is JSON: {error}: {}", run.payload());
    });
    let mut line = json!({
        "queue": run.queue(),
        "category": run.category(),
        "payload": payload,
        "submitted_at": run.submitted_at().to_string(),
    });
    if let Some(at) = run.not_before() {
        line["not_before"] = at.to_string().into();
    }
    if let Some(key) = run.idempotency_key() {
        line["idempotency_key"] = key.into();
    }
    let again = read_run(line.to_string().as_bytes(), None, None, Timestamp::MAX);
    assert_eq!(again.as_ref(), Ok(run), "{line}");
}
