//! The overview page: failures, their causes, and the next retries.

use axum::{Extension, response::Response};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::views::{ActivityPlace, ActivityRange, ActivityView, DueView, OverviewView};
use redrive_store::UnitKind;

use super::{
    PageResult,
    activity::ChartPage,
    causes, charts, gates,
    layout::{DashboardPage, NavSection, may_act},
    parts::{address, encoded, number, partition_address, pill, when_text},
    place::place_link,
    plans, workers,
};
use crate::{
    api::ActivityQuery,
    app::{App, AppState},
    extract::QueryParams,
    guard::Caller,
    problem::ProblemDetails,
};

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> PageResult<Response> {
    let overview = app.watch.overview().await?;
    let chart = chart(&app, &overview, &query).await?;
    let plans = plans::live_lines(&app).await?;
    let page = DashboardPage::new(
        NavSection::Overview,
        "Overview",
        body(&overview, &chart, &plans, may_act(&caller), app.ops.now()),
    );
    Ok(page.with_overview_version(overview.version).render(&app, &caller))
}

/// The kinds of units with their labels and list pages.
const KINDS: [(&str, &str, &str); 4] = [
    ("partition", "Partitions", "/partitions"),
    ("run", "Runs", "/runs"),
    ("item", "Uploads", "/uploads"),
    ("sample", "Samples", "/pipelines"),
];

/// The attempts of the range and the place that were asked for.
async fn chart(
    app: &App,
    overview: &OverviewView,
    query: &ActivityQuery,
) -> Result<Markup, ProblemDetails> {
    let (range, place, choices) = (query.range()?, query.place()?, places(app, overview));
    let activity = match (range, &place) {
        // The minutes of the overview have what ended a second ago.
        (ActivityRange::Hour, None) => ActivityView::of_minutes(&overview.activity, app.ops.now()),
        (range, place) => app.ops.activity(range, place.as_ref()).await?,
    };
    let page = ChartPage { path: "/", place: place.as_ref(), choices: &choices };
    Ok(html! {
        h2 { "Attempts in the last " (activity.span.in_words()) @if let Some(place) = &place { ", " (place.noun()) " " (place.name) } }
        (page.show(&activity))
    })
}

/// All places of the configuration, and those that have units.
fn places(app: &App, overview: &OverviewView) -> Vec<ActivityPlace> {
    let named = |kind, name: &str| ActivityPlace { kind, name: name.to_owned() };
    let queues = overview.queues.iter().map(|queue| named(UnitKind::Run, &queue.queue));
    let sources = overview.sources.iter().map(|it| named(UnitKind::Partition, &it.source));
    let mut places: Vec<ActivityPlace> = queues.chain(sources).collect();
    let Some(declared) = app.ops.declared() else { return places };
    places.extend(declared.uploads.iter().map(|upload| named(UnitKind::Item, &upload.name)));
    for pipeline in &declared.pipelines {
        places.push(named(UnitKind::Sample, &pipeline.name));
        let stages = pipeline.stages.iter();
        let stages = stages.map(|(stage, _)| format!("{}/{stage}", pipeline.name));
        places.extend(stages.map(|stage| named(UnitKind::Sample, &stage)));
    }
    places
}

fn body(
    overview: &OverviewView,
    chart: &Markup,
    plans: &Markup,
    may_act: bool,
    now: Timestamp,
) -> Markup {
    html! {
        h1 { "Overview" }
        p.lead { (overview.summary(number)) }
        (workers::unattended(&overview.unattended))
        div.grid {
            @if !plans.0.is_empty() { section { h2 { a href="/plans" { "Running plans" } } (plans) } }
            @if !overview.gates.is_empty() {
                section { h2 { a href="/gates" { "Gates that are not open" } } (gates::table(&overview.gates, false, now)) }
            }
            section.two-thirds {
                (chart)
            }
            section.third {
                h2 { "Scheduled next" }
                (due(&overview.due, now))
            }
            section {
                h2 { "Units by state" }
                (units(overview))
            }
            section {
                h2 { a href="/causes" { "Causes of failures" } }
                (causes::table(&overview.causes, may_act, now))
            }
            section.half { h2 { "Queues" } (queues(overview, now)) }
            section.half { h2 { "Pipelines" } (pipelines(overview)) }
        }
    }
}

fn units(overview: &OverviewView) -> Markup {
    html! {
        div.scroll { table.units { tbody {
            @for (kind, name, path) in KINDS {
                tr {
                    th scope="row" { a href=(path) { (name) } }
                    td {
                        @let counted: Vec<_> = overview.units.iter().filter(|unit| unit.kind == kind).collect();
                        @if counted.is_empty() { span.empty { "none yet" } }
                        div.tiles { @for unit in counted {
                            a.tile href=(state_address(kind, path, unit.state)) { b { (number(unit.count)) } (pill(unit.state)) }
                        } }
                        @if kind == "partition" { (sources(overview)) }
                    }
                }
            }
        } } }
    }
}

/// Links to the pages of sources, which have no list of their own.
fn sources(overview: &OverviewView) -> Markup {
    let links = overview.sources.iter().map(|it| place_link(UnitKind::Partition, &it.source));
    html! { @if !overview.sources.is_empty() { p.chips { @for link in links { span.chip { (link) } } } } }
}

const DUE_SHOWN: usize = 6;

fn is_due(at: &str, now: Timestamp) -> bool {
    at.parse().is_ok_and(|at: Timestamp| at <= now)
}

/// The list page of the units in a state.
fn state_address(kind: &str, path: &str, state: &str) -> String {
    let state = match (kind, state) {
        ("run", "waiting_for_retry") => "waiting",
        ("sample", "dlq") => return "/dead-letters".to_owned(),
        ("sample", _) => return path.to_owned(),
        _ => state,
    };
    address(path, [("state", state)])
}

fn due(due: &[DueView], now: Timestamp) -> Markup {
    if due.is_empty() {
        return html! { p.empty { "Nothing is scheduled." } };
    }
    let target = |due: &DueView| match due.kind {
        "queue" => address("/runs", [("queue", due.name.as_str()), ("state", "waiting")]),
        "partition" => due
            .name
            .parse()
            .map_or_else(|_| "/partitions".to_owned(), |key| partition_address(&key)),
        _ => "/pipelines".to_owned(),
    };
    html! {
        div.scroll { table { tbody { @for it in due.iter().take(DUE_SHOWN) { tr {
            td.nowrap { @if is_due(&it.at, now) { "due now" } @else { (when_text(&it.at, now)) } }
            td.text { a href=(target(it)) { (it.name) } br; span.lead { (it.what) } }
        } } } } }
    }
}

fn queues(overview: &OverviewView, now: Timestamp) -> Markup {
    if overview.queues.is_empty() {
        return html! { p.empty { "No queues. Declare one in the configuration: " code { "[[queue]]" } ", which " code { "redrive init" } " writes." } };
    }
    html! {
        div.scroll { table {
            thead { tr { th { "Queue" } th { "Runs" } th { "Oldest ready run" } } }
            tbody { @for queue in &overview.queues { tr {
                td.text {
                    (place_link(UnitKind::Run, &queue.queue))
                    @if queue.paused_at.is_some() { " " span.pill.retry { "‖ paused" } }
                    @if queue.unroutable == Some(true) { " " span.pill.bad { "✗ not declared" } }
                }
                td { @for (state, count) in queue.runs.iter().filter(|(_, count)| count.as_u64() != Some(0)) {
                    span.chip { (pill(state)) " " (number(count.as_u64().unwrap_or_default())) }
                } }
                td { @if let Some(at) = &queue.oldest_ready_at { (when_text(at, now)) } }
            } } }
        } }
    }
}

fn pipelines(overview: &OverviewView) -> Markup {
    if overview.pipeline_runs.is_empty() {
        return html! { p.empty { "No pipeline has run yet. Start one: " code { "redrive pipeline run NAME" } } };
    }
    html! {
        div.scroll { table {
            thead { tr { th { "Run" } th { "Status" } th { "Samples" } } }
            tbody { @for run in overview.pipeline_runs.iter().take(8) { tr {
                td.text { a href=(format!("/pipelines/{}", encoded(&run.id.to_string()))) { (run.pipeline) " " (run.id) } }
                td { (pill(run.status.name())) }
                td { (charts::progress(run)) (number(run.succeeded)) " of " (number(run.total)) @if run.dlq > 0 { ", " (number(run.dlq)) " dead" } }
            } } }
        } }
    }
}
