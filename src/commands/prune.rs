//! `redrive prune`: what is finished and old leaves the store for files.

use std::path::PathBuf;

use clap::Args;
use redrive::{Clock, HumanDuration, Prunable, PruneError, PruneFilter, SystemClock};
use redrive_ops::views::{PruneView, PrunedFileView};

use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
What goes: runs that passed, failed, need review, were cancelled or given up, when neither an attempt nor an entry of
the journal about them is younger; samples that succeeded, were passed over or died, when their pipeline run ended
before; and the rows of the ledger of both. Partitions, items, raw data, pipeline runs with their counts, and the journal stay.

Everything is written to JSON lines first: runs-TIME.jsonl, samples-TIME.jsonl and attempts-TIME.jsonl, each synced and named
when it is whole. Then the journal is told, with the files and their SHA-256, and then rows are removed. Stopped at any
moment, it loses nothing; say it again, and it goes on with what is left. Asks before it removes anything.
The idempotency key of a run that is gone is free again. POST /v1/prune does the same from a server.

Examples:
  redrive prune --older-than 90d --export archive --dry-run
  redrive prune --older-than 90d --export archive --yes
  redrive prune --older-than 30d --export archive --queue verify --yes -o json")]
pub(crate) struct PruneArgs {
    /// What has not been touched for so long
    #[arg(long, value_name = "DURATION")]
    older_than: HumanDuration,

    /// The folder to write to; made if there is none [default: `export` in [prune] of the file]
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,

    /// Runs of this queue, and no samples unless --pipeline is given too
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Samples of this pipeline, and no runs unless --queue is given too
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,

    /// Show how much would go, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl TableRow for PruneView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("untouched since"),
        TableColumn::text("runs"),
        TableColumn::text("samples"),
        TableColumn::text("attempts"),
        TableColumn::text("changed meanwhile"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.before.clone(),
            self.runs.to_string(),
            self.samples.to_string(),
            self.attempts.map(|attempts| attempts.to_string()).unwrap_or_default(),
            self.left.to_string(),
        ]
    }
}

impl TableRow for PrunedFileView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("kind"),
        TableColumn::number("rows"),
        TableColumn::text("file"),
        TableColumn::text("sha256"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![self.kind.to_owned(), self.rows.to_string(), self.path.clone(), self.sha256.clone()]
    }
}

/// Runs `prune`.
pub(crate) async fn run(args: PruneArgs, context: &Context) -> Result<Exit, CommandError> {
    let age: std::time::Duration = args.older_than.into();
    let now = SystemClock.now();
    let before = now.checked_sub(age).map_err(|error| {
        let message = format!("--older-than {} begins before all time", args.older_than);
        CommandError::usage(message).caused_by(error)
    })?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let folder = args.export.or_else(|| ops.config.as_ref()?.archive()).ok_or_else(|| {
        CommandError::usage("there is no folder to write to; nothing was removed")
            .help("give --export DIR, or `export` in [prune] of the file")
    })?;
    let PruneArgs { queue, pipeline, .. } = args;
    let prune = ops.prune(PruneFilter { before, queue, pipeline });
    let failure = |error: PruneError| match error {
        PruneError::Store(error) => ops.store_error(error),
        error => {
            CommandError::new(Exit::Error, "the prune did not come to its end").caused_by(error)
        }
    };
    let advice = "nothing is gone that is not in a whole file; say it again to go on";
    let found = prune.prunable().await.map_err(failure)?;
    let output = context.output;
    if args.dry_run {
        output.record(&PruneView::foreseen(before, found))?;
        output.footer("nothing was removed: a dry run")?;
        return Ok(Exit::Ok);
    }
    if found != Prunable::default() {
        let Prunable { runs, samples } = found;
        let (url, what) = (&ops.chosen.url, format!("{runs} runs and {samples} samples"));
        let folder = folder.display();
        let question = format!("Write {what} to {folder} and remove them from {url}?");
        confirm(&question, args.yes)?;
    }
    let by = operator(args.reason);
    let report = prune.run(&folder, &by).await.map_err(|error| failure(error).help(advice))?;
    let done = PruneView::done(before, &report);
    output.record(&done)?;
    output.section("written", &done.files)?;
    Ok(Exit::Ok)
}
