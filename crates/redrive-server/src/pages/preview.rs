//! Actions on what a list selects: what would happen, the form that does it, and what was done.

use axum::{
    Extension,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use redrive_ops::{
    ActionDeclaration, ActionOption, ActionOptions, CONFIRM_ABOVE, Changeable, OptionKind,
    Resource, UnitAction, UnitChange,
};
use redrive_store::PlanAction;

use super::{
    PageResult,
    layout::DashboardPage,
    notice::Notice,
    parts::{address, counted, number, pill, unit_address},
    plan_form::{TypedSettings, estimate, problem, reason_field},
    plan_parts::plan_address,
    resource::{Listed, back, title_case},
    selections::SelectionWords,
};
use crate::{
    api::{BulkOutcome, change},
    app::{App, AppState},
    extract::{Form, PathParams, QueryParams},
    guard::Caller,
    params::{Pairs, Params, of_action, of_form, take},
    problem::ProblemDetails,
};

/// The most rows of a preview or a result.
const MAX_CHANGES: usize = 200;

/// The most units that a heading names.
const MAX_NAMED: usize = 5;

pub(super) async fn preview<R: Listed + Changeable>(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(pairs): QueryParams<Pairs>,
) -> PageResult<Response> {
    let mut pairs = of_form(pairs);
    let name = take(&mut pairs, "action").unwrap_or_default();
    let (typed, pairs) = TypedSettings::take(pairs);
    let wrong = typed.settings().err();
    show::<R>(&app, &caller, &name, &pairs, typed, wrong).await
}

/// The parameters of an action on a page besides its selection.
fn of_pages<R: Changeable>(name: &str) -> Vec<&'static str> {
    of_action::<R>(name).into_iter().chain(["list"]).collect()
}

/// The preview of an action, with what is wrong with the settings that were typed.
async fn show<R: Listed + Changeable>(
    app: &App,
    caller: &Caller,
    name: &str,
    pairs: &Pairs,
    typed: TypedSettings,
    wrong: Option<ProblemDetails>,
) -> PageResult<Response> {
    let params = Params::<R>::read(pairs, &of_pages::<R>(name))?;
    let keep = params.keep || typed.as_plan == "true";
    let params = Params::<R> { dry_run: true, keep: false, ..params };
    let preview = Preview { name, fields: params.fields(), back: back(&params), keep, typed };
    let selection = params.selection.to_json();
    let selection = SelectionWords::new(&**app.ops.store(), app.ops.now()).of(&selection).await?;
    let of = if params.ids.is_empty() { selection } else { named_units(&params) };
    let changes = change(app, caller, R::PATH, name, params).await?;
    let counted = match changes.done {
        0 => format!("{}s", R::NOUN),
        done if done == changes.count => counted(done, R::NOUN),
        done => format!("{} of {}", number(done), counted(changes.count, R::NOUN)),
    };
    let of = if of.is_empty() { String::new() } else { format!(": {of}") };
    let title = format!("{} {counted}{of}", title_case(name));
    let effect = R::action(name).map(ActionDeclaration::about).unwrap_or_default();
    let body = html! {
        h1 { (title) }
        p.lead { "Nothing has been done yet. " (changes.summary()) " " (effect) "." }
        section {
            @if !changes.refusals.is_empty() {
                ul.plain { @for (why, units) in &changes.refusals {
                    li { span.pill.bad { (number(*units)) " refused" } " " (without_command(why)) }
                } }
            }
            (preview.options::<R>())
            @if changes.done > 0 { (preview.form::<R>(changes.done, wrong.as_ref())) }
            @else { p { "Nothing would be changed. " a href=(preview.back) { "Go back" } } }
        }
        section { (changes_table(&changes)) }
    };
    let mut page = DashboardPage::new(R::SECTION, title, body).not_live().render(app, caller);
    if let Some(wrong) = wrong {
        *page.status_mut() = wrong.status();
    }
    Ok(page)
}

/// The units that a request names, in words.
fn named_units<R: Resource>(params: &Params<R>) -> String {
    let ids: Vec<String> = params.ids.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = params.ids.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", ids.join(", "))
}

/// What a preview is about.
struct Preview<'a> {
    name: &'a str,
    fields: Vec<(&'static str, String)>,
    back: String,
    /// Whether a plan is to be kept rather than applied at once.
    keep: bool,
    typed: TypedSettings,
}

impl Preview<'_> {
    /// The options of the action, as checkboxes. They are shown first, and done as they were shown.
    fn options<R: Listed + Changeable>(&self) -> Markup {
        let flags = || flags::<R>(self.name);
        let is_flag = |name: &str| flags().any(|flag| flag.name == name);
        let others = self.fields.iter().filter(|(name, _)| !is_flag(name)).cloned();
        let others = others.chain(self.typed.given());
        html! { @if flags().next().is_some() {
            form.options method="get" action=(format!("{}/preview", R::PATH)) {
                input type="hidden" name="action" value=(self.name);
                @if self.keep { input type="hidden" name="as_plan" value="true"; }
                @for (name, value) in others { input type="hidden" name=(name) value=(value); }
                @for flag in flags() {
                    label.check {
                        input type="checkbox" name=(flag.name) value="true" checked[self.is_given(flag)];
                        (flag.help)
                    }
                }
                button type="submit" { "Update the preview" }
            }
        } }
    }

    fn is_given(&self, flag: &ActionOption) -> bool {
        self.fields.iter().any(|(field, _)| *field == flag.name)
    }

    /// The two things to do: now, or later as a plan.
    fn form<R: Listed + Changeable>(&self, units: u64, wrong: Option<&ProblemDetails>) -> Markup {
        let act = format!("{}/act/{}", R::PATH, self.name);
        let plan = plan_action::<R>(self.name, &self.fields);
        let watches = plan.is_some_and(PlanAction::redrives);
        let typed = match self.keep && watches && wrong.is_none() {
            true => self.typed.clone().or_careful(units),
            false => self.typed.clone(),
        };
        let settings = typed.settings().ok().filter(|_| plan.is_some());
        let is_paced =
            settings.as_ref().is_some_and(|it| it.pace().is_some() || it.canary().is_some());
        let is_destructive = R::action(self.name).is_some_and(|action| action.is_destructive);
        let is_sudden = !is_paced && units > CONFIRM_ABOVE as u64;
        html! {
            (problem(wrong))
            form method="post" action=(act) {
                @for (name, value) in &self.fields { input type="hidden" name=(name) value=(value); }
                @if self.keep { input type="hidden" name="as_plan" value="true"; }
                div.actions {
                    @if plan.is_some() { (typed.fields(watches)) }
                    (reason_field(&typed.reason))
                    // The first button is what Enter does in a field: it must change nothing.
                    @if plan.is_some() {
                        button type="submit" name="action" value=(self.name) formmethod="get"
                            formaction=(format!("{}/preview", R::PATH)) { "Estimate the time" }
                    }
                }
                div.actions {
                    button.primary[!self.keep].danger[is_destructive] type="submit" { (title_case(self.name)) " " (counted(units, R::NOUN)) " now" }
                    @if plan.is_some() {
                        button.primary[self.keep] type="submit" name="keep" value="true"
                            title="Changes nothing yet: the plan is applied on its own page" { "Keep as a plan" }
                    }
                    a href=(self.back) { "Go back" }
                }
            }
            @if let Some(settings) = &settings {
                p.note.warning[is_sudden] { (estimate(settings, units, R::NOUN)) }
                p.note {
                    "A unit that changes before its turn is left alone and listed. A plan that is kept changes nothing until it is applied."
                }
            }
        }
    }
}

fn flags<R: Changeable>(name: &str) -> impl Iterator<Item = &'static ActionOption> {
    let options = R::action(name).into_iter().flat_map(|action| action.options);
    options.filter(|option| option.kind == OptionKind::Flag)
}

/// A page has a checkbox for what a command has a flag for.
fn without_command(why: &str) -> &str {
    let end = ["; `", "; --"].iter().filter_map(|command| why.find(command)).min();
    end.and_then(|end| why.get(..end)).unwrap_or(why)
}

pub(super) async fn act<R: Listed + Changeable>(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    Form(pairs): Form<Pairs>,
) -> PageResult<Response> {
    let (typed, others) = TypedSettings::take(of_form(pairs));
    if let Err(wrong) = typed.settings() {
        return show::<R>(&app, &caller, &name, &others, typed, Some(wrong)).await;
    }
    let settings = typed.given().map(|(field, value)| (field.to_owned(), value));
    let pairs: Pairs = others.iter().cloned().chain(settings).collect();
    let params = Params::<R>::read(&pairs, &of_pages::<R>(&name))?;
    let (fields, back) = (params.fields(), back(&params));
    let changes = match change(&app, &caller, R::PATH, &name, params).await {
        // A plan of this size or action cannot have these settings.
        Err(wrong)
            if wrong.status() == StatusCode::BAD_REQUEST
                && plan_action::<R>(&name, &fields).is_some() =>
        {
            return show::<R>(&app, &caller, &name, &others, typed, Some(wrong)).await;
        }
        changes => changes?,
    };
    if let Some(plan) = changes.plan {
        return Ok(Redirect::to(&plan_address(plan)).into_response());
    }
    if changes.done == 0 {
        // The preview says why, and what allows it.
        let action = [("action", name.clone())];
        let preview = address(&format!("{}/preview", R::PATH), action.into_iter().chain(fields));
        return Ok(Redirect::to(&preview).into_response());
    }
    Ok(Notice::new(&name, changes.done, changes.refused).redirect(&back))
}

/// The plan that does an action on these fields, if one does.
fn plan_action<R: Changeable>(name: &str, fields: &[(&'static str, String)]) -> Option<PlanAction> {
    let options = ActionOptions::default();
    match R::action(name)?.with(&options).ok()? {
        UnitAction::Own(own) if fields.iter().all(|(field, _)| *field != "ids") => {
            R::plan_action(own, &options)
        }
        _ => None,
    }
}

fn changes_table(changes: &BulkOutcome) -> Markup {
    let rows = &changes.changes;
    let unit = |change: &UnitChange| match unit_address(&change.unit) {
        Some(address) => html! { a href=(address) { (change.unit) } },
        None => html! { (change.unit) },
    };
    html! {
        div.scroll { table {
            thead { tr { th { "Unit" } th { "Outcome" } th { "Before" } th { "" } } }
            tbody { @for row in rows.iter().take(MAX_CHANGES) { tr {
                td.text { (unit(row)) }
                td { (pill(row.outcome.name())) }
                td { @if let Some(before) = &row.before { (pill(before)) } }
                td.text { (without_command(row.why.as_deref().unwrap_or_default())) }
            } } }
        } }
        @if changes.count > MAX_CHANGES as u64 {
            p.lead { "Showing the first " (MAX_CHANGES) " of " (number(changes.count)) " units." }
        }
    }
}
