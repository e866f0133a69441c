//! Runs and queues.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_core::{RunId, RunStatus};
use redrive_ops::{
    ExplainTarget, Explanation,
    views::RunView,
    words::{between, rounded},
};
use redrive_store::{PageLimit, QueueAction, RunFilter};
use serde::Deserialize;

use super::{
    PageResult,
    changed::{done, preview, title_case},
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        act_button, address, attempts, edit_form, excerpt, filter_choice, filter_field, given,
        journal, json, last_of, more, parse_json, pill, when_some,
    },
};
use crate::{
    api::{RunActionRequest, change_queue, change_runs, edit_run, named, run_status_names},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const ROWS: u32 = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunListQuery {
    queue: Option<String>,
    category: Option<String>,
    status: Option<String>,
    after: Option<i64>,
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<RunListQuery>,
) -> PageResult<Response> {
    let status = given(query.status.as_deref());
    let known = named("status", status, RunStatus::from_name, &run_status_names())?;
    let filter = RunFilter {
        queue: given(query.queue.as_deref()).map(str::to_owned),
        category: given(query.category.as_deref()).map(str::to_owned),
        status: known,
    };
    let after = RunId(query.after.unwrap_or(0));
    let page = app.ops.store().runs_page(&filter, after, PageLimit::without_data(ROWS)).await?;
    let last = last_of(&page, ROWS, |run| run.id.0);
    let rows: Vec<RunView> = page.into_iter().map(RunView::from).collect();
    let (queue, category) = (filter.queue.as_deref(), filter.category.as_deref());
    let params = [("queue", queue), ("category", category), ("status", status)];
    let next = last.map(|last| {
        let [one, two, three] = params;
        address("/runs", &[one, two, three, ("after", Some(&last))])
    });
    let body = html! {
        h1 { "Runs" }
        p.lead { "Runs of queues, by id." }
        form.filters method="get" action="/runs" {
            (filter_field("queue", "Queue", queue))
            (filter_field("category", "Category", category))
            (filter_choice("status", "Status", status, &run_status_names()))
            button type="submit" { "Show" }
        }
        @if let (Some(queue), true) = (queue, may_act(&caller)) { (queue_actions(queue, &params)) }
        section { (table(&app, &rows)) (more(next)) }
    };
    Ok(DashboardPage::new(NavSection::Runs, "Runs", body).render(&app, &caller))
}

fn queue_actions(queue: &str, params: &[(&str, Option<&str>); 3]) -> Markup {
    let [one, two, three] = *params;
    let preview = |action| address("/runs/preview", &[("action", Some(action)), one, two, three]);
    html! {
        section {
            h2 { "Queue " (queue) }
            div.actions {
                a href=(preview("retry")) { "Retry all that match …" }
                a href=(preview("cancel")) { "Cancel all that match …" }
                (act_button("/queues/pause", &[("queue", queue)], "Pause"))
                form.inline method="post" action="/queues/resume" {
                    input type="hidden" name="queue" value=(queue);
                    button type="submit" { "Resume" }
                }
            }
        }
    }
}

fn table(app: &App, rows: &[RunView]) -> Markup {
    if rows.is_empty() {
        return html! { p.empty { "No runs match." } };
    }
    let now = app.ops.now();
    html! {
        div.scroll { table {
            thead { tr {
                th.number { "Id" } th { "Queue" } th { "Category" } th { "Status" } th.number { "Attempts" }
                th { "Submitted" } th { "Next retry" } th { "Error" }
            } }
            tbody { @for run in rows { tr {
                td.number { a href=(format!("/runs/{}", run.id)) { (run.id) } }
                td.text { (run.queue) }
                td { (run.category) }
                td { (pill(state(run))) }
                td.number { (run.attempts) }
                td { (when_some(Some(&run.submitted_at), now)) }
                td { (when_some(run.next_retry_at.as_deref(), now)) }
                td.text { (excerpt(run.error_message.as_deref().unwrap_or_default())) }
            } } }
        } }
    }
}

/// Splits `error` into its two states.
fn state(run: &RunView) -> &'static str {
    match (run.status, &run.next_retry_at) {
        ("error", Some(_)) => "waiting_for_retry",
        ("error", None) => "given_up",
        (status, _) => status,
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
) -> PageResult<Response> {
    let target = ExplainTarget::Unit(redrive_core::Unit::Run(RunId(id)));
    let Some(Explanation::Run(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("there is no run {id}")));
    };
    let (run, now) = (&explanation.run, app.ops.now());
    let waited = match (run.submitted_at.parse(), explanation.attempts.first()) {
        (Ok(from), Some(first)) => {
            first.started_at.parse().ok().map(|to| rounded(between(from, to)))
        }
        _ => None,
    };
    let body = html! {
        h1 { "Run " (id) " " (pill(state(run))) }
        p.next { strong { "Next: " } (explanation.next.because) }
        @if may_act(&caller) { section { h2 { "Actions" } (actions(run)) } }
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Queue" } dd { a href=(address("/runs", &[("queue", Some(&run.queue))])) { (run.queue) } }
                    @if !run.category.is_empty() { dt { "Category" } dd { (run.category) } }
                    dt { "Submitted" } dd { (when_some(Some(&run.submitted_at), now)) }
                    @if let Some(waited) = waited { dt { "Wait for the first attempt" } dd { (waited) } }
                    @if let Some(key) = &run.idempotency_key { dt { "Idempotency key" } dd { (key) } }
                    dt { "Attempts" } dd { (run.attempts) }
                    @if let Some(owner) = &run.lease_owner { dt { "Held by" } dd { (owner) } }
                }
            }
            section.half {
                (json("Payload", Some(run.payload_json())))
                (json("Result", run.result_json()))
                (json("Last error", run.error_message.as_deref()))
            }
            section { h2 { "Attempts" } (attempts(&explanation.attempts, None, now)) }
            section { h2 { "Journal" } (journal(&explanation.journal, false, now)) }
        }
    };
    Ok(DashboardPage::new(NavSection::Runs, format!("Run {id}"), body).render(&app, &caller))
}

fn actions(run: &RunView) -> Markup {
    let id = run.id.to_string();
    let button = |action: &str, name| act_button(&format!("/runs/{action}"), &[("id", &id)], name);
    html! {
        div.actions {
            @if matches!(run.status, "error" | "failed" | "needs_review" | "cancelled") { (button("retry", "Retry now")) }
            @if matches!(run.status, "discovered" | "processing" | "error") { (button("cancel", "Cancel")) }
            @if run.status == "passed" { p.empty { "The run has passed." } }
        }
        @if matches!(run.status, "discovered" | "error") {
            (edit_form(&format!("/runs/{id}/edit"), "Edit the payload …", "payload", run.payload_json()))
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunEditForm {
    payload: String,
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
    edit_run(&app, &caller, id, &payload, given(form.reason.as_deref())).await?;
    Ok(Redirect::to(&format!("/runs/{id}")).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunActionForm {
    id: Option<i64>,
    queue: Option<String>,
    category: Option<String>,
    status: Option<String>,
    token: Option<String>,
    reason: Option<String>,
    action: Option<String>,
}

impl RunActionForm {
    fn request(&self, dry_run: bool) -> RunActionRequest {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        RunActionRequest {
            ids: self.id.into_iter().collect(),
            queue: text(&self.queue),
            category: text(&self.category),
            status: text(&self.status),
            dry_run,
            token: text(&self.token),
            reason: text(&self.reason),
        }
    }

    fn back(&self) -> String {
        match self.id {
            Some(id) => format!("/runs/{id}"),
            None => address("/runs", &self.fields()),
        }
    }

    fn fields(&self) -> [(&'static str, Option<&str>); 3] {
        let (queue, category) = (self.queue.as_deref(), self.category.as_deref());
        [("queue", queue), ("category", category), ("status", self.status.as_deref())]
    }
}

pub(super) async fn preview_action(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(form): QueryParams<RunActionForm>,
) -> PageResult<Response> {
    let name = form.action.as_deref().unwrap_or_default();
    let changes = change_runs(&app, &caller, name, form.request(true)).await?;
    let title = format!("{} runs?", title_case(name));
    let action = format!("/runs/{name}");
    let body = preview(&title, &changes, &action, &form.fields(), &form.back());
    Ok(DashboardPage::new(NavSection::Runs, title, body).not_live().render(&app, &caller))
}

pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Form(form): Form<RunActionForm>,
) -> PageResult<Response> {
    let changes = change_runs(&app, &caller, &name, form.request(false)).await?;
    let body = done(&format!("{}: done", title_case(&name)), &changes, &form.back());
    Ok(DashboardPage::new(NavSection::Runs, "Runs", body).not_live().render(&app, &caller))
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
    let (action, state) = match name.as_str() {
        "pause" => (QueueAction::Pause, "paused: workers claim no more runs"),
        "resume" => (QueueAction::Resume, "active: workers claim runs"),
        _ => return Err(ProblemDetails::not_found("unknown queue action").allowed("pause, resume")),
    };
    let (queue, reason) = (form.queue.as_str(), given(form.reason.as_deref()));
    change_queue(&app, &caller, action, queue.to_owned(), reason).await?;
    let body = html! {
        h1 { "Queue " (queue) }
        section { p { "The queue is " (state) "." } p { a href=(address("/runs", &[("queue", Some(queue))])) { "Back" } } }
    };
    Ok(DashboardPage::new(NavSection::Runs, "Queue", body).not_live().render(&app, &caller))
}
