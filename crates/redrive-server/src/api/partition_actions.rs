//! Partitions: what is done to them.

use axum::{Extension, Json as Answer};
use redrive_core::DateRange;
use redrive_engine::{KeyGrid, PartitionCommand, PartitionSelection, RunMode};
use redrive_ops::views::PartitionChangeView;
use redrive_store::{AuditContext, Lane, PartitionAction, PartitionFilter};
use serde::Deserialize;

use super::{
    bulk::{BulkOptions, BulkOutcome, MAX_UNITS, seen},
    page::named,
    partitions::{day, key},
};
use crate::{
    app::{App, AppState},
    extract::{Json, PathParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Which partitions to change, and how.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct PartitionActionRequest {
    /// This one, as SOURCE/CUSTOMER/QUERY/DATE, instead of filters.
    pub(crate) partition: Option<String>,
    /// Of this source alone.
    pub(crate) source: Option<String>,
    /// Of this customer alone.
    pub(crate) customer_id: Option<String>,
    /// Of this query alone.
    pub(crate) query_name: Option<String>,
    /// Not before this day.
    pub(crate) since: Option<String>,
    /// Not after this day, which is included.
    pub(crate) until: Option<String>,
    /// All of them: without a filter nothing is done unless you say so.
    #[serde(default)]
    pub(crate) all: bool,
    /// Of `retry`: also those that are terminal.
    #[serde(default)]
    pub(crate) clear_terminal: bool,
    /// Of `retry` and `reprocess`: also where the raw sink holds no run.
    #[serde(default)]
    pub(crate) force: bool,
    /// Of `retry` and `reprocess`: `fresh` or `backfill`. `fresh`, unless given.
    pub(crate) lane: Option<String>,
    /// Only say what would become of each, and how to say yes to it.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// What the dry run answered. One partition that is named needs none.
    pub(crate) token: Option<String>,
    /// Why, for the journal.
    pub(crate) reason: Option<String>,
}

/// What can be done to partitions.
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
            let what = format!("nobody can {name:?} a partition");
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

/// The same for the dashboard.
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
            let what = "one partition and filters exclude each other; nothing was changed";
            return Err(ProblemDetails::bad_request(what).allowed("`partition`, filters, or `all`"));
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
        let what = "no partitions are named; nothing was changed";
        return Err(ProblemDetails::bad_request(what).allowed("`partition`, filters, or `all`"));
    }
    let given = [
        ("all", request.all),
        ("clear_terminal", request.clear_terminal),
        ("force", request.force),
    ];
    let how =
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
    plan.run(app, caller, how).await
}

/// Which partitions to make pending.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BackfillRequest {
    /// The source.
    source: String,
    /// For these customers; those of the source, unless given.
    #[serde(default)]
    customers: Vec<String>,
    /// For these queries; those of the source, unless given.
    #[serde(default)]
    queries: Vec<String>,
    /// The first day.
    since: String,
    /// The last day, which is included.
    until: String,
    /// Also those whose last attempt failed.
    #[serde(default)]
    force_pending: bool,
    /// `fresh` or `backfill`. `backfill`, unless given.
    lane: Option<String>,
    /// Only say what would become of each, and how to say yes to it.
    #[serde(default)]
    dry_run: bool,
    /// What the dry run answered.
    token: Option<String>,
    /// Why, for the journal.
    reason: Option<String>,
}

/// Makes partitions pending for every day of a range.
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/backfill", tag = "partitions", request_body = BackfillRequest,
    responses((status = 200, body = BulkOutcome<PartitionChangeView>), (status = 400, body = ProblemDetails),
              (status = 409, body = ProblemDetails), (status = 422, body = ProblemDetails), (status = 428, body = ProblemDetails))))]
pub(crate) async fn backfill(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Json(asked): Json<BackfillRequest>,
) -> Result<Answer<BulkOutcome<PartitionChangeView>>, ProblemDetails> {
    let missing = || ProblemDetails::bad_request("both days are needed");
    let since = day("since", Some(&query.since))?.ok_or_else(missing)?;
    let until = day("until", Some(&query.until))?.ok_or_else(missing)?;
    let days = DateRange::new(since, until).map_err(|_| {
        ProblemDetails::bad_request(format!("since {since} is after until {until}"))
    })?;
    let declared = app.ops.declared().and_then(|declared| declared.source(&query.source));
    let chosen = |given: &[String], known: Option<&Vec<String>>, what: &str| match (given, known) {
        ([], Some(known)) => Ok(known.clone()),
        ([], None) => {
            let source = &query.source;
            let problem = format!("no source {source:?} is declared, and no {what} are given");
            Err(ProblemDetails::bad_request(problem).allowed(format!("`{what}`")))
        }
        (given, _) => Ok(given.to_vec()),
    };
    let customers = chosen(&query.customers, declared.map(|it| &it.customers), "customers")?;
    let queries = chosen(&query.queries, declared.map(|it| &it.queries), "queries")?;
    let grid = KeyGrid::new(&query.source, &customers, &queries, days)
        .map_err(|error| ProblemDetails::bad_request(error.to_string()))?;
    if grid.len() > MAX_UNITS as u64 {
        let what = format!("these are {} partitions; nothing was changed", grid.len());
        return Err(ProblemDetails::bad_request(what)
            .allowed(format!("up to {MAX_UNITS}; the command line takes any number")));
    }
    let force_pending = query.force_pending;
    let lane = lane(query.lane.as_deref(), Lane::Backfill)?;
    let how = BulkOptions { dry_run: query.dry_run, token: query.token, reason: query.reason };
    let filter = PartitionFilter {
        source: Some(query.source),
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
    plan.run(&app, &caller, how).await.map(Answer)
}

/// A change that is asked for.
struct PartitionChangePlan {
    action: PartitionAction,
    command: String,
    flags: Vec<String>,
    filter: PartitionFilter,
    force: bool,
    selection: PartitionSelection,
    /// Whether it is of one partition that is named.
    named: bool,
}

impl PartitionChangePlan {
    async fn run(
        self,
        app: &App,
        caller: &Caller,
        how: BulkOptions,
    ) -> Result<BulkOutcome<PartitionChangeView>, ProblemDetails> {
        let name = format!("{} {:?} {:?}", self.command, self.action, self.flags);
        let order = AuditContext {
            by: app.operator(caller, how.reason.as_deref()),
            command: self.command,
            filter: Some(self.filter),
            flags: self.flags,
        };
        let command = PartitionCommand::new(self.action, order);
        let command = if self.force { command.forced() } else { command };
        let foreseen = app.ops.preview_partitions(&command, &self.selection, MAX_UNITS + 1).await?;
        let shown = foreseen.iter().cloned();
        let shown = shown.map(|outcome| PartitionChangeView::new(outcome, RunMode::DryRun));
        if let Some(seen) = seen(&name, shown.collect(), &how, self.named)? {
            return Ok(seen);
        }
        let done = app.ops.change_partitions(&command, &self.selection, &foreseen).await?;
        let done = done.into_iter().map(|outcome| PartitionChangeView::new(outcome, RunMode::Real));
        Ok(BulkOutcome::done(done.collect()))
    }
}
