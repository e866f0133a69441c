//! Policies, and the waits they give.

use std::{fmt::Display, str::FromStr, time::Duration};

use axum::Json as Answer;
use redrive_core::{Backoff, HumanDuration, Policy, RunId, Unit};
use redrive_ops::{
    PolicyOverrides, Waits, parse_max_attempts,
    views::{PolicyView, WaitView},
};
use serde::Deserialize;

use super::page::named;
use crate::{
    app::{App, AppState},
    extract::{PathParams, QueryParams},
    problem::ProblemDetails,
};

/// The presets, and the policies of the configuration.
#[cfg_attr(test, utoipa::path(get, path = "/v1/policies", tag = "policies",
    responses((status = 200, body = Vec<PolicyView>))))]
pub(crate) async fn list(app: AppState) -> Answer<Vec<PolicyView>> {
    let policies = app.ops.policies();
    Answer(policies.iter().map(|(name, policy)| PolicyView::new(name, policy)).collect())
}

/// Every setting of one policy.
#[cfg_attr(test, utoipa::path(get, path = "/v1/policies/{policy}", tag = "policies", params(("policy" = String, Path)),
    responses((status = 200, body = PolicyView), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(name): PathParams<String>,
) -> Result<Answer<PolicyView>, ProblemDetails> {
    Ok(Answer(PolicyView::new(&name, &find(&app, &name)?)))
}

fn find(app: &App, name: &str) -> Result<Policy, ProblemDetails> {
    let policies = app.ops.policies();
    let found = policies.iter().find(|(known, _)| known == name);
    found.map(|(_, policy)| policy.clone()).ok_or_else(|| {
        let known: Vec<&str> = policies.iter().map(|(name, _)| name.as_str()).collect();
        ProblemDetails::not_found(format!("there is no policy {name:?}")).allowed(known.join(", "))
    })
}

/// Whose waits.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleQuery {
    /// Of this policy, as far as nothing else is given.
    policy: Option<String>,
    /// How waits grow: `fixed`, `linear` or `exponential`.
    backoff: Option<String>,
    /// The first wait, such as `30s`.
    base: Option<String>,
    /// The growth of an exponential backoff, from 1.
    multiplier: Option<f64>,
    /// The longest wait before jitter, such as `1h`.
    cap: Option<String>,
    /// What spreads the waits: `none`, `full`, a time such as `30s`, or a share such as `25%`.
    jitter: Option<String>,
    /// Executions including the first, or `none` for no limit.
    max_attempts: Option<String>,
    /// For how many failed attempts, up to 10000; for the policy's retries, or 10, unless given.
    attempts: Option<u32>,
    /// Whose waits; jitter differs between units. `run:1`, unless given.
    unit: Option<String>,
}

/// When a failing unit would be tried again: the wait after each attempt, past the policy's own end.
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedule", tag = "policies", params(ScheduleQuery),
    responses((status = 200, body = Vec<WaitView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn schedule(
    app: AppState,
    QueryParams(query): QueryParams<ScheduleQuery>,
) -> Result<Answer<Vec<WaitView>>, ProblemDetails> {
    let start = query.policy.as_deref().map(|name| find(&app, name)).transpose()?;
    let names = Backoff::ALL.map(Backoff::name);
    let backoff = |name: &str| Backoff::ALL.into_iter().find(|known| known.name() == name);
    let max_attempts = query.max_attempts.as_deref().map(parse_max_attempts).transpose();
    let changes = PolicyOverrides {
        max_attempts: max_attempts
            .map_err(|error| ProblemDetails::bad_request(format!("max_attempts: {error}")))?,
        backoff: named("backoff", query.backoff.as_deref(), backoff, &names)?,
        base: parsed::<HumanDuration>("base", query.base)?.map(Duration::from),
        multiplier: query.multiplier,
        cap: parsed::<HumanDuration>("cap", query.cap)?.map(Duration::from),
        jitter: parsed("jitter", query.jitter)?,
    };
    let policy = changes.of(start.as_ref());
    let policy = policy.map_err(|invalid| ProblemDetails::bad_request(invalid.to_string()))?;
    if let Some(many) = query.attempts.filter(|n| !(1..=Waits::MAX_ATTEMPTS).contains(n)) {
        let what = format!("attempts: {many} cannot be foreseen");
        return Err(
            ProblemDetails::bad_request(what).allowed(format!("1 to {}", Waits::MAX_ATTEMPTS))
        );
    }
    let unit = parsed("unit", query.unit)?.unwrap_or(Unit::Run(RunId(1)));
    let foreseen = Waits::new(&policy, app.ops.jitter_seed(), &unit, query.attempts);
    Ok(Answer(foreseen.waits.iter().map(WaitView::from).collect()))
}

fn parsed<T: FromStr<Err: Display>>(
    field: &str,
    text: Option<String>,
) -> Result<Option<T>, ProblemDetails> {
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|error| ProblemDetails::bad_request(format!("{field}: {error}")))
}
