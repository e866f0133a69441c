//! Queues as a whole: how they stand, what they still have to do, and pausing them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use redrive_core::RunState;

use crate::{Error, JournalEntry, MAX_NAME_BYTES, Operator, Result};

/// How a queue stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueStats {
    /// The queue.
    pub queue: String,
    /// How many runs are in each state that any run is in, in the order of [`RunState::ALL`].
    pub runs: Vec<(RunState, u64)>,
    /// When the oldest run that is ready was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// When the next waiting run is due.
    pub next_due: Option<Timestamp>,
    /// Since when the queue is paused.
    pub paused_at: Option<Timestamp>,
}

/// What a store counts of one queue: the runs in one state, or that it is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCount {
    /// The queue.
    pub queue: String,
    /// A state, and how many runs are in it.
    pub runs: Option<(RunState, u64)>,
    /// When the oldest of them that is ready was submitted.
    pub oldest_ready: Option<Timestamp>,
    /// When the next of them is due.
    pub next_due: Option<Timestamp>,
    /// Since when the queue is paused.
    pub paused_at: Option<Timestamp>,
}

impl QueueStats {
    /// How every queue stands, by name, from the counts of a store. A queue and a state may come
    /// several times; their numbers are added up.
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

/// A queue that is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedQueue {
    /// The queue.
    pub queue: String,
    /// Who paused it, when and why.
    pub by: Operator,
}

/// What a queue still has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Whether a claim would find something.
    pub ready: bool,
    /// Whether some worker holds something.
    pub held: bool,
    /// When the next waiting run is due.
    pub next_due: Option<Timestamp>,
}

/// What an operator may wish of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueAction {
    /// That nothing is claimed from it.
    Pause,
    /// That claims go on.
    Resume,
}

impl QueueAction {
    /// The wish, as the journal calls it.
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

    /// Refuses a name that no queue can have, and that some database could not keep.
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

    /// What the journal says of a queue for which it was done.
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
