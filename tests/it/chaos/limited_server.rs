//! A service that limits the rate of each queue by a bucket of tokens of its own. It is the judge of gates: it knows nothing of
//! Redrive, and counts what it was asked and what it refused.

use std::{
    collections::BTreeMap,
    fmt,
    fs::OpenOptions,
    io::Write as _,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

use redrive::serde_json::{Value, from_slice};

use crate::upload_server::{Received, Reply, Server};

/// Requests that it allows in a second, and at once after a pause. The configuration of `metered` has the same rate.
const RATE: f64 = 3.0;
const BURST: f64 = 2.0;

pub(super) struct LimitedServer {
    pub(super) url: String,
    buckets: Arc<Mutex<BTreeMap<String, Bucket>>>,
}

/// What it has left for a queue, and what it counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    tokens: f64,
    first: Instant,
    last: Instant,
    allowed: usize,
    refused: usize,
}

impl LimitedServer {
    /// Adds to the ledger of the handlers what it was asked.
    pub(super) fn new(ledger: PathBuf) -> Self {
        let buckets: Arc<Mutex<BTreeMap<String, Bucket>>> = Arc::default();
        let server = Server::new({
            let buckets = buckets.clone();
            move |asked| answer(asked, &ledger, &buckets)
        });
        Self { url: server.url(), buckets }
    }

    /// What was asked for each queue.
    pub(super) fn buckets(&self) -> BTreeMap<String, Bucket> {
        self.buckets.lock().unwrap().clone()
    }
}

fn answer(asked: &Received, ledger: &PathBuf, buckets: &Mutex<BTreeMap<String, Bucket>>) -> Reply {
    let call: Value = from_slice(&asked.body).unwrap();
    let (unit, attempt) = (call["unit"].as_str().unwrap(), &call["attempt"]);
    let allowed = {
        let now = Instant::now();
        let mut buckets = buckets.lock().unwrap();
        let queue = call["queue"].as_str().unwrap().to_owned();
        let bucket = buckets.entry(queue).or_insert_with(|| Bucket::new(now));
        bucket.take(now)
    };
    let noted = if allowed { "ok" } else { "fail" };
    let lines = format!("begin {unit} {attempt} -\n{noted} {unit} {attempt} -\n");
    let mut ledger = OpenOptions::new().append(true).open(ledger).unwrap();
    ledger.write_all(lines.as_bytes()).unwrap();
    match allowed {
        true => Reply::Status(200, "", r#"{"ok": null}"#.to_owned()),
        false => Reply::Status(429, "retry-after: 1\r\n", String::new()),
    }
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST, first: now, last: now, allowed: 0, refused: 0 }
    }

    fn take(&mut self, now: Instant) -> bool {
        let since = now.duration_since(self.last).as_secs_f64();
        self.tokens = (self.tokens + since * RATE).min(BURST);
        self.last = now;
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
            self.allowed += 1;
        } else {
            self.refused += 1;
        }
        allowed
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (allowed, refused) = (self.allowed as f64, self.refused as f64);
        let asked = self.allowed + self.refused;
        let allowance = BURST + RATE * self.last.duration_since(self.first).as_secs_f64();
        write!(
            f,
            "{asked} requests, {:.1} % refused, {:.0} % of the allowance used",
            100.0 * refused / (asked as f64).max(1.0),
            100.0 * allowed / allowance
        )
    }
}
