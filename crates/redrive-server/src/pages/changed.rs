//! The preview of a bulk action with its confirmation, and the result.

use maud::{Markup, html};
use redrive_ops::views::{ItemChangeView, PartitionChangeView, RunChangeView, SampleChangeView};

use super::parts::{number, pill};
use crate::api::BulkOutcome;

const MAX_ROWS: usize = 200;

/// The outcome of an action for one unit.
pub(super) trait ChangeRow {
    fn unit(&self) -> String;
    fn outcome(&self) -> &'static str;
    fn note(&self) -> String;
}

impl ChangeRow for RunChangeView {
    fn unit(&self) -> String {
        format!("run {}", self.id)
    }

    fn outcome(&self) -> &'static str {
        self.outcome
    }

    fn note(&self) -> String {
        self.note.clone()
    }
}

impl ChangeRow for PartitionChangeView {
    fn unit(&self) -> String {
        let Self { source, customer_id, query_name, logical_date, .. } = self;
        format!("{source} / {customer_id} / {query_name} / {logical_date}")
    }

    fn outcome(&self) -> &'static str {
        self.outcome
    }

    fn note(&self) -> String {
        self.note.clone()
    }
}

impl ChangeRow for SampleChangeView {
    fn unit(&self) -> String {
        let pipeline = self.pipeline.as_deref().unwrap_or_default();
        let stage = self.stage.as_deref().unwrap_or_default();
        format!("sample {} of {pipeline}, at {stage}", self.id)
    }

    fn outcome(&self) -> &'static str {
        self.outcome
    }

    fn note(&self) -> String {
        self.why.clone().unwrap_or_default()
    }
}

impl ChangeRow for ItemChangeView {
    fn unit(&self) -> String {
        format!("item {} {}", self.id, self.name.as_deref().unwrap_or_default())
    }

    fn outcome(&self) -> &'static str {
        self.outcome
    }

    fn note(&self) -> String {
        self.detail.clone()
    }
}

/// Capitalizes the name of an action.
pub(super) fn title_case(action: &str) -> String {
    let words = action.replace('-', " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The result of an action.
pub(super) fn done<T: ChangeRow>(title: &str, changes: &BulkOutcome<T>, back: &str) -> Markup {
    html! {
        h1 { (title) }
        p.lead { (summary(changes)) }
        section {
            (table(changes))
            p { a href=(back) { "Back" } }
        }
    }
}

/// The expected outcome of an action and the button that confirms it. `fields` are the parameters of the action besides
/// the token.
pub(super) fn preview<T: ChangeRow>(
    title: &str,
    changes: &BulkOutcome<T>,
    action: &str,
    fields: &[(&str, Option<&str>)],
    back: &str,
) -> Markup {
    let ready = changes.changes().iter().filter(|it| it.outcome() == "would_be_done").count();
    html! {
        h1 { (title) }
        p.lead { "Nothing has been done yet. " (summary(changes)) }
        section {
            form method="post" action=(action) {
                @for (name, value) in fields {
                    @if let Some(value) = value.filter(|value| !value.is_empty()) {
                        input type="hidden" name=(name) value=(value);
                    }
                }
                input type="hidden" name="token" value=(changes.token().unwrap_or_default());
                div.actions {
                    label { "Reason, for the journal" input type="text" name="reason" maxlength="500"; }
                    @if ready > 0 { button.primary type="submit" { "Confirm: " (number(ready as u64)) } }
                    a href=(back) { "Go back" }
                }
            }
        }
        section { (table(changes)) }
    }
}

fn summary<T: ChangeRow>(changes: &BulkOutcome<T>) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for change in changes.changes() {
        match counts.iter_mut().find(|(known, _)| *known == change.outcome()) {
            Some((_, count)) => *count += 1,
            None => counts.push((change.outcome(), 1)),
        }
    }
    let words = counts
        .iter()
        .map(|(outcome, count)| format!("{} {}", number(*count), outcome.replace('_', " ")));
    let words: Vec<String> = words.collect();
    format!("{}.", words.join(", "))
}

fn table<T: ChangeRow>(changes: &BulkOutcome<T>) -> Markup {
    let rows = changes.changes();
    html! {
        div.scroll { table {
            thead { tr { th { "Unit" } th { "Outcome" } th { "" } } }
            tbody { @for row in rows.iter().take(MAX_ROWS) { tr {
                td.text { (row.unit()) }
                td { (pill(row.outcome())) }
                td.text { (row.note()) }
            } } }
        } }
        @if rows.len() > MAX_ROWS { p.lead { "Showing the first " (MAX_ROWS) " of " (number(rows.len() as u64)) " rows." } }
    }
}
