//! Plans: the list, and a page for each with its progress, its outcomes, its units and its buttons.

use axum::{
    Extension,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_core::{PlanId, PlanStatus};
use redrive_ops::{
    CONFIRM_ABOVE, PlanUnitChange,
    views::{JournalView, PlanView},
};
use redrive_store::{JournalFilter, PlanOrder, PlanOutcome, PlanRecord, plan_unit_name};
use serde::Deserialize;

use super::{
    PageResult, charts,
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        address, counted, excerpt, filter_choice, given, journal, more, unit_address, when,
        when_some,
    },
    plan_form::{TypedSettings, estimate, problem, reason_field},
    plan_parts::{
        banners, canary, cause, counts, outcome_pill, plan_address, progress, progress_bar,
        progress_line, progress_words, status, title, units_address,
    },
    selections::SelectionWords,
};
use crate::{
    api::{find_plan, order_plan, plan_outcome},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

const ROWS: u32 = 100;

/// Units on the page of a plan; another page lists the rest.
const FIRST_UNITS: u32 = 20;

/// The newest entries of the journal of a plan.
const JOURNAL_ROWS: u32 = 50;

/// The newest plans, among which other pages look for theirs.
const NEWEST: u32 = 200;

/// The most plans on a page about something else.
const MAX_LINES: u32 = 10;

#[derive(Debug, Deserialize)]
pub(super) struct PlansQuery {
    status: Option<String>,
    after: Option<i64>,
}

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<PlansQuery>,
) -> PageResult<Response> {
    let (store, now) = (app.ops.store(), app.ops.now());
    let wanted = given(query.status.as_deref());
    let (mut plans, mut after) = (Vec::new(), PlanId(query.after.unwrap_or(i64::MAX)));
    let next = loop {
        let page = store.plans_page(after, ROWS).await?;
        let is_last = page.len() < ROWS as usize;
        after = page.last().map_or(after, |plan| plan.id);
        plans.extend(
            page.into_iter().filter(|plan| wanted.is_none_or(|it| it == plan.status.name())),
        );
        if is_last {
            break None;
        }
        if plans.len() >= ROWS as usize {
            break Some(after);
        }
    };
    let next = next.map(|after| {
        let wanted = wanted.map(|status| ("status", status.to_owned()));
        address("/plans", wanted.into_iter().chain([("after", after.to_string())]))
    });
    let (clock, mut words) = (store.now(), SelectionWords::new(&**store, now));
    let mut rows = Vec::new();
    for plan in &plans {
        let view = PlanView::new(plan, Vec::new(), clock);
        let selection = words.of(&view.selection).await?;
        rows.push((view, selection));
    }
    let names = PlanStatus::ALL.map(PlanStatus::name);
    let body = html! {
        h1 { "Plans" }
        p.lead {
            "Actions on many units, each with the list of its units. A cause, or a list with a filter, offers new ones."
        }
        form.filters method="get" action="/plans" {
            (filter_choice("status", "Status", wanted, &names))
            button type="submit" { "Show" }
        }
        section {
            @if rows.is_empty() { p.empty {
                "No plans. Choose “Plan …” on a list with a filter, or begin with " code { "redrive plan new retry --kind run --queue NAME" }
            } } @else {
                div.scroll { table.cards.plans {
                    thead { tr { th { "Plan" } th { "Status" } th { "Action" } th { "Progress" } th { "Made" } } }
                    tbody { @for (plan, selection) in &rows { tr {
                        td { a href=(plan_address(plan.id)) { (plan.id) } }
                        td { (status(plan)) }
                        td.text {
                            a href=(plan_address(plan.id)) { (title(plan)) }
                            @if !selection.is_empty() { (excerpt(selection)) }
                            @if !plan.settings.is_empty() { div.lead { (plan.settings) } }
                        }
                        td.progress { (progress_bar(plan)) span.lead { (progress_words(plan)) } }
                        td { (when(plan.created_at, now)) div.lead { (plan.created_by) } }
                    } } }
                } }
                (more(next))
            }
        }
    };
    Ok(DashboardPage::new(NavSection::Plans, "Plans", body).render(&app, &caller))
}

/// Plans that run or are paused, in a line each.
pub(super) async fn live_lines(app: &App) -> PageResult<Markup> {
    let store = app.ops.store();
    let live = store.live_plans(MAX_LINES).await?;
    let mut words = SelectionWords::new(&**store, app.ops.now());
    let mut lines = Vec::new();
    for plan in &live {
        let view = PlanView::new(plan, Vec::new(), store.now());
        let selection = words.of(&view.selection).await?;
        lines.push(progress_line(&view, &selection));
    }
    Ok(html! { @for line in &lines { (line) } })
}

/// Those of the newest plans that were made for a cause, in a line each.
pub(super) async fn lines_of_cause(app: &App, fingerprint: &str) -> PageResult<Markup> {
    let store = app.ops.store();
    let newest = store.plans_page(PlanId(i64::MAX), NEWEST).await?;
    let views = newest.iter().map(|plan| PlanView::new(plan, Vec::new(), store.now()));
    let is_of_cause = |plan: &PlanView| {
        plan.selection.get("cause").and_then(|cause| cause.as_str()) == Some(fingerprint)
    };
    let views = views.filter(is_of_cause).take(MAX_LINES as usize);
    let lines: Vec<Markup> = views.map(|view| progress_line(&view, "")).collect();
    Ok(html! { @for line in &lines { (line) } })
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
) -> PageResult<Response> {
    let plan = find_plan(&app, PlanId(id)).await?;
    page(&app, &caller, &plan, &TypedSettings::of(&plan.settings), None).await
}

/// The page of a plan, with what is wrong with the settings that were typed.
async fn page(
    app: &App,
    caller: &Caller,
    plan: &PlanRecord,
    typed: &TypedSettings,
    wrong: Option<&ProblemDetails>,
) -> PageResult<Response> {
    let (store, now) = (app.ops.store(), app.ops.now());
    let view = app.ops.plan_view(plan).await?;
    let selection = SelectionWords::new(&**store, now).of(&view.selection).await?;
    let units = app.ops.plan_changes(plan, None, 0, FIRST_UNITS).await?;
    let unit = Some(plan_unit_name(plan.id));
    let of_plan = JournalFilter { unit, ..JournalFilter::default() };
    let entries = store.newest_journal(&of_plan, i64::MAX, JOURNAL_ROWS).await?;
    let entries: Vec<JournalView> = entries.into_iter().map(JournalView::from).collect();
    let body = html! {
        h1 { "Plan " (plan.id) ": " (title(&view)) " " (status(&view)) }
        p.lead {
            @if selection.is_empty() { "All " (view.kind.name()) "s" } @else { (selection) }
            @if let Some(reason) = &view.reason { " · " (reason) }
        }
        (banners(plan, &view, now))
        div.grid {
            section.half {
                h2 { "Progress" }
                (progress(&view))
                @if let Some(result) = &view.canary_units { (canary(&view, result)) }
            }
            section.half {
                h2 { "Details" }
                dl {
                    dt { "Selection" } dd { code { (view.flags) } }
                    dt { "Settings" } dd { @if view.settings.is_empty() { "all at once" } @else { (view.settings) } }
                    dt { "Made" } dd { (when(view.created_at, now)) " by " (view.created_by) }
                    @if let Some(at) = view.started_at { dt { "Started" } dd { (when(at, now)) } }
                    @if let Some(at) = view.ended_at { dt { "Ended" } dd { (when(at, now)) } }
                }
            }
            @if may_act(caller) { (orders(plan, typed, wrong)) }
            @if plan.action.redrives() && plan.started_at.is_some() {
                section { h2 { "Outcomes over time" } (charts::outcomes(&view.outcomes)) }
            }
            section { h2 { "Units by cause and outcome" } (counts(&view.units)) }
            section {
                h2 { "Units" }
                (outcome_filter(plan.id, None))
                (unit_table(&units, now))
                @if view.total > u64::from(FIRST_UNITS) {
                    p.pages { a href=(units_address(plan.id)) { "All " (counted(view.total, "unit")) " →" } }
                }
            }
            section { h2 { "Journal" } (journal(&entries, false, now)) }
        }
    };
    let name = format!("Plan {}", plan.id);
    let mut page = DashboardPage::new(NavSection::Plans, name, body).render(app, caller);
    if let Some(wrong) = wrong {
        *page.status_mut() = wrong.status();
    }
    Ok(page)
}

fn outcome_filter(id: PlanId, outcome: Option<PlanOutcome>) -> Markup {
    let names = PlanOutcome::ALL.map(PlanOutcome::name);
    html! {
        form.filters method="get" action=(units_address(id)) {
            (filter_choice("outcome", "Outcome", outcome.map(PlanOutcome::name), &names))
            button type="submit" { "Show" }
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct UnitsQuery {
    outcome: Option<String>,
    /// Only those of the canary.
    canary: Option<bool>,
    after: Option<i64>,
}

/// The units of a plan, page by page.
pub(super) async fn units(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(id): PathParams<i64>,
    QueryParams(query): QueryParams<UnitsQuery>,
) -> PageResult<Response> {
    let plan = find_plan(&app, PlanId(id)).await?;
    let outcome = plan_outcome(given(query.outcome.as_deref()))?;
    let of_canary = query.canary.unwrap_or_default();
    let last_of_canary = match of_canary {
        true => app.ops.plan_view(&plan).await?.canary_units.map_or(0, |it| it.last_unit),
        false => i64::MAX,
    };
    let mut units = app.ops.plan_changes(&plan, outcome, query.after.unwrap_or(0), ROWS).await?;
    let is_full = units.len() >= ROWS as usize;
    units.retain(|unit| unit.id <= last_of_canary);
    let next = units.last().filter(|last| is_full && last.id < last_of_canary).map(|last| {
        let outcome = outcome.map(|outcome| ("outcome", outcome.name().to_owned()));
        let canary = of_canary.then(|| ("canary", "true".to_owned()));
        let after = ("after", last.id.to_string());
        address(&units_address(plan.id), outcome.into_iter().chain(canary).chain([after]))
    });
    let body = html! {
        h1 { @if of_canary { "Canary of plan " } @else { "Units of plan " } (id) }
        p.lead { a href=(plan_address(plan.id)) { "← Plan " (id) } }
        section {
            (outcome_filter(plan.id, outcome))
            (unit_table(&units, app.ops.now())) (more(next))
        }
    };
    let name = format!("Units of plan {id}");
    Ok(DashboardPage::new(NavSection::Plans, name, body).render(&app, &caller))
}

/// What the status allows: one form with one reason.
fn orders(plan: &PlanRecord, typed: &TypedSettings, wrong: Option<&ProblemDetails>) -> Markup {
    let path = |order: &str| format!("{}/{order}", plan_address(plan.id));
    let noun = plan.action.kind().name();
    let (total, rest, pending) = (plan.counts.total, plan.counts.rest(), plan.counts.pending);
    let is_live = matches!(plan.status, PlanStatus::Running | PlanStatus::Paused);
    let can_undo = plan.action.can_be_undone()
        && plan.started_at.is_some()
        && plan.status != PlanStatus::Undone
        && pending > 0;
    if plan.status == PlanStatus::Draft {
        let settings = typed.settings().ok();
        let is_sudden = settings.is_some_and(|it| it.canary().is_none() && it.pace().is_none());
        let is_large = total > CONFIRM_ABOVE as u64;
        return html! { section {
            h2 { "Apply" }
            (problem(wrong))
            form method="post" action=(path("apply")) {
                div.actions { (typed.fields(plan.action.redrives())) (reason_field(&typed.reason)) }
                div.actions {
                    button.primary type="submit" { "Apply to " (counted(total, noun)) }
                    button.danger type="submit" formaction=(path("abort")) formnovalidate { "Discard the draft" }
                }
            }
            @if let Some(settings) = &settings {
                p.note.warning[is_sudden && is_large] {
                    (estimate(settings, total, noun))
                    @if is_sudden && is_large {
                        @if plan.action.redrives() { " A canary tries a few first." }
                        " A pace spreads them over time."
                    }
                }
            }
        } };
    }
    html! { @if is_live || can_undo { section {
        h2 { "Actions" }
        form.actions method="post" {
            (reason_field(""))
            @if plan.status == PlanStatus::Running { button type="submit" formaction=(path("pause")) { "Pause" } }
            @if plan.status == PlanStatus::Paused { button.primary type="submit" formaction=(path("resume")) { "Resume" } }
            @if is_live {
                button.danger type="submit" formaction=(path("abort")) { "Abort: leave " (counted(rest, noun)) " unchanged" }
            }
            @if can_undo {
                button.danger type="submit" formaction=(path("undo"))
                    title="Units that a worker has started stay as they are" { "Undo: return " (counted(pending, &format!("pending {noun}"))) }
            }
        }
    } } }
}

fn unit_table(units: &[PlanUnitChange], now: Timestamp) -> Markup {
    if units.is_empty() {
        return html! { p.empty { "No units." } };
    }
    let link = |unit: &str| match unit_address(unit) {
        Some(address) => html! { a href=(address) { (unit) } },
        None => html! { (unit) },
    };
    html! {
        div.scroll { table {
            thead { tr {
                th { "Unit" } th { "State before" } th { "Cause before" } th { "Outcome" } th { "When" } th { "New cause" }
                th { "Not changed because" }
            } }
            tbody { @for unit in units { tr {
                td.text { (link(&unit.change.unit)) }
                td.nowrap { (unit.record.state) }
                td { (cause(unit.record.cause.as_deref())) }
                td { (outcome_pill(unit.record.outcome)) }
                td { (when_some(unit.record.outcome_at, now)) }
                td { (cause(unit.record.new_cause.as_deref())) }
                td.text { (excerpt(unit.record.reason.as_ref().or(unit.record.refusal.as_ref()).map_or("", String::as_str))) }
            } } }
        } }
    }
}

/// Gives an order to a plan, and shows the plan again.
pub(super) async fn act(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams((id, name)): PathParams<(i64, String)>,
    Form(typed): Form<TypedSettings>,
) -> PageResult<Response> {
    let id = PlanId(id);
    let order = match name.as_str() {
        "apply" => typed.settings().map(PlanOrder::Apply),
        "pause" => Ok(PlanOrder::Pause),
        "resume" => Ok(PlanOrder::Resume),
        "abort" => Ok(PlanOrder::Abort),
        "undo" => Ok(PlanOrder::Undo),
        _ => {
            let what = format!("unknown plan action {name:?}");
            return Err(
                ProblemDetails::not_found(what).allowed("apply, pause, resume, abort, undo")
            );
        }
    };
    let by = app.operator(&caller, given(Some(&typed.reason)));
    let done = match order {
        Ok(order) => order_plan(&app, id, &order, &by).await,
        Err(wrong) => Err(wrong),
    };
    match done {
        Err(wrong) if name == "apply" && wrong.status() == StatusCode::BAD_REQUEST => {
            page(&app, &caller, &find_plan(&app, id).await?, &typed, Some(&wrong)).await
        }
        done => done.map(|()| Redirect::to(&plan_address(id)).into_response()),
    }
}
