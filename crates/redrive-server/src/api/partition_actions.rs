//! Partitions: what is done to them.

use axum::{Extension, Json as Answer};
use redrive_core::DateRange;
use redrive_engine::{KeyGrid, PartitionCommand, PartitionSelection, RunMode};
use redrive_ops::views::PartitionChangeView;
use redrive_store::{AuditContext, Lane, PartitionAction, PartitionFilter};
use serde::Deserialize;

use super::{
    bulk::{Changes, How, MAX_UNITS, seen},
    page::named,
    partitions::{day, key},
};
use crate::{
    app::{App, Shared},
    extract::{Json, Path},
    guard::Visitor,
    problem::Problem,
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

fn wish_of(name: &str, request: &PartitionActionRequest) -> Result<PartitionAction, Problem> {
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
            return Err(Problem::not_found(what).allowed(ACTIONS.join(", ")));
        }
    })
}

fn lane(text: Option<&str>, default: Lane) -> Result<Lane, Problem> {
    let names = Lane::ALL.map(Lane::name);
    Ok(named("lane", text, Lane::from_name, &names)?.unwrap_or(default))
}

/// Changes partitions: `retry`, `reprocess`, `mark-terminal`, `clear-terminal`, `pause` or `resume`.
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/{action}", tag = "partitions",
    params(("action" = String, Path)), request_body = PartitionActionRequest,
    responses((status = 200, body = Changes<PartitionChangeView>), (status = 400, body = Problem),
              (status = 404, body = Problem), (status = 409, body = Problem),
              (status = 422, body = Problem), (status = 428, body = Problem))))]
pub(crate) async fn change(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    Json(request): Json<PartitionActionRequest>,
) -> Result<Answer<Changes<PartitionChangeView>>, Problem> {
    change_partitions(&app, &visitor, &name, request).await.map(Answer)
}

/// The same for the dashboard.
pub(crate) async fn change_partitions(
    app: &App,
    visitor: &Visitor,
    name: &str,
    request: PartitionActionRequest,
) -> Result<Changes<PartitionChangeView>, Problem> {
    let action = wish_of(name, &request)?;
    let PartitionActionRequest { source, customer_id, query_name, since, until, .. } = &request;
    let is_filtered = [source, customer_id, query_name, since, until].iter().any(|it| it.is_some());
    let filter = match &request.partition {
        Some(_) if is_filtered || request.all => {
            let what = "one partition and filters exclude each other; nothing was changed";
            return Err(Problem::bad_request(what).allowed("`partition`, filters, or `all`"));
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
        return Err(Problem::bad_request(what).allowed("`partition`, filters, or `all`"));
    }
    let given = [
        ("all", request.all),
        ("clear_terminal", request.clear_terminal),
        ("force", request.force),
    ];
    let how = How { dry_run: request.dry_run, token: request.token, reason: request.reason };
    let asked = Asked {
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
    asked.act(app, visitor, how).await
}

/// Which partitions to make pending.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Backfill {
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
#[cfg_attr(test, utoipa::path(post, path = "/v1/partitions/backfill", tag = "partitions", request_body = Backfill,
    responses((status = 200, body = Changes<PartitionChangeView>), (status = 400, body = Problem),
              (status = 409, body = Problem), (status = 422, body = Problem), (status = 428, body = Problem))))]
pub(crate) async fn backfill(
    app: Shared,
    Extension(visitor): Extension<Visitor>,
    Json(asked): Json<Backfill>,
) -> Result<Answer<Changes<PartitionChangeView>>, Problem> {
    let missing = || Problem::bad_request("both days are needed");
    let since = day("since", Some(&asked.since))?.ok_or_else(missing)?;
    let until = day("until", Some(&asked.until))?.ok_or_else(missing)?;
    let days = DateRange::new(since, until)
        .map_err(|_| Problem::bad_request(format!("since {since} is after until {until}")))?;
    let declared = app.ops.declared().and_then(|declared| declared.source(&asked.source));
    let chosen = |given: &[String], known: Option<&Vec<String>>, what: &str| match (given, known) {
        ([], Some(known)) => Ok(known.clone()),
        ([], None) => {
            let source = &asked.source;
            let problem = format!("no source {source:?} is declared, and no {what} are given");
            Err(Problem::bad_request(problem).allowed(format!("`{what}`")))
        }
        (given, _) => Ok(given.to_vec()),
    };
    let customers = chosen(&asked.customers, declared.map(|it| &it.customers), "customers")?;
    let queries = chosen(&asked.queries, declared.map(|it| &it.queries), "queries")?;
    let grid = KeyGrid::new(&asked.source, &customers, &queries, days)
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    if grid.len() > MAX_UNITS as u64 {
        let what = format!("these are {} partitions; nothing was changed", grid.len());
        return Err(Problem::bad_request(what)
            .allowed(format!("up to {MAX_UNITS}; the command line takes any number")));
    }
    let force_pending = asked.force_pending;
    let lane = lane(asked.lane.as_deref(), Lane::Backfill)?;
    let how = How { dry_run: asked.dry_run, token: asked.token, reason: asked.reason };
    let filter = PartitionFilter {
        source: Some(asked.source),
        since: Some(since),
        until: Some(until),
        ..PartitionFilter::default()
    };
    let flags = force_pending.then(|| "force_pending".to_owned()).into_iter().collect();
    let asked = Asked {
        action: PartitionAction::Backfill { force_pending, lane },
        command: "api partitions backfill".to_owned(),
        flags,
        filter,
        force: false,
        selection: PartitionSelection::Grid(grid),
        named: false,
    };
    asked.act(&app, &visitor, how).await.map(Answer)
}

/// A change that is asked for.
struct Asked {
    action: PartitionAction,
    command: String,
    flags: Vec<String>,
    filter: PartitionFilter,
    force: bool,
    selection: PartitionSelection,
    /// Whether it is of one partition that is named.
    named: bool,
}

impl Asked {
    async fn act(
        self,
        app: &App,
        visitor: &Visitor,
        how: How,
    ) -> Result<Changes<PartitionChangeView>, Problem> {
        let name = format!("{} {:?} {:?}", self.command, self.action, self.flags);
        let order = AuditContext {
            by: app.operator(visitor, how.reason.as_deref()),
            command: self.command,
            filter: Some(self.filter),
            flags: self.flags,
        };
        let command = PartitionCommand::new(self.action, order);
        let command = if self.force { command.forced() } else { command };
        let foreseen = app.ops.foresee_partitions(&command, &self.selection, MAX_UNITS + 1).await?;
        let shown = foreseen.iter().cloned();
        let shown = shown.map(|outcome| PartitionChangeView::new(outcome, RunMode::DryRun));
        if let Some(seen) = seen(&name, shown.collect(), &how, self.named)? {
            return Ok(seen);
        }
        let done = app.ops.change_partitions(&command, &self.selection, &foreseen).await?;
        let done = done.into_iter().map(|outcome| PartitionChangeView::new(outcome, RunMode::Real));
        Ok(Changes::done(done.collect()))
    }
}
