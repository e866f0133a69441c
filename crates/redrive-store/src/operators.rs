//! Operator actions on runs, implemented once for every database.
//!
//! A store reads the states of the named runs, calls [`RunAction::changes`], and writes the allowed
//! changes, each guarded by the state that was read. [`RunState::apply`] alone decides what is
//! legal; no SQL does.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{Message, RunEvent, RunId, RunState, RunStatus, Unit};
use serde_json::json;

use crate::{FromRow, JournalEntry, Result, RowReader};

/// Who requested a change, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub actor: String,
    pub at: Timestamp,
    pub reason: Option<String>,
}

impl Operator {
    /// The operator with texts that are safe to store and to print. Stores clean every operator.
    pub fn cleaned(&self) -> Self {
        let clean = |text: &str| Message::clean(text).as_str().to_owned();
        Self { actor: clean(&self.actor), at: self.at, reason: self.reason.as_deref().map(clean) }
    }
}

/// New data for a unit, which is written only if the old data is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataEdit {
    pub id: i64,
    pub old: Option<String>,
    /// JSON.
    pub new: String,
    /// Written in the same transaction. It has the old data.
    pub journal: JournalEntry,
}

impl FromRow for (RunId, RunState) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let id = RunId(row.get()?);
        let status = row.named("status", RunStatus::from_name)?;
        Ok((id, RunState::of(status, row.get()?)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunChange {
    /// The action was applied; the run was in this state before.
    Done(RunState),
    /// The state does not allow the action; nothing changed.
    Refused(RunState),
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunAction {
    /// Try the run again with a new count.
    Retry,
    Cancel,
}

impl RunAction {
    pub const ALL: [Self; 2] = [Self::Retry, Self::Cancel];

    pub fn event(self) -> RunEvent {
        match self {
            Self::Retry => RunEvent::Retry,
            Self::Cancel => RunEvent::Cancel,
        }
    }

    pub fn action(self) -> &'static str {
        match self {
            Self::Retry => "run.retry",
            Self::Cancel => "run.cancel",
        }
    }

    /// The result of the action for each run, given the states of the runs. A run that is named
    /// twice is in its new state the second time, and no new state allows the same action, so one
    /// call changes a run once.
    pub fn changes(
        self,
        ids: &[RunId],
        states: impl IntoIterator<Item = (RunId, RunState)>,
    ) -> Vec<(RunId, RunChange)> {
        let mut states: HashMap<RunId, RunState> = states.into_iter().collect();
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

    pub fn journal_entry(self, id: RunId, before: RunState, by: &Operator) -> JournalEntry {
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: self.action().to_owned(),
            unit: Some(Unit::Run(id).to_string()),
            filter: None,
            details: json!({ "before": before.name(), "reason": by.reason }).to_string(),
            dedupe_key: None,
        }
    }
}
