//! `/v1/policies` and `/v1/schedule`.

use std::{fmt::Display, str::FromStr, time::Duration};

use axum::Json as Answer;
use redrive_core::{
    Backoff, Failure, HumanDuration, Policy, PolicyOverrides, PolicySpec, RunId, Unit,
};
use redrive_ops::{
    DeclaredPolicy, KnownPolicies, NoSuchPolicy, Waits, parse_max_attempts,
    views::{PolicyView, WaitView},
};
use serde::Deserialize;

use super::page::named;
use crate::{
    app::AppState,
    extract::{PathParams, QueryParams},
    problem::ProblemDetails,
};

/// Lists the presets, and the policy in force at each place.
#[cfg_attr(test, utoipa::path(get, path = "/v1/policies", tag = "policies",
    responses((status = 200, body = Vec<PolicyView>))))]
pub(crate) async fn list(app: AppState) -> Answer<Vec<PolicyView>> {
    Answer(app.ops.policies().0.iter().map(PolicyView::new).collect())
}

/// Returns the policy at a place, a preset, or a policy of the configuration at each of its places.
#[cfg_attr(test, utoipa::path(get, path = "/v1/policies/{policy}", tag = "policies", params(("policy" = String, Path)),
    responses((status = 200, body = Vec<PolicyView>), (status = 404, body = ProblemDetails))))]
pub(crate) async fn show(
    app: AppState,
    PathParams(name): PathParams<String>,
) -> Result<Answer<Vec<PolicyView>>, ProblemDetails> {
    let policies = app.ops.policies();
    let found: Vec<PolicyView> = policies.find(&name).into_iter().map(PolicyView::new).collect();
    if found.is_empty() {
        only(&policies, &name)?;
    }
    Ok(Answer(found))
}

fn only<'a>(policies: &'a KnownPolicies, name: &str) -> Result<&'a DeclaredPolicy, ProblemDetails> {
    policies.only(name).map_err(|error| match &error {
        NoSuchPolicy::Unknown { known, .. } => {
            ProblemDetails::not_found(error.to_string()).allowed(known.join(", "))
        }
        NoSuchPolicy::Ambiguous { .. } => ProblemDetails::bad_request(error.to_string()),
    })
}

/// A policy, and settings that override it.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleQuery {
    /// The policy that the other settings override: a preset, a policy of the configuration, or a place.
    policy: Option<String>,
    /// `fixed`, `linear` or `exponential`.
    backoff: Option<String>,
    /// The first wait, such as `30s`.
    base: Option<String>,
    /// The factor of an exponential backoff, at least 1.
    multiplier: Option<f64>,
    /// The longest wait before jitter, such as `1h`.
    cap: Option<String>,
    /// `none`, `full`, a duration such as `30s`, or a percentage such as `25%`.
    jitter: Option<String>,
    /// Executions including the first, or `none` for no limit.
    max_attempts: Option<String>,
    /// Number of failed attempts, 1 to 10000; default: the retries of the policy, or 10 without a limit.
    attempts: Option<u32>,
    /// The code of the failures, such as `503` or `timeout`, for a policy with rules.
    code: Option<String>,
    /// The unit, which determines the jitter; default `run:1`.
    unit: Option<String>,
}

/// Returns the wait after each attempt of a unit that always fails, also beyond the limits of the policy.
#[cfg_attr(test, utoipa::path(get, path = "/v1/schedule", tag = "policies", params(ScheduleQuery),
    responses((status = 200, body = Vec<WaitView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails))))]
pub(crate) async fn schedule(
    app: AppState,
    QueryParams(query): QueryParams<ScheduleQuery>,
) -> Result<Answer<Vec<WaitView>>, ProblemDetails> {
    let policies = app.ops.policies();
    let start = query.policy.as_deref().map(|name| only(&policies, name)).transpose()?;
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
        ..PolicyOverrides::default()
    };
    let in_call_retries = start.and_then(|start| start.in_call_retries);
    let start = start.map_or_else(PolicySpec::default, |start| start.policy.spec().clone());
    let policy = Policy::new(changes.over(start));
    let policy = policy.map_err(|invalid| ProblemDetails::bad_request(invalid.to_string()))?;
    if let Some(many) = query.attempts.filter(|n| !(1..=Waits::MAX_ATTEMPTS).contains(n)) {
        let what = format!("attempts: {many} is out of range");
        return Err(
            ProblemDetails::bad_request(what).allowed(format!("1 to {}", Waits::MAX_ATTEMPTS))
        );
    }
    let failure = parsed("code", query.code)?.map(|code| Failure::reported(None, code, ""));
    let policy = failure.map_or(policy.clone(), |failure| policy.for_failure(&failure).clone());
    let unit = parsed("unit", query.unit)?.unwrap_or(Unit::Run(RunId(1)));
    let schedule =
        Waits::new(&policy, in_call_retries, app.ops.jitter_seed(), &unit, query.attempts);
    Ok(Answer(schedule.waits.iter().map(WaitView::from).collect()))
}

fn parsed<T: FromStr<Err: Display>>(
    field: &str,
    text: Option<String>,
) -> Result<Option<T>, ProblemDetails> {
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|error| ProblemDetails::bad_request(format!("{field}: {error}")))
}
