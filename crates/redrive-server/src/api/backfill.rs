//! `POST /v1/partitions/backfill`.

use axum::{Extension, Json as Answer};
use redrive_core::{DateRange, PartitionKey};
use redrive_engine::KeyGrid;
use redrive_ops::{ActionOptions, ChangeRequest, UnitAction, views::PartitionView};
use redrive_store::{Lane, PartitionAction, Selection};
use serde::Deserialize;

use super::{bulk::BulkOutcome, page::named, partitions::day, resource::apply};
use crate::{app::AppState, extract::Json, guard::Caller, problem::ProblemDetails};

/// The most partitions of one request.
const MAX_PARTITIONS: u64 = 100_000;

/// Selects partitions to make pending.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillRequest {
    source: String,
    /// Default: the declared customers of the source.
    #[serde(default)]
    customers: Vec<String>,
    /// Default: the declared queries of the source.
    #[serde(default)]
    queries: Vec<String>,
    /// First day, as YYYY-MM-DD.
    since: String,
    /// Last day, inclusive.
    until: String,
    /// Include partitions whose last attempt failed.
    #[serde(default)]
    force_pending: bool,
    /// Request names that the configuration does not declare, too.
    #[serde(default)]
    allow_unknown: bool,
    /// `fresh` or `backfill`; default `backfill`.
    lane: Option<String>,
    /// Only return the expected outcomes.
    #[serde(default)]
    dry_run: bool,
    /// The reason, for the journal.
    reason: Option<String>,
}

/// Makes the partitions of a range of days pending.
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/backfill", tag = "partitions", request_body = BackfillRequest,
    responses((status = 200, body = BulkOutcome), (status = 400, body = ProblemDetails),
              (status = 422, body = ProblemDetails))))]
pub(crate) async fn backfill(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(request): Json<BackfillRequest>,
) -> Result<Answer<BulkOutcome>, ProblemDetails> {
    let missing = || ProblemDetails::bad_request("`since` and `until` are required");
    let since = day("since", Some(&request.since))?.ok_or_else(missing)?;
    let until = day("until", Some(&request.until))?.ok_or_else(missing)?;
    let days = DateRange::new(since, until).map_err(|_| {
        ProblemDetails::bad_request(format!("since {since} is after until {until}"))
    })?;
    if let Some(declared) = app.ops.declared().filter(|_| !request.allow_unknown) {
        declared.expect_series(&request.source, &request.customers, &request.queries)?;
    }
    let declared = app.ops.declared().and_then(|declared| declared.source(&request.source));
    let chosen = |given: &[String], known: Option<&Vec<String>>, what: &str| match (given, known) {
        ([], Some(known)) => Ok(known.clone()),
        ([], None) => {
            let source = &request.source;
            let problem = format!(
                "the configuration declares no source {source:?}, and the request gives no {what}"
            );
            Err(ProblemDetails::bad_request(problem).allowed(format!("`{what}`")))
        }
        (given, _) => Ok(given.to_vec()),
    };
    let customers = chosen(&request.customers, declared.map(|it| &it.customers), "customers")?;
    let queries = chosen(&request.queries, declared.map(|it| &it.queries), "queries")?;
    let grid = KeyGrid::new(&request.source, &customers, &queries, days)
        .map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    if grid.len() > MAX_PARTITIONS {
        let what = format!("the range has {} partitions; nothing was changed", grid.len());
        return Err(ProblemDetails::bad_request(what)
            .allowed(format!("up to {MAX_PARTITIONS}; the command line allows more")));
    }
    let force_pending = request.force_pending;
    let names = Lane::ALL.map(Lane::name);
    let lane = named("lane", request.lane.as_deref(), Lane::from_name, &names)?;
    let lane = lane.unwrap_or(Lane::Backfill);
    let action = UnitAction::Own(PartitionAction::Backfill { force_pending, lane });
    let change = ChangeRequest {
        options: ActionOptions::default(),
        by: &app.operator(&caller, request.reason.as_deref()),
        dry_run: request.dry_run,
        command: "api partitions backfill".to_owned(),
        selection: Selection {
            source: Some(request.source),
            since: Some(since),
            until: Some(until),
            ..Selection::default()
        },
        flags: force_pending.then(|| "force_pending".to_owned()).into_iter().collect(),
    };
    let keys: Vec<PartitionKey> = grid.keys().collect();
    apply::<PartitionView>(&app, &action, &change, &keys).await.map(Answer)
}
