//! Actions on many units: on those that a request names, and by a plan on all that match.

use std::{collections::HashMap, time::Duration};

use axum::http::StatusCode;
use redrive_core::{PlanId, PlanSettings, PlanStatus};
use redrive_engine::PlanRun;
use redrive_ops::{BulkAction, BulkSurvey, ChangeResult, OutcomeCounts, UnitChange};
use redrive_store::{PlanOrder, PlanRecord};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::plans::{invalid_settings, order};
use crate::{app::App, problem::ProblemDetails};

/// The most units that an answer lists one by one.
const MAX_LISTED: usize = 1_000;

/// Different reasons that are counted.
const MAX_REFUSALS: usize = 20;

/// How long a request waits for its plan. The plan goes on afterwards.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// How often a plan that another process executes is read: at first, and at last.
const WATCH: Duration = Duration::from_millis(50);
const MAX_WATCH: Duration = Duration::from_secs(1);

/// The outcome of an action, or the expected outcome of a dry run.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BulkOutcome {
    /// True when nothing was changed.
    dry_run: bool,
    /// The plan that changes all that match; null for `ids`, for a dry run, and if nothing would change.
    #[cfg_attr(test, schema(value_type = Option<i64>))]
    pub(crate) plan: Option<PlanId>,
    /// Whether the plan is not done yet: it goes on in the background, or is kept as a draft.
    pub(crate) is_open: bool,
    /// Whether it is a draft.
    #[serde(skip)]
    is_draft: bool,
    /// Units, changed or not.
    pub(crate) count: u64,
    /// Units that the plan has not come to: of a draft, all that it would change.
    pub(crate) left: u64,
    /// Units that were changed; of a dry run, those that would be.
    pub(crate) done: u64,
    /// Units that are as requested without a change.
    already: u64,
    pub(crate) refused: u64,
    /// Refused units that an option of the action allows.
    #[serde(skip)]
    pub(crate) overridable: u64,
    /// Refused units by the reason, of the most frequent reasons first; only of what would be done.
    #[serde(skip)]
    pub(crate) refusals: Vec<(String, u64)>,
    /// The outcome of each unit, up to 1000; the units of the plan have all. Without those that a plan that was applied
    /// has not come to.
    pub(crate) changes: Vec<UnitChange>,
}

/// What to do with what matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum BulkMode {
    DryRun,
    /// Keep the plan as a draft.
    Keep,
    Apply,
}

impl BulkOutcome {
    pub(crate) fn new(dry_run: bool, changes: Vec<UnitChange>) -> Self {
        let mut outcome = Self { dry_run, ..Self::default() };
        let (mut counts, mut refusals) = (OutcomeCounts::default(), Refusals::default());
        changes.iter().for_each(|change| counts.add(change));
        refusals.add(&changes);
        outcome.count(counts);
        outcome.refusals = refusals.by_number();
        outcome.changes = changes;
        outcome.changes.truncate(MAX_LISTED);
        outcome
    }

    fn count(&mut self, counts: OutcomeCounts) {
        let OutcomeCounts { done, already, overridable, refused } = counts;
        (self.count, self.done, self.already) = (counts.total() + self.left, done, already);
        (self.refused, self.overridable) = (overridable + refused, overridable);
    }

    /// In words, with the names of the outcomes.
    pub(crate) fn summary(&self) -> String {
        let done = if self.dry_run { "would be done" } else { "done" };
        let counts = [
            (self.done, done),
            (self.left, "to go"),
            (self.already, "already"),
            (self.refused, "refused"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let words: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
        format!("{}.", words.join(", "))
    }

    /// The status of the answer: 201 for a draft, 202 while a plan goes on in the background.
    pub(crate) fn status(&self) -> StatusCode {
        match (self.is_open, self.is_draft) {
            (true, true) => StatusCode::CREATED,
            (true, false) => StatusCode::ACCEPTED,
            (false, _) => StatusCode::OK,
        }
    }
}

/// Refused units by the reason.
#[derive(Default)]
struct Refusals(HashMap<String, u64>);

impl Refusals {
    fn add(&mut self, changes: &[UnitChange]) {
        let refused = |change: &&UnitChange| {
            matches!(change.outcome, ChangeResult::Refused | ChangeResult::Unknown)
        };
        for why in changes.iter().filter(refused).filter_map(|change| change.why.as_deref()) {
            if self.0.contains_key(why) || self.0.len() < MAX_REFUSALS {
                *self.0.entry(why.to_owned()).or_default() += 1;
            }
        }
    }

    fn by_number(self) -> Vec<(String, u64)> {
        let mut refusals: Vec<_> = self.0.into_iter().collect();
        refusals.sort_by(|(why, units), (other, more)| more.cmp(units).then(why.cmp(other)));
        refusals
    }
}

pub(crate) fn nothing_matches() -> ProblemDetails {
    let what = "no unit matches; nothing was changed";
    ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what)
}

/// Does an action to all that match. A unit that changes meanwhile is left alone and listed.
pub(crate) async fn act_on_all(
    app: &App,
    bulk: &BulkAction<'_>,
    mode: BulkMode,
) -> Result<BulkOutcome, ProblemDetails> {
    let (plan, survey) = match mode {
        BulkMode::DryRun => (None, None),
        BulkMode::Keep | BulkMode::Apply => {
            let frozen = app.ops.freeze_bulk(bulk).await?;
            let (plan, survey) = frozen.map_err(|invalid| invalid_settings(&invalid))?;
            (plan, Some(survey))
        }
    };
    let (Some(id), Some(survey)) = (plan, survey) else {
        return preview(app, bulk, mode == BulkMode::DryRun).await;
    };
    let plan = match mode {
        BulkMode::Apply => {
            order(app, id, &PlanOrder::Apply(bulk.settings), bulk.by).await?;
            // A plan with a canary or a pace takes its time: the executor of the process does it.
            match bulk.settings == PlanSettings::default() {
                true => run(app, id).await?,
                false => app.ops.store().plans_by_id(&[id]).await?.pop(),
            }
        }
        BulkMode::DryRun | BulkMode::Keep => app.ops.store().plans_by_id(&[id]).await?.pop(),
    };
    let plan = plan.ok_or_else(nothing_matches)?;
    let BulkSurvey { mut counts, already, .. } = survey;
    let is_draft = mode == BulkMode::Keep;
    let left = if is_draft { counts.done } else { plan.counts.rest() };
    counts.done = plan.counts.changed;
    if !is_draft {
        counts.overridable = counts.overridable.min(plan.counts.skipped);
        counts.refused = plan.counts.skipped - counts.overridable;
    }
    let limit = MAX_LISTED as u32;
    let listed = app.ops.plan_changes(&plan, None, 0, limit).await?;
    let listed = listed.into_iter().filter(|unit| is_draft || unit.record.outcome.is_some());
    let mut changes: Vec<UnitChange> = listed.map(|unit| unit.change).collect();
    changes.extend(already);
    changes.truncate(MAX_LISTED);
    let is_draft = plan.status == PlanStatus::Draft;
    let is_open = is_draft || plan.status == PlanStatus::Running;
    let plan = Some(id);
    let mut outcome =
        BulkOutcome { plan, is_open, is_draft, left, changes, ..BulkOutcome::default() };
    outcome.count(counts);
    Ok(outcome)
}

async fn preview(
    app: &App,
    bulk: &BulkAction<'_>,
    dry_run: bool,
) -> Result<BulkOutcome, ProblemDetails> {
    let (mut changes, mut refusals) = (Vec::new(), Refusals::default());
    let mut report = |batch: Vec<UnitChange>| {
        refusals.add(&batch);
        changes.extend(batch.into_iter().take(MAX_LISTED - changes.len().min(MAX_LISTED)));
    };
    let survey = app.ops.preview_bulk(bulk, &mut report).await?;
    let refusals = refusals.by_number();
    let mut outcome = BulkOutcome { dry_run, changes, refusals, ..BulkOutcome::default() };
    outcome.count(survey.counts);
    if outcome.count == 0 { Err(nothing_matches()) } else { Ok(outcome) }
}

/// Executes a plan, and waits for its end for a while.
async fn run(app: &App, id: PlanId) -> Result<Option<PlanRecord>, ProblemDetails> {
    let (executor, store) = (app.plans.clone(), app.ops.store());
    let task = tokio::spawn(async move { executor.run_plan(id, true, |_| {}).await });
    let ended = async {
        match task.await {
            Ok(Ok(PlanRun::Ended(plan))) => return Some(*plan),
            Ok(Ok(PlanRun::Elsewhere | PlanRun::Undeclared(_))) => {}
            Ok(Err(error)) => {
                let (plan, error) = (id.0, &error as &dyn std::error::Error);
                tracing::warn!(plan, error, "cannot execute the plan; the next executor goes on");
                return None;
            }
            Err(_) => return None,
        }
        let mut pause = WATCH;
        loop {
            let plan = store.plans_by_id(&[id]).await.ok()?.pop()?;
            if plan.status != PlanStatus::Running {
                return Some(plan);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_WATCH);
        }
    };
    match tokio::time::timeout(MAX_WAIT, ended).await {
        Ok(Some(plan)) => Ok(Some(plan)),
        // The plan was applied, so it goes on here or elsewhere.
        Ok(None) | Err(_) => Ok(app.ops.store().plans_by_id(&[id]).await?.pop()),
    }
}

/// Identifies the data that a form shows, so that it cannot overwrite a newer edit.
pub(crate) fn data_token(data: &str) -> String {
    let digest = Sha256::new_with_prefix("edit").chain_update(data).finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
