//! `redrive plan`: bulk actions that are previewed, paced, watched and undone (PLN-1 to PLN-5).

mod selection;

use std::time::Duration;

use clap::{Args, Subcommand};
use redrive::{AbortShare, HumanDuration, PlanId, PlanPace, PlanSettings, PlanStatus};
use redrive_engine::freeze_plan;
use redrive_ops::views::{PlanUnitsView, PlanView};
use redrive_store::{
    MAX_PAGE, NewPlan, PlanChange, PlanOrder, PlanOutcome, PlanRecord, PlanUnitRecord,
};
use serde::Serialize;

use self::selection::PlanTarget;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow, excerpt},
    signals::Signals,
    worker_set::{new_worker_id, plan_executor},
};

/// How often the progress of a plan that another process executes is read.
const WATCH: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(after_help = "\
A plan has a frozen list of units. It changes each unit at most once, and only if the unit is as it was when the plan was
made. Workers without --drain, `serve` and `up` execute plans, and so does `plan apply` itself. After a kill, the first of
them continues the plan when the lease of the killed process has ended: `lease` in [plans], 30 seconds by default.

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
Examples:
  redrive plan new retry --kind run --queue verify
  redrive plan new reset --kind item --upload tiles
  redrive plan new reprocess --kind sample --pipeline score --stage judge")]
    New {
        #[command(flatten)]
        target: PlanTarget,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Apply a plan, and wait until it has ended or is paused
    #[command(after_help = "\
The canary is changed first. When all its units have ended, the plan goes on only if less than the share of --abort-if
failed again; the same check applies to the rest. Workers, uploads and pipelines try the units: a canary waits for them.
Exit code 3: the plan was aborted, and the rest is unchanged. Ctrl-C leaves the plan to other processes, which continue when
the lease of this one has ended.

Examples:
  redrive plan apply 1
  redrive plan apply 1 --canary 10 --pace 50/s --ramp 10m --abort-if 20%")]
    Apply {
        /// The id of the plan
        id: PlanId,

        /// Units to change first
        #[arg(long, value_name = "N")]
        canary: Option<u64>,

        /// Units in a second, minute, hour or day, such as 50/s
        #[arg(long, value_name = "PACE")]
        pace: Option<PlanPace>,

        /// The time from slow to the full pace
        #[arg(long, value_name = "DURATION")]
        ramp: Option<HumanDuration>,

        /// Abort if this share of the units fails again [default with a canary: 20%]
        #[arg(long, value_name = "SHARE")]
        abort_if: Option<AbortShare>,

        /// Leave the execution to workers, and do not wait
        #[arg(long)]
        detach: bool,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Change no more units until the plan is resumed
    #[command(after_help = "Examples:\n  redrive plan pause 1")]
    Pause(OrderArgs),
    /// Go on with a paused plan
    #[command(after_help = "Examples:\n  redrive plan resume 1")]
    Resume(OrderArgs),
    /// End a plan; the rest of its units stays unchanged
    #[command(after_help = "Examples:\n  redrive plan abort 1 --reason 'still down'")]
    Abort(OrderArgs),
    /// Return the units that the plan made pending and that no worker has started
    #[command(after_help = "\
A plan over samples, or one that cancels runs, cannot be undone.

Examples:
  redrive plan undo 1")]
    Undo(OrderArgs),
    /// Show a plan with its units by state, cause and outcome
    #[command(after_help = "Examples:\n  redrive plan show 1\n  redrive plan show 1 -o json")]
    Show {
        /// The id of the plan
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

#[derive(Debug, Args)]
struct OrderArgs {
    /// The id of the plan
    id: PlanId,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: PlanArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    match args.command {
        PlanCommand::New { target, reason } => new(&ops, &target, reason, context).await,
        PlanCommand::Apply { id, canary, pace, ramp, abort_if, detach, reason } => {
            let ramp = ramp.map(Duration::from);
            let settings = PlanSettings::new(canary, pace, ramp, abort_if)
                .map_err(|invalid| CommandError::new(Exit::Usage, invalid))?;
            order(&ops, id, &PlanOrder::Apply(settings), reason).await?;
            if detach {
                return show(&ops, id, context).await;
            }
            wait(&ops, id, context).await
        }
        PlanCommand::Pause(args) => give(&ops, args, &PlanOrder::Pause, context).await,
        PlanCommand::Resume(args) => give(&ops, args, &PlanOrder::Resume, context).await,
        PlanCommand::Abort(args) => give(&ops, args, &PlanOrder::Abort, context).await,
        PlanCommand::Undo(OrderArgs { id, reason }) => {
            let action = find(&ops, id).await?.action;
            if !action.can_be_undone() {
                let refused = format!("{} cannot be undone; nothing was changed", action.name());
                return Err(CommandError::new(Exit::Refused, refused));
            }
            order(&ops, id, &PlanOrder::Undo, reason).await?;
            wait(&ops, id, context).await
        }
        PlanCommand::Show { id } => show(&ops, id, context).await,
        PlanCommand::Units { id, outcome, limit, after } => {
            let plan = find(&ops, id).await?;
            let units = ops.store().plan_units_page(id, outcome, after, limit).await;
            let units = units.map_err(|error| ops.store_error(error))?;
            let last = units.last().filter(|_| units.len() >= limit as usize);
            let last = last.map(|unit| unit.unit_id);
            context.output.list(units.into_iter().map(|unit| PlanUnitRow::new(&plan, unit)))?;
            if let Some(last) = last {
                let more = format!("there may be more; continue with --after {last}");
                context.output.footer(&more)?;
            }
            Ok(Exit::Ok)
        }
        PlanCommand::List { limit } => {
            let plans = ops.store().plans_page(PlanId(i64::MAX), limit).await;
            let plans = plans.map_err(|error| ops.store_error(error))?;
            let now = ops.store().now();
            let rows = plans.iter().map(|plan| PlanView::new(plan, Vec::new(), now));
            context.output.list(rows)?;
            Ok(Exit::Ok)
        }
    }
}

async fn new(
    ops: &OpenStore,
    target: &PlanTarget,
    reason: Option<String>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let selections = target.selections();
    let selection = target.selection.to_json().to_string();
    let plan = NewPlan { action: target.action, selection, by: operator(reason) };
    let id = freeze_plan(&**ops.store(), &plan, &selections, &|_| None).await;
    let id = id.map_err(|error| ops.store_error(error))?;
    let shown = show(ops, id, context).await?;
    context
        .output
        .note(&format!("nothing was changed; `redrive plan apply {id}` applies the plan"));
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

async fn order(
    ops: &OpenStore,
    id: PlanId,
    order: &PlanOrder,
    reason: Option<String>,
) -> Result<(), CommandError> {
    let change = ops.store().change_plan(id, order, &operator(reason)).await;
    match change.map_err(|error| ops.store_error(error))? {
        PlanChange::Done(_) => Ok(()),
        PlanChange::Refused(status) => {
            let refused = format!("plan {id} is {status}; nothing was changed");
            Err(CommandError::new(Exit::Refused, refused))
        }
        PlanChange::NotFrozen => {
            let refused = format!("the list of plan {id} is not complete; nothing was changed");
            Err(CommandError::new(Exit::Refused, refused)
                .help("make a new plan: `redrive plan new`"))
        }
        PlanChange::Unknown => Err(unknown(ops, id)),
    }
}

fn unknown(ops: &OpenStore, id: PlanId) -> CommandError {
    let message = format!("there is no plan {id} in {}", ops.chosen.url);
    CommandError::new(Exit::Error, message).help("`redrive plan list` shows all plans")
}

/// Executes the plan, unless another process does, until it has ended or is paused.
async fn wait(ops: &OpenStore, id: PlanId, context: &Context) -> Result<Exit, CommandError> {
    let executor = plan_executor(ops.store().clone(), new_worker_id()?, ops.config.as_ref());
    let mut signals = Signals::new()?;
    let runs = |plan: &PlanRecord| plan.status == PlanStatus::Running || plan.undo_unit.is_some();
    let execute = async {
        loop {
            if let Some(plan) = executor.run_plan(id, |_| {}).await? {
                return Ok(Some(plan));
            }
            let plan = ops.store().plans_by_id(&[id]).await?.pop();
            if !plan.as_ref().is_some_and(runs) {
                return Ok(plan);
            }
            tokio::time::sleep(WATCH).await;
        }
    };
    let ended = tokio::select! {
        ended = execute => ended.map_err(|error| ops.store_error(error))?,
        exit = signals.next() => return Ok(exit),
    };
    let exit = show(ops, id, context).await?;
    let aborted = ended.is_some_and(|plan| plan.status == PlanStatus::Aborted);
    Ok(if aborted { Exit::Partial } else { exit })
}

async fn find(ops: &OpenStore, id: PlanId) -> Result<PlanRecord, CommandError> {
    let found = ops.store().plans_by_id(&[id]).await.map_err(|error| ops.store_error(error))?;
    found.into_iter().next().ok_or_else(|| unknown(ops, id))
}

async fn show(ops: &OpenStore, id: PlanId, context: &Context) -> Result<Exit, CommandError> {
    let (store, plan) = (ops.store(), find(ops, id).await?);
    let units = store.plan_unit_counts(id).await.map_err(|error| ops.store_error(error))?;
    let view = PlanView::new(&plan, units, store.now());
    if !context.output.is_table() {
        context.output.object(&view)?;
        return Ok(Exit::Ok);
    }
    context.output.records(std::slice::from_ref(&view))?;
    if let Some(why) = &view.stop_reason {
        context.output.footer(why)?;
    }
    context.output.section("UNITS", &view.units.into_iter().map(UnitsRow).collect::<Vec<_>>())?;
    Ok(Exit::Ok)
}

impl TableRow for PlanView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("plan"),
        TableColumn::text("status"),
        TableColumn::text("action"),
        TableColumn::number("units"),
        TableColumn::number("changed"),
        TableColumn::number("skipped"),
        TableColumn::number("pending"),
        TableColumn::number("recovered"),
        TableColumn::number("same cause"),
        TableColumn::number("other cause"),
        TableColumn::number("undone"),
        TableColumn::text("settings"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.id.to_string(),
            self.status.to_string(),
            self.action.to_owned(),
            self.total.to_string(),
            self.changed.to_string(),
            self.skipped.to_string(),
            self.pending.to_string(),
            self.recovered.to_string(),
            self.same_cause.to_string(),
            self.other_cause.to_string(),
            self.undone.to_string(),
            self.settings.clone(),
        ]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct UnitsRow(PlanUnitsView);

impl TableRow for UnitsRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("units"),
        TableColumn::text("state"),
        TableColumn::text("cause"),
        TableColumn::text("outcome"),
        TableColumn::text("new cause"),
        TableColumn::text("not changed because"),
    ];

    fn cells(&self) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.0.units.to_string(),
            self.0.state.clone(),
            text(&self.0.cause),
            self.0.outcome.map_or(String::new(), |outcome| outcome.name().replace('_', " ")),
            text(&self.0.new_cause),
            excerpt(&text(&self.0.refusal)),
        ]
    }
}

/// A unit of a plan.
#[derive(Debug, Serialize)]
struct PlanUnitRow {
    kind: &'static str,
    id: i64,
    /// When the list was frozen.
    state: String,
    cause: Option<String>,
    outcome: Option<PlanOutcome>,
    new_cause: Option<String>,
    /// Why it is not changed.
    reason: Option<String>,
}

impl PlanUnitRow {
    fn new(plan: &PlanRecord, unit: PlanUnitRecord) -> Self {
        let PlanUnitRecord { unit_id, state, cause, outcome, new_cause, reason, refusal, .. } =
            unit;
        let reason = reason.or(refusal);
        let kind = plan.action.kind().name();
        Self { kind, id: unit_id, state, cause, outcome, new_cause, reason }
    }
}

impl TableRow for PlanUnitRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("kind"),
        TableColumn::key("id"),
        TableColumn::text("state"),
        TableColumn::text("cause"),
        TableColumn::text("outcome"),
        TableColumn::text("new cause"),
        TableColumn::text("not changed because"),
    ];

    fn cells(&self) -> Vec<String> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            self.kind.to_owned(),
            self.id.to_string(),
            self.state.clone(),
            text(&self.cause),
            self.outcome.map_or(String::new(), |outcome| outcome.name().replace('_', " ")),
            text(&self.new_cause),
            excerpt(&text(&self.reason)),
        ]
    }
}

fn outcome(name: &str) -> Result<PlanOutcome, String> {
    PlanOutcome::from_name(&name.replace('-', "_")).ok_or_else(|| {
        let names = PlanOutcome::ALL.map(|outcome| outcome.name().replace('_', "-"));
        format!("the outcomes are {}", names.join(", "))
    })
}
