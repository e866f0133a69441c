//! `redrive dlq reprocess`: returns dead letters to the stage that failed.
//!
//! A dry run applies the same selection and the same rules, and writes nothing.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
};

use clap::Args;
use redrive::{
    Operator, PipelineRunId, PipelineStatus, ReprocessCounts, RunMode, SampleChange, SampleFilter,
    SampleId, SamplePages, SampleRecord, SampleStatus,
};
use redrive_ops::views::SampleChangeView;
use redrive_store::{MAX_BATCH, Written};

use super::{
    dead_letter_filter::DeadLetterFilter,
    parse_id,
    patch::{SetValue, read_patch},
};
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{Listing, TableColumn, TableRow},
};

/// Samples that get new data at a time.
const EDITS: usize = 100;

/// More dead letters than this need a confirmation.
const CONFIRM_ABOVE: u64 = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
A dead letter becomes pending again at the stage that failed, with a new count of attempts; attempt numbers continue.
Its run continues too: workers claim the samples, or `redrive pipeline resume ID` does. A line of the source that was not
a sample needs data first, from --patch or `dlq edit`, and enters at the first stage. Old data stays in the journal. Asks for confirmation before more than 20.
Exit codes: 0 all reprocessed; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive dlq reprocess --pipeline score --stage llm_call --dry-run
  redrive dlq reprocess --cause 5f0c2a91d3e4b768 --yes --reason 'the key was renewed'
  redrive dlq reprocess 17 18
  redrive dlq reprocess --stage llm_call --set /model=\"large\" --set /retries=3
  redrive dlq export --code 400 | jq -c '.data.day |= .[0:10]' | redrive dlq reprocess --patch -")]
pub(crate) struct DlqReprocessArgs {
    /// The ids of samples, instead of filters
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id, conflicts_with_all =
          ["pipeline", "run", "stage", "error", "code", "cause", "failed_since", "failed_until", "limit", "all"])]
    ids: Vec<SampleId>,

    #[command(flatten)]
    filter: DeadLetterFilter,

    /// Give samples the data of a file first, JSON lines of {"id", "data"} as `dlq export` writes them, and
    /// reprocess those; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all =
          ["ids", "pipeline", "run", "stage", "error", "code", "cause", "failed_since", "failed_until", "limit", "all", "set"])]
    patch: Option<PathBuf>,

    /// Change one place of the data of every sample first; repeatable
    #[arg(long, value_name = "/PATH=VALUE")]
    set: Vec<SetValue>,

    /// Reprocess all dead letters; required if there is no filter
    #[arg(long)]
    all: bool,

    /// The most dead letters to reprocess, in order of id [default: all that match]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,

    /// Show what would change, without changing anything
    #[arg(long)]
    dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    yes: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl TableRow for SampleChangeView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("id"),
        TableColumn::number("run"),
        TableColumn::text("pipeline"),
        TableColumn::text("stage"),
        TableColumn::text("outcome"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.id.to_string(),
            self.run_id.map(|id| id.to_string()).unwrap_or_default(),
            or_empty(&self.pipeline),
            or_empty(&self.stage),
            self.outcome.replace('_', " "),
            or_empty(&self.why),
        ]
    }
}

pub(crate) async fn run(
    mut args: DlqReprocessArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let patch = args.patch.as_deref().map(read_patch).transpose()?;
    if let Some(patch) = &patch {
        args.ids = patch.iter().map(|(id, _)| *id).collect();
        if args.ids.is_empty() {
            let message = "the patch has no samples; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message));
        }
    }
    if args.ids.is_empty() && args.filter.is_empty() && !args.all {
        let message = "no dead letters are selected; nothing was changed";
        return Err(CommandError::new(Exit::Refused, message).help(
            "select dead letters by id or by filters such as --pipeline NAME, or pass --all",
        ));
    }
    args.ids.sort_unstable();
    args.ids.dedup();
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let (filter, limit) = (args.filter.sample_filter(), args.limit.unwrap_or(u64::MAX));
    let count = match args.ids.len() as u64 {
        0 => ops.store().count_samples(&filter).await.map_err(|error| ops.store_error(error))?,
        named => named,
    };
    if count == 0 {
        let message = "no dead letter matches; nothing was changed";
        return Err(CommandError::new(Exit::Refused, message)
            .help("`redrive dlq list` shows the dead letters"));
    }
    let count = count.min(limit);
    if count > CONFIRM_ABOVE && !args.dry_run {
        let question = format!("Reprocess {count} dead letters in {}?", ops.chosen.url);
        confirm(&question, args.yes)?;
    }
    let by = operator(args.reason.clone());
    let by = (!args.dry_run).then_some(&by);
    let edits = patch.is_some() || !args.set.is_empty();
    let patch: HashMap<SampleId, String> = patch.into_iter().flatten().collect();
    if edits {
        args.ids = edit(&ops, &args, &patch, limit, by, context).await?;
    }
    let mode = if args.dry_run { RunMode::DryRun } else { RunMode::Real };
    let mut listing = Listing::new(context.output);
    let mut printed = Ok(());
    let mut runs = BTreeSet::new();
    let mut given_data = 0;
    let on_change = |id, sample: Option<&SampleRecord>, change| {
        // The patch would give it data.
        let change = match change {
            SampleChange::NoData if patch.contains_key(&id) => {
                given_data += 1;
                SampleChange::Done
            }
            change => change,
        };
        runs.extend(sample.filter(|_| change == SampleChange::Done).map(|sample| sample.run));
        // Reprocessing goes on even if the reader closes the output.
        if printed.is_ok() {
            printed = listing.add([SampleChangeView::new(id, sample, change, mode)]);
        }
    };
    let done = reprocess(&ops, &args.ids, &filter, limit, by, on_change).await;
    printed?;
    let hidden = listing.end()?;
    let counts = done.map_err(|error| {
        ops.store_error(error)
            .help("the other dead letters are unchanged; run the command again for them")
    })?;
    let ReprocessCounts { done, refused } = counts;
    let counts = ReprocessCounts { done: done + given_data, refused: refused - given_data };
    let exit = print_counts(counts, hidden, args.dry_run, context)?;
    if !args.dry_run {
        note_stopped(&ops, runs, context).await.map_err(|error| ops.store_error(error))?;
    }
    Ok(exit)
}

/// Names the command that continues runs which workers do not process, such as aborted ones.
async fn note_stopped(
    ops: &OpenStore,
    runs: BTreeSet<PipelineRunId>,
    context: &Context,
) -> redrive_store::Result<()> {
    let ids: Vec<PipelineRunId> = runs.into_iter().collect();
    for ids in ids.chunks(MAX_BATCH) {
        for run in ops.store().pipeline_runs_by_id(ids).await? {
            let (id, status) = (run.id, run.progress.status);
            if status != PipelineStatus::Running {
                context.output.note(&format!(
                    "run {id} is {status}, so workers leave its samples alone; \
                     `redrive pipeline resume {id}` continues it"
                ));
            }
        }
    }
    Ok(())
}

/// Gives the selected samples new data and returns all but those that have changed meanwhile. What cannot be changed is
/// found before anything is, also by a dry run, which has no operator.
async fn edit(
    ops: &OpenStore,
    args: &DlqReprocessArgs,
    patch: &HashMap<SampleId, String>,
    limit: u64,
    by: Option<&Operator>,
    context: &Context,
) -> Result<Vec<SampleId>, CommandError> {
    let failed = |error| ops.store_error(error);
    let mut ids = args.ids.clone();
    if ids.is_empty() {
        let filter = args.filter.sample_filter();
        let mut pages = SamplePages::new(ops.store().clone(), filter).with_limit(limit);
        loop {
            let page = pages.next().await.map_err(failed)?;
            if page.is_empty() {
                break;
            }
            ids.extend(page.iter().map(|sample| sample.id));
        }
    }
    let mut edited = Vec::new();
    for by in [None, by] {
        for part in ids.chunks(EDITS) {
            let samples = ops.store().samples_by_id(part).await.map_err(failed)?;
            let dead = samples.iter().filter(|sample| sample.status == SampleStatus::Dlq);
            let edits = dead.map(|sample| Ok((sample, new_data(args, patch, sample)?)));
            let edits = edits.collect::<Result<Vec<_>, CommandError>>()?;
            let Some(by) = by else { continue };
            let dead: Vec<SampleId> = edits.iter().map(|(sample, _)| sample.id).collect();
            let written = ops.pipelines().edit(edits, by).await.map_err(failed)?;
            let stale = dead.iter().zip(written).filter(|(_, written)| *written == Written::Stale);
            let stale: Vec<SampleId> = stale.map(|(id, _)| *id).collect();
            for id in &stale {
                let note = format!("note: sample {id} has changed meanwhile and is left alone");
                context.output.note(&note);
            }
            edited.extend(part.iter().copied().filter(|id| !stale.contains(id)));
        }
    }
    if by.is_none() {
        return Ok(ids);
    }
    if edited.is_empty() {
        let message = "the samples have changed meanwhile; nothing was reprocessed";
        return Err(CommandError::new(Exit::Refused, message));
    }
    Ok(edited)
}

fn new_data(
    args: &DlqReprocessArgs,
    patch: &HashMap<SampleId, String>,
    sample: &SampleRecord,
) -> Result<String, CommandError> {
    if let Some(data) = patch.get(&sample.id) {
        return Ok(data.clone());
    }
    SetValue::apply_all(&args.set, sample).map_err(|problem| {
        let message = format!("sample {}: {problem}; nothing was changed", sample.id);
        CommandError::new(Exit::Refused, message)
    })
}

async fn reprocess(
    ops: &OpenStore,
    ids: &[SampleId],
    filter: &SampleFilter,
    limit: u64,
    by: Option<&Operator>,
    on_change: impl FnMut(SampleId, Option<&SampleRecord>, SampleChange),
) -> redrive_store::Result<ReprocessCounts> {
    match ids {
        [] => ops.pipelines().reprocess(filter, limit, by, on_change).await,
        ids => ops.pipelines().reprocess_by_id(ids, by, on_change).await,
    }
}

fn print_counts(
    counts: ReprocessCounts,
    hidden: u64,
    dry: bool,
    context: &Context,
) -> Result<Exit, CommandError> {
    let ReprocessCounts { done, refused } = counts;
    let verb = if dry { "would be done" } else { "done" };
    let mut summary = format!("{done} {verb}, {refused} refused");
    if hidden > 0 {
        summary.push_str(&format!("; {hidden} rows are not shown, -o jsonl prints all"));
    }
    if done > 0 && !dry {
        summary.push_str("; workers process those of running runs, `redrive pipeline resume RUN` continues a run");
    }
    context.output.footer(&summary)?;
    Ok(match (done, refused) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        (_, _) => Exit::Partial,
    })
}
