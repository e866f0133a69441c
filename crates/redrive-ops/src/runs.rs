//! Runs and queues: statistics and actions.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::{RunId, RunState, Unit};
use redrive_store::{
    DataEdit, InvalidRun, JournalEntry, NewRun, Operator, PausedQueue, QueueStats, Result,
    RunRecord, Written,
};
use serde_json::{Value, json};

use crate::{
    Ops,
    views::{QueueStatsView, QueueView},
};

/// Why a run does not get another payload, and which command is right (FIX-6).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditRunError {
    #[error("there is no run {0}")]
    Unknown(RunId),
    #[error("run {id} is {state}; only a run that waits or was given up can be edited{right}")]
    State { id: RunId, state: &'static str, right: &'static str },
    #[error("run {0} has this payload already")]
    Same(RunId),
    #[error("run {0} has changed meanwhile; try again")]
    Changed(RunId),
    #[error("the payload is not allowed: {0}")]
    Payload(InvalidRun),
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

impl Ops {
    /// Replaces the payload of a run that waits or was given up (FIX-5). The journal keeps the old one. Nothing is changed if
    /// the caller has not seen the payload of today. Without an operator this is a dry run.
    pub async fn edit_run(
        &self,
        id: RunId,
        payload: &Value,
        has_seen: impl Fn(&str) -> bool,
        by: Option<&Operator>,
    ) -> std::result::Result<RunRecord, EditRunError> {
        let found = self.store().runs_by_id(&[id]).await?.pop();
        let run = found.ok_or(EditRunError::Unknown(id))?;
        let state = run.state();
        let right = match state {
            RunState::Discovered | RunState::WaitingForRetry | RunState::GivenUp => None,
            RunState::Processing => Some("; `runs cancel` stops it"),
            RunState::Passed => Some("; `runs submit` submits another run"),
            RunState::NeedsReview | RunState::Failed | RunState::Cancelled => {
                Some("; `runs retry` makes it wait again")
            }
        };
        if let Some(right) = right {
            return Err(EditRunError::State { id, state: state.name(), right });
        }
        if !has_seen(&run.payload) {
            return Err(EditRunError::Changed(id));
        }
        let new = NewRun::new(&run.queue, payload, run.submitted_at);
        let new = new.map_err(EditRunError::Payload)?.payload().to_owned();
        if new == run.payload {
            return Err(EditRunError::Same(id));
        }
        let Some(by) = by.map(Operator::cleaned) else {
            return Ok(RunRecord { payload: new, ..run });
        };
        let old: Value = serde_json::from_str(&run.payload).unwrap_or_default();
        let journal = JournalEntry {
            at: by.at,
            actor: by.actor,
            action: "run.edit".to_owned(),
            unit: Some(Unit::Run(id).to_string()),
            filter: None,
            details: json!({ "payload": old, "reason": by.reason }).to_string(),
            dedupe_key: None,
        };
        let edit = DataEdit { id: id.0, old: Some(run.payload), new, journal };
        match self.store().edit_runs(&[edit]).await?.first() {
            Some(Written::Applied) => {
                let found = self.store().runs_by_id(&[id]).await?.pop();
                found.ok_or(EditRunError::Unknown(id))
            }
            _ => Err(EditRunError::Changed(id)),
        }
    }

    /// Statistics of every queue that is declared or has runs.
    pub async fn queue_stats(&self) -> Result<Vec<QueueStatsView>> {
        let mut stats = self.store().queue_stats().await?;
        for queue in self.declared().into_iter().flat_map(|declared| &declared.queues) {
            if !stats.iter().any(|stats| stats.queue == queue.name) {
                stats.push(idle(&queue.name));
            }
        }
        stats.sort_by(|one, other| one.queue.cmp(&other.queue));
        let now = self.now();
        let to_view = |stats| QueueStatsView::new(stats, self.declared(), now);
        Ok(stats.into_iter().map(to_view).collect())
    }

    /// A queue and its pause, whether or not the queue is declared or has runs.
    pub async fn queue(&self, name: &str) -> Result<QueueView> {
        let mut paused = self.store().paused_queues().await?.into_iter();
        let paused = paused.find(|paused| paused.queue == name);
        Ok(QueueView::new(name.to_owned(), self.declared(), paused))
    }

    /// The queues that are declared, have runs or are paused.
    pub async fn queues(&self) -> Result<Vec<QueueView>> {
        let paused = self.store().paused_queues().await?.into_iter();
        let mut paused: BTreeMap<String, PausedQueue> =
            paused.map(|paused| (paused.queue.clone(), paused)).collect();
        let declared = self.declared().into_iter().flat_map(|declared| &declared.queues);
        let mut names: BTreeSet<String> = declared.map(|queue| queue.name.clone()).collect();
        names.extend(self.store().queue_stats().await?.into_iter().map(|stats| stats.queue));
        names.extend(paused.keys().cloned());
        let to_view = |name: String| {
            let paused = paused.remove(&name);
            QueueView::new(name, self.declared(), paused)
        };
        Ok(names.into_iter().map(to_view).collect())
    }
}

/// The statistics of a declared queue without runs.
fn idle(queue: &str) -> QueueStats {
    QueueStats {
        queue: queue.to_owned(),
        runs: Vec::new(),
        oldest_ready: None,
        next_due: None,
        paused_at: None,
    }
}
