//! Causes: why units failed, over all kinds of work. The first page to open when something is broken.

use axum::{
    Extension,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::{
    Changeable,
    views::{CauseView, PartitionView, SampleView},
};
use redrive_store::{CauseKind, ItemRecord, MAX_NOTE_CHARS, MAX_TICKET_CHARS, RunRecord, UnitKind};
use serde::Deserialize;

use super::{
    PageResult, charts,
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        address, excerpt, filter_choice, filter_field, given, journal, json, number, unit_address,
        when,
    },
    plans,
    resource::{Listed, PLAN_HELP, title_case},
};
use crate::{
    api::{CauseListQuery, CauseNote, change_cause, data_token, find_cause, read_causes},
    app::AppState,
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// What pages offer for the units of a kind.
struct KindLinks {
    kind: UnitKind,
    /// One unit, and several.
    nouns: [&'static str; 2],
    path: &'static str,
    /// The action that brings units back.
    action: &'static str,
}

impl KindLinks {
    const fn of<R: Listed + Changeable>(kind: UnitKind, nouns: [&'static str; 2]) -> Self {
        Self { kind, nouns, path: R::PATH, action: R::REVIVE }
    }
}

const KINDS: [KindLinks; 4] = [
    KindLinks::of::<RunRecord>(UnitKind::Run, ["run", "runs"]),
    KindLinks::of::<PartitionView>(UnitKind::Partition, ["partition", "partitions"]),
    KindLinks::of::<ItemRecord>(UnitKind::Item, ["item", "items"]),
    KindLinks::of::<SampleView>(UnitKind::Sample, ["dead letter", "dead letters"]),
];

pub(super) fn cause_address(fingerprint: &str) -> String {
    format!("/causes/{fingerprint}")
}

/// A field of the details of a unit.
pub(super) fn cause_field(fingerprint: Option<&str>) -> Markup {
    html! { @if let Some(cause) = fingerprint { dt { "Cause" } dd { a href=(cause_address(cause)) { code { (cause) } } } } }
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<CauseListQuery>,
) -> PageResult<Response> {
    let query = CauseListQuery {
        kind: given(query.kind.as_deref()).map(str::to_owned),
        since: given(query.since.as_deref()).map(str::to_owned),
        search: given(query.search.as_deref()).map(str::to_owned),
        ..query
    };
    let causes = read_causes(&app, &query).await?;
    let names = UnitKind::ALL.map(UnitKind::name);
    let body = html! {
        h1 { "Causes" }
        p.lead { "Failures with the same class, code and message, over all kinds of work: the most stuck units first." }
        form.filters method="get" action="/causes" {
            (filter_field("search", "Message or code", query.search.as_deref()))
            (filter_choice("kind", "Kind", query.kind.as_deref(), &names))
            (filter_field("since", "Attempts since", query.since.as_deref()))
            button type="submit" { "Show" }
        }
        section { (table(&causes, may_act(&caller), app.ops.now())) }
    };
    Ok(DashboardPage::new(NavSection::Causes, "Causes", body).render(&app, &caller))
}

/// One row per cause, with what operators can do about its units.
pub(super) fn table(causes: &[CauseView], may_act: bool, now: Timestamp) -> Markup {
    if causes.is_empty() {
        return html! { p.empty { "No failures." } };
    }
    html! {
        div.scroll { table.causes {
            thead { tr {
                th.number { "Stuck" } th.number { "Waiting" } th.number { "Attempts" } th { "Last day" } th { "Cause" }
                th { "First" } th { "Last" } th { "Units" }
            } }
            tbody { @for cause in causes { tr {
                td.number { (number(cause.stuck)) }
                td.number { (number(cause.waiting)) }
                td.number { (number(cause.attempts)) }
                td { (charts::sparkline(&cause.last_day)) }
                td.text {
                    a href=(cause_address(&cause.fingerprint)) { (cause.code) " " code { (short(&cause.fingerprint)) } } " " (mark(cause))
                    (excerpt(&cause.message))
                    span.lead { (cause.described_places()) }
                }
                td { (when(cause.first_at, now)) }
                td { (when(cause.last_at, now)) }
                td.nowrap { @for kind in &cause.kinds { div { (units(cause, kind, may_act, false)) } } }
            } } }
        } }
    }
}

/// Enough of a fingerprint to tell causes with one code apart.
fn short(fingerprint: &str) -> &str {
    fingerprint.get(..8).unwrap_or(fingerprint)
}

/// The mark, or that the cause came back.
fn mark(cause: &CauseView) -> Markup {
    let class = match cause.state() {
        "" => return html! {},
        "came back" => "bad",
        "fixed" => "good",
        _ => "wait",
    };
    html! { span.pill.(class) { (cause.state()) } }
}

/// A link to the units of one kind, and one to the preview of the action that brings them back.
fn units(cause: &CauseView, counts: &CauseKind, may_act: bool, has_terminal: bool) -> Markup {
    let Some(links) = KINDS.iter().find(|links| links.kind == counts.kind) else {
        return html! {};
    };
    // Samples that wait have no list of their own.
    let waiting = if links.kind == UnitKind::Sample { 0 } else { counts.waiting };
    let open = counts.stuck + waiting;
    if open == 0 {
        return html! { span.lead { "no " (links.nouns[1]) } };
    }
    let noun = |count: u64| if count == 1 { links.nouns[0] } else { links.nouns[1] };
    let of_cause = [("cause", cause.fingerprint.as_str())];
    let label = title_case(links.action);
    let preview_path = format!("{}/preview", links.path);
    let preview = [("action", links.action)].into_iter().chain(of_cause);
    html! {
        a href=(address(links.path, of_cause)) { (number(open)) " " (noun(open)) }
        @if may_act && counts.stuck > 0 {
            " · " a href=(address(&preview_path, preview.clone())) {
                // Terminal partitions are refused; how many are terminal is known in the preview.
                (label) @if links.kind != UnitKind::Partition { " " (number(counts.stuck)) } " …"
            }
            @if has_terminal && links.kind == UnitKind::Partition {
                " · " a href=(address(&preview_path, preview.clone().chain([("clear_terminal", "true")]))) { "also terminal ones …" }
            }
            " " a.button title=(PLAN_HELP) href=(address(&preview_path, preview.clone().chain([("keep", "true")]))) { "Plan …" }
        }
        @if may_act && counts.waiting > 0 && links.kind == UnitKind::Run {
            " · " a href=(address(&preview_path, preview.chain([("state", "waiting")]))) { (label) " " (number(counts.waiting)) " waiting …" }
        }
    }
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(fingerprint): PathParams<String>,
) -> PageResult<Response> {
    let cause = find_cause(&app, &fingerprint).await?;
    let has_terminal = app.ops.may_have_terminal(&cause.fingerprint).await?;
    let plans = plans::lines_of_cause(&app, &cause.fingerprint).await?;
    let now = app.ops.now();
    let body = html! {
        h1 { "Cause " (cause.code) " " (mark(&cause)) }
        p.lead { (cause.message) }
        @if let (Some(at), Some(by)) = (cause.marked_at, &cause.marked_by) {
            p.next {
                "Marked as " (cause.mark.map(|mark| mark.name()).unwrap_or_default()) " by " (by) ", " (when(at, now)) "."
                @if let Some(at) = cause.returned_at { " It came back " (when(at, now)) "." }
            }
        }
        div.grid {
            section.half {
                h2 { "Units" }
                @for kind in &cause.kinds { p { (units(&cause, kind, may_act(&caller), has_terminal)) } }
                @if let Some(example) = &cause.example {
                    p { "Last failure: " (example_link(example)) ", " (when(cause.last_at, now)) }
                }
            }
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Cause" } dd { code { (cause.fingerprint) } }
                    dt { "Class" } dd { (cause.class) }
                    dt { "Where" } dd { @for place in &cause.places {
                        div { (place.noun()) " " (place.place) ", " (number(place.attempts)) " failed attempts" }
                    } }
                    dt { "First" } dd { (when(cause.first_at, now)) }
                    @if let Some(note) = &cause.note { dt { "Note" } dd.lines { (note) } }
                    @if let Some(ticket) = &cause.ticket { dt { "Ticket" } dd { (ticket) } }
                }
            }
            @if !plans.0.is_empty() { section { h2 { "Plans for this cause" } (plans) } }
            section.half { h2 { "Failed attempts of the last day" } (charts::sparkline(&cause.last_day)) }
            @if may_act(&caller) { section.half { h2 { "Note" } (note_form(&cause)) } }
            section { (json("First message", Some(&cause.full_message))) }
            section { h2 { "Journal" } (journal(cause.journal.as_deref().unwrap_or_default(), false, now)) }
        }
    };
    let title = format!("Cause {}", cause.fingerprint);
    Ok(DashboardPage::new(NavSection::Causes, title, body).render(&app, &caller))
}

fn example_link(example: &str) -> Markup {
    let name = example.replacen(':', " ", 1);
    match unit_address(example) {
        Some(address) => html! { a href=(address) { (name) } },
        None => html! { (name) },
    }
}

fn note_form(cause: &CauseView) -> Markup {
    let marks = [("", "as it is"), ("known", "known"), ("fixed", "fixed"), ("none", "no mark")];
    html! {
        form.actions method="post" action=(cause_address(&cause.fingerprint)) {
            input type="hidden" name="token" value=(note_token(cause));
            label { "Mark" select name="mark" { @for (value, name) in marks { option value=(value) { (name) } } } }
            label { "Note" textarea name="note" rows="2" cols="40" maxlength=(MAX_NOTE_CHARS) { (cause.note.as_deref().unwrap_or_default()) } }
            label { "Ticket" input type="text" name="ticket" maxlength=(MAX_TICKET_CHARS) value=(cause.ticket.as_deref().unwrap_or_default()); }
            button type="submit" { "Save" }
        }
    }
}

/// Identifies the texts that a form shows, so that it does not overwrite newer ones.
fn note_token(cause: &CauseView) -> String {
    data_token(&format!("{:?}", (&cause.note, &cause.ticket)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CauseForm {
    token: String,
    mark: String,
    note: String,
    ticket: String,
}

/// Writes down what an operator knows, and shows the cause again.
pub(super) async fn change(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(fingerprint): PathParams<String>,
    Form(form): Form<CauseForm>,
) -> PageResult<Response> {
    if form.token != note_token(&find_cause(&app, &fingerprint).await?) {
        let what = "the note has changed since the form was opened; nothing was changed";
        return Err(ProblemDetails::new(StatusCode::CONFLICT, what));
    }
    let note = CauseNote {
        mark: given(Some(&form.mark)).map(str::to_owned),
        note: Some(form.note.trim().to_owned()),
        ticket: Some(form.ticket.trim().to_owned()),
        reason: None,
    };
    let cause = change_cause(&app, &caller, &fingerprint, note).await?;
    Ok(Redirect::to(&cause_address(&cause.fingerprint)).into_response())
}
