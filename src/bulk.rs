//! Actions on all units that match: previewed, kept as a plan, or done by a plan at once.

use redrive::{PlanId, PlanSettings, PlanStatus};
use redrive_ops::{ActionDeclaration, BulkAction, Changeable, UnitChange};
use redrive_store::{MAX_PAGE, PlanAction, PlanOrder, Selection};

use crate::{
    commands::plan::show_draft,
    confirm::confirm,
    context::Context,
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    plan_execution::{Waited, invalid_settings, order, wait},
    resource::{ChangeFlags, ChangeListing},
};

/// Does an action by a plan, or keeps the plan as a draft. Returns the plan that was applied.
pub(crate) async fn act_on_all<R: Changeable>(
    ops: &OpenStore,
    declared: &ActionDeclaration<R>,
    action: PlanAction,
    selection: &Selection,
    (keep, how): (bool, ChangeFlags),
    context: &Context,
) -> Result<(Exit, Option<PlanId>), CommandError> {
    let failed = |error| ops.store_error(error);
    let by = operator(how.reason.clone());
    let settings = PlanSettings::default();
    let bulk = BulkAction { action, selection, settings, by: &by };
    let (id, survey) = match how.dry_run {
        true => (None, None),
        false => {
            let frozen = ops.freeze_bulk(&bulk).await.map_err(failed)?;
            let (id, survey) = frozen.map_err(|invalid| invalid_settings(&invalid))?;
            (id, Some(survey))
        }
    };
    let (Some(id), Some(survey)) = (id, survey) else {
        return Ok((preview(ops, declared, &bulk, how.dry_run, context).await?, None));
    };
    if keep {
        return Ok((show_draft(ops, id, context).await?, None));
    }
    // Asked about the list itself, so that no other unit is changed than was confirmed.
    let count = survey.counts.done;
    if !how.yes && count > declared.confirm_above as u64 {
        let (plural, url) = (if count == 1 { "" } else { "s" }, &ops.chosen.url);
        let (command, action, noun) = (R::COMMAND, declared.name, R::NOUN);
        let question = format!("{command} {action}: change {count} {noun}{plural} in {url}?");
        if let Err(refused) = confirm(&question, false) {
            let by = operator(Some("not confirmed".to_owned()));
            while ops.store().discard_plan(id, MAX_PAGE, &by).await.map_err(failed)? {}
            return Err(refused);
        }
    }
    order(ops, id, &PlanOrder::Apply(settings), how.reason).await?;
    let plan = match wait(ops, id, true, context).await? {
        Waited::Until(plan) => plan,
        Waited::Interrupted(exit) => return Ok((exit, Some(id))),
    };
    let mut listing = ChangeListing::new(false, context);
    let mut after = 0;
    loop {
        let page = ops.plan_changes(&plan, None, after, MAX_PAGE).await.map_err(failed)?;
        let Some(last) = page.last() else { break };
        after = last.id;
        let reached = page.into_iter().filter(|unit| unit.record.outcome.is_some());
        listing.add(reached.map(|unit| unit.change).collect())?;
    }
    listing.add(survey.already)?;
    note_omitted::<R>(survey.omits_already, context);
    let exit = listing.end(survey.counts.overridable)?;
    let left = plan.counts.rest();
    if left > 0 {
        let plural = if left == 1 { "" } else { "s" };
        context.output.note(&format!(
            "{left} {}{plural} left unchanged: plan {id} is {}",
            R::NOUN,
            plan.status
        ));
    }
    let next = match action.can_be_undone() {
        true => format!("`redrive plan undo {id}` returns what has not started"),
        false => format!("`redrive plan show {id}` shows it"),
    };
    context.output.footer(&format!("plan {id} did this; {next}"))?;
    let exit = if plan.status == PlanStatus::Done { exit } else { Exit::Partial };
    Ok((exit, Some(id)))
}

/// Lists what would be done, or why nothing is.
async fn preview<R: Changeable>(
    ops: &OpenStore,
    declared: &ActionDeclaration<R>,
    bulk: &BulkAction<'_>,
    dry_run: bool,
    context: &Context,
) -> Result<Exit, CommandError> {
    let failed = |error| ops.store_error(error);
    let mut listing = ChangeListing::new(dry_run, context);
    let mut printed = Ok(());
    let mut report = |batch: Vec<UnitChange>| {
        if printed.is_ok() {
            printed = listing.add(batch);
        }
    };
    let survey = ops.preview_bulk(bulk, &mut report).await.map_err(failed)?;
    printed?;
    if survey.counts.total() == 0 {
        // `dlq` is about samples that are dead letters.
        let noun = if R::COMMAND == "dlq" { "dead letter" } else { R::NOUN };
        let message = format!("no {noun} matches; nothing was changed");
        let error = CommandError::new(Exit::Refused, message);
        let waiting = ops.waiting_matches(declared, bulk.selection).await.map_err(failed)?;
        return Err(match waiting {
            Some(waiting) => error.help(format!("{waiting}; `--state waiting` takes them")),
            None => error,
        });
    }
    note_omitted::<R>(survey.omits_already, context);
    listing.end(survey.counts.overridable)
}

fn note_omitted<R: Changeable>(omits: bool, context: &Context) {
    if omits {
        context.output.note(&format!("further {}s need no change and are not shown", R::NOUN));
    }
}
