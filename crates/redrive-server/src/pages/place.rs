//! The page of a queue, a source, an upload or a pipeline: how it stands, how it retries, and who serves it.

use std::sync::Arc;

use axum::{Extension, response::Response};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_core::{ItemId, PipelineRunId};
use redrive_ops::views::{
    ActivityPlace, ActivityRange, ActivityView, CauseView, OverviewView, PipelineRunView,
    QueueView, UnattendedView, WorkerView,
};
use redrive_store::{PageLimit, PipelineRunRecord, Selection, UnitKind};

use super::{
    PageResult,
    activity::{ChartPage, units_of},
    causes, gates,
    layout::{DashboardPage, NavSection, may_act},
    parts::{act_button, address, encoded, number, pill, when_text},
    place_parts::{PlaceFigures, policies, serving, states},
    resource::title_case,
    workers::{serving_table, unattended},
};
use crate::{
    api::ActivityQuery,
    app::{App, AppState},
    extract::{PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Causes among which those of the place are looked for.
const CAUSES: u32 = 30;

const CAUSES_SHOWN: usize = 5;

const GATES: u32 = 20;

/// The newest runs of a pipeline.
const PIPELINE_RUNS: u32 = 8;

/// The page of a place.
pub(super) fn place_address(place: &ActivityPlace) -> String {
    let name = place.name.split('/').next().unwrap_or_default();
    match place.kind {
        UnitKind::Run => format!("/queues/{}", encoded(&place.name)),
        UnitKind::Partition => format!("/sources/{}", encoded(&place.name)),
        UnitKind::Item => format!("/uploads/{}", encoded(&place.name)),
        UnitKind::Sample => format!("/pipelines/{}", encoded(name)),
    }
}

/// The name of a place as a link to its page.
pub(super) fn place_link(kind: UnitKind, name: &str) -> Markup {
    let place = ActivityPlace { kind, name: name.to_owned() };
    html! { a href=(place_address(&place)) { (name) } }
}

pub(super) async fn queue(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> PageResult<Response> {
    show(&app, &caller, (UnitKind::Run, NavSection::Runs), name, &query).await
}

pub(super) async fn source(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> PageResult<Response> {
    show(&app, &caller, (UnitKind::Partition, NavSection::Partitions), name, &query).await
}

/// The page of a queue, a source, an upload or a pipeline.
pub(super) async fn show(
    app: &App,
    caller: &Caller,
    (kind, section): (UnitKind, NavSection),
    name: String,
    query: &ActivityQuery,
) -> PageResult<Response> {
    let place = ActivityPlace { kind, name };
    let page = PlacePage::read(app, place, query).await?;
    let body = page.body(app, caller).await?;
    let title = format!("{} {}", page.place.noun(), page.place.name);
    let page_of = DashboardPage::new(section, title, body);
    Ok(page_of.with_overview_version(page.overview.version).render(app, caller))
}

struct PlacePage {
    place: ActivityPlace,
    overview: Arc<OverviewView>,
    activity: ActivityView,
    /// The workers that serve the place.
    workers: Vec<WorkerView>,
    /// The newest runs of a pipeline.
    runs: Vec<PipelineRunRecord>,
    now: Timestamp,
}

impl PlacePage {
    async fn read(app: &App, place: ActivityPlace, query: &ActivityQuery) -> PageResult<Self> {
        let overview = app.watch.overview().await?;
        let runs = match place.kind {
            UnitKind::Sample => {
                let pipeline = Some(place.name.clone());
                let selection = Selection { pipeline, ..Selection::default() };
                let newest = PipelineRunId(i64::MAX);
                let limit = PageLimit::from(PIPELINE_RUNS).newest_first();
                app.ops.store().pipeline_runs_page(&selection, newest, limit).await?
            }
            _ => Vec::new(),
        };
        let mut workers = app.ops.workers().await?;
        workers.retain(|worker| serving(worker, &place).next().is_some());
        let activity = app.ops.activity(query.range()?, Some(&place)).await?;
        let page = Self { overview, activity, workers, runs, now: app.ops.now(), place };
        match page.is_known(app).await? {
            true => Ok(page),
            false => {
                let what = format!("there is no {} {:?}", page.place.noun(), page.place.name);
                Err(ProblemDetails::not_found(what))
            }
        }
    }

    /// Whether the configuration declares the place, or it has units, workers or attempts.
    async fn is_known(&self, app: &App) -> PageResult<bool> {
        let (name, declared) = (&self.place.name, app.ops.declared());
        let is_known = match self.place.kind {
            UnitKind::Run => self.overview.queues.iter().any(|queue| queue.queue == *name),
            UnitKind::Partition => self.overview.sources.iter().any(|it| it.source == *name),
            UnitKind::Item => declared.is_some_and(|it| it.upload(name).is_some()),
            UnitKind::Sample => {
                !self.runs.is_empty() || declared.is_some_and(|it| it.pipeline(name).is_some())
            }
        };
        if is_known || !self.workers.is_empty() || self.activity.attempts() > 0 {
            return Ok(true);
        }
        if self.place.kind == UnitKind::Run && app.ops.queue(name).await?.paused {
            return Ok(true);
        }
        if self.place.kind == UnitKind::Item {
            let selection = Selection { upload: Some(name.clone()), ..Selection::default() };
            let first = app.ops.store().items_page(&selection, ItemId(0), 1.into()).await?;
            if !first.is_empty() {
                return Ok(true);
            }
        }
        let month = app.ops.activity(ActivityRange::Month, Some(&self.place)).await?;
        Ok(month.attempts() > 0)
    }

    async fn body(&self, app: &App, caller: &Caller) -> PageResult<Markup> {
        let (place, may_act) = (&self.place, may_act(caller));
        let path = place_address(place);
        let chart = ChartPage { path: &path, place: Some(place), choices: &[] };
        let pause = self.pause(app, may_act).await?;
        let (gates, causes) = (self.gates(app).await?, self.causes(app).await?);
        let is_here = |it: &&UnattendedView| it.kind == place.noun() && it.name == place.name;
        let waiting: Vec<_> = self.overview.unattended.iter().filter(is_here).cloned().collect();
        let (list, terms) = units_of(place);
        let policies = policies(app, place);
        let figures = PlaceFigures {
            place,
            overview: &self.overview,
            activity: &self.activity,
            workers: &self.workers,
            now: self.now,
        };
        Ok(html! {
            h1 { (title_case(place.noun())) " " (place.name) }
            p.lead { a href=(address(list, terms)) { (list_title(place)) } }
            (unattended(&waiting))
            (pause)
            div.grid {
                section.two-thirds {
                    h2 { "Attempts in the last " (self.activity.span.in_words()) }
                    (chart.show(&self.activity))
                }
                section.third { h2 { "Now" } (figures.show()) (states(place, &self.overview)) }
                @if !self.runs.is_empty() { section { h2 { "Newest runs" } (self.runs_table()) } }
                @for policy in &policies { section.half { (policy) } }
                section.half[policies.len() % 2 == 1] { h2 { a href="/workers" { "Workers" } } (self.workers_table(app)) }
                @if !gates.0.is_empty() { section { h2 { a href="/gates" { "Gates" } } (gates) } }
                section { h2 { a href="/causes" { "Causes of failures" } } (causes::table(&causes, may_act, self.now)) }
            }
        })
    }

    /// Who paused a queue and why, with a button that resumes it; or one that pauses it.
    async fn pause(&self, app: &App, may_act: bool) -> PageResult<Markup> {
        if self.place.kind != UnitKind::Run {
            return Ok(html! {});
        }
        let name = &self.place.name;
        let queue = app.ops.queue(name).await?;
        let fields = [("queue", name.as_str())];
        Ok(match queue {
            QueueView { paused: true, paused_at, paused_by, reason, .. } => html! {
                div.next.warn {
                    strong { "Paused" } " by " (paused_by.unwrap_or_default())
                    @if let Some(at) = &paused_at { ", " (when_text(at, self.now)) }
                    @if let Some(reason) = &reason { ": " (reason) } "."
                    @if may_act { (act_button("/queues/resume", &fields, "Resume")) }
                }
            },
            _ => html! { @if may_act {
                details { summary { "Pause the queue …" } (act_button("/queues/pause", &fields, "Pause")) }
            } },
        })
    }

    async fn gates(&self, app: &App) -> PageResult<Markup> {
        let names = app.ops.gates_of(&self.place).await?;
        let mut rows = Vec::new();
        for name in &names {
            rows.extend(app.ops.gates(Some(name), false, ("", ""), GATES).await?);
        }
        Ok(html! { @if !rows.is_empty() { (gates::table(&rows, false, self.now)) } })
    }

    /// The causes of the last day with failures of this place.
    async fn causes(&self, app: &App) -> PageResult<Vec<CauseView>> {
        let mut causes = app.ops.causes(Some(self.place.kind), None, None, CAUSES).await?;
        let stages = format!("{}/", self.place.name);
        let is_here = |place: &str| place == self.place.name || place.starts_with(&stages);
        causes.retain(|cause| cause.places.iter().any(|it| is_here(&it.place)));
        causes.truncate(CAUSES_SHOWN);
        Ok(causes)
    }

    fn runs_table(&self) -> Markup {
        html! {
            div.scroll { table {
                thead { tr { th { "Run" } th { "Status" } th.number { "Pending" } th.number { "Dead" } th.number { "Samples" } } }
                tbody { @for run in self.runs.iter().map(PipelineRunView::from) { tr {
                    td.text { a href=(format!("/pipelines/{}", run.id)) { (run.pipeline) " " (run.id) } }
                    td { (pill(run.status.name())) }
                    td.number { (number(run.pending)) }
                    td.number { (number(run.dlq)) }
                    td.number { (number(run.total)) }
                } } }
            } }
        }
    }

    fn workers_table(&self, app: &App) -> Markup {
        if self.workers.is_empty() {
            return match self.place.kind {
                UnitKind::Item => {
                    html! { p.empty { "A group is sent by the command or the server that is asked to." } }
                }
                _ => html! { p.empty { "No worker serves it." } },
            };
        }
        serving_table(&self.workers, &self.place, app.ops.store().now())
    }
}

fn list_title(place: &ActivityPlace) -> &'static str {
    match place.kind {
        UnitKind::Run => "All runs of the queue",
        UnitKind::Partition => "The calendar of the source",
        UnitKind::Item => "All items of the upload",
        UnitKind::Sample => "Dead letters of the pipeline",
    }
}
