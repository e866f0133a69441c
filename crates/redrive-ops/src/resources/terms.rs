//! The terms of selections as users write them.

use redrive_core::{Fingerprint, LogicalDate, PartitionKey, PipelineRunId};
use redrive_store::{Selection, SelectionTerm as Term};

use crate::parse_past;

/// How users see a term. Its name in the API is that of [`SelectionTerm::name`](redrive_store::SelectionTerm::name),
/// its flag the same with hyphens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermText {
    /// What a flag stands for in `--flag VALUE`.
    pub value: &'static str,
    /// The label of a form.
    pub label: &'static str,
    pub help: &'static str,
}

impl TermText {
    pub fn of(term: Term) -> Self {
        let (value, label, help) = match term {
            Term::Queue => ("NAME", "Queue", "Only this queue"),
            Term::Category => ("NAME", "Category", "Only this category"),
            Term::Source => ("NAME", "Source", "Only this source"),
            Term::CustomerId => ("ID", "Customer", "Only this customer"),
            Term::QueryName => ("NAME", "Query", "Only this query"),
            Term::LogicalDate => ("DATE", "Day", "Only this day, as YYYY-MM-DD"),
            Term::Since => ("DATE", "First day", "The first day"),
            Term::Until => ("DATE", "Last day", "The last day, inclusive"),
            Term::Upload => ("NAME", "Upload", "Only this upload"),
            Term::Group => ("NAME", "Group", "Only this group"),
            Term::Pipeline => ("NAME", "Pipeline", "Only this pipeline"),
            Term::Run => ("ID", "Run", "Only this pipeline run"),
            Term::Stage => (
                "NAME",
                "Stage",
                "Only this failed stage; `source` selects invalid lines of the source",
            ),
            Term::Class => {
                ("CLASS", "Class", "Only this error class: final, retryable or rate_limited")
            }
            Term::Code => (
                "CODE",
                "Code",
                "Only this error code: an HTTP status, an exit code or a name such as timeout",
            ),
            Term::Cause => {
                ("FINGERPRINT", "Cause", "Only this cause, as `redrive causes` prints it")
            }
            Term::Error => ("TEXT", "Error text", "Only errors that contain this text"),
            Term::FailedSince => (
                "TIME",
                "Failed since",
                "Only last failures at this time or later: an instant, or how long ago, such as 2h",
            ),
            Term::FailedUntil => (
                "TIME",
                "Failed before",
                "Only last failures before this time: an instant, or how long ago",
            ),
        };
        Self { value, label, help }
    }

    /// Adds a term to a selection. An error says what is allowed.
    pub fn set(selection: &mut Selection, term: Term, text: &str) -> Result<(), String> {
        let owned = || Some(text.to_owned());
        let has_day = match term {
            Term::LogicalDate => selection.since.is_some() || selection.until.is_some(),
            Term::Since => selection.since.is_some(),
            Term::Until => selection.until.is_some(),
            _ => false,
        };
        if has_day {
            return Err("either `logical_date`, or `since` and `until`, each once".to_owned());
        }
        match term {
            Term::Queue => selection.queue = owned(),
            Term::Category => selection.category = owned(),
            Term::Source => selection.source = Some(key_part(text)?),
            Term::CustomerId => selection.customer_id = Some(key_part(text)?),
            Term::QueryName => selection.query_name = Some(key_part(text)?),
            Term::LogicalDate => *selection = selection.clone().on(day(text)?),
            Term::Since => selection.since = Some(day(text)?),
            Term::Until => selection.until = Some(day(text)?),
            Term::Upload => selection.upload = owned(),
            Term::Group => selection.group = owned(),
            Term::Pipeline => selection.pipeline = owned(),
            Term::Run => selection.run = Some(PipelineRunId(id(text)?)),
            Term::Stage => selection.stage = owned(),
            Term::Class => selection.class = Some(class(text)?),
            Term::Code => selection.code = Some(some_text(text)?),
            Term::Cause => selection.cause = Some(parse_fingerprint(text)?),
            Term::Error => selection.error = Some(some_text(text)?),
            Term::FailedSince => selection.failed_since = Some(parse_past(text)?),
            Term::FailedUntil => selection.failed_until = Some(parse_past(text)?),
        }
        match (selection.since, selection.until) {
            (Some(since), Some(until)) if since > until => {
                Err(format!("the first day {since} is after the last day {until}"))
            }
            _ => Ok(()),
        }
    }
}

fn key_part(text: &str) -> Result<String, String> {
    match PartitionKey::new(text, "-", "-", LogicalDate::MIN) {
        Ok(_) => Ok(text.to_owned()),
        Err(invalid) => Err(invalid.problem),
    }
}

/// An empty text would be in every message.
fn some_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the text is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn day(text: &str) -> Result<LogicalDate, String> {
    text.parse().map_err(|_| format!("{text:?} is not a day; a day is YYYY-MM-DD"))
}

fn id(text: &str) -> Result<i64, String> {
    let id = text.parse().ok().filter(|id: &i64| *id > 0 && text == id.to_string());
    id.ok_or_else(|| "an id is a whole number, 1 or greater".to_owned())
}

fn class(text: &str) -> Result<String, String> {
    let classes = ["final", "retryable", "rate_limited"];
    let advice = || format!("{text:?} is not a class; classes are {}", classes.join(", "));
    classes.contains(&text).then(|| text.to_owned()).ok_or_else(advice)
}

/// A fingerprint as users write it.
pub fn parse_fingerprint(text: &str) -> Result<String, String> {
    let parsed = text.parse::<Fingerprint>();
    parsed.map(|it| it.to_string()).map_err(|invalid| invalid.to_string())
}
