//! A policy as a record, and as a row of a list.

use redrive::{Code, Policy, Retriable, config::PolicyChoice};
use redrive_ops::{views::PolicyView, words::human};
use serde::Serialize;

use crate::output::{TableColumn, TableRow};

/// The view of a policy that a queue, a source or a stage uses.
pub(crate) fn chosen(choice: &PolicyChoice) -> PolicyView {
    PolicyView::new(choice.name.as_deref().unwrap_or("in place"), &choice.policy)
}

fn max_age(policy: &Policy) -> String {
    policy.spec().max_age.map_or("no limit".to_owned(), human)
}

fn retriable(policy: &Policy) -> String {
    match &policy.spec().retriable {
        Retriable::ByClass => "by class".to_owned(),
        Retriable::All => "all".to_owned(),
        Retriable::None => "none".to_owned(),
        Retriable::Codes(codes) => {
            let codes: Vec<String> = codes.iter().map(Code::to_string).collect();
            codes.join(", ")
        }
    }
}

impl TableRow for PolicyView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("max attempts"),
        TableColumn::text("max age"),
        TableColumn::text("backoff"),
        TableColumn::text("base"),
        TableColumn::text("multiplier"),
        TableColumn::text("cap"),
        TableColumn::text("jitter"),
        TableColumn::text("retriable"),
        TableColumn::text("max hint"),
        TableColumn::text("max deferrals"),
    ];

    fn cells(&self) -> Vec<String> {
        let spec = self.policy.spec();
        vec![
            self.name.clone(),
            self.attempts_in_words(),
            max_age(&self.policy),
            self.backoff.to_owned(),
            human(spec.base),
            self.multiplier.to_string(),
            human(spec.cap),
            self.jitter.clone(),
            retriable(&self.policy),
            human(spec.max_hint),
            self.max_deferrals.to_string(),
        ]
    }
}

/// The record as a row of a list, with fewer columns in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct PolicyListRow(pub(crate) PolicyView);

impl TableRow for PolicyListRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::number("max attempts"),
        TableColumn::number("max age"),
        TableColumn::text("backoff"),
        TableColumn::text("jitter"),
        TableColumn::text("retriable"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.name.clone(),
            self.0.attempts_in_words(),
            max_age(&self.0.policy),
            self.0.backoff_in_words(),
            self.0.jitter.clone(),
            retriable(&self.0.policy),
        ]
    }
}
