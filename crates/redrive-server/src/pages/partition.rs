//! The page of a partition, and the actions on partitions.

use axum::{Extension, response::Response};
use maud::{Markup, html};
use redrive_core::PartitionKey;
use redrive_ops::{ExplainTarget, Explanation, views::PartitionView};
use serde::Deserialize;

use super::{
    PageResult,
    changed::{done, preview, title_case},
    layout::{DashboardPage, NavSection, may_act},
    partitions::state,
    parts::{
        act_button, address, attempts, given, journal, json, number, partition_address, pill,
        when_some,
    },
};
use crate::{
    api::{KeyParts, PartitionActionRequest, change_partitions, key_of},
    app::AppState,
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(parts): PathParams<KeyParts>,
) -> PageResult<Response> {
    let key = key_of(&parts)?;
    let target = ExplainTarget::Unit(redrive_core::Unit::Partition(key.clone()));
    let Some(Explanation::Partition(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("partition:{key} has no entry")));
    };
    let (partition, now) = (&explanation.partition, app.ops.now());
    let series = [
        ("source", Some(key.source())),
        ("customer_id", Some(key.customer_id())),
        ("query_name", Some(key.query_name())),
    ];
    let authority = partition.current_run_id.as_deref();
    let body = html! {
        h1 { (key.source()) " / " (key.customer_id()) " / " (key.query_name()) " / " (key.logical_date().to_string())
             " " (pill(state(partition))) @if partition.paused { " " span.pill.retry { "‖ paused" } } }
        p.next { strong { "Next: " } (explanation.next.because) }
        @if may_act(&caller) { section { h2 { "Actions" } (actions(&key, partition)) } }
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Series" } dd { a href=(address("/partitions", &series)) { "calendar" } }
                    dt { "Authority" } dd { @match authority {
                        Some(run_id) => { code { (run_id) } },
                        None => { "none: the partition is not readable" },
                    } }
                    @if let Some(count) = partition.record_count { dt { "Records" } dd { (number(count)) } }
                    @if let Some(version) = &partition.schema_version { dt { "Schema" } dd { (version) } }
                    dt { "Attempts" } dd { (partition.attempt_count.unwrap_or(0)) }
                    dt { "Changed" } dd { (when_some(partition.updated_at.as_deref(), now)) }
                    @if let Some(at) = &partition.next_retry_at { dt { "Next retry" } dd { (when_some(Some(at), now)) } }
                    @if let Some(by) = &partition.paused_by { dt { "Paused by" } dd { (by) " " (partition.pause_reason.as_deref().unwrap_or_default()) } }
                }
            }
            section.half { (json("Last error", partition.error_message.as_deref()))
                @if partition.error_message.is_none() { h2 { "Last error" } p.empty { "None." } } }
            section { h2 { "Attempts and raw runs" } (attempts(&explanation.attempts, authority, now)) }
            section { h2 { "Journal" } (journal(&explanation.journal, false, now)) }
        }
    };
    let title = format!("{key}");
    Ok(DashboardPage::new(NavSection::Partitions, title, body).render(&app, &caller))
}

fn actions(key: &PartitionKey, partition: &PartitionView) -> Markup {
    let (is_failed, unit) = (partition.status == Some("failed"), key.to_string());
    let button = |action: &str, name: &str, extra: &[&str]| {
        let mut fields = vec![("partition", unit.as_str())];
        fields.extend(extra.iter().map(|name| (*name, "true")));
        act_button(&format!("/partitions/act/{action}"), &fields, name)
    };
    html! {
        div.actions {
            @if is_failed && !partition.terminal { (button("retry", "Retry now", &["force"])) (button("mark-terminal", "Mark terminal", &[])) }
            @if is_failed && partition.terminal { (button("retry", "Retry anyway", &["force", "clear_terminal"])) (button("clear-terminal", "Clear terminal", &[])) }
            @if partition.status == Some("success") { (button("reprocess", "Reprocess", &["force"])) }
            @if partition.paused { (button("resume", "Resume", &[])) } @else { (button("pause", "Pause", &[])) }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PartitionActionForm {
    partition: Option<String>,
    source: Option<String>,
    customer_id: Option<String>,
    query_name: Option<String>,
    since: Option<String>,
    until: Option<String>,
    clear_terminal: bool,
    force: bool,
    token: Option<String>,
    reason: Option<String>,
    action: Option<String>,
}

impl PartitionActionForm {
    fn request(&self, dry_run: bool) -> PartitionActionRequest {
        let text = |value: &Option<String>| given(value.as_deref()).map(str::to_owned);
        PartitionActionRequest {
            partition: text(&self.partition),
            source: text(&self.source),
            customer_id: text(&self.customer_id),
            query_name: text(&self.query_name),
            since: text(&self.since),
            until: text(&self.until),
            clear_terminal: self.clear_terminal,
            force: self.force,
            dry_run,
            token: text(&self.token),
            reason: text(&self.reason),
            ..PartitionActionRequest::default()
        }
    }

    fn fields(&self) -> [(&'static str, Option<&str>); 8] {
        [
            ("source", self.source.as_deref()),
            ("customer_id", self.customer_id.as_deref()),
            ("query_name", self.query_name.as_deref()),
            ("since", self.since.as_deref()),
            ("until", self.until.as_deref()),
            ("partition", self.partition.as_deref()),
            ("clear_terminal", self.clear_terminal.then_some("true")),
            ("force", self.force.then_some("true")),
        ]
    }

    fn back(&self) -> String {
        if let Some(Ok(key)) = self.partition.as_deref().map(str::parse) {
            return partition_address(&key);
        }
        let [one, two, three, ..] = self.fields();
        address("/partitions", &[one, two, three])
    }
}

pub(super) async fn preview_action(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(form): QueryParams<PartitionActionForm>,
) -> PageResult<Response> {
    let name = form.action.as_deref().unwrap_or_default();
    let changes = change_partitions(&app, &caller, name, form.request(true)).await?;
    let title = format!("{} partitions?", title_case(name));
    let action = format!("/partitions/act/{name}");
    let body = preview(&title, &changes, &action, &form.fields(), &form.back());
    Ok(DashboardPage::new(NavSection::Partitions, title, body).not_live().render(&app, &caller))
}

pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Form(form): Form<PartitionActionForm>,
) -> PageResult<Response> {
    let changes = change_partitions(&app, &caller, &name, form.request(false)).await?;
    let body = done(&format!("{}: done", title_case(&name)), &changes, &form.back());
    Ok(DashboardPage::new(NavSection::Partitions, "Partitions", body)
        .not_live()
        .render(&app, &caller))
}
