//! The views of a queue.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::RunState;
use redrive_store::{PausedQueue, QueueStats};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::resources::run_state_name;
use crate::{
    Declarations,
    words::{between, instant, seconds},
};

/// Run counts of a queue.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueStatsView {
    pub queue: String,
    /// Number of runs in each state.
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::HashMap<String, u64>))]
    pub runs: Map<String, Value>,
    /// Submission time of the oldest ready run.
    pub oldest_ready_at: Option<String>,
    /// Age of the oldest ready run, in seconds.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<f64>))]
    pub oldest_ready_age_s: Option<Value>,
    pub next_due_at: Option<String>,
    /// Null when the queue is not paused.
    pub paused_at: Option<String>,
    /// Whether the configuration declares no such queue; null without a configuration.
    pub unroutable: Option<bool>,
    /// Number of runs in each state with at least one run.
    #[serde(skip)]
    pub counts: Vec<(RunState, u64)>,
    #[serde(skip)]
    pub oldest_ready_age: Option<Duration>,
}

impl QueueStatsView {
    pub(crate) fn new(stats: QueueStats, declared: Option<&Declarations>, now: Timestamp) -> Self {
        let oldest_ready_age = stats.oldest_ready.map(|since| between(since, now));
        let counts = stats.runs;
        let count = |state: RunState| {
            let known = counts.iter().find(|(known, _)| *known == state);
            (run_state_name(state).to_owned(), known.map_or(0, |(_, runs)| *runs).into())
        };
        Self {
            unroutable: declared.map(|declared| declared.queue(&stats.queue).is_none()),
            queue: stats.queue,
            runs: RunState::ALL.into_iter().map(count).collect(),
            oldest_ready_at: instant(stats.oldest_ready),
            oldest_ready_age_s: oldest_ready_age.map(seconds),
            next_due_at: instant(stats.next_due),
            paused_at: instant(stats.paused_at),
            counts,
            oldest_ready_age,
        }
    }
}

/// A queue and its pause.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueueView {
    pub queue: String,
    /// Whether the configuration declares the queue; null without a configuration.
    pub declared: Option<bool>,
    /// Workers claim no runs from a paused queue.
    pub paused: bool,
    pub paused_at: Option<String>,
    pub paused_by: Option<String>,
    /// The reason for the pause.
    pub reason: Option<String>,
}

impl QueueView {
    pub(crate) fn new(
        queue: String,
        declared: Option<&Declarations>,
        paused: Option<PausedQueue>,
    ) -> Self {
        let by = paused.map(|paused| paused.by);
        Self {
            declared: declared.map(|declared| declared.queue(&queue).is_some()),
            queue,
            paused: by.is_some(),
            paused_at: by.as_ref().map(|by| by.at.to_string()),
            paused_by: by.as_ref().map(|by| by.actor.clone()),
            reason: by.and_then(|by| by.reason),
        }
    }
}
