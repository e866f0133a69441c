//! Executes a plan in this process, unless another one does, and shows its progress.

use std::{convert::Infallible, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive::{InvalidPlanSettings, PlanId, PlanStatus, jiff::Timestamp};
use redrive_engine::PlanRun;
use redrive_ops::{OrderRefusal, views::PlanView};
use redrive_store::{PlanOrder, PlanRecord, UnitKind, WorkerId};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::Output,
    screen,
    signals::Signals,
    worker_set::{new_worker_id, plan_executor},
};

/// How often the progress of a plan that another process executes is read.
const WATCH: Duration = Duration::from_millis(500);

/// How often to look for a process that goes on with a plan. Executors look for plans once a second.
const MAX_LOOKS: u32 = 5;

/// Without a terminal, a line is printed this often.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// A plan that takes longer says what its pending units wait for.
const HINT_AFTER: Duration = Duration::from_secs(3);

/// How waiting for a plan ended.
pub(crate) enum Waited {
    /// It has ended, or is paused.
    Until(Box<PlanRecord>),
    Interrupted(Exit),
}

/// Gives an order to a plan.
pub(crate) async fn order(
    ops: &OpenStore,
    id: PlanId,
    order: &PlanOrder,
    reason: Option<String>,
) -> Result<(), CommandError> {
    let ordered = ops.order_plan(id, order, &operator(reason)).await;
    ordered.map_err(|error| ops.store_error(error))?.map_err(|refusal| match refusal {
        OrderRefusal::Unknown => unknown(ops, id),
        OrderRefusal::Invalid(invalid) => invalid_settings(&invalid),
        OrderRefusal::Refused { why, next } => CommandError::new(Exit::Refused, why).help(next),
    })
}

pub(crate) fn invalid_settings(invalid: &InvalidPlanSettings) -> CommandError {
    CommandError::usage(invalid).help("nothing was changed")
}

pub(crate) async fn find(ops: &OpenStore, id: PlanId) -> Result<PlanRecord, CommandError> {
    let found = ops.store().plans_by_id(&[id]).await.map_err(|error| ops.store_error(error))?;
    found.into_iter().next().ok_or_else(|| unknown(ops, id))
}

fn unknown(ops: &OpenStore, id: PlanId) -> CommandError {
    let message = format!("there is no plan {id} in {}", ops.chosen.url);
    CommandError::new(Exit::Error, message).help("`redrive plan list` shows all plans")
}

/// Waits until a plan has ended or is paused, and executes it meanwhile. `is_own` says that this command made its list.
pub(crate) async fn wait(
    ops: &OpenStore,
    id: PlanId,
    is_own: bool,
    context: &Context,
) -> Result<Waited, CommandError> {
    let owner = new_worker_id()?;
    let executor = plan_executor(ops.partitions().clone(), owner.clone(), ops.config.as_ref());
    let mut signals = Signals::new()?;
    let mut display = PlanDisplay::new(ops.now(), context);
    let execute = async {
        let mut warned = false;
        loop {
            let report = |plan: &PlanRecord| display.show(plan, ops);
            match executor.run_plan(id, is_own, report).await? {
                PlanRun::Ended(plan) => return Ok(Some(*plan)),
                PlanRun::Undeclared(source) if !std::mem::replace(&mut warned, true) => {
                    context.output.warning(&format!(
                        "the configuration does not declare source {source}, so its partitions cannot be checked here; plan \
                         {id} waits for a worker, `serve` or `up` whose configuration declares the source"
                    ));
                }
                PlanRun::Elsewhere | PlanRun::Undeclared(_) => {}
            }
            let plan = ops.store().plans_by_id(&[id]).await?.pop();
            match plan {
                Some(plan) if is_executed(&plan) => display.show(&plan, ops),
                ended => return Ok(ended),
            }
            tokio::time::sleep(WATCH).await;
        }
    };
    let hints = async {
        loop {
            tokio::time::sleep(HINT_AFTER).await;
            let plan = ops.store().plans_by_id(&[id]).await.ok().and_then(|mut found| found.pop());
            let Some(plan) = plan else { continue };
            let mut hints = ops.plan_waits(&plan).await.unwrap_or_default();
            if hints.is_empty() && plan.status == PlanStatus::Running && waits_for_canary(&plan) {
                let who = match plan.action.kind() {
                    UnitKind::Item => "`redrive uploads run` must send them",
                    _ => "`redrive worker` or `redrive up` must be running to try them",
                };
                hints.push(format!("no unit of the canary has ended yet; {who}"));
            }
            hints.iter().for_each(|hint| context.output.note(hint));
            if !hints.is_empty() {
                return std::future::pending::<Infallible>().await;
            }
        }
    };
    let ended = tokio::select! {
        never = hints => match never {},
        ended = execute => ended.map_err(|error| ops.store_error(error)),
        exit = signals.next() => {
            display.end();
            let handed = tokio::select! {
                handed = hand_over(ops, id, &owner, context) => handed,
                _ = signals.next() => Ok(()),
            };
            return handed.map(|()| Waited::Interrupted(exit));
        }
    };
    display.end();
    let ended = ended?.ok_or_else(|| unknown(ops, id))?;
    Ok(Waited::Until(Box::new(ended)))
}

/// Whether the units of the canary were changed, and none has ended.
fn waits_for_canary(plan: &PlanRecord) -> bool {
    let counts = &plan.counts;
    plan.settings.canary().is_some() && counts.changed > 0 && counts.pending == counts.changed
}

fn is_executed(plan: &PlanRecord) -> bool {
    plan.status == PlanStatus::Running || plan.undo_unit.is_some()
}

/// Leaves a plan to other processes, and says which goes on with it.
async fn hand_over(
    ops: &OpenStore,
    id: PlanId,
    owner: &WorkerId,
    context: &Context,
) -> Result<(), CommandError> {
    let plan = find(ops, id).await?;
    if plan.lease_owner.as_ref() == Some(owner) {
        // If this fails, the lease ends by itself.
        let _ = ops.store().release_plan(plan.lease()).await;
    }
    note_executor(ops, id, context).await
}

/// Says which process goes on with a running plan.
pub(crate) async fn note_executor(
    ops: &OpenStore,
    id: PlanId,
    context: &Context,
) -> Result<(), CommandError> {
    for _ in 0..MAX_LOOKS {
        let plan = find(ops, id).await?;
        if !is_executed(&plan) {
            context.output.note(&format!("plan {id} is {}", plan.status));
            return Ok(());
        }
        let now = ops.store().now();
        let held = plan.lease_owner.filter(|_| plan.lease_until.is_some_and(|until| until > now));
        if let Some(worker) = held {
            let worker = worker.0;
            context.output.note(&format!(
                "{worker} goes on with plan {id}; `redrive plan pause {id}` stops it"
            ));
            return Ok(());
        }
        tokio::time::sleep(WATCH).await;
    }
    context.output.note(&format!(
        "no process executes plan {id}: `redrive plan resume {id}` goes on with it, and so does the next worker, \
         `serve` or `up`"
    ));
    Ok(())
}

/// A line on a terminal; otherwise a note now and then.
struct PlanDisplay {
    output: Output,
    bar: Option<ProgressBar>,
    /// When a line was printed last, and which.
    last: Timestamp,
    line: String,
}

impl PlanDisplay {
    fn new(now: Timestamp, context: &Context) -> Self {
        let output = context.output;
        let bar = output.shows_bars().then(|| {
            let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
            let bar = bars.add(ProgressBar::new(0));
            // The template is constant. If it were invalid, the default style would do.
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
                bar.set_style(style);
            }
            screen::show(&bars);
            bar
        });
        Self { output, bar, last: now, line: String::new() }
    }

    fn show(&mut self, plan: &PlanRecord, ops: &OpenStore) {
        if let Some(bar) = &self.bar {
            bar.set_length(plan.counts.total);
            bar.set_position(plan.counts.changed + plan.counts.skipped);
            bar.set_message(line(plan, ops));
        } else if ops.now().duration_since(self.last).unsigned_abs() >= LINE_EVERY {
            self.last = ops.now();
            let line = line(plan, ops);
            if line != self.line {
                self.output.note(&line);
                self.line = line;
            }
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            screen::clear();
        }
    }
}

fn line(plan: &PlanRecord, ops: &OpenStore) -> String {
    let view = PlanView::new(plan, Vec::new(), ops.store().now());
    let PlanView { id, changed, undone, .. } = view;
    if plan.undo_unit.is_some() {
        return format!("plan {id}: {undone} of {changed} returned");
    }
    format!("plan {id}: {}", view.progress())
}
