//! Lists of every resource, with their filters and links to actions.

use std::future::Future;

use axum::{Extension, response::Response};
use maud::{Markup, html};
use redrive_ops::{Changeable, Column, ColumnKind, Resource, TermText};
use redrive_store::{PageLimit, Selection, StateFilter};

use super::{
    PageResult,
    causes::cause_address,
    layout::{DashboardPage, NavSection, may_act},
    parts::{
        act_button, address, excerpt, filter_choice, filter_field, more, number, pill, when_text,
    },
};
use crate::{
    app::{App, AppState},
    extract::QueryParams,
    guard::Caller,
    params::{OF_PAGES, Pairs, Params, of_form, selection_fields},
};

const ROWS: u32 = 100;

pub(super) const PLAN_HELP: &str = "Look first, then bring them back with a canary and at a pace; what no worker has started can be undone";

/// A resource with a list on a page.
pub(super) trait Listed: Resource {
    const PATH: &'static str;
    const SECTION: NavSection;
    const TITLE: &'static str;
    const LEAD: &'static str;
    /// Links to actions on all that a filter matches, as [`bulk_links`] makes them.
    const BULK: fn(&Selection, &str) -> Markup = |_, _| html! {};

    /// The page of a row.
    fn address(id: &Self::Id) -> String;

    /// A cell that looks different on the page.
    fn own_cell(&self, heading: &str) -> Option<Markup> {
        let _ = heading;
        None
    }

    /// What the page shows between filters and rows.
    fn above(
        app: &App,
        caller: &Caller,
        selection: &Selection,
    ) -> impl Future<Output = PageResult<Markup>> + Send {
        let _ = (app, caller, selection);
        async { Ok(html! {}) }
    }
}

pub(super) async fn list<R: Listed>(
    app: AppState,
    Extension(caller): Extension<Caller>,
    QueryParams(pairs): QueryParams<Pairs>,
) -> PageResult<Response> {
    let params = Params::<R>::read(&of_form(pairs), OF_PAGES)?;
    show_list(&app, &caller, &params).await
}

pub(super) async fn show_list<R: Listed>(
    app: &App,
    caller: &Caller,
    params: &Params<R>,
) -> PageResult<Response> {
    let selection = &params.selection;
    let limit = PageLimit::without_data(ROWS);
    let page = R::page(&app.ops, selection, params.after.as_ref(), limit).await?;
    let fields = selection_fields::<R>(selection);
    let last = page.rows.last().filter(|_| page.has_more).map(R::id);
    let next = last.map(|last| {
        let after = ("after", last.to_string());
        address(R::PATH, fields.iter().cloned().chain([after]))
    });
    let body = html! {
        h1 { (R::TITLE) }
        p.lead { (R::LEAD) }
        (filters::<R>(selection, html! {}))
        (R::above(app, caller, selection).await?)
        section {
            // Instead of a column that says the same in every row.
            @if let Some(cause) = &selection.cause { p { "Cause " a href=(cause_address(cause)) { code { (cause) } } } }
            // Without a filter, only a list of one state offers actions.
            @if may_act(caller) && !page.rows.is_empty() && (!fields.is_empty() || R::STATE.is_some()) {
                div.actions { ((R::BULK)(selection, " all that match")) }
            }
            (table(app, selection, &page.rows)) (more(next))
        }
    };
    Ok(DashboardPage::new(R::SECTION, R::TITLE, body).render(app, caller))
}

/// A form with a field for every term of a list, and more.
pub(super) fn filters<R: Listed>(selection: &Selection, others: Markup) -> Markup {
    let value = |name| {
        let fields = selection_fields::<R>(selection);
        fields.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    };
    // The first name of a state is enough.
    let mut states: Vec<(&str, StateFilter)> = Vec::new();
    for (name, state) in R::STATES {
        if states.iter().all(|(_, known)| known != state) {
            states.push((name, *state));
        }
    }
    let names: Vec<&str> = states.iter().map(|(name, _)| *name).collect();
    html! {
        form.filters method="get" action=(R::PATH) {
            @for term in R::TERMS {
                (filter_field(term.name(), TermText::of(*term).label, value(term.name()).as_deref()))
            }
            @if R::STATE.is_none() { (filter_choice("state", "State", value("state").as_deref(), &names)) }
            (others)
            button type="submit" { "Show" }
        }
    }
}

fn table<R: Listed>(app: &App, selection: &Selection, rows: &[R]) -> Markup {
    if rows.is_empty() {
        return html! { p.empty { "No " (R::NOUN) "s match." } };
    }
    let is_shown =
        |column: &&Column<R>| column.kind != ColumnKind::Cause || selection.cause.is_none();
    let columns: Vec<&Column<R>> = R::COLUMNS.iter().filter(is_shown).collect();
    html! {
        div.scroll { table {
            thead { tr { @for column in &columns {
                th.number[is_number(column.kind)] { (title_case(column.heading)) }
            } } }
            tbody { @for row in rows { tr { @for column in &columns {
                @match row.own_cell(column.heading) {
                    Some(cell) => td.text { (cell) },
                    None => (cell(app, column.kind, &column.cell(row), || R::address(&row.id()))),
                }
            } } } }
        } }
    }
}

fn is_number(kind: ColumnKind) -> bool {
    kind == ColumnKind::Number
}

fn cell(app: &App, kind: ColumnKind, text: &str, address: impl Fn() -> String) -> Markup {
    match kind {
        ColumnKind::Id => html! { td.text { a href=(address()) { (text) } } },
        ColumnKind::Text => html! { td.text { (text) } },
        ColumnKind::Cause => {
            html! { td { @if !text.is_empty() { a href=(cause_address(text)) { code { (text) } } } } }
        }
        ColumnKind::Number => {
            let grouped = text.parse().map_or_else(|_| text.to_owned(), number);
            html! { td.number { (grouped) } }
        }
        ColumnKind::State => html! { td { (pill(text)) } },
        ColumnKind::Time => html! { td { (when_text(text, app.ops.now())) } },
        ColumnKind::Message => html! { td.text { (excerpt(text)) } },
    }
}

/// Links to the previews of the actions on all that match. `whom` follows their names.
pub(super) fn bulk_links<R: Listed + Changeable>(selection: &Selection, whom: &str) -> Markup {
    let mut fields = selection_fields::<R>(selection);
    if fields.is_empty() {
        fields.push(("all", "true".to_owned()));
    }
    let preview = |action: &str| {
        let action = [("action", action.to_owned())];
        address(&format!("{}/preview", R::PATH), action.into_iter().chain(fields.clone()))
    };
    let offered = R::actions().filter(|action| (action.is_for_all)(selection));
    html! { @for action in offered {
        a title=(action.about()) href=(preview(action.name)) { (title_case(action.name)) (whom) " …" }
        @if action.name == R::REVIVE {
            a.button title=(PLAN_HELP) href=(format!("{}&keep=true", preview(action.name))) { "Plan …" }
        }
    } }
}

/// The buttons of a unit and what else its operators can do, unless there is nothing.
pub(super) fn unit_actions<R: Listed + Changeable>(
    caller: &Caller,
    row: &R,
    more: Markup,
) -> Markup {
    let id = row.id().to_string();
    let fields = |options: &[&'static str]| {
        let options = options.iter().map(|option| (*option, "true"));
        [("ids", id.as_str())].into_iter().chain(options).collect::<Vec<_>>()
    };
    let buttons = html! { @for action in R::actions() {
        @for button in action.buttons.iter().filter(|button| (button.is_offered)(row)) {
            (act_button(&format!("{}/act/{}", R::PATH, action.name), &fields(button.options), button.label))
        }
    } };
    let is_shown = may_act(caller) && !(buttons.0.is_empty() && more.0.is_empty());
    html! { @if is_shown { section { h2 { "Actions" } div.actions { (buttons) } (more) } } }
}

/// Where an action came from.
pub(super) fn back<R: Listed>(params: &Params<R>) -> String {
    match params.ids.as_slice() {
        [id] => R::address(id),
        _ if let Some(cause) = only_cause(params) => cause_address(cause),
        _ => address(R::PATH, selection_fields::<R>(&params.selection)),
    }
}

/// The cause of a selection of all its units, as the page of causes links to it.
fn only_cause<R: Resource>(params: &Params<R>) -> Option<&str> {
    let cause = params.selection.cause.as_deref()?;
    let alone =
        Selection { cause: Some(cause.to_owned()), state: R::STATE, ..Selection::default() };
    (params.selection == alone).then_some(cause)
}

/// Capitalizes a name.
pub(super) fn title_case(name: &str) -> String {
    let words = name.replace(['-', '_'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
