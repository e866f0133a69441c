//! `redrive prune`: exports old finished runs, samples and plans to files, and removes them from the store.

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
Prunes runs that passed, failed, need review, were cancelled or given up, if all their attempts and journal entries are
older than DURATION; samples that succeeded, were skipped or became dead letters, if their pipeline run ended before;
the attempts of both; and plans that ended before, with their lists of units, if no unit is watched any more. Partitions,
items, raw data, pipeline runs with their counts, drafts of plans, and the journal stay.

The command first writes runs-TIME.jsonl, samples-TIME.jsonl, attempts-TIME.jsonl, plans-TIME.jsonl and
plan_units-TIME.jsonl, and syncs and renames each file when it is complete. It then records the files with their SHA-256 in the journal, and then removes the rows. An interruption
loses no data; run the command again to continue. Asks for confirmation before it removes anything. The idempotency key
of a removed run can be used again. POST /v1/prune does the same on a server.

Examples:
  redrive prune --older-than 90d --export archive --dry-run
  redrive prune --older-than 90d --export archive --yes
  redrive prune --older-than 30d --export archive --queue verify --yes -o json")]
pub(crate) struct PruneArgs {
    /// The minimum time since the last change, such as 90d
    #[arg(long, value_name = "DURATION")]
    older_than: HumanDuration,

    /// The export folder, created if needed [default: `export` in [prune] of the configuration]
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,

    /// Only runs of this queue; no plans, and no samples without --pipeline
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// Only samples of this pipeline; no plans, and no runs without --queue
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,

    /// Show how much would be removed, without removing anything
    #[arg(long)]
    dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    yes: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl TableRow for PruneView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("untouched since"),
        TableColumn::text("runs"),
        TableColumn::text("samples"),
        TableColumn::text("plans"),
        TableColumn::text("attempts"),
        TableColumn::text("changed meanwhile"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.before.clone(),
            self.runs.to_string(),
            self.samples.to_string(),
            self.plans.to_string(),
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

pub(crate) async fn run(args: PruneArgs, context: &Context) -> Result<Exit, CommandError> {
    let age: std::time::Duration = args.older_than.into();
    let now = SystemClock.now();
    let before = now.checked_sub(age).map_err(|error| {
        let message = format!("--older-than {} is too long", args.older_than);
        CommandError::usage(message).caused_by(error)
    })?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let folder = args.export.or_else(|| ops.config.as_ref()?.archive()).ok_or_else(|| {
        CommandError::usage("no export folder is given; nothing was removed")
            .help("pass --export DIR, or set `export` in [prune] of the configuration")
    })?;
    let PruneArgs { queue, pipeline, .. } = args;
    let prune = ops.prune(PruneFilter { before, queue, pipeline });
    let failure = |error: PruneError| match error {
        PruneError::Store(error) => ops.store_error(error),
        error => CommandError::new(Exit::Error, "the prune was not completed").caused_by(error),
    };
    let help = "only rows in complete files were removed; run the command again to continue";
    let found = prune.prunable().await.map_err(failure)?;
    let output = context.output;
    if args.dry_run {
        output.record(&PruneView::preview(before, found))?;
        output.footer("dry run: nothing was removed")?;
        return Ok(Exit::Ok);
    }
    if found != Prunable::default() {
        let Prunable { runs, samples, plans } = found;
        let what = format!("{runs} runs, {samples} samples and {plans} plans");
        let url = &ops.chosen.url;
        let folder = folder.display();
        let question = format!("Write {what} to {folder} and remove them from {url}?");
        confirm(&question, args.yes)?;
    }
    let by = operator(args.reason);
    let report = prune.run(&folder, &by).await.map_err(|error| failure(error).help(help))?;
    let done = PruneView::done(before, &report);
    output.record(&done)?;
    output.section("written", &done.files)?;
    Ok(Exit::Ok)
}
