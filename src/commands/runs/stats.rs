//! `redrive runs stats`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use redrive::{RunState, config::Config};
use redrive_engine::{Clock, SystemClock};
use redrive_store::QueueStats;
use serde::Serialize;
use serde_json::{Map, Value};

use super::changed::state_name;
use crate::{
    commands::policy::human,
    context::{Context, Missing},
    exit::{Exit, Failure},
    output::{Column, Row, seconds},
};

/// The arguments of `runs stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
A queue that has runs and is not declared in the configuration is unroutable: no worker takes its
runs, and no attempt is spent on them.

Examples:
  redrive runs stats
  redrive runs stats -o json")]
pub(crate) struct Arguments {}

/// How a queue stands.
#[derive(Debug, Serialize)]
struct StatsRow {
    queue: String,
    runs: Map<String, Value>,
    oldest_ready_at: Option<String>,
    oldest_ready_age_s: Option<Value>,
    next_due_at: Option<String>,
    paused_at: Option<String>,
    /// Unknown without a configuration.
    unroutable: Option<bool>,
    #[serde(skip)]
    counts: Vec<(RunState, u64)>,
    #[serde(skip)]
    oldest_ready_age: Option<Duration>,
}

impl StatsRow {
    fn new(stats: QueueStats, config: Option<&Config>, now: Timestamp) -> Self {
        let age =
            |since: Timestamp| Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let oldest_ready_age = stats.oldest_ready.map(age);
        let counts = stats.runs;
        let count = |state: RunState| {
            let known = counts.iter().find(|(known, _)| *known == state);
            (state_name(state).to_owned(), known.map_or(0, |(_, runs)| *runs).into())
        };
        Self {
            unroutable: config.map(|config| config.queue(&stats.queue).is_none()),
            queue: stats.queue,
            runs: RunState::ALL.into_iter().map(count).collect(),
            oldest_ready_at: stats.oldest_ready.map(|at| at.to_string()),
            oldest_ready_age_s: oldest_ready_age.map(seconds),
            next_due_at: stats.next_due.map(|at| at.to_string()),
            paused_at: stats.paused_at.map(|at| at.to_string()),
            counts,
            oldest_ready_age,
        }
    }

    fn note(&self) -> String {
        let paused = self.paused_at.as_ref().map(|_| "paused");
        let unroutable = self.unroutable.filter(|is| *is).map(|_| "unroutable");
        let notes: Vec<&str> = paused.into_iter().chain(unroutable).collect();
        notes.join(", ")
    }
}

impl Row for StatsRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("queue"),
        Column::text("runs"),
        Column::number("oldest ready"),
        Column::text("next due at"),
        Column::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = self.counts.iter();
        let counts: Vec<String> =
            counts.map(|(state, runs)| format!("{runs} {}", state_name(*state))).collect();
        vec![
            self.queue.clone(),
            if counts.is_empty() { "none".to_owned() } else { counts.join(", ") },
            self.oldest_ready_age.map(whole_seconds).unwrap_or_default(),
            self.next_due_at.clone().unwrap_or_default(),
            self.note(),
        ]
    }
}

fn whole_seconds(age: Duration) -> String {
    human(Duration::from_secs(age.as_secs()))
}

/// Runs `runs stats`.
pub(crate) async fn run(_: Arguments, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let mut stats = store.queue_stats().await.map_err(|error| chosen.failure(error))?;
    for queue in config.iter().flat_map(|config| &config.queues) {
        if !stats.iter().any(|stats| stats.queue == queue.name) {
            stats.push(idle(&queue.name));
        }
    }
    stats.sort_by(|one, other| one.queue.cmp(&other.queue));
    let now = SystemClock.now();
    context
        .output
        .list(stats.into_iter().map(|stats| StatsRow::new(stats, config.as_ref(), now)))?;
    Ok(Exit::Ok)
}

/// A queue that is declared and has had no runs yet.
fn idle(queue: &str) -> QueueStats {
    QueueStats {
        queue: queue.to_owned(),
        runs: Vec::new(),
        oldest_ready: None,
        next_due: None,
        paused_at: None,
    }
}
