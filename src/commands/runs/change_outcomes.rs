//! The outcome of `runs retry | cancel` for each run, as rows.

use redrive::RunMode;
use redrive_ops::views::RunChangeView;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

/// The most rows of a table; JSON formats print all rows.
const MAX_TABLE_ROWS: usize = 1_000;

impl TableRow for RunChangeView {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::number("id"), TableColumn::text("outcome"), TableColumn::text("")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.outcome.replace('_', " "), self.note.clone()]
    }
}

/// Prints the outcome of each run. Returns the exit code.
pub(super) fn print(
    changes: &[RunChangeView],
    mode: RunMode,
    context: &Context,
) -> Result<Exit, CommandError> {
    let count = |outcome: &str| changes.iter().filter(|it| it.outcome == outcome).count();
    let (refused, unknown) = (count("refused"), count("unknown"));
    let done = changes.len() - refused - unknown;
    let shown = if context.output.is_table() { MAX_TABLE_ROWS } else { changes.len() };
    context.output.list(changes.iter().take(shown))?;
    let verb = match mode {
        RunMode::Real => "done",
        RunMode::DryRun => "would be done",
    };
    let mut summary = format!("{done} {verb}, {refused} refused, {unknown} unknown");
    if changes.len() > shown {
        summary.push_str(&format!(
            "; {shown} of {} rows are shown, -o jsonl prints all",
            changes.len()
        ));
    }
    context.output.footer(&summary)?;
    Ok(match (done, refused + unknown) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        (_, _) => Exit::Partial,
    })
}
