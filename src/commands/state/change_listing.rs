//! The outcome of a change for each partition, as rows.

use redrive::{ChangeCounts, PartitionOutcome, RunMode};
use redrive_ops::views::PartitionChangeView;

use crate::{
    exit::{CommandError, Exit},
    output::{Listing, Output, TableColumn, TableRow},
};

/// Prints outcomes page by page and counts them.
pub(super) struct PartitionChangeListing {
    mode: RunMode,
    output: Output,
    listing: Listing<PartitionChangeView>,
    counts: ChangeCounts,
}

impl TableRow for PartitionChangeView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("source"),
        TableColumn::key("customer_id"),
        TableColumn::key("query_name"),
        TableColumn::text("logical_date"),
        TableColumn::text("outcome"),
        TableColumn::text(""),
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

impl PartitionChangeListing {
    pub(super) fn new(mode: RunMode, output: Output) -> Self {
        Self { mode, output, listing: Listing::new(output), counts: ChangeCounts::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.total() == 0
    }

    pub(super) fn add(&mut self, outcomes: Vec<PartitionOutcome>) -> Result<(), CommandError> {
        let mode = self.mode;
        outcomes.iter().for_each(|outcome| self.counts.add(outcome));
        self.listing
            .add(outcomes.into_iter().map(|outcome| PartitionChangeView::new(outcome, mode)))
    }

    /// Ends the list. Returns the exit code.
    pub(super) fn end(self, more_pending: bool) -> Result<Exit, CommandError> {
        let hidden = self.listing.end()?;
        let ChangeCounts { done, already, overridable, refused } = self.counts;
        let verb = match self.mode {
            RunMode::Real => "done",
            RunMode::DryRun => "would be done",
        };
        let mut summary =
            format!("{done} {verb}, {already} already, {} refused", overridable + refused);
        if more_pending {
            summary.push_str("; further partitions are pending already and not shown");
        }
        if hidden > 0 {
            summary.push_str(&format!("; {hidden} rows are not shown, -o jsonl prints all"));
        }
        self.output.footer(&summary)?;
        Ok(match (done, overridable, refused) {
            (_, 0, 0) => Exit::Ok,
            (0, 0, _) => Exit::Error,
            (0, _, _) => Exit::Refused,
            (_, _, _) => Exit::Partial,
        })
    }
}
