//! `/v1/plans`: bulk actions that are previewed, paced, watched and undone.

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_core::{AbortShare, HumanDuration, InvalidPlanSettings, PlanId, PlanSettings, Rate};
use redrive_ops::{
    ActionOptions, Changeable, OrderRefusal, plan_action,
    views::{PartitionView, PlanUnitView, PlanView, SampleView},
};
use redrive_store::{ItemRecord, Operator, PlanOrder, PlanOutcome, PlanRecord, RunRecord};
use serde::Deserialize;
use serde_json::Value;

use super::{
    bulk::BulkOutcome,
    page::{ListPage, PageBuilder, named},
    resource::{PlanAddress, change, plan_address},
};
use crate::{
    app::{App, AppState},
    extract::{Json, OptionalJson, PathParams, QueryParams},
    guard::Caller,
    params::{Params, of_action, of_json},
    problem::ProblemDetails,
};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanListQuery {
    /// Rows of the page.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

/// Lists plans, the newest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/plans", tag = "plans", params(PlanListQuery),
    responses((status = 200, body = ListPage<PlanView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<PlanListQuery>,
) -> Result<Answer<ListPage<PlanView>>, ProblemDetails> {
    let mut page = PageBuilder::new(query.limit, query.after)?;
    let (store, now) = (app.ops.store(), app.ops.store().now());
    while let Some((after, rows)) = page.next_read() {
        let found = store.plans_page(PlanId(after.unwrap_or(i64::MAX)), rows).await?;
        let has_more = found.len() >= rows as usize;
        page.add(found, has_more, |plan| plan.id.0, |plan| PlanView::new(&plan, Vec::new(), now));
    }
    Ok(Answer(page.page()))
}

/// Returns a plan, with its units counted by state, cause and outcome.
#[cfg_attr(test, utoipa::path(get, path = "/v1/plans/{id}", tag = "plans", params(("id" = i64, Path)),
    responses((status = 200, body = PlanView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(id): PathParams<i64>,
) -> Result<Answer<PlanView>, ProblemDetails> {
    view(&app, PlanId(id)).await.map(Answer)
}

pub(crate) async fn find(app: &App, id: PlanId) -> Result<PlanRecord, ProblemDetails> {
    let found = app.ops.store().plans_by_id(&[id]).await?.pop();
    found.ok_or_else(|| ProblemDetails::not_found(format!("there is no plan {id}")))
}

pub(crate) async fn view(app: &App, id: PlanId) -> Result<PlanView, ProblemDetails> {
    Ok(app.ops.plan_view(&find(app, id).await?).await?)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanUnitsQuery {
    /// Only this outcome: `skipped`, `applied`, `pending`, `recovered`, `same_cause`, `other_cause`, `superseded` or `undone`.
    outcome: Option<String>,
    /// Rows of the page.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<i64>,
}

/// Lists the units of a plan, with what became of each.
#[cfg_attr(test, utoipa::path(get, path = "/v1/plans/{id}/units", tag = "plans", params(("id" = i64, Path), PlanUnitsQuery),
    responses((status = 200, body = ListPage<PlanUnitView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn units(
    app: AppState,
    PathParams(id): PathParams<i64>,
    QueryParams(query): QueryParams<PlanUnitsQuery>,
) -> Result<Answer<ListPage<PlanUnitView>>, ProblemDetails> {
    let plan = find(&app, PlanId(id)).await?;
    let outcome = outcome(query.outcome.as_deref())?;
    let mut page = PageBuilder::new(query.limit, query.after)?;
    while let Some((after, rows)) = page.next_read() {
        let found = app.ops.plan_changes(&plan, outcome, after.unwrap_or(0), rows).await?;
        let has_more = found.len() >= rows as usize;
        page.add(found, has_more, |unit| unit.id, PlanUnitView::from);
    }
    Ok(Answer(page.page()))
}

pub(crate) fn outcome(name: Option<&str>) -> Result<Option<PlanOutcome>, ProblemDetails> {
    named("outcome", name, PlanOutcome::from_name, &PlanOutcome::ALL.map(PlanOutcome::name))
}

/// Selects units for a plan. The other fields are those of the action: terms, `state`, options and `reason`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[expect(dead_code, reason = "describes the body")]
pub(crate) struct NewPlanRequest {
    /// `run`, `partition`, `item` or `sample`.
    kind: String,
    /// An action of the kind, such as `retry`.
    action: String,
    /// Select all, if there is no other term.
    all: Option<bool>,
    /// The reason, for the journal.
    reason: Option<String>,
    /// Terms of the selection and options of the action.
    #[serde(flatten)]
    #[cfg_attr(test, schema(additional_properties))]
    others: std::collections::HashMap<String, Value>,
}

/// Makes a plan over all units that match, as a draft; nothing changes.
#[cfg_attr(test, utoipa::path(post, path = "/v1/plans", tag = "plans", request_body = NewPlanRequest,
    responses((status = 201, body = BulkOutcome), (status = 400, body = ProblemDetails), (status = 422, body = ProblemDetails))))]
pub(crate) async fn new(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(body): Json<Value>,
) -> Result<(StatusCode, PlanAddress, Answer<BulkOutcome>), ProblemDetails> {
    let mut pairs = of_json(body)?;
    let mut take = |name: &str| {
        let at = pairs.iter().position(|(field, _)| field == name);
        let missing = || ProblemDetails::bad_request(format!("`{name}` is required"));
        at.map(|at| pairs.remove(at).1).ok_or_else(missing)
    };
    let (kind, action) = (take("kind")?, take("action")?);
    pairs.push(("keep".to_owned(), "true".to_owned()));
    macro_rules! plan {
        ($resource:ty, $path:literal) => {{
            let params = Params::<$resource>::read(&pairs, &of_plan::<$resource>(&action)?)?;
            change(&app, &caller, $path, &action, params).await?
        }};
    }
    let outcome = match kind.as_str() {
        "run" => plan!(RunRecord, "/v1/runs"),
        "partition" => plan!(PartitionView, "/v1/partitions"),
        "item" => plan!(ItemRecord, "/v1/items"),
        "sample" => plan!(SampleView, "/v1/dead-letters"),
        _ => {
            let what = format!("kind: invalid value {kind:?}");
            return Err(ProblemDetails::bad_request(what).allowed("run, partition, item, sample"));
        }
    };
    if outcome.plan.is_none() {
        let what = "the plan would change nothing; there is no plan";
        return Err(ProblemDetails::new(StatusCode::UNPROCESSABLE_ENTITY, what));
    }
    Ok((StatusCode::CREATED, plan_address(&outcome), Answer(outcome)))
}

/// The parameters of a new plan besides its selection.
fn of_plan<R: Changeable>(action: &str) -> Result<Vec<&'static str>, ProblemDetails> {
    let by_plan = |name: &str| plan_action::<R>(name, &ActionOptions::default()).is_some();
    if !by_plan(action) {
        let known = R::actions().map(|action| action.name).filter(|name| by_plan(name));
        let what = format!("action: invalid value {action:?}");
        let known: Vec<&str> = known.collect();
        return Err(ProblemDetails::bad_request(what).allowed(known.join(", ")));
    }
    let own = of_action::<R>(action).into_iter().filter(|name| !matches!(*name, "ids" | "dry_run"));
    Ok(["kind", "action"].into_iter().chain(own).collect())
}

/// How a plan is applied.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanApplyRequest {
    /// Units to change first. They must end before the others are changed.
    pub(crate) canary: Option<u64>,
    /// Units in a second, minute, hour or day, such as `50/s`.
    pub(crate) pace: Option<String>,
    /// The time from slow to the full pace, such as `10m`.
    pub(crate) ramp: Option<String>,
    /// Abort if this share of the units fails again, such as `20%`; 20% with a canary if not given.
    pub(crate) abort_if: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

impl PlanApplyRequest {
    pub(crate) fn settings(&self) -> Result<PlanSettings, ProblemDetails> {
        self.settings_over(&PlanSettings::default())
    }

    /// The given settings, and the others of a draft.
    fn settings_over(&self, draft: &PlanSettings) -> Result<PlanSettings, ProblemDetails> {
        let invalid =
            |name: &str, problem: String| ProblemDetails::bad_request(format!("{name}: {problem}"));
        let pace: Option<Rate> = parsed(self.pace.as_deref()).map_err(|it| invalid("pace", it))?;
        let ramp: Option<HumanDuration> =
            parsed(self.ramp.as_deref()).map_err(|it| invalid("ramp", it))?;
        let share: Option<AbortShare> =
            parsed(self.abort_if.as_deref()).map_err(|it| invalid("abort_if", it))?;
        let settings = draft.with(self.canary, pace, ramp.map(Into::into), share);
        settings.map_err(|invalid| invalid_settings(&invalid))
    }
}

pub(super) fn invalid_settings(invalid: &InvalidPlanSettings) -> ProblemDetails {
    ProblemDetails::bad_request(format!("{invalid}; nothing was changed"))
}

fn parsed<T: std::str::FromStr<Err: ToString>>(text: Option<&str>) -> Result<Option<T>, String> {
    text.map(str::parse).transpose().map_err(|error: T::Err| error.to_string())
}

/// Applies a draft. Workers and this server execute it. The settings that are given replace those of the draft.
#[cfg_attr(test, utoipa::path(post, path = "/v1/plans/{id}/apply", tag = "plans", params(("id" = i64, Path)), request_body = PlanApplyRequest,
    responses((status = 200, body = PlanView), (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails),
              (status = 409, body = ProblemDetails))))]
pub(crate) async fn apply(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    OptionalJson(request): OptionalJson<PlanApplyRequest>,
) -> Result<Answer<PlanView>, ProblemDetails> {
    let draft = find(&app, PlanId(id)).await?;
    let apply = PlanOrder::Apply(request.settings_over(&draft.settings)?);
    order(&app, PlanId(id), &apply, &app.operator(&caller, request.reason.as_deref())).await?;
    view(&app, PlanId(id)).await.map(Answer)
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanOrderRequest {
    /// The reason, for the journal.
    reason: Option<String>,
}

macro_rules! orders {
    ($($(#[$about:meta])* $name:ident $path:literal => $order:expr;)*) => {$(
        $(#[$about])*
        #[cfg_attr(test, utoipa::path(post, path = $path, tag = "plans", params(("id" = i64, Path)), request_body = PlanOrderRequest,
            responses((status = 200, body = PlanView), (status = 404, body = ProblemDetails), (status = 409, body = ProblemDetails))))]
        pub(crate) async fn $name(
            app: AppState,
            Extension(caller): Extension<Caller>,
            PathParams(id): PathParams<i64>,
            OptionalJson(request): OptionalJson<PlanOrderRequest>,
        ) -> Result<Answer<PlanView>, ProblemDetails> {
            let by = app.operator(&caller, request.reason.as_deref());
            order(&app, PlanId(id), &$order, &by).await?;
            view(&app, PlanId(id)).await.map(Answer)
        }
    )*};
}

orders! {
    /// Changes no more units until the plan is resumed.
    pause "/v1/plans/{id}/pause" => PlanOrder::Pause;
    /// Goes on with a paused plan.
    resume "/v1/plans/{id}/resume" => PlanOrder::Resume;
    /// Ends a plan; the rest of its units stays unchanged.
    abort "/v1/plans/{id}/abort" => PlanOrder::Abort;
    /// Returns the units that the plan made pending and that no worker has started.
    undo "/v1/plans/{id}/undo" => PlanOrder::Undo;
}

pub(crate) async fn order(
    app: &App,
    id: PlanId,
    order: &PlanOrder,
    by: &Operator,
) -> Result<(), ProblemDetails> {
    app.ops.order_plan(id, order, by).await?.map_err(|refusal| match refusal {
        OrderRefusal::Unknown => ProblemDetails::not_found(format!("there is no plan {id}")),
        OrderRefusal::Invalid(invalid) => invalid_settings(&invalid),
        OrderRefusal::Refused { why, next } => {
            ProblemDetails::new(StatusCode::CONFLICT, why).allowed(next)
        }
    })
}
