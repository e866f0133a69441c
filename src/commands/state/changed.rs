//! What became of each partition that a command was for, as it is printed.

use redrive::{ChangeTally, Fate, PartitionOutcome, PartitionState, Refusal, RunMode};
use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    output::{Column, Listing, Output, Row},
};

/// What became of some partitions, printed as it happens.
pub(super) struct Changes {
    mode: RunMode,
    output: Output,
    listing: Listing<Changed>,
    tally: ChangeTally,
}

/// A partition, and what became of it.
#[derive(Debug, Serialize)]
struct Changed {
    source: String,
    customer_id: String,
    query_name: String,
    logical_date: String,
    outcome: &'static str,
    /// The state it was in before.
    before: &'static str,
    /// Why it was not done.
    why: Option<String>,
    #[serde(skip)]
    note: String,
}

impl Changed {
    fn new(outcome: PartitionOutcome, mode: RunMode) -> Self {
        let PartitionOutcome { key, fate, .. } = outcome;
        let (outcome, before, why, note) = match fate {
            Fate::Done(before) => {
                let outcome = match mode {
                    RunMode::Real => "done",
                    RunMode::DryRun => "would_be_done",
                };
                (outcome, before, None, format!("was {}", before.name()))
            }
            Fate::Already(state) => ("already", state, None, format!("it is {}", state.name())),
            Fate::Refused(refusal) => {
                let why = refusal.to_string();
                ("refused", state_of(&refusal), Some(why.clone()), why)
            }
        };
        Self {
            source: key.source().to_owned(),
            customer_id: key.customer_id().to_owned(),
            query_name: key.query_name().to_owned(),
            logical_date: key.logical_date().to_string(),
            outcome,
            before: state_name(before),
            why,
            note,
        }
    }
}

fn state_of(refusal: &Refusal) -> PartitionState {
    match refusal {
        Refusal::State(state) | Refusal::Moved(state) => *state,
        Refusal::Terminal(redrive::TerminalReason::Marked) => PartitionState::Terminal,
        Refusal::Terminal(redrive::TerminalReason::Policy(_)) => PartitionState::Failed,
        Refusal::NoRaw(state) | Refusal::RawUnknown { state, .. } => *state,
        Refusal::NoEntry => PartitionState::Absent,
    }
}

/// A state as programs read it.
fn state_name(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Absent => "no_entry",
        PartitionState::Pending => "pending",
        PartitionState::Success => "success",
        PartitionState::Reprocessing => "reprocessing",
        PartitionState::Failed => "failed",
        PartitionState::Terminal => "terminal",
    }
}

impl Row for Changed {
    const COLUMNS: &'static [Column] = &[
        Column::key("source"),
        Column::key("customer_id"),
        Column::key("query_name"),
        Column::text("logical_date"),
        Column::text("outcome"),
        Column::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.source.clone(),
            self.customer_id.clone(),
            self.query_name.clone(),
            self.logical_date.clone(),
            self.outcome.replace('_', " "),
            self.note.clone(),
        ]
    }
}

impl Changes {
    pub(super) fn new(mode: RunMode, output: Output) -> Self {
        Self { mode, output, listing: Listing::new(output), tally: ChangeTally::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tally.total() == 0
    }

    pub(super) fn add(&mut self, outcomes: Vec<PartitionOutcome>) -> Result<(), Failure> {
        let mode = self.mode;
        outcomes.iter().for_each(|outcome| self.tally.add(outcome));
        self.listing.add(outcomes.into_iter().map(|outcome| Changed::new(outcome, mode)))
    }

    /// Ends the list, and says how the command ends.
    pub(super) fn end(self, more_pending: bool) -> Result<Exit, Failure> {
        let hidden = self.listing.end()?;
        let ChangeTally { done, already, railed, refused } = self.tally;
        let verb = match self.mode {
            RunMode::Real => "done",
            RunMode::DryRun => "would be done",
        };
        let mut summary = format!("{done} {verb}, {already} already, {} refused", railed + refused);
        if more_pending {
            summary.push_str("; more are pending already than are shown");
        }
        if hidden > 0 {
            summary.push_str(&format!("; {hidden} are not shown, -o jsonl has all"));
        }
        self.output.remark(&summary)?;
        Ok(match (done, railed, refused) {
            (_, 0, 0) => Exit::Ok,
            (0, 0, _) => Exit::Error,
            (0, _, _) => Exit::Refused,
            (_, _, _) => Exit::Partial,
        })
    }
}
