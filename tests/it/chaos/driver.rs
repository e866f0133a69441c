//! A while of chaos, and then calm: everything is to come to its end.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    cast::Cast,
    chance::Chance,
    faults::{Faults, Incident},
    requests::{Asked, Requests},
    site::ServerSetup,
};
use crate::databases::texts;

/// How often it is looked what is due.
const TICK: Duration = Duration::from_millis(20);

/// How long after the last fault everything may take to come to its end.
const CALM_PATIENCE: Duration = Duration::from_secs(180);

/// What is unfinished, in words: nothing, in the end.
const UNFINISHED: [(&str, &str); 6] = [
    (
        "runs",
        "SELECT 'run:' || id FROM runs
         WHERE status IN ('discovered', 'processing') OR next_retry_at IS NOT NULL",
    ),
    ("samples", "SELECT 'sample:' || id FROM samples WHERE status = 'pending'"),
    ("runs of pipelines", "SELECT 'run ' || id FROM pipeline_runs WHERE status = 'running'"),
    ("requests of partitions", "SELECT 'work ' || id FROM partition_work WHERE kind IS NOT NULL"),
    (
        "partitions",
        "SELECT source || '/' || customer_id || '/' || logical_date FROM partition_state
         WHERE status = 'pending' OR (status = 'failed' AND source <> 'lost')
             OR (status = 'failed' AND attempt_count < 3)",
    ),
    ("items", "SELECT 'item:' || id FROM items WHERE status = 'pending'"),
];

/// What was lived through.
pub(super) struct Lived {
    pub(super) incidents: Vec<Incident>,
    pub(super) asked: Asked,
    /// What nobody should have seen.
    pub(super) complaints: Vec<String>,
    pub(super) not_begun: usize,
    pub(super) repeated: usize,
    /// How long everything took to come to its end.
    pub(super) calm: Duration,
}

/// Lives through it.
pub(super) fn live(site: &ServerSetup, seed: u64, lasting: Duration) -> Lived {
    // What is asked for does not depend on what goes wrong, nor either on how often anybody looks.
    let [mut actions, mut mishaps, mut returns, mut mending] =
        [0, 1, 2, 3].map(|of| Chance::new(seed.wrapping_mul(4).wrapping_add(of)));
    let (mut cast, mut requests, mut faults) = (Cast::new(), Requests::new(), Faults::default());
    let began = Instant::now();
    let (mut next_wish, mut next_fault) = (began, began + Duration::from_secs(1));
    while began.elapsed() < lasting {
        faults.mend(site, (&mut cast, &mut requests), &mut mending, false);
        if next_fault <= Instant::now() {
            let rest = faults.strike(site, (&mut cast, &mut requests), &mut mishaps);
            next_fault = Instant::now() + rest;
        }
        if next_wish <= Instant::now() {
            requests.ask(site, &mut actions);
            next_wish = Instant::now() + actions.millis(50..350);
        }
        cast.look(site, returns.millis(0..500));
        requests.look(site);
        thread::sleep(TICK);
    }
    faults.mend(site, (&mut cast, &mut requests), &mut mending, true);
    let calm = Instant::now();
    let left = come_to_the_end(site, &mut cast, &mut requests);
    let calm = calm.elapsed();
    cast.stop();
    let mut complaints = [cast.complaints, requests.complaints].concat();
    if !left.is_empty() {
        complaints.push(format!("not at its end {CALM_PATIENCE:?} after the last fault: {left:?}"));
    }
    let (not_begun, repeated) = (cast.not_begun, requests.repeated);
    let (incidents, asked) = (faults.incidents, requests.asked);
    Lived { incidents, asked, complaints, not_begun, repeated, calm }
}

/// Waits until nothing is unfinished, and says what is after all.
fn come_to_the_end(site: &ServerSetup, cast: &mut Cast, requests: &mut Requests) -> Vec<String> {
    requests.operate(&["queue", "resume", "stream"]);
    let over = Instant::now() + CALM_PATIENCE;
    loop {
        cast.look(site, Duration::ZERO);
        requests.look(site);
        if requests.are_done() {
            let left = unfinished(site);
            if left.is_empty() || Instant::now() > over {
                return left;
            }
            // An upload that met a busy group, or was killed, is nobody's to go on with.
            let pending = "SELECT DISTINCT group_name FROM items WHERE status = 'pending'";
            for group in texts(&site.own_store(), pending) {
                requests.upload(&group);
            }
        } else if Instant::now() > over {
            return vec!["requests that are not answered".to_owned()];
        }
        thread::sleep(5 * TICK);
    }
}

fn unfinished(site: &ServerSetup) -> Vec<String> {
    let mut left = Vec::new();
    let store = site.own_store();
    for (what, sql) in UNFINISHED {
        // On PostgreSQL the state of a run is in several tables.
        let runs = if store.starts_with("postgres") { "FROM run_records" } else { "FROM runs" };
        let found = texts(&store, &sql.replace("FROM runs", runs));
        if !found.is_empty() {
            let some: Vec<_> = found.iter().take(5).collect();
            left.push(format!("{} {what}, such as {some:?}", found.len()));
        }
    }
    left
}
