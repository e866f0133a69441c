//! The bar above a list: a search box, the filters, and what is filtered by, which a click removes.

use maud::{Markup, html};
use redrive_ops::TermText;
use redrive_store::{Selection, SelectionTerm, StateFilter};

use super::{
    PageResult,
    parts::{address, filter_choice, filter_field},
    resource::Listed,
};
use crate::{
    params::{Pairs, selection_fields, take},
    problem::ProblemDetails,
};

const SEARCH: &str = "search";

/// The address to which a search leads, if the parameters have one: the page of a unit, or the list of errors with the text.
pub(super) fn search<R: Listed>(pairs: &mut Pairs) -> PageResult<Option<String>> {
    let Some(text) = take(pairs, SEARCH) else { return Ok(None) };
    match R::parse_id(&text) {
        Ok(id) => Ok(Some(R::address(&id))),
        Err(_) if R::TERMS.contains(&SelectionTerm::Error) => {
            let names = R::TERMS
                .iter()
                .map(|term| term.name())
                .chain(["state", "month", "months", "view", "order"]);
            let given = |name: &'static str| {
                let value = pairs.iter().find(|(given, _)| given == name);
                value.map(|(_, value)| (name, value.clone()))
            };
            let kept = names.filter(|name| *name != SelectionTerm::Error.name()).filter_map(given);
            Ok(Some(address(R::PATH, kept.chain([(SelectionTerm::Error.name(), text)]))))
        }
        Err(allowed) => {
            let what = format!("there is no {} {text:?}", R::NOUN);
            Err(ProblemDetails::not_found(what).allowed(allowed))
        }
    }
}

/// The bar of a list. `kept` are parameters that stay when a filter is added or removed, `more` are fields besides those of
/// the terms.
pub(super) fn filter_bar<R: Listed>(
    selection: &Selection,
    kept: &[(&'static str, String)],
    more: Markup,
) -> Markup {
    let given = selection_fields::<R>(selection);
    html! {
        div.filter-bar {
            (search_form::<R>(given.iter().chain(kept)))
            details {
                summary.button { "Filters" @if !given.is_empty() { " (" (given.len()) ")" } }
                (filter_form::<R>(&given, kept, more))
            }
        }
        @if !given.is_empty() { ul.chips aria-label="Filters in use" {
            @for (name, value) in &given {
                @let others = given.iter().filter(|(other, _)| other != name).chain(kept).cloned();
                li { (chip::<R>(name, value, &address(R::PATH, others))) }
            }
            @if given.len() > 1 { li { a href=(address(R::PATH, kept.iter().cloned())) { "Remove all" } } }
        } }
    }
}

/// One box for everything that a person may have at hand.
fn search_form<'a, R: Listed>(fields: impl Iterator<Item = &'a (&'static str, String)>) -> Markup {
    let has_errors = R::TERMS.contains(&SelectionTerm::Error);
    let label = if has_errors { "Id or error text" } else { "Id" };
    html! {
        form.search method="get" action=(R::PATH) role="search" {
            (hidden(fields))
            label { span.unseen { (label) } input type="search" name=(SEARCH) placeholder=(label); }
            button type="submit" { "Go" }
        }
    }
}

fn hidden<'a>(fields: impl Iterator<Item = &'a (&'static str, String)>) -> Markup {
    html! { @for (name, value) in fields { input type="hidden" name=(name) value=(value); } }
}

fn filter_form<R: Listed>(
    given: &[(&'static str, String)],
    kept: &[(&'static str, String)],
    more: Markup,
) -> Markup {
    let value = |name: &str| {
        let found = given.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
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
            (hidden(kept.iter()))
            @if R::STATE.is_none() { (filter_choice("state", "State", value("state"), &names)) }
            @for term in R::TERMS {
                (filter_field(term.name(), TermText::of(*term).label, value(term.name())))
            }
            (more)
            button type="submit" { "Show" }
        }
    }
}

/// A filter in use, which leads to the list without it.
fn chip<R: Listed>(name: &str, value: &str, without: &str) -> Markup {
    let term = R::TERMS.iter().find(|term| term.name() == name);
    let (label, text) = match term {
        Some(term) => (TermText::of(*term).label, value.to_owned()),
        None => ("State", value.replace('_', " ")),
    };
    let title = format!("Remove the filter {label}: {text}");
    html! {
        a.filter href=(without) title=(title) aria-label=(title) {
            (label) ": " b { (text) } " " span aria-hidden="true" { "×" }
        }
    }
}
