//! `redrive workers`: the processes that work on units (HA-4).

use clap::Args;
use redrive_ops::views::WorkerView;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A worker reports itself at a third of its lease. One that is not heard from within its lease was killed, has lost its
connection to the store, or hangs; its units are retried when their leases end. It is listed for a day.

Examples:
  redrive workers
  redrive workers -o json                   what each one holds, by queue, source and stage")]
pub(crate) struct WorkersArgs {}

impl TableRow for WorkerView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("worker"),
        TableColumn::text("state"),
        TableColumn::text("host"),
        TableColumn::number("process"),
        TableColumn::text("version"),
        TableColumn::text("started at"),
        TableColumn::text("heard at"),
        TableColumn::number("in flight"),
        TableColumn::number("claimed"),
        TableColumn::text("serves"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.worker.clone(),
            self.state.replace('_', " "),
            self.host.clone(),
            self.process.to_string(),
            self.version.clone(),
            self.started_at.to_string(),
            self.heard_at.to_string(),
            self.in_flight.to_string(),
            self.claimed.to_string(),
            self.places_in_words(),
        ]
    }
}

pub(crate) async fn run(_: WorkersArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let workers = ops.workers().await.map_err(|error| ops.store_error(error))?;
    context.output.list(workers)?;
    Ok(Exit::Ok)
}
