//! Dead letters, grouped by cause.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_core::{SampleId, SampleStatus};
use redrive_ops::{
    ExplainTarget, Explanation,
    views::{OverviewView, SampleView},
};
use redrive_store::{DeadCause, Selection, UnitKind};
use serde::Deserialize;

use super::{
    PageResult,
    causes::cause_field,
    layout::{DashboardPage, NavSection, may_act},
    logs::{LogQuery, UnitLogs},
    parts::{
        address, attempts, command_field, edit_form, excerpt, given, json, number, parse_json,
        pill, unit_journal, when_some,
    },
    place::place_link,
    resource::{Listed, bulk_links, counted_by_state, selected_actions, unit_actions},
    timeline::drawn,
};
use crate::{
    api::{NO_DATA, edit_sample},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    params::selection_fields,
    problem::ProblemDetails,
};

const CAUSES: u32 = 50;

impl Listed for SampleView {
    const PATH: &'static str = "/dead-letters";
    const SECTION: NavSection = NavSection::DeadLetters;
    const TITLE: &'static str = "Dead letters";
    const LEAD: &'static str = "Samples that failed permanently. \
        Errors that differ only in numbers, ids, quotations and paths have one cause.";
    const BEGIN: (&'static str, &'static str) =
        ("No dead letters: no sample has failed for good.", "");
    const BULK: fn(&Selection, &str) -> Markup = bulk_links::<Self>;
    const SELECTED: Option<fn(&str) -> Markup> = Some(selected_actions::<Self>);

    fn address(id: &SampleId) -> String {
        format!("/dead-letters/{id}")
    }

    fn own_cell(&self, heading: &str) -> Option<Markup> {
        let run = self.sample.run;
        match heading {
            "run" => Some(html! { a href=(format!("/pipelines/{run}")) { (run) } }),
            "pipeline" => Some(place_link(UnitKind::Sample, &self.sample.pipeline)),
            _ => None,
        }
    }

    fn counted(overview: &OverviewView, selection: &Selection) -> Option<u64> {
        counted_by_state(overview, "sample", selection)
    }

    async fn above(app: &App, caller: &Caller, selection: &Selection) -> PageResult<Markup> {
        let causes = app.ops.store().dead_causes(selection, CAUSES).await?;
        Ok(html! {
            section {
                h2 { "By cause" }
                (by_cause(app, selection, &causes, may_act(caller)))
            }
        })
    }
}

fn by_cause(app: &App, selection: &Selection, causes: &[DeadCause], may_act: bool) -> Markup {
    if causes.is_empty() {
        return html! { p.empty { "No dead letters." } };
    }
    let now = app.ops.now();
    let of = |cause: &DeadCause| Selection {
        pipeline: Some(cause.pipeline.clone()),
        stage: Some(cause.stage_name.clone()),
        cause: Some(cause.fingerprint.clone()),
        ..selection.clone()
    };
    let list = |cause| address("/dead-letters", selection_fields::<SampleView>(&of(cause)));
    html! {
        div.scroll { table {
            thead { tr { th.number { "Samples" } th { "Pipeline" } th { "Stage" } th { "Code" } th { "Example" } th { "Last" } th { "" } } }
            tbody { @for cause in causes { tr {
                td.number { a href=(list(cause)) { (number(cause.count)) } }
                td.text { (cause.pipeline) }
                td.text { (cause.stage_name) }
                td { (cause.code) }
                td.text { (excerpt(&cause.example)) }
                td { (when_some(cause.last_attempt_at, now)) }
                td.nowrap { @if may_act { (bulk_links::<SampleView>(&of(cause), "")) } }
            } } }
        } }
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    QueryParams(query): QueryParams<LogQuery>,
) -> PageResult<Response> {
    let target = ExplainTarget::Sample(SampleId(id));
    let Some(Explanation::Sample(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("there is no sample {id}")));
    };
    let (sample, now) = (&explanation.sample.sample, app.ops.now());
    let logs = UnitLogs::read(&app, &target, format!("/dead-letters/{id}"), &query).await?;
    let body = html! {
        h1 { "Sample " (id) " " (pill(sample.status.name())) }
        p.next { strong { "Next: " } (explanation.next.because) }
        (unit_actions(&caller, &explanation.sample, html! {}))
        @if may_act(&caller) && sample.status == SampleStatus::Dlq {
            section {
                h2 { "Repair" }
                (edit_form(&format!("/dead-letters/{id}/edit"), "Edit the data …", "data", sample.data.as_deref().unwrap_or(NO_DATA)))
            }
        }
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Run" } dd { a href=(format!("/pipelines/{}", sample.run)) { (sample.pipeline) " " (sample.run) } ", " (explanation.run_status) }
                    dt { "Line" } dd { (number(sample.line)) }
                    dt { "Stage" } dd { (sample.stage_name) }
                    (cause_field(sample.fingerprint.as_deref()))
                    (command_field(&explanation.unit))
                    @if let Some(reason) = &sample.skip_reason { dt { "Skipped because" } dd { (reason) } }
                }
                (json("Last error", sample.error_message.as_deref()))
            }
            section.half { (json("Data", sample.data.as_deref())) }
            @for stage in &explanation.stages { section {
                h2 { "Stage " (stage.stage) ": " (stage.outcome) }
                @let next_at = explanation.next.instant().filter(|_| stage.outcome == "current");
                (drawn(&stage.attempts, next_at, now))
                (attempts(&stage.attempts, None, Some(&logs), now))
            } }
            (logs.section(now))
            (unit_journal(&explanation.journal, may_act(&caller).then_some(("/dead-letters", &id.to_string())), now))
        }
    };
    Ok(DashboardPage::new(NavSection::DeadLetters, format!("Sample {id}"), body)
        .render(&app, &caller))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleEditForm {
    data: String,
    token: Option<String>,
    reason: Option<String>,
}

/// Replaces the data of a dead letter, and shows it again.
pub(super) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Form(form): Form<SampleEditForm>,
) -> PageResult<Response> {
    let data = parse_json("data", &form.data)?;
    let (token, reason) = (form.token.as_deref(), given(form.reason.as_deref()));
    edit_sample(&app, &caller, id, &data, token, reason).await?;
    Ok(Redirect::to(&format!("/dead-letters/{id}")).into_response())
}
