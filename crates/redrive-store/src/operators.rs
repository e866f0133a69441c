//! What an operator may do to runs, worked out once for every database.
//!
//! A store reads the states of the runs that are named, asks here what becomes of each, and writes
//! what is allowed, each run guarded by the state it was read in. So what is legal is said by
//! [`RunState::apply`] alone, and no SQL has an opinion on it.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{Message, RunEvent, RunId, RunState, Unit};

use crate::JournalEntry;

/// Who asked for a change, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// Who.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// Why, if they said.
    pub reason: Option<String>,
}

impl Operator {
    /// The same with its text made safe to keep and to print. Stores do this to every operator
    /// they are given.
    pub fn cleaned(&self) -> Self {
        let clean = |text: &str| Message::clean(text).as_str().to_owned();
        Self { actor: clean(&self.actor), at: self.at, reason: self.reason.as_deref().map(clean) }
    }
}

/// What became of an operator's wish for one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunChange {
    /// It was done, and the run was in this state before.
    Done(RunState),
    /// The run is in a state that does not allow it; nothing was changed.
    Refused(RunState),
    /// There is no such run.
    Unknown,
}

/// What an operator may wish of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunAction {
    /// That it is tried again, with a new count.
    Retry,
    /// That it stops.
    Cancel,
}

impl RunAction {
    /// All wishes.
    pub const ALL: [Self; 2] = [Self::Retry, Self::Cancel];

    /// The wish, as the state machine calls it.
    pub fn event(self) -> RunEvent {
        match self {
            Self::Retry => RunEvent::Retry,
            Self::Cancel => RunEvent::Cancel,
        }
    }

    /// The wish, as the journal calls it.
    pub fn action(self) -> &'static str {
        match self {
            Self::Retry => "run.retry",
            Self::Cancel => "run.cancel",
        }
    }

    /// What becomes of each of some runs, one after another, given the states they are in. A run
    /// that is named twice is in its new state the second time. After either wish that state does
    /// not allow the same wish again, so one call changes a run once.
    pub fn changes(
        self,
        ids: &[RunId],
        mut states: HashMap<RunId, RunState>,
    ) -> Vec<(RunId, RunChange)> {
        let change = |id: &RunId| {
            let Some(state) = states.get_mut(id) else { return (*id, RunChange::Unknown) };
            let before = *state;
            match before.apply(self.event()) {
                Ok(after) => {
                    *state = after;
                    (*id, RunChange::Done(before))
                }
                Err(_) => (*id, RunChange::Refused(before)),
            }
        };
        ids.iter().map(change).collect()
    }

    /// What the journal says of a run for which it was done.
    pub fn journal_entry(self, id: RunId, before: RunState, by: &Operator) -> JournalEntry {
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: self.action().to_owned(),
            unit: Some(Unit::Run(id).to_string()),
            filter: None,
            details: serde_json::json!({ "before": before.name(), "reason": by.reason })
                .to_string(),
            dedupe_key: None,
        }
    }
}
