//! `redrive dlq reprocess`: returns dead letters to the stage that failed.
//!
//! A dry run applies the same selection and the same rules, and writes nothing.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
};

use clap::Args;
use redrive::{
    Operator, PipelineRunId, PipelineStatus, PlanId, SampleId, SampleRecord, SampleStatus, Unit,
};
use redrive_ops::{
    ActionOptions, CONFIRM_ABOVE, ChangeRequest, ChangeResult, Changeable, SampleAction,
    UnitAction, UnitChange, views::SampleView,
};
use redrive_store::{MAX_BATCH, PlanAction, UnitKind, Written};

use super::patch::{SetValue, read_patch};
use crate::{
    bulk::act_on_all,
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    resource::{ChangeArgs, ChangeFlags, apply},
};

/// Samples that get new data at a time.
const EDITS: usize = 100;

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
    #[command(flatten)]
    change: ChangeArgs<SampleView>,

    /// Give samples the data of a file first, JSON lines of {"id", "data"} as `dlq export` writes them, and
    /// reprocess those; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ids", "limit", "all", "set"])]
    patch: Option<PathBuf>,

    /// Change one place of the data of every sample first; repeatable
    #[arg(long, value_name = "/PATH=VALUE")]
    set: Vec<SetValue>,

    /// The most dead letters to reprocess, in order of id [default: all that match]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

pub(crate) async fn run(
    mut args: DlqReprocessArgs,
    context: &Context,
) -> Result<Exit, CommandError> {
    let patch = args.patch.as_deref().map(read_patch).transpose()?;
    if let Some((_, without_data @ 1..)) = patch {
        context.output.note(&format!(
            "note: {without_data} lines of the patch have no data, because their lines of the source were not \
             samples; they are left alone"
        ));
    }
    let patch = patch.map(|(patch, _)| patch);
    if let Some(patch) = &patch {
        args.change.ids = patch.iter().map(|(id, _)| *id).collect();
        if args.change.ids.is_empty() {
            let message = "the patch has no samples; nothing was changed";
            return Err(CommandError::new(Exit::Refused, message));
        }
    }
    args.change.check()?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let ChangeFlags { reason, dry_run, yes } = args.change.how.clone();
    let by = operator(reason);
    let request = ChangeRequest {
        options: ActionOptions::default(),
        by: &by,
        dry_run,
        command: "dlq reprocess".to_owned(),
        selection: *args.change.terms.selection,
        flags: Vec::new(),
    };
    let mut ids = args.change.ids.clone();
    if ids.is_empty() && args.set.is_empty() && args.limit.is_none() {
        let declared = SampleView::action(SampleView::REVIVE);
        let declared = declared.ok_or_else(|| CommandError::usage("unknown action"))?;
        let how = (args.change.plan, args.change.how);
        let (action, selection) = (PlanAction::ReprocessSample, &request.selection);
        let (exit, plan) = act_on_all(&ops, declared, action, selection, how, context).await?;
        if let Some(plan) = plan {
            let noted = note_stopped_of(&ops, plan, context).await;
            noted.map_err(|error| ops.store_error(error))?;
        }
        return Ok(exit);
    }
    if args.change.plan {
        let message =
            "a plan reprocesses what filters select: without ids, --patch, --set and --limit";
        return Err(CommandError::usage(message));
    }
    if ids.is_empty() {
        let limit =
            args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let matching = ops.in_states::<SampleView>(&[], &request.selection, limit).await;
        ids = matching.map_err(|error| ops.store_error(error))?;
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        let message = "no dead letter matches; nothing was changed";
        return Err(CommandError::new(Exit::Refused, message)
            .help("`redrive dlq list` shows the dead letters"));
    }
    if ids.len() > CONFIRM_ABOVE && !dry_run {
        let question = format!("Reprocess {} dead letters in {}?", ids.len(), ops.chosen.url);
        confirm(&question, yes)?;
    }
    let edits = patch.is_some() || !args.set.is_empty();
    let patch: HashMap<SampleId, String> = patch.into_iter().flatten().collect();
    if edits {
        ids = edit(&ops, &args.set, &patch, ids, (!dry_run).then_some(&by), context).await?;
    }
    // The patch gives data to samples that have none.
    let given_data = |change: UnitChange| {
        let id = match change.unit.parse() {
            Ok(Unit::Sample { id, .. }) => Some(id),
            _ => None,
        };
        match id.filter(|id| dry_run && patch.contains_key(id)) {
            Some(_) => UnitChange { outcome: ChangeResult::WouldBeDone, why: None, ..change },
            None => change,
        }
    };
    let action = UnitAction::Own(SampleAction::Reprocess);
    let exit = apply::<SampleView>(&ops, &action, &request, &ids, given_data, context).await?;
    if !dry_run {
        let noted = note_stopped(&ops, &ids, &mut BTreeSet::new(), context).await;
        noted.map_err(|error| ops.store_error(error))?;
    }
    Ok(exit)
}

/// Names the command that continues runs which workers do not process, such as aborted ones.
async fn note_stopped(
    ops: &OpenStore,
    samples: &[SampleId],
    noted: &mut BTreeSet<PipelineRunId>,
    context: &Context,
) -> redrive_store::Result<()> {
    let ids: Vec<i64> = samples.iter().map(|id| id.0).collect();
    for ids in ids.chunks(MAX_BATCH) {
        let samples = ops.store().units_by_id(UnitKind::Sample, ids).await?;
        let runs = samples.iter().filter_map(|unit| Some(unit.as_sample()?.run));
        let new: BTreeSet<PipelineRunId> = runs.filter(|run| !noted.contains(run)).collect();
        let new: Vec<PipelineRunId> = new.into_iter().collect();
        for run in ops.store().pipeline_runs_by_id(&new).await? {
            let (id, status) = (run.id, run.progress.status);
            if status != PipelineStatus::Running {
                context.output.note(&format!(
                    "run {id} is {status}, so workers leave its samples alone; \
                     `redrive pipeline resume {id}` continues it"
                ));
            }
        }
        noted.extend(new);
    }
    Ok(())
}

/// Does the same for the samples of a plan.
async fn note_stopped_of(
    ops: &OpenStore,
    plan: PlanId,
    context: &Context,
) -> redrive_store::Result<()> {
    let (mut after, mut noted) = (0, BTreeSet::new());
    loop {
        let page = ops.store().plan_units_page(plan, None, after, MAX_BATCH as u32).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.unit_id;
        let ids: Vec<SampleId> = page.iter().map(|unit| SampleId(unit.unit_id)).collect();
        note_stopped(ops, &ids, &mut noted, context).await?;
    }
}

/// Gives samples new data and returns all but those that have changed meanwhile. What cannot be changed is found before
/// anything is, also by a dry run, which has no operator.
async fn edit(
    ops: &OpenStore,
    set: &[SetValue],
    patch: &HashMap<SampleId, String>,
    ids: Vec<SampleId>,
    by: Option<&Operator>,
    context: &Context,
) -> Result<Vec<SampleId>, CommandError> {
    let failed = |error| ops.store_error(error);
    let mut edited = Vec::new();
    for by in [None, by] {
        for part in ids.chunks(EDITS) {
            let samples = ops.store().samples_by_id(part).await.map_err(failed)?;
            let dead = samples.iter().filter(|sample| sample.status == SampleStatus::Dlq);
            let edits = dead.map(|sample| Ok((sample, new_data(set, patch, sample)?)));
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
    set: &[SetValue],
    patch: &HashMap<SampleId, String>,
    sample: &SampleRecord,
) -> Result<String, CommandError> {
    if let Some(data) = patch.get(&sample.id) {
        return Ok(data.clone());
    }
    SetValue::apply_all(set, sample).map_err(|problem| {
        let message = format!("sample {}: {problem}; nothing was changed", sample.id);
        CommandError::new(Exit::Refused, message)
    })
}
