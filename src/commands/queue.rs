//! `redrive queue pause | resume | list`: pauses queues (RUN-6).

use clap::{Args, Subcommand};
use redrive_ops::views::QueueView;
use redrive_store::QueueAction;
use serde::Serialize;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::{OpenStore, expect_declared},
    operator::operator,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive queue list
  redrive queue pause verify --reason 'the service is down until noon'
  redrive queue resume verify")]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(Debug, Subcommand)]
enum QueueCommand {
    /// Pause a queue: workers claim no more of its runs
    #[command(after_help = "\
Runs in progress finish. New runs can still be submitted.

Examples:
  redrive queue pause verify
  redrive queue pause verify --reason 'the service is down until noon'")]
    Pause {
        /// The name of the queue
        name: String,

        /// Pause the queue even if the configuration does not declare it
        #[arg(long)]
        allow_unknown: bool,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused queue
    #[command(after_help = "\
Examples:
  redrive queue resume verify")]
    Resume {
        /// The name of the queue
        name: String,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List queues that are declared, have runs or are paused
    #[command(after_help = "\
`redrive runs stats` shows the runs of each queue.

Examples:
  redrive queue list
  redrive queue list -o json")]
    List,
}

#[derive(Debug, Serialize)]
struct QueueChange<'a> {
    queue: &'a str,
    paused: bool,
    changed: bool,
}

impl TableRow for QueueChange<'_> {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("queue"), TableColumn::text("state")];

    fn cells(&self) -> Vec<String> {
        let state = match (self.paused, self.changed) {
            (true, true) => "paused",
            (true, false) => "was paused already",
            (false, true) => "resumed",
            (false, false) => "was not paused",
        };
        vec![self.queue.to_owned(), state.to_owned()]
    }
}

impl TableRow for QueueView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("queue"),
        TableColumn::text("declared"),
        TableColumn::text("paused at"),
        TableColumn::text("by"),
        TableColumn::text("reason"),
    ];

    fn cells(&self) -> Vec<String> {
        let declared = match self.declared {
            None => "",
            Some(true) => "yes",
            Some(false) => "no: unroutable",
        };
        vec![
            self.queue.clone(),
            declared.to_owned(),
            self.paused_at.clone().unwrap_or_default(),
            self.paused_by.clone().unwrap_or_default(),
            self.reason.clone().unwrap_or_default(),
        ]
    }
}

pub(crate) async fn run(args: QueueArgs, context: &Context) -> Result<Exit, CommandError> {
    let checked = match &args.command {
        QueueCommand::Pause { name, .. } => QueueAction::Pause.check_name(name),
        QueueCommand::Resume { name, .. } => QueueAction::Resume.check_name(name),
        QueueCommand::List => Ok(()),
    };
    checked.map_err(CommandError::usage)?;
    let missing = match args.command {
        QueueCommand::List => IfMissing::Refuse,
        QueueCommand::Pause { .. } | QueueCommand::Resume { .. } => IfMissing::Create,
    };
    if let QueueCommand::Pause { name, allow_unknown: false, .. } = &args.command {
        expect_declared(context, |declared| declared.expect_queue(name))?;
    }
    let ops = OpenStore::open(context, missing).await?;
    let store = ops.store();
    let failed = |error| ops.store_error(error);
    match args.command {
        QueueCommand::Pause { name, reason, .. } => {
            let by = operator(reason);
            let changed = store.pause_queue(&name, &by).await.map_err(failed)?;
            context.output.record(&QueueChange { queue: &name, paused: true, changed })?;
        }
        QueueCommand::Resume { name, reason } => {
            let by = operator(reason);
            let changed = store.resume_queue(&name, &by).await.map_err(failed)?;
            context.output.record(&QueueChange { queue: &name, paused: false, changed })?;
        }
        QueueCommand::List => {
            context.output.list(ops.queues().await.map_err(failed)?)?;
        }
    }
    Ok(Exit::Ok)
}
