//! `/v1/gates`.

use std::time::Duration;

use axum::{Extension, Json as Answer, http::StatusCode};
use redrive_core::HumanDuration;
use redrive_ops::views::GateView;
use redrive_store::{GateOrder, GateOrdered, gate_name};
use serde::Deserialize;

use super::page::{ListPage, PageBuilder};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct GateListQuery {
    /// The keys of this gate alone.
    gate: Option<String>,
    /// Only what is not open.
    shut: Option<bool>,
    /// Rows of the page.
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<String>,
}

/// Lists gates and their keys.
#[cfg_attr(test, utoipa::path(get, path = "/v1/gates", tag = "gates", params(GateListQuery),
    responses((status = 200, body = ListPage<GateView>), (status = 400, body = ProblemDetails))))]
pub(crate) async fn list(
    app: AppState,
    QueryParams(query): QueryParams<GateListQuery>,
) -> Result<Answer<ListPage<GateView>>, ProblemDetails> {
    let mut page = PageBuilder::new(query.limit, query.after)?;
    let (gate, shut) = (query.gate.as_deref(), query.shut.unwrap_or_default());
    while let Some((after, rows)) = page.next_read() {
        let after = after.unwrap_or_default();
        let after = after.split_once('/').unwrap_or((&after, ""));
        let found = app.ops.gates(gate, shut, after, rows).await?;
        let has_more = found.len() >= rows as usize;
        page.add(found, has_more, |row| row.name(), |row| row);
    }
    Ok(Answer(page.page()))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct GateKeyQuery {
    /// One key of a divided gate.
    key: Option<String>,
}

/// Returns a gate, or one key of it.
#[cfg_attr(test, utoipa::path(get, path = "/v1/gates/{gate}", tag = "gates", params(("gate" = String, Path), GateKeyQuery),
    responses((status = 200, body = GateView), (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(gate): PathParams<String>,
    QueryParams(query): QueryParams<GateKeyQuery>,
) -> Result<Answer<GateView>, ProblemDetails> {
    let key = query.key.as_deref();
    let view = find(&app, &gate, key.unwrap_or_default()).await?;
    view.check_key(key).map_err(ProblemDetails::bad_request)?;
    Ok(Answer(view))
}

/// The body that closes a gate.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseGateRequest {
    /// One key of a divided gate.
    pub(crate) key: Option<String>,
    /// For how long, such as `30m`; until it is opened by default.
    pub(crate) r#for: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

/// The body that opens a gate.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenGateRequest {
    /// One key of a divided gate.
    pub(crate) key: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

/// Closes a gate: no host claims a unit behind it.
#[cfg_attr(test, utoipa::path(post, path = "/v1/gates/{gate}/close", tag = "gates", params(("gate" = String, Path)),
    request_body = CloseGateRequest,
    responses((status = 200, body = GateView), (status = 400, body = ProblemDetails), (status = 404, body = ProblemDetails))))]
pub(crate) async fn close(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(gate): PathParams<String>,
    Json(body): Json<CloseGateRequest>,
) -> Result<Answer<GateView>, ProblemDetails> {
    close_gate(&app, &caller, gate, body).await.map(Answer)
}

pub(crate) async fn close_gate(
    app: &App,
    caller: &Caller,
    gate: String,
    body: CloseGateRequest,
) -> Result<GateView, ProblemDetails> {
    let wrong = |problem: String| ProblemDetails::bad_request(format!("for: {problem}"));
    let period = body.r#for.as_deref().map(str::parse::<HumanDuration>);
    let period = period.transpose().map_err(|error| wrong(error.to_string()))?;
    if period.is_some_and(|period| Duration::from(period).is_zero()) {
        return Err(wrong("0 closes nothing; more than 0 is allowed".to_owned()));
    }
    let until = period.map(|period| app.ops.now().checked_add(Duration::from(period)));
    let until = until.transpose().map_err(|error| wrong(error.to_string()))?;
    let order = GateOrder::Close { until };
    change(app, caller, (gate, body.key), &order, body.reason.as_deref()).await
}

/// Opens a gate at once, without a probe.
#[cfg_attr(test, utoipa::path(post, path = "/v1/gates/{gate}/open", tag = "gates", params(("gate" = String, Path)),
    request_body = OpenGateRequest,
    responses((status = 200, body = GateView), (status = 404, body = ProblemDetails), (status = 409, body = ProblemDetails))))]
pub(crate) async fn open(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(gate): PathParams<String>,
    Json(body): Json<OpenGateRequest>,
) -> Result<Answer<GateView>, ProblemDetails> {
    open_gate(&app, &caller, gate, body).await.map(Answer)
}

pub(crate) async fn open_gate(
    app: &App,
    caller: &Caller,
    gate: String,
    body: OpenGateRequest,
) -> Result<GateView, ProblemDetails> {
    let reason = body.reason.as_deref();
    change(app, caller, (gate, body.key), &GateOrder::Open, reason).await
}

async fn change(
    app: &App,
    caller: &Caller,
    (gate, key): (String, Option<String>),
    order: &GateOrder,
    reason: Option<&str>,
) -> Result<GateView, ProblemDetails> {
    let known = find(app, &gate, key.as_deref().unwrap_or_default()).await?;
    known.check_key(key.as_deref()).map_err(ProblemDetails::bad_request)?;
    let key = key.unwrap_or_default();
    match app.ops.order_gate(&gate, &key, order, &app.operator(caller, reason)).await? {
        GateOrdered::Done => find(app, &gate, &key).await,
        GateOrdered::Refused(status) => {
            let name = gate_name(&gate, &key);
            Err(ProblemDetails::new(
                StatusCode::CONFLICT,
                format!("gate {name} is {status} already"),
            ))
        }
        GateOrdered::Unknown => Err(unknown(&gate)),
    }
}

async fn find(app: &App, gate: &str, key: &str) -> Result<GateView, ProblemDetails> {
    app.ops.gate(gate, key).await?.ok_or_else(|| unknown(gate))
}

fn unknown(gate: &str) -> ProblemDetails {
    ProblemDetails::not_found(format!("there is no gate {gate:?}"))
}
