//! Runs and queues: how they stand, and what an operator does to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use redrive_core::{RunId, RunState, RunStatus};
use redrive_engine::RunMode;
use redrive_store::{
    Operator, PausedQueue, QueueStats, Result, RunAction, RunChange, RunFilter, RunRecord,
};

use crate::{
    Ops,
    views::{QueueStatsView, QueueView, RunChangeView},
};

/// How many runs change in one transaction.
const BATCH_RUNS: usize = 1_000;

/// How many runs are read at once while they are selected; they come with their payloads.
const SELECTION_PAGE: u32 = 200;

/// Which runs are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSelection {
    /// These.
    Ids(Vec<RunId>),
    /// Those of a queue, with one of the statuses.
    Queue {
        /// The queue.
        queue: String,
        /// Of this category alone.
        category: Option<String>,
        /// With one of these statuses.
        statuses: Vec<RunStatus>,
    },
}

impl Ops {
    /// The runs that are meant, each once, in order; no more than `most`.
    pub async fn select_runs(&self, selection: &RunSelection, most: usize) -> Result<Vec<RunId>> {
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
                    self.add_matching(&filter, most, &mut ids).await?;
                }
                ids
            }
        };
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(most);
        Ok(ids)
    }

    async fn add_matching(
        &self,
        filter: &RunFilter,
        most: usize,
        ids: &mut Vec<RunId>,
    ) -> Result<()> {
        let mut after = RunId(0);
        loop {
            let page = self.store().runs_page(filter, after, SELECTION_PAGE).await?;
            ids.extend(page.iter().map(|run| run.id));
            match page.last() {
                Some(last) if page.len() >= SELECTION_PAGE as usize && ids.len() < most => {
                    after = last.id;
                }
                _ => return Ok(()),
            }
        }
    }

    /// What would become of the runs.
    pub async fn preview_runs(
        &self,
        action: RunAction,
        ids: &[RunId],
    ) -> Result<Vec<RunChangeView>> {
        let mut changes = Vec::new();
        for batch in ids.chunks(SELECTION_PAGE as usize) {
            let runs = self.store().runs_by_id(batch).await?;
            let states: HashMap<RunId, RunState> =
                runs.iter().map(|run| (run.id, state_of(run))).collect();
            let foreseen = action.changes(batch, states).into_iter();
            changes.extend(foreseen.map(|(id, it)| RunChangeView::new(id, it, RunMode::DryRun)));
        }
        Ok(changes)
    }

    /// Does it, as far as the store answers: what is done is told also if the rest fails.
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

    /// How every queue stands that has runs or is declared.
    pub async fn queue_stats(&self) -> Result<Vec<QueueStatsView>> {
        let mut stats = self.store().queue_stats().await?;
        for queue in self.declared().into_iter().flat_map(|declared| &declared.queues) {
            if !stats.iter().any(|stats| stats.queue == queue.name) {
                stats.push(idle(&queue.name));
            }
        }
        stats.sort_by(|one, other| one.queue.cmp(&other.queue));
        let now = self.now();
        let shown = |stats| QueueStatsView::new(stats, self.declared(), now);
        Ok(stats.into_iter().map(shown).collect())
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
        let shown = |name: String| {
            let paused = paused.remove(&name);
            QueueView::new(name, self.declared(), paused)
        };
        Ok(names.into_iter().map(shown).collect())
    }
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

/// The state of a stored run.
pub fn state_of(run: &RunRecord) -> RunState {
    RunState::of(run.status, run.next_retry_at.is_some())
}
