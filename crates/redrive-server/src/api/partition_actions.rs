//! `POST /v1/partitions/{action}`.

use axum::{Extension, Json as Answer};
use redrive_core::DateRange;
use redrive_engine::{KeyGrid, PartitionCommand, PartitionSelection, RunMode};
use redrive_ops::views::PartitionChangeView;
use redrive_store::{AuditContext, Lane, PartitionAction, PartitionFilter};
use serde::Deserialize;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, confirm},
    page::named,
    partitions::{day, key},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Selects partitions by `partition`, by filters, or all.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionActionRequest {
    /// One partition, as SOURCE/CUSTOMER/QUERY/DATE, instead of filters.
    pub(crate) partition: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) customer_id: Option<String>,
    pub(crate) query_name: Option<String>,
    /// First day, as YYYY-MM-DD.
    pub(crate) since: Option<String>,
    /// Last day, inclusive.
    pub(crate) until: Option<String>,
    /// Required without filters: act on all units.
    #[serde(default)]
    pub(crate) all: bool,
    /// For `retry`: include terminal partitions.
    #[serde(default)]
    pub(crate) clear_terminal: bool,
    /// For `retry` and `reprocess`: include partitions without a run in the raw sink.
    #[serde(default)]
    pub(crate) force: bool,
    /// For `retry` and `reprocess`: `fresh` or `backfill`; default `fresh`.
    pub(crate) lane: Option<String>,
    /// Only return the expected outcomes and the token that confirms them.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The token of a dry run. Not needed with `partition`.
    pub(crate) token: Option<String>,
    /// The reason, for the journal.
    pub(crate) reason: Option<String>,
}

const ACTIONS: [&str; 6] =
    ["retry", "reprocess", "mark-terminal", "clear-terminal", "pause", "resume"];

fn parse_action(
    name: &str,
    request: &PartitionActionRequest,
) -> Result<PartitionAction, ProblemDetails> {
    let lane = lane(request.lane.as_deref(), Lane::Fresh)?;
    Ok(match name {
        "retry" => PartitionAction::Retry { clear_terminal: request.clear_terminal, lane },
        "reprocess" => PartitionAction::Reprocess { lane },
        "mark-terminal" => PartitionAction::MarkTerminal,
        "clear-terminal" => PartitionAction::ClearTerminal,
        "pause" => PartitionAction::Pause,
        "resume" => PartitionAction::Resume,
        _ => {
            let what = format!("unknown partition action {name:?}");
            return Err(ProblemDetails::not_found(what).allowed(ACTIONS.join(", ")));
        }
    })
}

fn lane(text: Option<&str>, default: Lane) -> Result<Lane, ProblemDetails> {
    let names = Lane::ALL.map(Lane::name);
    Ok(named("lane", text, Lane::from_name, &names)?.unwrap_or(default))
}

/// Changes partitions: `retry`, `reprocess`, `mark-terminal`, `clear-terminal`, `pause` or `resume`.
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/{action}", tag = "partitions",
    params(("action" = String, Path)), request_body = PartitionActionRequest,
    responses((status = 200, body = BulkOutcome<PartitionChangeView>), (status = 400, body = ProblemDetails),
              (status = 404, body = ProblemDetails), (status = 409, body = ProblemDetails),
              (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn change(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Json(request): Json<PartitionActionRequest>,
) -> Result<Answer<BulkOutcome<PartitionChangeView>>, ProblemDetails> {
    change_partitions(&app, &caller, &name, request).await.map(Answer)
}

pub(crate) async fn change_partitions(
    app: &App,
    caller: &Caller,
    name: &str,
    request: PartitionActionRequest,
) -> Result<BulkOutcome<PartitionChangeView>, ProblemDetails> {
    let action = parse_action(name, &request)?;
    let PartitionActionRequest { source, customer_id, query_name, since, until, .. } = &request;
    let is_filtered = [source, customer_id, query_name, since, until].iter().any(|it| it.is_some());
    let filter = match &request.partition {
        Some(_) if is_filtered || request.all => {
            let what = "`partition` excludes filters; nothing was changed";
            return Err(ProblemDetails::bad_request(what)
                .allowed("either `partition`, or filters, or `all`"));
        }
        Some(text) => {
            let key = key(text.strip_prefix("partition:").unwrap_or(text))?;
            PartitionFilter {
                source: Some(key.source().to_owned()),
                customer_id: Some(key.customer_id().to_owned()),
                query_name: Some(key.query_name().to_owned()),
                ..PartitionFilter::default()
            }
            .on(key.logical_date())
        }
        None => PartitionFilter {
            source: request.source,
            customer_id: request.customer_id,
            query_name: request.query_name,
            since: day("since", request.since.as_deref())?,
            until: day("until", request.until.as_deref())?,
            status: None,
        },
    };
    if filter.is_empty() && !request.all {
        let what = "no partitions are selected; nothing was changed";
        return Err(
            ProblemDetails::bad_request(what).allowed("either `partition`, or filters, or `all`")
        );
    }
    let given = [
        ("all", request.all),
        ("clear_terminal", request.clear_terminal),
        ("force", request.force),
    ];
    let options =
        BulkOptions { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let plan = PartitionChangePlan {
        action,
        command: format!("api partitions {name}"),
        flags: given
            .iter()
            .filter(|(_, given)| *given)
            .map(|(flag, _)| (*flag).to_owned())
            .collect(),
        filter: filter.clone(),
        force: request.force,
        selection: PartitionSelection::Filter(filter),
        named: request.partition.is_some(),
    };
    plan.run(app, caller, options).await
}

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
    /// Only return the expected outcomes and the token that confirms them.
    #[serde(default)]
    dry_run: bool,
    /// The token of a dry run.
    token: Option<String>,
    /// The reason, for the journal.
    reason: Option<String>,
}

/// Makes the partitions of a range of days pending.
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/backfill", tag = "partitions", request_body = BackfillRequest,
    responses((status = 200, body = BulkOutcome<PartitionChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn backfill(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(request): Json<BackfillRequest>,
) -> Result<Answer<BulkOutcome<PartitionChangeView>>, ProblemDetails> {
    let missing = || ProblemDetails::bad_request("`since` and `until` are required");
    let since = day("since", Some(&request.since))?.ok_or_else(missing)?;
    let until = day("until", Some(&request.until))?.ok_or_else(missing)?;
    let days = DateRange::new(since, until).map_err(|_| {
        ProblemDetails::bad_request(format!("since {since} is after until {until}"))
    })?;
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
    if let Some(declared) = app.ops.declared().filter(|_| !request.allow_unknown) {
        declared.expect_series(&request.source, &customers, &queries)?;
    }
    let grid = KeyGrid::new(&request.source, &customers, &queries, days)
        .map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    if grid.len() > MAX_UNITS as u64 {
        let what = format!("the range has {} partitions; nothing was changed", grid.len());
        return Err(ProblemDetails::bad_request(what)
            .allowed(format!("up to {MAX_UNITS}; the command line allows more")));
    }
    let force_pending = request.force_pending;
    let lane = lane(request.lane.as_deref(), Lane::Backfill)?;
    let options =
        BulkOptions { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let filter = PartitionFilter {
        source: Some(request.source),
        since: Some(since),
        until: Some(until),
        ..PartitionFilter::default()
    };
    let flags = force_pending.then(|| "force_pending".to_owned()).into_iter().collect();
    let plan = PartitionChangePlan {
        action: PartitionAction::Backfill { force_pending, lane },
        command: "api partitions backfill".to_owned(),
        flags,
        filter,
        force: false,
        selection: PartitionSelection::Grid(grid),
        named: false,
    };
    plan.run(&app, &caller, options).await.map(Answer)
}

struct PartitionChangePlan {
    action: PartitionAction,
    command: String,
    flags: Vec<String>,
    filter: PartitionFilter,
    force: bool,
    selection: PartitionSelection,
    /// Whether the request names one partition.
    named: bool,
}

impl PartitionChangePlan {
    async fn run(
        self,
        app: &App,
        caller: &Caller,
        options: BulkOptions,
    ) -> Result<BulkOutcome<PartitionChangeView>, ProblemDetails> {
        let name = format!("{} {:?} {:?}", self.command, self.action, self.flags);
        let audit = AuditContext {
            by: app.operator(caller, options.reason.as_deref()),
            command: self.command,
            filter: Some(self.filter),
            flags: self.flags,
        };
        let command = PartitionCommand::new(self.action, audit);
        let command = if self.force { command.forced() } else { command };
        let expected = app.ops.preview_partitions(&command, &self.selection, MAX_UNITS + 1).await?;
        let views = expected
            .iter()
            .cloned()
            .map(|outcome| PartitionChangeView::new(outcome, RunMode::DryRun));
        if let Some(dry_run) = confirm(&name, views.collect(), &options, self.named)? {
            return Ok(dry_run);
        }
        let done = app.ops.change_partitions(&command, &self.selection, &expected).await?;
        let done = done.into_iter().map(|outcome| PartitionChangeView::new(outcome, RunMode::Real));
        Ok(BulkOutcome::done(done.collect()))
    }
}
