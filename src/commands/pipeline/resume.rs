//! `redrive pipeline resume`: continues a run.

use std::collections::HashMap;

use clap::Args;
use redrive::{HumanDuration, Operator, Pipeline, PipelineRunId, ResumeError, SampleId};
use redrive_engine::{ChangedLine, PatchError, PatchedSource, SOURCE_CHANGED};
use redrive_ops::{Resource, views::PipelineRunView};
use redrive_store::Written;
use serde::Serialize;

use super::{
    record::{exit, print},
    work::RunnablePipeline,
};
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow, excerpt},
};

/// Samples that get new data at a time.
const EDITS: usize = 100;

#[derive(Debug, Args)]
#[command(after_help = "\
Continues a run that was aborted, cancelled or interrupted, or whose dead letters were reprocessed. Finished samples
and finished stages are not repeated. The part of the source that was read must not have changed, unless
--source-changed accepts it: samples keep the data that was read, and --reread-dead brings back dead letters whose line
was patched, with the new line at the first stage. Thresholds and the failure budget are those of the current
configuration, and the budget starts at zero.
Exit codes: as `pipeline run`; 4 if the source or the stages have changed, nothing was done.

Examples:
  redrive pipeline resume 3
  redrive pipeline resume 3 --source-changed --reread-dead
  redrive pipeline resume 3 --detach        leave the work to `redrive worker`")]
pub(crate) struct PipelineResumeArgs {
    /// The id of the run
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = PipelineRunView::parse_id)]
    id: PipelineRunId,

    /// Mark the run as running and exit; workers process it
    #[arg(long)]
    detach: bool,

    /// The time that running work has to finish after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// Show which of the lines already read have changed, and go on by line number
    #[arg(long)]
    source_changed: bool,

    /// With --source-changed: reprocess dead letters whose line has changed from the first stage, with what the line is now
    #[arg(long, requires = "source_changed")]
    reread_dead: bool,

    /// Skip the confirmation of --source-changed
    #[arg(long, requires = "source_changed")]
    yes: bool,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: PipelineResumeArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let name = ops.pipeline_run(args.id).await?.pipeline;
    let Some(config) = &ops.config else {
        let message = format!(
            "run {} needs a configuration, and there is no redrive.toml in this folder or above",
            args.id
        );
        return Err(CommandError::new(Exit::Error, message).help("--config FILE selects a file"));
    };
    let Some(declared) = config.pipeline(&name) else {
        let message = format!(
            "run {} belongs to pipeline {name:?}, which the configuration does not declare",
            args.id
        );
        return Err(CommandError::new(Exit::Error, message)
            .help("declare the pipeline again to resume the run"));
    };
    let runnable = RunnablePipeline::new(declared, config)?;
    let by = operator(args.reason.clone());
    if args.source_changed {
        let resumable = ops.pipelines().resumable(args.id, &runnable.pipeline).await;
        resumable.map_err(|refusal| command_error(refusal, &ops))?;
        accept_source(&args, &runnable.pipeline, &by, &ops, context).await?;
    }
    let resumed = ops.pipelines().resume(args.id, &runnable.pipeline, &by).await;
    let run = resumed.map_err(|refusal| command_error(refusal, &ops))?;
    if args.detach {
        print(&run, &ops, context).await?;
        return Ok(Exit::Ok);
    }
    if run.ended_at.is_some() {
        // All samples had ended already.
        print(&run, &ops, context).await?;
        return Ok(exit(run.progress.status));
    }
    runnable.process(&run, args.grace.into(), &ops, context).await
}

fn command_error(refusal: ResumeError, ops: &OpenStore) -> CommandError {
    let message = refusal.to_string();
    match refusal {
        ResumeError::Store(error) => ops.store_error(error),
        ResumeError::OtherStages { .. } => CommandError::new(Exit::Refused, message)
            .help("restore the stages to resume this run, or start a new run"),
        ResumeError::Source { why, .. } if why.code().to_string() == SOURCE_CHANGED => {
            CommandError::new(Exit::Refused, message)
        }
        ResumeError::Over { .. } => CommandError::new(Exit::Error, message)
            .help("`redrive dlq reprocess` returns its dead letters, if it has any"),
        _ => CommandError::new(Exit::Error, message),
    }
}

/// A changed line, for the list.
#[derive(Debug, Serialize)]
struct ChangedLineRow {
    line: u64,
    sample: Option<i64>,
    status: Option<&'static str>,
    now: String,
}

impl TableRow for ChangedLineRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("line"),
        TableColumn::number("sample"),
        TableColumn::text("status"),
        TableColumn::text("now"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.line.to_string(),
            self.sample.map(|id| id.to_string()).unwrap_or_default(),
            self.status.unwrap_or("was blank").to_owned(),
            excerpt(&self.now),
        ]
    }
}

impl From<&ChangedLine> for ChangedLineRow {
    fn from(changed: &ChangedLine) -> Self {
        Self {
            line: changed.line,
            sample: changed.sample.as_ref().map(|sample| sample.id.0),
            status: changed.sample.as_ref().map(|sample| sample.status.name()),
            now: match &changed.now {
                None => "blank".to_owned(),
                Some(Ok(data)) => data.clone(),
                Some(Err(failure)) => failure.message().as_str().to_owned(),
            },
        }
    }
}

/// Shows what has changed in the source, asks, and lets the run go on by line number (FIX-3).
async fn accept_source(
    args: &PipelineResumeArgs,
    pipeline: &Pipeline,
    by: &Operator,
    ops: &OpenStore,
    context: &Context,
) -> Result<(), CommandError> {
    let failed = |error| ops.store_error(error);
    let Some(path) = pipeline.source.file() else {
        let message = format!("the source of {:?} is not a file of lines", pipeline.name);
        return Err(CommandError::new(Exit::Refused, message).help(
            "a command is run again, and its first lines are skipped: leave out --source-changed",
        ));
    };
    let run = ops.pipeline_run(args.id).await?;
    let patched = PatchedSource::compare(path, &run, &**ops.store()).await;
    let patched = patched.map_err(|error| match error {
        PatchError::Store(error) => failed(error),
        PatchError::Source(_) => CommandError::new(Exit::Refused, error.to_string()),
    })?;
    let rows: Vec<ChangedLineRow> = patched.changed.iter().map(ChangedLineRow::from).collect();
    if context.output.is_table() {
        context.output.section("changed lines", &rows)?;
    }
    if patched.unknown > 0 {
        context.output.note(&format!(
            "note: whether {} of the lines have changed is not known: an older version read them, or they were pruned",
            patched.unknown
        ));
    }
    if let Some(line) = patched.shifted_from {
        context.output.warning(&format!(
            "lines seem to have been inserted or removed at line {line}, the first that differs: the lines \
             after it have moved, and dead letters would get the data of other lines, or lines be read twice or never"
        ));
    }
    let dead = patched.changed.iter().filter_map(ChangedLine::rereadable);
    let dead: HashMap<SampleId, &str> = dead.filter(|_| args.reread_dead).collect();
    let question = format!(
        "Go on after line {} of {}, with {} changed lines, and reprocess {} dead letters?",
        patched.position.lines,
        path.display(),
        patched.changed.len(),
        dead.len()
    );
    confirm(&question, args.yes)?;
    if !run.position.done {
        let moved = ops.pipelines().move_source(&run, &patched, by).await.map_err(failed)?;
        if moved == Written::Stale {
            let message =
                format!("a worker reads the source of run {} now; nothing was changed", run.id);
            return Err(CommandError::new(Exit::Refused, message)
                .help(format!("`redrive pipeline cancel {}` stops it", run.id)));
        }
    }
    let (ids, mut reread): (Vec<SampleId>, u64) = (dead.keys().copied().collect(), 0);
    for ids in ids.chunks(EDITS) {
        let samples = ops.store().samples_by_id(ids).await.map_err(failed)?;
        let edits = samples.iter().filter_map(|it| Some((it, (*dead.get(&it.id)?).to_owned())));
        reread += ops.pipelines().reread(edits.collect(), by).await.map_err(failed)?.done;
    }
    let done = ids.len() as u64;
    if done > 0 {
        let left = done - reread;
        context.output.note(&format!(
            "reprocessing {reread} dead letters; {left} have changed meanwhile and are left alone"
        ));
    }
    Ok(())
}
