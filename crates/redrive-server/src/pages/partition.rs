//! The page of a partition.

use axum::{Extension, response::Response};
use maud::html;
use redrive_ops::{ExplainTarget, Explanation};
use redrive_store::UnitKind;

use super::{
    PageResult,
    causes::cause_field,
    layout::{DashboardPage, NavSection, may_act},
    logs::{LogQuery, UnitLogs},
    parts::{
        address, attempts, command_field, json, number, partition_address, pill, unit_journal,
        when, when_some,
    },
    place::place_link,
    resource::unit_actions,
    timeline::drawn,
};
use crate::{
    api::{KeyParts, key_of},
    app::AppState,
    extract::{PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(parts): PathParams<KeyParts>,
    QueryParams(query): QueryParams<LogQuery>,
) -> PageResult<Response> {
    let key = key_of(&parts)?;
    let target = ExplainTarget::Unit(redrive_core::Unit::Partition(key.clone()));
    let Some(Explanation::Partition(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("partition:{key} has no entry")));
    };
    let (partition, now) = (&explanation.partition, app.ops.now());
    let logs = UnitLogs::read(&app, &target, partition_address(&key), &query).await?;
    let series = [
        ("source", key.source()),
        ("customer_id", key.customer_id()),
        ("query_name", key.query_name()),
    ];
    let authority = partition.current_run_id.as_ref().map(ToString::to_string);
    let authority = authority.as_deref();
    let body = html! {
        h1 { (key.source()) " / " (key.customer_id()) " / " (key.query_name()) " / " (key.logical_date().to_string())
             " " (pill(partition.state())) @if partition.paused { " " span.pill.retry { "‖ paused" } } }
        p.next { strong { "Next: " } (explanation.next.because) }
        (unit_actions(&caller, partition, html! {}))
        div.grid {
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Series" } dd { a href=(address("/partitions", series)) { "calendar" } " of source " (place_link(UnitKind::Partition, key.source())) }
                    dt { "Authority" } dd { @match authority {
                        Some(run_id) => { code { (run_id) } },
                        None => { "none: the partition is not readable" },
                    } }
                    @if let Some(count) = partition.record_count { dt { "Records" } dd { (number(count)) } }
                    @if explanation.attempts.iter().any(|attempt| attempt.run_id.is_some()) {
                        dt { "Raw data" } dd { a href=(format!("{}/rows", partition_address(&key))) { "rows of the newest attempt" } }
                    }
                    @if let Some(version) = &partition.schema_version { dt { "Schema" } dd { (version) } }
                    dt { "Attempts" } dd { (partition.attempt_count.unwrap_or(0)) }
                    (cause_field(partition.fingerprint.as_deref()))
                    dt { "Changed" } dd { (when_some(partition.updated_at, now)) }
                    @if let Some(at) = partition.next_retry_at { dt { "Next retry" } dd { (when(at, now)) } }
                    (command_field(&explanation.unit))
                    @if let Some(by) = &partition.paused_by { dt { "Paused by" } dd { (by) " " (partition.pause_reason.as_deref().unwrap_or_default()) } }
                }
            }
            section.half { (json("Last error", partition.error_message.as_deref()))
                @if partition.error_message.is_none() { h2 { "Last error" } p.empty { "None." } } }
            section { h2 { "Attempts and raw runs" } (drawn(&explanation.attempts, explanation.next.instant(), now)) (attempts(&explanation.attempts, authority, Some(&logs), now)) }
            (logs.section(now))
            (unit_journal(&explanation.journal, may_act(&caller).then_some(("/partitions", &key.to_string())), now))
        }
    };
    let title = format!("{key}");
    Ok(DashboardPage::new(NavSection::Partitions, title, body).render(&app, &caller))
}
