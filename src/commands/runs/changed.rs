//! What became of each run that an operator named, as it is printed.

use redrive::{RunId, RunState};
use redrive_store::RunChange;
use serde::Serialize;

use crate::{
    context::Context,
    exit::{Exit, Failure},
    output::{Column, Row},
};

/// The most rows of a table; programs get them all.
const MAX_TABLE_ROWS: usize = 1_000;

/// Whether something was done or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It was done.
    Real,
    /// It would be.
    DryRun,
}

/// A run, and what became of it.
#[derive(Debug, Serialize)]
struct Changed {
    id: i64,
    outcome: &'static str,
    /// The state it was in before.
    before: Option<&'static str>,
    #[serde(skip)]
    note: String,
}

impl Changed {
    fn new(id: RunId, change: RunChange, mode: Mode) -> Self {
        let (outcome, before) = match (change, mode) {
            (RunChange::Done(before), Mode::Real) => ("done", Some(before)),
            (RunChange::Done(before), Mode::DryRun) => ("would_be_done", Some(before)),
            (RunChange::Refused(before), _) => ("refused", Some(before)),
            (RunChange::Unknown, _) => ("unknown", None),
        };
        let note = match change {
            RunChange::Done(before) => format!("was {}", before.name()),
            RunChange::Refused(before) => format!("it is {}", before.name()),
            RunChange::Unknown => "there is no such run".to_owned(),
        };
        Self { id: id.0, outcome, before: before.map(state_name), note }
    }
}

impl Row for Changed {
    const COLUMNS: &'static [Column] =
        &[Column::number("id"), Column::text("outcome"), Column::text("")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.outcome.replace('_', " "), self.note.clone()]
    }
}

/// A state as programs read it: its status, and for `error` what it is about.
pub(crate) fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::WaitingForRetry => "waiting_for_retry",
        RunState::GivenUp => "given_up",
        state => state.status().name(),
    }
}

/// Prints what became of each run, and says how the command ends.
pub(super) fn print(
    changes: &[(RunId, RunChange)],
    mode: Mode,
    context: &Context,
) -> Result<Exit, Failure> {
    let count = |kind: fn(&RunChange) -> bool| changes.iter().filter(|(_, it)| kind(it)).count();
    let done = count(|change| matches!(change, RunChange::Done(_)));
    let refused = count(|change| matches!(change, RunChange::Refused(_)));
    let unknown = count(|change| matches!(change, RunChange::Unknown));
    let shown = if context.output.is_table() { MAX_TABLE_ROWS } else { changes.len() };
    let rows = changes.iter().take(shown).map(|(id, change)| Changed::new(*id, *change, mode));
    context.output.list(rows)?;
    let verb = match mode {
        Mode::Real => "done",
        Mode::DryRun => "would be done",
    };
    let mut summary = format!("{done} {verb}, {refused} refused, {unknown} unknown");
    if changes.len() > shown {
        summary.push_str(&format!("; {shown} of {} are shown, -o jsonl has all", changes.len()));
    }
    context.output.remark(&summary)?;
    Ok(match (done, refused + unknown) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        (_, _) => Exit::Partial,
    })
}
