//! `redrive state verify`: compares every partition with its ledger and its raw data (PAR-11).

use clap::Args;
use redrive_ops::views::FindingView;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Compares every partition with its ledger, and reads every current raw partition to its end, whose hash and record
count must match its metadata. Changes nothing and is safe on a store in use. Exit code 1 means findings.

Examples:
  redrive state verify
  redrive state verify -o json")]
pub(crate) struct StateVerifyArgs {}

impl TableRow for FindingView {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("invariant"), TableColumn::text("unit"), TableColumn::text("problem")];

    fn cells(&self) -> Vec<String> {
        vec![self.invariant.to_owned(), self.unit.clone(), self.problem.clone()]
    }
}

pub(crate) async fn run(_: StateVerifyArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let report = ops.verify().await.map_err(|error| ops.store_error(error))?;
    let (is_clean, more) = (report.is_clean(), report.more);
    let checked = format!(
        "{} partitions with {} attempts, {} raw partitions read",
        report.partitions, report.attempts, report.raw_partitions
    );
    let wrong = report.findings.len() as u64 + more;
    context.output.list(report.findings.into_iter().map(FindingView::from))?;
    let verdict = match (is_clean, more) {
        (true, _) => "no findings".to_owned(),
        (false, 0) => format!("{wrong} findings"),
        (false, more) => format!("{wrong} findings, {more} of them not shown"),
    };
    context.output.footer(&format!("{checked}: {verdict}"))?;
    Ok(if is_clean { Exit::Ok } else { Exit::Error })
}
