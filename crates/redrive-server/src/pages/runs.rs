//! Runs and queues.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_core::{RunId, RunState, RunStatus, Unit};
use redrive_ops::{
    ExplainTarget, Explanation, run_state_name,
    views::OverviewView,
    words::{between, rounded},
};
use redrive_store::{QueueAction, RunRecord, Selection, StateFilter, UnitKind};
use serde::Deserialize;

use super::{
    PageResult,
    causes::cause_field,
    layout::{DashboardPage, NavSection, may_act},
    logs::{LogQuery, UnitLogs},
    notice::Notice,
    parts::{
        attempts, command_field, edit_form, encoded, given, json, parse_json, pill, unit_journal,
        when,
    },
    place::place_link,
    resource::{Listed, bulk_links, selected_actions, unit_actions},
    timeline::drawn,
};
use crate::{
    api::{change_queue, edit_run},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

impl Listed for RunRecord {
    const PATH: &'static str = "/runs";
    const SECTION: NavSection = NavSection::Runs;
    const TITLE: &'static str = "Runs";
    const LEAD: &'static str = "Runs of queues.";
    const BEGIN: (&'static str, &'static str) =
        ("No runs yet. Submit the first", "redrive runs submit --queue NAME --payload '{}'");
    const BULK: fn(&Selection, &str) -> Markup = bulk_links::<Self>;
    const SELECTED: Option<fn(&str) -> Markup> = Some(selected_actions::<Self>);

    fn address(id: &RunId) -> String {
        format!("/runs/{id}")
    }

    fn own_cell(&self, heading: &str) -> Option<Markup> {
        (heading == "queue").then(|| place_link(UnitKind::Run, &self.queue))
    }

    fn counted(overview: &OverviewView, selection: &Selection) -> Option<u64> {
        let Selection { queue, state, .. } = selection;
        let known = Selection { queue: queue.clone(), state: *state, ..Selection::default() };
        let is_meant = |(run, _): &&(RunState, u64)| {
            let run = StateFilter::from(*run);
            state.is_none_or(|state| state.is_of(run))
        };
        let queues = overview.queues.iter();
        let queues = queues.filter(|it| queue.as_ref().is_none_or(|queue| *queue == it.queue));
        let counts = queues.flat_map(|queue| queue.counts.iter().filter(is_meant));
        (*selection == known).then(|| counts.map(|(_, runs)| runs).sum())
    }

    async fn above(_: &App, _: &Caller, selection: &Selection) -> PageResult<Markup> {
        Ok(html! {
            @if let Some(queue) = &selection.queue {
                p { "Queue " (place_link(UnitKind::Run, queue)) ": its policy, its workers and its pause." }
            }
        })
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    QueryParams(query): QueryParams<LogQuery>,
) -> PageResult<Response> {
    let target = ExplainTarget::Unit(Unit::Run(RunId(id)));
    let Some(Explanation::Run(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("there is no run {id}")));
    };
    let (run, now) = (&explanation.run, app.ops.now());
    let logs = UnitLogs::read(&app, &target, format!("/runs/{id}"), &query).await?;
    let first = explanation.attempts.first().and_then(|first| first.started_at.parse().ok());
    let waited = first.map(|first| rounded(between(run.submitted_at, first)));
    let body = html! {
        h1 { "Run " (id) " " (pill(run_state_name(run.state()))) }
        p.next { strong { "Next: " } (explanation.next.because) }
        (unit_actions(&caller, run, edit_payload(run)))
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Queue" } dd { (place_link(UnitKind::Run, &run.queue)) }
                    @if !run.category.is_empty() { dt { "Category" } dd { (run.category) } }
                    dt { "Submitted" } dd { (when(run.submitted_at, now)) }
                    @if let Some(waited) = waited { dt { "Wait for the first attempt" } dd { (waited) } }
                    @if let Some(key) = &run.idempotency_key { dt { "Idempotency key" } dd { (key) } }
                    dt { "Attempts" } dd { (run.attempts) }
                    (cause_field(run.fingerprint.as_deref()))
                    @if let Some(owner) = &run.lease_owner { dt { "Held by" } dd { (owner.0) } }
                    (command_field(&explanation.unit))
                }
            }
            section.half {
                (json("Payload", Some(&run.payload)))
                (json("Result", run.result.as_deref()))
                (json("Last error", run.error_message.as_deref()))
            }
            section { h2 { "Attempts" } (drawn(&explanation.attempts, explanation.next.instant(), now)) (attempts(&explanation.attempts, None, Some(&logs), now)) }
            (logs.section(now))
            (unit_journal(&explanation.journal, may_act(&caller).then_some(("/runs", &id.to_string())), now))
        }
    };
    Ok(DashboardPage::new(NavSection::Runs, format!("Run {id}"), body).render(&app, &caller))
}

fn edit_payload(run: &RunRecord) -> Markup {
    let path = format!("/runs/{}/edit", run.id);
    html! {
        @match run.status {
            RunStatus::Passed => p.empty { "The run has passed." },
            RunStatus::Discovered | RunStatus::Error => (edit_form(&path, "Edit the payload …", "payload", &run.payload)),
            _ => {},
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunEditForm {
    payload: String,
    token: Option<String>,
    reason: Option<String>,
}

/// Replaces the payload of a run, and shows the run again.
pub(super) async fn edit(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    Form(form): Form<RunEditForm>,
) -> PageResult<Response> {
    let payload = parse_json("payload", &form.payload)?;
    let (token, reason) = (form.token.as_deref(), given(form.reason.as_deref()));
    edit_run(&app, &caller, id, &payload, token, reason).await?;
    Ok(Redirect::to(&format!("/runs/{id}")).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueActionForm {
    queue: String,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn act_on_queue(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Form(form): Form<QueueActionForm>,
) -> PageResult<Response> {
    let action = match name.as_str() {
        "pause" => QueueAction::Pause,
        "resume" => QueueAction::Resume,
        _ => return Err(ProblemDetails::not_found("unknown queue action").allowed("pause, resume")),
    };
    let (queue, reason) = (form.queue.as_str(), given(form.reason.as_deref()));
    change_queue(&app, &caller, action, queue.to_owned(), reason).await?;
    Ok(Notice::new(&name, 1, 0).redirect(&format!("/queues/{}", encoded(queue))))
}
