//! The parts of a plan on pages: what it does, how far it is, and what became of its units.

use jiff::Timestamp;
use maud::{Markup, html};
use redrive_core::{PlanId, PlanStatus};
use redrive_ops::{
    views::{PlanCanaryView, PlanUnitsView, PlanView},
    words::human,
};
use redrive_store::{PlanOutcome, PlanRecord};

use super::{
    causes::cause_address,
    charts,
    parts::{address, counted, excerpt, number, pill, when_some},
    resource::title_case,
};

pub(super) fn plan_address(id: PlanId) -> String {
    format!("/plans/{id}")
}

pub(super) fn units_address(id: PlanId) -> String {
    format!("/plans/{id}/units")
}

/// `Retry 2 000 runs`
pub(super) fn title(plan: &PlanView) -> String {
    let action = plan.action.split_once('.').map_or(plan.action, |(_, action)| action);
    format!("{} {}", title_case(action), counted(plan.total, plan.kind.name()))
}

fn failed_again(plan: &PlanView) -> u64 {
    plan.same_cause + plan.other_cause
}

/// Units that were neither changed nor skipped.
fn rest(plan: &PlanView) -> u64 {
    plan.total.saturating_sub(plan.changed + plan.skipped)
}

/// The status. A plan that is done has changed its units; whether that helped is another matter.
pub(super) fn status(plan: &PlanView) -> Markup {
    let (failed, pending) = (failed_again(plan), plan.pending);
    let (class, words) = match plan.status {
        PlanStatus::Done if plan.changed == 0 => ("wait", "– done, nothing changed".to_owned()),
        PlanStatus::Done if pending > 0 => ("run", format!("▸ done, {} pending", number(pending))),
        PlanStatus::Done if failed > 0 && plan.recovered == 0 => {
            ("bad", "✗ done, all failed again".to_owned())
        }
        PlanStatus::Done if failed > 0 => {
            ("retry", format!("✓ done, {} failed again", number(failed)))
        }
        status => return pill(status.name()),
    };
    html! { span.pill.(class) { (words) } }
}

/// What became of the units so far: its colour, its name, the units, and the outcome that lists them unless there are two.
fn parts(plan: &PlanView) -> [(&'static str, &'static str, u64, Option<PlanOutcome>); 7] {
    let watched = [plan.recovered, failed_again(plan), plan.pending, plan.superseded, plan.undone];
    let applied = plan.changed.saturating_sub(watched.iter().sum());
    [
        ("good", "recovered", plan.recovered, Some(PlanOutcome::Recovered)),
        ("good", "changed", applied, Some(PlanOutcome::Applied)),
        ("bad", "failed again", failed_again(plan), None),
        ("run", "pending", plan.pending, Some(PlanOutcome::Pending)),
        ("retry", "skipped", plan.skipped, Some(PlanOutcome::Skipped)),
        ("wait", "undone", plan.undone, Some(PlanOutcome::Undone)),
        ("wait", "changed by others", plan.superseded, Some(PlanOutcome::Superseded)),
    ]
}

/// `3 recovered, 7 failed again, 1 990 to go`
pub(super) fn progress_words(plan: &PlanView) -> String {
    let given = parts(plan).into_iter().filter(|(_, _, count, _)| *count > 0);
    let mut words: Vec<String> =
        given.map(|(_, name, count, _)| format!("{} {name}", number(count))).collect();
    let rest = rest(plan);
    if rest > 0 || words.is_empty() {
        words.push(format!("{} {}", number(rest), rest_word(plan)));
    }
    words.join(", ")
}

fn rest_word(plan: &PlanView) -> &'static str {
    match plan.status {
        PlanStatus::Aborted | PlanStatus::Undone => "left unchanged",
        _ => "to go",
    }
}

pub(super) fn progress_bar(plan: &PlanView) -> Markup {
    let parts = parts(plan).map(|(class, _, count, _)| (class, count));
    charts::segments(&parts, plan.total, &progress_words(plan))
}

/// A plan in one line.
pub(super) fn progress_line(plan: &PlanView, selection: &str) -> Markup {
    html! {
        div.plan-line {
            a href=(plan_address(plan.id)) { "Plan " (plan.id) ": " (title(plan)) }
            " " (status(plan))
            @if !selection.is_empty() { " " span.lead { (selection) } }
            (progress_bar(plan))
            span.lead { (progress_words(plan)) @if let Some(left) = plan.left { ", " (human(left)) " left" } }
        }
    }
}

/// The bar with a legend whose entries lead to the units.
pub(super) fn progress(plan: &PlanView) -> Markup {
    let list =
        |outcome: PlanOutcome| address(&units_address(plan.id), [("outcome", outcome.name())]);
    let failed = [
        (PlanOutcome::SameCause, "same cause", plan.same_cause),
        (PlanOutcome::OtherCause, "other cause", plan.other_cause),
    ];
    let failed = failed.into_iter().filter(|(_, _, count)| *count > 0);
    let rest = rest(plan);
    html! {
        (progress_bar(plan))
        div.legend {
            @for (class, name, count, outcome) in parts(plan).into_iter().filter(|(_, _, count, _)| *count > 0) {
                span {
                    span.pill.(class) { (number(count)) } " "
                    @match outcome {
                        Some(outcome) => a href=(list(outcome)) { (name) },
                        None => {
                            (name) " ("
                            @for (index, (outcome, name, count)) in failed.clone().enumerate() {
                                @if index > 0 { ", " }
                                a href=(list(outcome)) { (number(count)) " " (name) }
                            }
                            ")"
                        }
                    }
                }
            }
            @if rest > 0 { span { span.pill.rest { (number(rest)) } " " (rest_word(plan)) } }
            @if let Some(left) = plan.left { span { (human(left)) " left" } }
        }
    }
}

/// `Canary: 10 units: 3 recovered, 7 failed again`, the verdict and a link to the units.
pub(super) fn canary(plan: &PlanView, canary: &PlanCanaryView) -> Markup {
    let PlanCanaryView { size, changed, pending, recovered, failed_again, verdict, .. } = canary;
    let style = match *verdict {
        "passed" => "good",
        "failed" => "bad",
        _ => "run",
    };
    let verdict = match *verdict {
        "passed" => "✓ passed",
        "failed" => "✗ failed",
        _ => "▸ not decided",
    };
    let tried = pending + recovered + failed_again;
    let is_live = matches!(plan.status, PlanStatus::Running | PlanStatus::Paused);
    let (to_go, unknown) = (
        if is_live { size.saturating_sub(tried).min(rest(plan)) } else { 0 },
        changed.saturating_sub(tried),
    );
    html! {
        p {
            "Canary: " a href=(address(&units_address(plan.id), [("canary", "true")])) { (counted(*size, "unit")) }
            ": " (number(*recovered)) " recovered, " (number(*failed_again)) " failed again"
            @if *pending > 0 { ", " (number(*pending)) " pending" }
            @if to_go > 0 { ", " (number(to_go)) " to go" }
            @if unknown > 0 { ", " (number(unknown)) " without outcome" }
            " " span.pill.(style) { (verdict) }
        }
    }
}

/// How the plan ended, if not by itself, and what it waits for.
pub(super) fn banners(plan: &PlanRecord, view: &PlanView, now: Timestamp) -> Markup {
    let by = plan.ordered_by.as_deref().unwrap_or_default();
    html! {
        @if let Some(why) = &view.stop_reason {
            p.next.warn {
                @if plan.status == PlanStatus::Paused {} @else if plan.started_at.is_none() { "Discarded: " } @else { "Aborted: " }
                (why)
            }
        }
        @if plan.status == PlanStatus::Undone {
            p.next.warn {
                "Undone by " (by) ", " (when_some(plan.ended_at, now))
                @if let Some(why) = &plan.ordered_reason { ": " (why) }
            }
        }
        @for why in &view.waits_for { p.next { (why) } }
    }
}

/// The units counted by what they have in common.
pub(super) fn counts(units: &[PlanUnitsView]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th.number { "Units" } th { "State" } th { "Cause" } th { "Outcome" } th { "New cause" } th { "Not changed because" }
            } }
            tbody { @for row in units { tr {
                td.number { (number(row.units)) }
                td.nowrap { (row.state) }
                td { (cause(row.cause.as_deref())) }
                td { (outcome_pill(row.outcome)) }
                td { (cause(row.new_cause.as_deref())) }
                td.text { (excerpt(row.refusal.as_deref().unwrap_or_default())) }
            } } }
        } }
    }
}

pub(super) fn cause(fingerprint: Option<&str>) -> Markup {
    html! { @if let Some(cause) = fingerprint { a href=(cause_address(cause)) { code { (cause) } } } }
}

pub(super) fn outcome_pill(outcome: Option<PlanOutcome>) -> Markup {
    html! { @if let Some(outcome) = outcome { (pill(outcome.name())) } }
}
