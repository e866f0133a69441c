//! Queues: statistics, backlog and pausing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::RunState;

use crate::{Error, FromRow, JournalEntry, MAX_NAME_BYTES, Operator, Result, RowReader};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStats {
    pub queue: String,
    /// Runs by state, without empty states, in the order of [`RunState::ALL`].
    pub runs: Vec<(RunState, u64)>,
    /// The submission time of the oldest ready run.
    pub oldest_ready: Option<Timestamp>,
    pub next_due: Option<Timestamp>,
    pub paused_at: Option<Timestamp>,
}

/// A count of one queue: the runs in one state, or the pause of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCount {
    pub queue: String,
    pub runs: Option<(RunState, u64)>,
    /// The submission time of the oldest ready run.
    pub oldest_ready: Option<Timestamp>,
    pub next_due: Option<Timestamp>,
    pub paused_at: Option<Timestamp>,
}

impl QueueStats {
    /// Statistics of every queue, by name, from the counts of a store. Counts of the same queue and
    /// state are added.
    pub fn gather(counts: impl IntoIterator<Item = QueueCount>) -> Vec<Self> {
        let mut queues: BTreeMap<String, Self> = BTreeMap::new();
        for count in counts {
            let stats = queues.entry(count.queue).or_insert_with_key(|queue| Self {
                queue: queue.clone(),
                runs: Vec::new(),
                oldest_ready: None,
                next_due: None,
                paused_at: None,
            });
            if let Some((state, runs)) = count.runs {
                stats.add(state, runs);
            }
            stats.oldest_ready = earliest(stats.oldest_ready, count.oldest_ready);
            stats.next_due = earliest(stats.next_due, count.next_due);
            stats.paused_at = earliest(stats.paused_at, count.paused_at);
        }
        queues.into_values().collect()
    }

    fn add(&mut self, state: RunState, more: u64) {
        match self.runs.iter_mut().find(|(known, _)| *known == state) {
            Some((_, runs)) => *runs = runs.saturating_add(more),
            None => self.runs.push((state, more)),
        }
        self.runs.sort_by_key(|(state, _)| RunState::ALL.iter().position(|known| known == state));
    }
}

fn earliest(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedQueue {
    pub queue: String,
    pub by: Operator,
}

impl FromRow for PausedQueue {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let queue = row.get()?;
        let by = Operator { actor: row.get()?, at: row.timestamp()?, reason: row.get()? };
        Ok(Self { queue, by })
    }
}

/// The outstanding work of a queue, a source or a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Whether a claim would return something.
    pub ready: bool,
    /// Whether a worker holds something.
    pub held: bool,
    pub next_due: Option<Timestamp>,
}

impl FromRow for Backlog {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self { ready: row.get()?, held: row.get()?, next_due: row.optional_timestamp()? })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueAction {
    /// Stop further claims from the queue.
    Pause,
    Resume,
}

impl QueueAction {
    pub fn action(self) -> &'static str {
        match self {
            Self::Pause => "queue.pause",
            Self::Resume => "queue.resume",
        }
    }

    /// What is being tried, for error messages.
    pub fn doing(self) -> &'static str {
        match self {
            Self::Pause => "pausing a queue",
            Self::Resume => "resuming a queue",
        }
    }

    /// Rejects a name that no queue can have, or that a database cannot store.
    pub fn check_name(self, queue: &str) -> Result<()> {
        let problem = if queue.is_empty() {
            "the queue's name must not be empty".to_owned()
        } else if queue.contains('\0') {
            "the queue's name must not contain a NUL character".to_owned()
        } else if queue.len() > MAX_NAME_BYTES {
            format!("the queue's name has {} bytes, {MAX_NAME_BYTES} are allowed", queue.len())
        } else {
            return Ok(());
        };
        Err(Error::misuse(self.doing(), problem))
    }

    pub fn journal_entry(self, queue: &str, by: &Operator) -> JournalEntry {
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: self.action().to_owned(),
            unit: None,
            filter: None,
            details: serde_json::json!({ "queue": queue, "reason": by.reason }).to_string(),
            dedupe_key: None,
        }
    }
}
