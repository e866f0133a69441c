//! Runs and queues: statistics and actions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redrive_core::{RunId, RunState, RunStatus, Unit};
use redrive_engine::RunMode;
use redrive_store::{
    DataEdit, InvalidRun, JournalEntry, NewRun, Operator, PageLimit, PausedQueue, QueueStats,
    Result, RunAction, RunChange, RunFilter, RunRecord, Written,
};
use serde_json::{Value, json};

use crate::{
    Ops,
    views::{QueueStatsView, QueueView, RunChangeView},
};

/// Runs that change in one transaction.
const BATCH_RUNS: usize = 1_000;

const SELECTION_PAGE: u32 = 200;

const PREVIEW_BATCH: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSelection {
    Ids(Vec<RunId>),
    Queue { queue: String, category: Option<String>, statuses: Vec<RunStatus> },
}

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
    /// Replaces the payload of a run that waits or was given up (FIX-5). The journal keeps the old one.
    pub async fn edit_run(
        &self,
        id: RunId,
        payload: &Value,
        by: &Operator,
    ) -> std::result::Result<RunRecord, EditRunError> {
        let found = self.store().runs_by_id(&[id]).await?.pop();
        let run = found.ok_or(EditRunError::Unknown(id))?;
        let state = state_of(&run);
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
        let new = NewRun::new(&run.queue, payload, run.submitted_at);
        let new = new.map_err(EditRunError::Payload)?.payload().to_owned();
        if new == run.payload {
            return Err(EditRunError::Same(id));
        }
        let by = by.cleaned();
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

    /// The ids of a selection, sorted and unique, at most `max`.
    pub async fn select_runs(&self, selection: &RunSelection, max: usize) -> Result<Vec<RunId>> {
        let mut ids = match selection {
            RunSelection::Ids(ids) => ids.clone(),
            RunSelection::Queue { queue, category, statuses } => {
                let mut ids = Vec::new();
                for status in statuses {
                    let filter = RunFilter {
                        queue: Some(queue.clone()),
                        category: category.clone(),
                        status: Some(*status),
                    };
                    self.add_matching(&filter, max, &mut ids).await?;
                }
                ids
            }
        };
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(max);
        Ok(ids)
    }

    async fn add_matching(
        &self,
        filter: &RunFilter,
        max: usize,
        ids: &mut Vec<RunId>,
    ) -> Result<()> {
        let mut after = RunId(0);
        loop {
            let limit = PageLimit::without_data(SELECTION_PAGE);
            let page = self.store().runs_page(filter, after, limit).await?;
            ids.extend(page.iter().map(|run| run.id));
            match page.last() {
                Some(last) if limit.is_reached(&page) && ids.len() < max => {
                    after = last.id;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The expected outcomes of an action.
    pub async fn preview_runs(
        &self,
        action: RunAction,
        ids: &[RunId],
    ) -> Result<Vec<RunChangeView>> {
        let mut changes = Vec::new();
        // Runs by id come with payloads of up to a megabyte each.
        for batch in ids.chunks(PREVIEW_BATCH) {
            let runs = self.store().runs_by_id(batch).await?;
            let states: HashMap<RunId, RunState> =
                runs.iter().map(|run| (run.id, state_of(run))).collect();
            let expected = action.changes(batch, states).into_iter();
            changes.extend(expected.map(|(id, it)| RunChangeView::new(id, it, RunMode::DryRun)));
        }
        Ok(changes)
    }

    /// Returns the changes made so far also when a later batch fails.
    pub async fn change_runs(
        &self,
        action: RunAction,
        ids: &[RunId],
        by: &Operator,
    ) -> (Vec<RunChangeView>, Result<()>) {
        let mut changes = Vec::new();
        for batch in ids.chunks(BATCH_RUNS) {
            let changed: Result<Vec<RunChange>> = match action {
                RunAction::Retry => self.store().retry_runs(batch, by).await,
                RunAction::Cancel => self.store().cancel_runs(batch, by).await,
            };
            match changed {
                Ok(changed) => {
                    let changed = batch.iter().zip(changed);
                    changes
                        .extend(changed.map(|(id, it)| RunChangeView::new(*id, it, RunMode::Real)));
                }
                Err(error) => return (changes, Err(error)),
            }
        }
        (changes, Ok(()))
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

pub fn state_of(run: &RunRecord) -> RunState {
    RunState::of(run.status, run.next_retry_at.is_some())
}
