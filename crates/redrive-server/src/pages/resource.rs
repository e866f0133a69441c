//! Resources with a list on a page: what the page says of them, and links and buttons for their actions.

use std::future::Future;

use maud::{Markup, html};
use redrive_ops::{Changeable, Resource, views::OverviewView};
use redrive_store::{PageOrder, Selection};

use super::{
    PageResult,
    causes::cause_address,
    layout::{NavSection, may_act},
    parts::{act_button, address, danger_button},
};
use crate::{
    app::App,
    guard::Caller,
    params::{Params, selection_fields},
};

/// The form of the boxes in the rows of a list. It is outside of the table: a form with unsaved input is not kept up to date.
pub(super) const SELECTED_FORM: &str = "selected";

pub(super) const PLAN_HELP: &str = "Look first, then bring them back with a canary and at a pace; what no worker has started can be undone";

/// A resource with a list on a page.
pub(super) trait Listed: Resource {
    const PATH: &'static str;
    const SECTION: NavSection;
    const TITLE: &'static str;
    const LEAD: &'static str;
    /// How to begin when there is nothing yet, and the command for it.
    const BEGIN: (&'static str, &'static str);
    const PAGE_ORDER: PageOrder = PageOrder::Descending;
    /// Links to actions on all that a filter matches, as [`bulk_links`] makes them.
    const BULK: fn(&Selection, &str) -> Markup = |_, _| html! {};
    /// Buttons for actions on the rows that are selected, as [`selected_actions`] makes them.
    const SELECTED: Option<fn(&str) -> Markup> = None;

    /// The page of a row.
    fn address(id: &Self::Id) -> String;

    /// A cell that looks different on the page.
    fn own_cell(&self, heading: &str) -> Option<Markup> {
        let _ = heading;
        None
    }

    /// The number of units that match, if the overview has it.
    fn counted(overview: &OverviewView, selection: &Selection) -> Option<u64> {
        let _ = (overview, selection);
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

/// What the overview counts of a kind, for a selection of a state or of all.
pub(super) fn counted_by_state(
    overview: &OverviewView,
    kind: &str,
    selection: &Selection,
) -> Option<u64> {
    let state = selection.state.map(|state| state.status);
    let of_kind = overview.units.iter().filter(|it| it.kind == kind);
    let counts = of_kind.filter(|it| state.is_none_or(|state| it.state == state));
    let is_counted = selection.is_empty() && selection.waiting().is_none();
    is_counted.then(|| counts.map(|it| it.count).sum())
}

/// Buttons for the previews of actions on the rows that are selected. `list` is the query of the list.
pub(super) fn selected_actions<R: Listed + Changeable>(list: &str) -> Markup {
    html! {
        form.selected id=(SELECTED_FORM) method="get" action=(format!("{}/preview", R::PATH)) {
            input type="hidden" name="list" value=(list);
            strong { "Selected" }
            @for action in R::actions().filter(|action| !action.buttons.is_empty()) {
                button.danger[action.is_destructive] type="submit" name="action" value=(action.name)
                    title=(action.about()) { (title_case(action.name)) " …" }
            }
        }
    }
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
            @let make = if action.is_destructive { danger_button } else { act_button };
            (make(&format!("{}/act/{}", R::PATH, action.name), &fields(button.options), button.label))
        }
    } };
    let is_shown = may_act(caller) && !(buttons.0.is_empty() && more.0.is_empty());
    // What the key `r` leads to.
    let preview = address(&format!("{}/preview", R::PATH), [("action", R::REVIVE), ("ids", &id)]);
    html! { @if is_shown { section data-preview=(preview) { h2 { "Actions" } div.actions { (buttons) } (more) } } }
}

/// Where an action came from.
pub(super) fn back<R: Listed>(params: &Params<R>) -> String {
    match params.ids.as_slice() {
        _ if let Some(list) = &params.list => format!("{}?{list}", R::PATH),
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
