//! Markup that pages share.

use jiff::Timestamp;
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redrive_ops::{
    views::{AttemptView, JournalView},
    words::{apart, rounded, shell_word},
};
use redrive_store::MAX_NOTE_CHARS;
use serde_json::Value;

use super::logs::UnitLogs;
use crate::{api::data_token, problem::ProblemDetails};

/// The longest text of a row.
const EXCERPT_CHARS: usize = 240;

/// A state as name, sign and colour, so that no reader depends on the colour.
pub(super) fn pill(state: &str) -> Markup {
    let (class, sign) = style_of(state);
    let name = match state {
        "dlq" => "dead letter".to_owned(),
        "upload_giveup" => "given up".to_owned(),
        state => state.replace('_', " "),
    };
    html! { span.pill.(class) { (sign) " " (name) } }
}

/// The CSS class and the sign of a state.
pub(super) fn style_of(state: &str) -> (&'static str, &'static str) {
    match state {
        "success" | "passed" | "uploaded" | "trusted" | "succeeded" | "completed" | "done"
        | "open" | "recovered" | "applied" | "present" => ("good", "✓"),
        "would_be_done" => ("good", "→"),
        "retrying" | "waiting_for_retry" | "partial_success" | "needs_review" | "already"
        | "draining" => ("retry", "↻"),
        "terminal" => ("bad", "■"),
        "failed" | "error" | "given_up" | "upload_giveup" | "rejected" | "dlq" | "dead"
        | "closed" | "aborted" | "refused" | "unknown" | "same_cause" | "other_cause"
        | "not_heard_from" => ("bad", "✗"),
        "processing" | "running" | "reprocessing" | "probing" | "ramping" => ("run", "▸"),
        "skipped" | "cancelled" | "undone" | "superseded" => ("wait", "–"),
        _ => ("wait", "○"),
    }
}

/// An instant relative to now.
pub(super) fn when(instant: Timestamp, now: Timestamp) -> Markup {
    let (from, to, is_past) =
        if instant <= now { (instant, now, true) } else { (now, instant, false) };
    let apart = apart(from, to);
    let words = if is_past { format!("{apart} ago") } else { format!("in {apart}") };
    html! { time.nowrap datetime=(instant) title=(instant) { (words) } }
}

pub(super) fn when_some(at: Option<Timestamp>, now: Timestamp) -> Markup {
    at.map_or_else(|| html! {}, |at| when(at, now))
}

/// Like [`when`], of an instant as text.
pub(super) fn when_text(at: &str, now: Timestamp) -> Markup {
    at.parse().map_or_else(|_| html! { (at) }, |at| when(at, now))
}

pub(super) fn excerpt(text: &str) -> Markup {
    let mut short: String = text.chars().take(EXCERPT_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    html! { span.excerpt title=(short) { (short) } }
}

/// Groups digits by thousands.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1 run`, `2 000 runs`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number(count))
}

pub(super) fn encoded(part: &str) -> String {
    utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()
}

/// A path with query parameters.
pub(super) fn address<V: AsRef<str>>(
    path: &str,
    params: impl IntoIterator<Item = (&'static str, V)>,
) -> String {
    let given = params.into_iter();
    let given: Vec<String> =
        given.map(|(name, value)| format!("{name}={}", encoded(value.as_ref()))).collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

/// The value of a form field; `None` when the field is empty.
pub(super) fn given(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|value| !value.is_empty())
}

pub(super) fn filter_field(name: &str, label: &str, value: Option<&str>) -> Markup {
    html! { label { (label) input type="text" name=(name) value=(value.unwrap_or_default()); } }
}

pub(super) fn filter_choice(
    name: &str,
    label: &str,
    value: Option<&str>,
    names: &[&str],
) -> Markup {
    html! {
        label { (label)
            select name=(name) {
                option value="" { "any" }
                @for known in names {
                    option value=(known) selected[value == Some(*known)] { (known.replace('_', " ")) }
                }
            }
        }
    }
}

/// A form that replaces JSON, closed until somebody opens it.
pub(super) fn edit_form(action: &str, title: &str, field: &str, json: &str) -> Markup {
    html! {
        details.edit {
            summary { (title) }
            form method="post" action=(action) {
                input type="hidden" name="token" value=(data_token(json));
                label { span { "JSON" } textarea name=(field) rows="10" spellcheck="false" { (pretty(json)) } }
                label { span { "Reason" } input type="text" name="reason" maxlength="500"; }
                button type="submit" { "Save" }
            }
        }
    }
}

/// The JSON of a form.
pub(super) fn parse_json(field: &str, text: &str) -> Result<Value, ProblemDetails> {
    serde_json::from_str(text).map_err(|error| {
        ProblemDetails::bad_request(format!(
            "{field}: this is not JSON: {error}; nothing was changed"
        ))
    })
}

/// A button for an action, with a field for the reason. `fields` are the parameters of the action.
pub(super) fn act_button(action: &str, fields: &[(&str, &str)], name: &str) -> Markup {
    button_form(action, fields, name, false)
}

/// Like [`act_button`], for an action that stops or removes something.
pub(super) fn danger_button(action: &str, fields: &[(&str, &str)], name: &str) -> Markup {
    button_form(action, fields, name, true)
}

fn button_form(action: &str, fields: &[(&str, &str)], name: &str, is_danger: bool) -> Markup {
    html! {
        form.actions method="post" action=(action) {
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            label { "Reason" input type="text" name="reason" maxlength="500"; }
            button.danger[is_danger] type="submit" { (name) }
        }
    }
}

/// The journal of a unit, with a form that adds a remark.
pub(super) fn unit_journal(
    entries: &[JournalView],
    act: Option<(&str, &str)>,
    now: Timestamp,
) -> Markup {
    html! {
        section {
            h2 { "Journal" }
            (journal(entries, false, now))
            @if let Some((path, id)) = act {
                form.actions method="post" action=(format!("{path}/act/note")) {
                    input type="hidden" name="ids" value=(id);
                    label { "Note" textarea name="text" rows="2" cols="40" maxlength=(MAX_NOTE_CHARS) required {} }
                    button type="submit" { "Add" }
                }
            }
        }
    }
}

/// The page of a unit, given as in the journal.
pub(super) fn unit_address(unit: &str) -> Option<String> {
    let (kind, rest) = unit.split_once(':')?;
    Some(match kind {
        "run" => format!("/runs/{rest}"),
        "item" => format!("/uploads/{rest}"),
        "cause" => format!("/causes/{rest}"),
        "plan" => format!("/plans/{rest}"),
        "gate" => "/gates".to_owned(),
        "sample" => format!("/dead-letters/{}", rest.split('/').next().unwrap_or(rest)),
        "partition" => {
            let key: redrive_core::PartitionKey = rest.parse().ok()?;
            partition_address(&key)
        }
        _ => return None,
    })
}

pub(super) fn partition_address(key: &redrive_core::PartitionKey) -> String {
    let date = key.logical_date().to_string();
    let parts = [key.source(), key.customer_id(), key.query_name(), &date].map(encoded);
    format!("/partitions/{}", parts.join("/"))
}

pub(super) fn attempts(
    attempts: &[AttemptView],
    authority: Option<&str>,
    logs: Option<&UnitLogs>,
    now: Timestamp,
) -> Markup {
    if attempts.is_empty() {
        return html! { p.empty { "No attempts yet." } };
    }
    let has_runs = attempts.iter().any(|attempt| attempt.run_id.is_some());
    let logs = logs.filter(|logs| attempts.iter().any(|it| logs.has(&it.stage, it.attempt)));
    html! {
        div.scroll { table {
            thead { tr {
                th.number { "#" } th { "When" } th.number { "Took" } th { "Outcome" } th { "Code" }
                th { "Decision" } th { "Message" }
                @if logs.is_some() { th { "Log" } }
                @if has_runs { th { "Raw run" } }
            } }
            tbody { @for attempt in attempts { tr {
                td.number { (attempt.attempt) }
                td { (when_text(&attempt.started_at, now)) br; small.nowrap { (attempt.started_at) } }
                td.number { (rounded(attempt.took)) }
                td { (pill(attempt.outcome)) }
                td { (attempt.code.as_deref().unwrap_or_default()) }
                td.text { (attempt.rule.as_deref().unwrap_or_default()) }
                td.text { (message(attempt.message.as_deref().unwrap_or_default())) }
                @if let Some(logs) = logs { td {
                    @if logs.has(&attempt.stage, attempt.attempt) { (logs.link(&attempt.stage, attempt.attempt)) }
                } }
                @if has_runs { td.text {
                    @if let Some(run_id) = &attempt.run_id {
                        code { (run_id) }
                        @if authority == Some(run_id) { " " span.pill.good { "✓ has authority" } }
                    }
                } }
            } } }
        } }
    }
}

/// A message in short, which opens if there is more.
fn message(text: &str) -> Markup {
    let is_whole = text.chars().count() <= EXCERPT_CHARS && !text.trim_end().contains('\n');
    html! {
        @if is_whole { (excerpt(text)) } @else {
            details { summary { (excerpt(text)) } pre tabindex="0" aria-label="Message" { (text) } }
        }
    }
}

pub(super) fn journal(entries: &[JournalView], with_unit: bool, now: Timestamp) -> Markup {
    if entries.is_empty() {
        return html! { p.empty { "No journal entries." } };
    }
    html! {
        div.scroll { table {
            thead { tr {
                th { "When" } th { "Actor" } th { "Action" }
                @if with_unit { th { "Unit" } }
                th { "Details" }
            } }
            tbody { @for entry in entries { tr {
                td { (when_text(&entry.at, now)) }
                td.text { (entry.actor) }
                td.nowrap { (entry.action) }
                @if with_unit { td.text { @if let Some(unit) = &entry.unit { (unit_link(unit)) } } }
                td.text {
                    (excerpt(&entry.in_words()))
                    @if let Some(plan) = entry.details.get("plan").and_then(Value::as_i64) {
                        a href=(format!("/plans/{plan}")) { "plan " (plan) }
                    }
                }
            } } }
        } }
    }
}

fn unit_link(unit: &str) -> Markup {
    match unit_address(unit) {
        Some(address) => html! { a href=(address) { (unit) } },
        None => html! { (unit) },
    }
}

pub(super) fn more(address: Option<String>) -> Markup {
    html! { @if let Some(address) = address { p.pages { a href=(address) rel="next" { "Next page →" } } } }
}

/// A text, laid out if it is JSON.
pub(super) fn json(title: &str, text: Option<&str>) -> Markup {
    html! {
        @if let Some(text) = text {
            h2 { (title) }
            pre tabindex="0" aria-label=(title) { (pretty(text)) }
        }
    }
}

/// JSON with a line for each value; other text as it is.
fn pretty(json: &str) -> String {
    serde_json::from_str::<Value>(json)
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| json.to_owned())
}

/// What shows the same in a terminal.
pub(super) fn command_field(unit: &str) -> Markup {
    html! { dt { "In a terminal" } dd { code { "redrive why " (shell_word(unit)) } } }
}
