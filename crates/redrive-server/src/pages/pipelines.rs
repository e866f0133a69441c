//! Pipelines and their runs.

use axum::{Extension, response::Response};
use maud::{Markup, html};
use redrive_core::{PipelineRunId, PipelineStatus};
use redrive_ops::{
    views::{PipelineRunView, PipelineStatsView},
    words::percent,
};
use redrive_store::{Selection, UnitKind};
use serde::Deserialize;

use super::{
    PageResult, charts,
    layout::{DashboardPage, NavSection, may_act},
    notice::Notice,
    parts::{act_button, address, danger_button, given, number, pill, when},
    place::{self, place_link},
    resource::Listed,
};
use crate::{
    api::{ActivityQuery, cancel_run, find_run, resume_run, start_run},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

impl Listed for PipelineRunView {
    const PATH: &'static str = "/pipelines";
    const SECTION: NavSection = NavSection::Pipelines;
    const TITLE: &'static str = "Pipelines";
    const LEAD: &'static str = "Runs of pipelines.";
    const BEGIN: (&'static str, &'static str) =
        ("No pipeline has run yet. Start one", "redrive pipeline run NAME");

    fn address(id: &PipelineRunId) -> String {
        format!("/pipelines/{id}")
    }

    async fn above(app: &App, caller: &Caller, _: &Selection) -> PageResult<Markup> {
        Ok(html! { @if may_act(caller) { (startable(app)) } })
    }

    fn own_cell(&self, heading: &str) -> Option<Markup> {
        match heading {
            "pipeline" => Some(place_link(UnitKind::Sample, &self.pipeline)),
            "success rate" => Some(charts::progress(self)),
            _ => None,
        }
    }
}

fn startable(app: &App) -> Markup {
    let mut names: Vec<&String> = app.pipelines.keys().collect();
    names.sort();
    html! {
        @if !names.is_empty() {
            section { h2 { "Start a run" } div.actions { @for name in names {
                form.inline method="post" action="/pipelines/start" {
                    input type="hidden" name="pipeline" value=(name);
                    button type="submit" { "Run " (name) }
                }
            } } }
        }
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<String>,
    QueryParams(query): QueryParams<ActivityQuery>,
) -> PageResult<Response> {
    // The pages of pipelines and of their runs share a path.
    let Ok(id) = id.parse::<i64>() else {
        let kind = (UnitKind::Sample, NavSection::Pipelines);
        return place::show(&app, &caller, kind, id, &query).await;
    };
    let record = find_run(&app, id).await?;
    let stats = app.ops.pipeline_stats(&record).await?;
    let (run, now) = (PipelineRunView::from(&record), app.ops.now());
    let body = html! {
        h1 { (run.pipeline) " " (run.id) " " (pill(run.status.name())) }
        @if let Some(reason) = &run.stop_reason { p.next { strong { "Stopped because: " } (reason) } }
        @if may_act(&caller) { (actions(&run)) }
        div.grid {
            section.two-thirds {
                h2 { "Progress" }
                (charts::progress(&run))
                p { (number(run.succeeded)) " of " (number(run.total)) @if !run.source_done { "+" } " succeeded, "
                    (number(run.skipped)) " skipped, " (number(run.dlq)) " dead, " (number(run.pending)) " pending." }
                @if run.dlq > 0 { p { a href=(address("/dead-letters", [("run", run.id.to_string())])) { "Causes of failures" } } }
            }
            section.third { h2 { "Failure budget" } (charts::budget(&run)) }
            section { h2 { "Stages" } (stages(&stats)) }
            @for stage in &stats.stages { section.half {
                h2 { "Retries at " (stage.counts.stage) }
                @if stage.retry_histogram.is_empty() { p.empty { "No attempts yet." } }
                @else { (charts::histogram(&stage.counts.stage, &stage.retry_histogram)) }
                @if !stage.errors.is_empty() {
                    p { "Errors: " @for error in &stage.errors { span.chip { (pill("failed")) " " (error.code) " × " (number(error.count)) } } }
                }
            } }
            section {
                h2 { "Details" }
                dl {
                    dt { "Pipeline" } dd { (place_link(UnitKind::Sample, &run.pipeline)) }
                    dt { "Source" } dd { (run.source) ", " (number(run.lines_read)) " lines read" @if run.source_done { ", complete" } }
                    dt { "Started" } dd { (when(run.started_at, now)) " by " (run.started_by) }
                    @if let Some(at) = run.ended_at { dt { "Ended" } dd { (when(at, now)) } }
                    @if let Some(rate) = run.success_rate { dt { "Success rate" } dd { (percent(rate)) } }
                }
            }
        }
    };
    let title = format!("{} {}", run.pipeline, run.id);
    Ok(DashboardPage::new(NavSection::Pipelines, title, body).render(&app, &caller))
}

fn stages(stats: &PipelineStatsView) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "Stage" } th.number { "Done" } th.number { "Ready" } th.number { "In flight" } th.number { "Retrying" }
                th.number { "Skipped" } th.number { "Dead" } th.number { "Attempts" } th.number { "Reliability" } th.number { "Retried" }
            } }
            tbody { @for stage in &stats.stages { tr {
                td.text { (stage.counts.stage) }
                td.number { (number(stage.counts.done)) }
                td.number { (number(stage.counts.ready)) }
                td.number { (number(stage.counts.in_flight)) }
                td.number { (number(stage.counts.retrying)) }
                td.number { (number(stage.counts.skipped)) }
                td.number { (number(stage.counts.dlq)) }
                td.number { (number(stage.attempts)) }
                td.number { (stage.reliability.map(percent).unwrap_or_default()) }
                td.number { (stage.retry_rate.map(percent).unwrap_or_default()) }
            } } }
        } }
    }
}

fn actions(run: &PipelineRunView) -> Markup {
    let path = |action: &str| format!("/pipelines/{}/{action}", run.id);
    html! {
        section { h2 { "Actions" } div.actions {
            @if matches!(run.status, PipelineStatus::Aborted | PipelineStatus::Cancelled) { (act_button(&path("resume"), &[], "Resume")) }
            @if run.status == PipelineStatus::Running { (danger_button(&path("cancel"), &[], "Cancel")) }
            @if matches!(run.status, PipelineStatus::Completed | PipelineStatus::PartialSuccess | PipelineStatus::Failed) { p.empty { "The run has ended." } }
        } }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PipelineActionForm {
    pipeline: Option<String>,
    reason: Option<String>,
}

pub(super) async fn start(
    app: AppState,
    Extension(caller): Extension<Caller>,
    Form(form): Form<PipelineActionForm>,
) -> PageResult<Response> {
    let name = form.pipeline.as_deref().unwrap_or_default();
    let run = start_run(&app, &caller, name, given(form.reason.as_deref())).await?;
    Ok(Notice::new("start", 1, 0).redirect(&PipelineRunView::address(&run.id)))
}

pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams((id, name)): PathParams<(i64, String)>,
    Form(form): Form<PipelineActionForm>,
) -> PageResult<Response> {
    let reason = given(form.reason.as_deref());
    let run = match name.as_str() {
        "resume" => resume_run(&app, &caller, id, reason).await?,
        "cancel" => cancel_run(&app, &caller, id, reason).await?,
        _ => {
            return Err(
                ProblemDetails::not_found("unknown pipeline run action").allowed("resume, cancel")
            );
        }
    };
    Ok(Notice::new(&name, 1, 0).redirect(&PipelineRunView::address(&run.id)))
}
