//! `redrive plan`: bulk actions that are previewed, paced, watched and undone (PLN-1 to PLN-5).

mod selection;
mod tables;

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::{AbortShare, HumanDuration, PlanId, PlanSettings, PlanStatus, PlanTiming, Rate};
use redrive_ops::{
    BulkAction, CONFIRM_ABOVE, OutcomeCounts,
    views::{PlanUnitView, PlanView},
    words::{between, human},
};
use redrive_store::{MAX_PAGE, PlanOrder, PlanOutcome, PlanRecord};

use self::{
    selection::{PlanTarget, TargetArgs},
    tables::{PlanDetails, PlanRow, UnitRow, UnitsRow},
};
use crate::{
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    plan_execution::{Waited, find, invalid_settings, note_executor, order, wait},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A plan has a frozen list of units, in the order of their ids: the canary is the first of them, and the pace goes on with
the next. It changes each unit at most once, and only if the unit is as it was when the plan was made. Workers without
--drain, `serve` and `up` execute plans, and so does `plan apply` itself. After a kill, the first of them continues the plan
when the lease of the killed process has ended: `lease` in [plans], 30 seconds by default.

Examples:
  redrive plan new retry --kind run --cause 68af3934cc71cda7
  redrive plan apply 1 --canary 10 --pace 50/s --ramp 10m --abort-if 20%
  redrive plan show 1
  redrive plan undo 1")]
pub(crate) struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Debug, Subcommand)]
enum PlanCommand {
    /// Make a plan and show what it would do; nothing changes
    #[command(after_help = "\
The draft keeps the settings, and `plan apply` uses them.
Exit code 4: no filter and no --all, or nothing would change; there is no plan.

Examples:
  redrive plan new retry --kind run --queue verify
  redrive plan new retry --kind run --queue verify --pace 50/s --ramp 10m
  redrive plan new retry --kind partition --source ads --state terminal --clear-terminal
  redrive plan new reset --kind item --upload tiles
  redrive plan new reprocess --kind sample --pipeline score --stage judge")]
    New {
        #[command(flatten)]
        target: TargetArgs,

        #[command(flatten)]
        settings: SettingsArgs,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Apply a plan, and wait until it has ended or is paused
    #[command(after_help = "\
Settings that are given replace those of the draft; the others stay. The canary is changed first: the first N units by id.
When all its units have ended, the plan goes on only if less than the share of --abort-if failed again; the same check
applies to the rest. Workers, uploads and pipelines try the units: a canary waits for them. A canary is smaller than the plan;
one of up to 10 units may cover a small plan. Asks for confirmation before more than 20.
Exit codes: 0 the plan is done, though units may have been skipped or failed again; 3 it was aborted, paused or undone, or it
changed no unit; 4 refused, nothing changed. Ctrl-C leaves the plan to other processes, and says which goes on.

Examples:
  redrive plan apply 1
  redrive plan apply 1 --yes --detach
  redrive plan apply 1 --canary 10 --pace 50/s --ramp 10m --abort-if 20%")]
    Apply {
        /// The id of the plan
        #[arg(value_parser = plan_id, allow_negative_numbers = true)]
        id: PlanId,

        #[command(flatten)]
        settings: SettingsArgs,

        /// Leave the execution to workers, and do not wait
        #[arg(long)]
        detach: bool,

        /// Skip the confirmation
        #[arg(long)]
        yes: bool,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Change no more units until the plan is resumed
    #[command(after_help = "Examples:\n  redrive plan pause 1")]
    Pause(OrderArgs),
    /// Go on with a paused plan
    #[command(after_help = "\
Executes the plan here, unless another process does; also a running plan that no process executes. With a ramp, the pace
starts slowly again. The reason that was given before stays, unless there is a new one. Exit codes as of `plan apply`.

Examples:
  redrive plan resume 1
  redrive plan resume 1 --detach")]
    Resume {
        /// The id of the plan
        #[arg(value_parser = plan_id, allow_negative_numbers = true)]
        id: PlanId,

        /// Leave the execution to workers, and do not wait
        #[arg(long)]
        detach: bool,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// End a plan; the rest of its units stays unchanged
    #[command(after_help = "Examples:\n  redrive plan abort 1 --reason 'still down'")]
    Abort(OrderArgs),
    /// Return the units that the plan made pending and that no worker has started
    #[command(after_help = "\
These actions cannot be undone: run.cancel, sample.reprocess, partition.mark_terminal, partition.clear_terminal,
partition.pause and partition.resume. `state clear-terminal`, `mark-terminal`, `resume` and `pause` take the last four back.
A plan that has not ended is stopped, too. Exit code 4: the plan has ended and none of its units is pending, so there is
nothing to return; it stays as it is.

Examples:
  redrive plan undo 1")]
    Undo(OrderArgs),
    /// Show a plan with its units by state, cause and outcome
    #[command(after_help = "Examples:\n  redrive plan show 1\n  redrive plan show 1 -o json")]
    Show {
        /// The id of the plan
        #[arg(value_parser = plan_id, allow_negative_numbers = true)]
        id: PlanId,
    },
    /// List the units of a plan, with what became of each
    #[command(after_help = "\
Units are sorted by id. To get the next page, pass the last id to --after.

Examples:
  redrive plan units 1 --outcome skipped
  redrive plan units 1 --limit 10000 -o jsonl")]
    Units {
        /// The id of the plan
        #[arg(value_parser = plan_id, allow_negative_numbers = true)]
        id: PlanId,

        /// Only this outcome: skipped, applied, pending, recovered, same-cause, other-cause, superseded or undone
        #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
        outcome: Option<PlanOutcome>,

        /// The most units to print, up to 10000
        #[arg(long, value_name = "N", default_value_t = 100,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
        limit: u32,

        /// Start after this id
        #[arg(long, value_name = "ID", default_value_t = 0)]
        after: i64,
    },
    /// List plans, the newest first
    #[command(after_help = "Examples:\n  redrive plan list")]
    List {
        /// The most plans to print
        #[arg(long, value_name = "N", default_value_t = 20,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
        limit: u32,
    },
}

/// How a plan is applied.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings")]
struct SettingsArgs {
    /// Units to change first: the first by id
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    canary: Option<u64>,

    /// Units in a second, minute, hour or day, such as 50/s
    #[arg(long, value_name = "PACE", allow_hyphen_values = true)]
    pace: Option<Rate>,

    /// The time from slow to the full pace
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    ramp: Option<HumanDuration>,

    /// Abort if this share of the units fails again [default with a canary: 20%]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    abort_if: Option<AbortShare>,
}

impl SettingsArgs {
    /// The given settings, and the others of a draft.
    fn settings(&self, draft: &PlanSettings) -> Result<PlanSettings, CommandError> {
        let Self { canary, pace, ramp, abort_if } = *self;
        let settings = draft.with(canary, pace, ramp.map(Duration::from), abort_if);
        settings.map_err(|invalid| invalid_settings(&invalid))
    }
}

/// An id, with or without the name of its kind.
fn plan_id(text: &str) -> Result<PlanId, String> {
    let id = text.strip_prefix("plan:").unwrap_or(text).parse().ok();
    id.filter(|id: &PlanId| id.0 > 0)
        .ok_or_else(|| "an id is a whole number, 1 or greater".to_owned())
}

#[derive(Debug, Args)]
struct OrderArgs {
    /// The id of the plan
    #[arg(value_parser = plan_id, allow_negative_numbers = true)]
    id: PlanId,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: PlanArgs, context: &Context) -> Result<Exit, CommandError> {
    if let PlanCommand::New { target: TargetArgs(Err(problem)), .. } = &args.command {
        return Err(CommandError::usage(problem));
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    match args.command {
        PlanCommand::New { target, settings, reason } => {
            let target = target.0.map_err(CommandError::usage)?;
            let settings = settings.settings(&PlanSettings::default())?;
            new(&ops, &target, settings, reason, context).await
        }
        PlanCommand::Apply { id, settings, detach, yes, reason } => {
            let plan = find(&ops, id).await?;
            let settings = settings.settings(&plan.settings)?;
            let (units, action, url) = (plan.counts.total, plan.action, &ops.chosen.url);
            let checked = action.check_settings(&settings, units);
            checked.map_err(|invalid| invalid_settings(&invalid))?;
            if plan.status == PlanStatus::Draft && units > CONFIRM_ABOVE as u64 {
                let noun = action.kind().name();
                let question =
                    format!("plan apply {id}: {} for {units} {noun}s in {url}?", action.name());
                confirm(&question, yes)?;
            }
            order(&ops, id, &PlanOrder::Apply(settings), reason).await?;
            follow(&ops, id, detach, context).await
        }
        PlanCommand::Pause(args) => give(&ops, args, &PlanOrder::Pause, context).await,
        PlanCommand::Resume { id, detach, reason } => {
            // A running plan that no process executes is gone on with, too.
            if find(&ops, id).await?.status != PlanStatus::Running {
                order(&ops, id, &PlanOrder::Resume, reason).await?;
            }
            follow(&ops, id, detach, context).await
        }
        PlanCommand::Abort(args) => give(&ops, args, &PlanOrder::Abort, context).await,
        PlanCommand::Undo(OrderArgs { id, reason }) => {
            order(&ops, id, &PlanOrder::Undo, reason).await?;
            let undone = match wait(&ops, id, false, context).await? {
                Waited::Until(plan) => plan.undone,
                Waited::Interrupted(exit) => return Ok(exit),
            };
            let shown = show(&ops, id, context).await?;
            context.output.footer(&match undone {
                0 => "0 units were returned: none waits as the plan left it".to_owned(),
                1 => "1 unit was returned".to_owned(),
                _ => format!("{undone} units were returned"),
            })?;
            Ok(shown)
        }
        PlanCommand::Show { id } => show(&ops, id, context).await,
        PlanCommand::Units { id, outcome, limit, after } => {
            let plan = find(&ops, id).await?;
            let units = ops.plan_changes(&plan, outcome, after, limit).await;
            let units = units.map_err(|error| ops.store_error(error))?;
            let last = units.last().filter(|_| units.len() >= limit as usize);
            let last = last.map(|unit| unit.id);
            context.output.list(units.into_iter().map(PlanUnitView::from).map(UnitRow))?;
            if let Some(last) = last {
                let more = format!("there may be more; continue with --after {last}");
                context.output.footer(&more)?;
            }
            Ok(Exit::Ok)
        }
        PlanCommand::List { limit } => {
            let plans = ops.store().plans_page(PlanId(i64::MAX), limit).await;
            let plans = plans.map_err(|error| ops.store_error(error))?;
            let (clock, now) = (ops.store().now(), ops.now());
            let row = |plan: &PlanRecord| PlanRow {
                plan: PlanView::new(plan, Vec::new(), clock),
                age: between(plan.created_at, now),
            };
            context.output.list(plans.iter().map(row))?;
            Ok(Exit::Ok)
        }
    }
}

async fn new(
    ops: &OpenStore,
    target: &PlanTarget,
    settings: PlanSettings,
    reason: Option<String>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let (by, noun) = (operator(reason), target.action.kind().name());
    let refused = |why: String| CommandError::new(Exit::Refused, why);
    if target.selects_all() && !target.all {
        let help = "select by filters, such as --cause or --state, or pass --all";
        return Err(refused(format!("no {noun}s are selected; there is no plan")).help(help));
    }
    let bulk =
        BulkAction { action: target.action, selection: &target.selection, settings, by: &by };
    let frozen = ops.freeze_bulk(&bulk).await.map_err(|error| ops.store_error(error))?;
    let (id, survey) = frozen.map_err(|invalid| invalid_settings(&invalid))?;
    if let Some(id) = id {
        return show_draft(ops, id, context).await;
    }
    let OutcomeCounts { already, overridable, refused: others, .. } = survey.counts;
    Err(match overridable + others {
        0 if already == 0 => refused(format!("no {noun} matches; there is no plan")),
        others => {
            let why = survey.first_refusal.map(|why| format!("; the first: {why}"));
            refused(format!(
                "the plan would change nothing: {others} refused, {already} already; there is no plan{}",
                why.unwrap_or_default()
            ))
            .help("the bulk command with --dry-run says what would happen to each")
        }
    })
}

/// Shows a draft, how long it would take, and how it is applied.
pub(crate) async fn show_draft(
    ops: &OpenStore,
    id: PlanId,
    context: &Context,
) -> Result<Exit, CommandError> {
    let shown = show(ops, id, context).await?;
    let plan = find(ops, id).await?;
    let settings = &plan.settings;
    let time = settings.time_for(plan.counts.total, &PlanTiming::default(), ops.store().now());
    // Parts of a second say nothing.
    let time = time.map(|time| human(Duration::from_secs(time.as_secs_f64().ceil() as u64)));
    let covers = settings.canary().is_some_and(|canary| canary >= plan.counts.total);
    let takes = match time {
        _ if covers => "its canary is the whole plan, which it changes at once".to_owned(),
        Some(time) if settings.canary().is_some() => {
            format!("it would take {time} after its canary")
        }
        Some(time) => format!("it would take {time}"),
        None if settings.canary().is_some() => {
            "without --pace it changes the rest at once after its canary".to_owned()
        }
        None => "without --pace it changes all units at once".to_owned(),
    };
    context
        .output
        .note(&format!("nothing was changed; `redrive plan apply {id}` applies the plan: {takes}"));
    Ok(shown)
}

async fn give(
    ops: &OpenStore,
    args: OrderArgs,
    given: &PlanOrder,
    context: &Context,
) -> Result<Exit, CommandError> {
    order(ops, args.id, given, args.reason).await?;
    show(ops, args.id, context).await
}

/// Waits for a plan and shows it; or leaves it to others, and says to whom.
async fn follow(
    ops: &OpenStore,
    id: PlanId,
    detach: bool,
    context: &Context,
) -> Result<Exit, CommandError> {
    if detach {
        let shown = show(ops, id, context).await?;
        note_executor(ops, id, context).await?;
        return Ok(shown);
    }
    let ended = match wait(ops, id, false, context).await? {
        Waited::Until(ended) => ended,
        Waited::Interrupted(exit) => return Ok(exit),
    };
    let exit = show(ops, id, context).await?;
    let is_done = ended.status == PlanStatus::Done && ended.counts.changed > 0;
    Ok(if is_done { exit } else { Exit::Partial })
}

async fn show(ops: &OpenStore, id: PlanId, context: &Context) -> Result<Exit, CommandError> {
    let plan = find(ops, id).await?;
    let view = ops.plan_view(&plan).await.map_err(|error| ops.store_error(error))?;
    if !context.output.is_table() {
        context.output.object(&view)?;
        return Ok(Exit::Ok);
    }
    context.output.record(&PlanDetails(&view))?;
    for why in view.stop_reason.iter().chain(&view.waits_for) {
        context.output.footer(why)?;
    }
    let failure = view.failure();
    context.output.section("UNITS", &view.units.into_iter().map(UnitsRow).collect::<Vec<_>>())?;
    failure.map_or(Ok(()), |failure| context.output.footer(&failure))?;
    Ok(Exit::Ok)
}

fn outcome(name: &str) -> Result<PlanOutcome, String> {
    PlanOutcome::from_name(&name.replace('-', "_")).ok_or_else(|| {
        let names = PlanOutcome::ALL.map(|outcome| outcome.name().replace('_', "-"));
        format!("the outcomes are {}", names.join(", "))
    })
}
