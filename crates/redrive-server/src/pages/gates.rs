//! Gates: what is closed, why and until when, what waits, and buttons.

use axum::{
    Extension,
    response::{IntoResponse, Redirect, Response},
};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::views::GateView;
use serde::Deserialize;

use super::{
    PageResult,
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        act_button, address, excerpt, given, more, number, pill, unit_address, when, when_some,
    },
};
use crate::{
    api::{CloseGateRequest, OpenGateRequest, close_gate, open_gate},
    app::AppState,
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const ROWS: u32 = 100;

#[derive(Debug, Deserialize)]
pub(super) struct GatesQuery {
    after: Option<String>,
    /// Anything but empty: only what is not open.
    shut: Option<String>,
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<GatesQuery>,
) -> PageResult<Response> {
    let (after, now) = (query.after.unwrap_or_default(), app.ops.now());
    let shut = given(query.shut.as_deref()).is_some();
    let after = after.split_once('/').unwrap_or((&after, ""));
    let gates = app.ops.gates(None, shut, after, ROWS).await?;
    let last = gates.last().filter(|_| gates.len() >= ROWS as usize);
    let next = last.map(|gate| {
        let shut = shut.then(|| ("shut", "true".to_owned()));
        address("/gates", shut.into_iter().chain([("after", gate.name())]))
    });
    // What needs attention comes first.
    let not_open = match !shut && after == ("", "") {
        true => app.ops.gates(None, true, after, ROWS).await?,
        false => Vec::new(),
    };
    let is_listed = |gate: &GateView| not_open.iter().any(|it| it.name() == gate.name());
    let gates: Vec<GateView> = gates.into_iter().filter(|gate| !is_listed(gate)).collect();
    let may_act = may_act(&caller);
    let body = html! {
        h1 { "Gates" }
        p.lead {
            "What all hosts together let through to a service. A gate closes when the service limits the rate, when too many attempts "
            "fail, or by command; then one unit finds out whether it answers again."
        }
        @if !not_open.is_empty() { section { h2 { "Not open" } (table(&not_open, may_act, now)) } }
        section {
            @if !not_open.is_empty() { h2 { "Open" } }
            p {
                @if shut { a href="/gates" { "All gates" } }
                @else { a href=(address("/gates", [("shut", "true")])) { "Only what is not open" } }
            }
            @if gates.is_empty() {
                p.empty {
                    @if shut { "Every gate is open." }
                    @else if !not_open.is_empty() { "No gate is open." }
                    @else { "No gates. The configuration declares them: [[gate]]." }
                }
            } @else {
                (table(&gates, may_act, now))
                (more(next))
            }
        }
    };
    Ok(DashboardPage::new(NavSection::Gates, "Gates", body).render(&app, &caller))
}

pub(super) fn table(gates: &[GateView], may_act: bool, now: Timestamp) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { "Gate" } th { "Status" } th.number { "Waiting" } th.number { "Held" } th { "Units" } th { "Closed" }
                @if may_act { th { "Action" } }
            } }
            tbody { @for gate in gates { (row(gate, may_act, now)) } }
        } }
    }
}

fn row(gate: &GateView, may_act: bool, now: Timestamp) -> Markup {
    let is_open = gate.status == "open";
    let path = |order: &str| format!("/gates/{order}");
    let key = gate.key.as_deref().unwrap_or_default();
    let fields = [("gate", gate.gate.as_str()), ("key", key)];
    html! { tr {
        td.text { (gate.gate) " " b { (excerpt(&gate.key_in_words())) } span.lead { (gate.places.join(", ")) } }
        td.nowrap {
            (pill(gate.status)) " "
            @if let Some(width) = gate.width { (width) " at once" }
            @else if is_open { @if let Some(limits) = &gate.limits { (limits) } }
            @else if gate.status == "closed" {
                @match gate.closed_until {
                    None => { "until it is opened" },
                    Some(until) if until > now => { "probe " (when(until, now)) },
                    Some(_) => { "probe at the next claim" },
                }
            }
        }
        td.number data-label="Waiting" { (gate.waiting_in_words()) }
        td.number data-label="Held" { (number(gate.held.into())) }
        td.text data-label=[(!gate.units.is_empty()).then_some("Units")] { @for unit in &gate.units { (unit_link(unit)) " " } }
        td.text {
            (when_some(gate.closed_at, now))
            @if let Some(by) = &gate.closed_by { div { "by " (unit_link(by)) } }
            @if gate.reason.is_some() { (excerpt(&gate.reason_in_words())) }
        }
        // A gate that is divided is closed key by key.
        @if may_act { td {
            @if !is_open { (action("Open …", act_button(&path("open"), &fields, "Open"))) }
            @else if gate.per.is_none() || gate.key.is_some() { (action("Close …", close_form(&path("close"), &fields))) }
        } }
    } }
}

fn action(name: &str, form: Markup) -> Markup {
    html! { details { summary.nowrap { (name) } (form) } }
}

fn close_form(path: &str, fields: &[(&str, &str)]) -> Markup {
    html! {
        form.actions method="post" action=(path) {
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            label { "For" input type="text" name="for" size="8" placeholder="30m" title="Empty: until it is opened"; }
            label { "Reason" input type="text" name="reason" maxlength="500"; }
            button type="submit" { "Close" }
        }
    }
}

fn unit_link(unit: &str) -> Markup {
    match unit_address(unit) {
        Some(address) => html! { a href=(address) { (unit) } },
        None => html! { (unit) },
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GateForm {
    gate: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    reason: String,
    /// Empty: until it is opened.
    #[serde(default)]
    r#for: String,
}

/// Closes or opens a gate, and shows all gates again.
pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(order): PathParams<String>,
    Form(form): Form<GateForm>,
) -> PageResult<Response> {
    let text = |text: &str| given(Some(text)).map(str::to_owned);
    let (key, reason) = (Some(form.key.clone()), text(&form.reason));
    match order.as_str() {
        "close" => {
            let request = CloseGateRequest { key, reason, r#for: text(&form.r#for) };
            close_gate(&app, &caller, form.gate, request).await?
        }
        "open" => open_gate(&app, &caller, form.gate, OpenGateRequest { key, reason }).await?,
        _ => {
            let what = format!("unknown gate action {order:?}");
            return Err(ProblemDetails::not_found(what).allowed("close, open"));
        }
    };
    Ok(Redirect::to("/gates").into_response())
}
