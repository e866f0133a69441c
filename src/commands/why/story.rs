//! All there is to tell of a run, read from the store.

use std::collections::HashMap;

use redrive::{AttemptNumber, RunId, Unit, config::Config};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    AttemptRecord, JournalFilter, JournalRecord, MAX_PAGE, Result, Store, UnitKind, UnitRow,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    next::{Next, Surroundings},
    rule::{Count, Rules},
};
use crate::{
    commands::{policy::rounded, runs::RunRow},
    context::Context,
    exit::Failure,
    output::{Column, Row, seconds},
};

/// A unit's story.
#[derive(Debug, Serialize)]
pub(super) struct Story {
    unit: String,
    run: RunRow,
    attempts: Vec<AttemptRow>,
    journal: Vec<JournalRow>,
    next: Next,
}

/// An attempt, and the rule behind what followed.
#[derive(Debug, Serialize)]
pub(super) struct AttemptRow {
    attempt: u32,
    started_at: String,
    ended_at: String,
    took_s: Value,
    outcome: &'static str,
    class: Option<String>,
    code: Option<String>,
    message: Option<String>,
    cause: Option<&'static str>,
    counted: bool,
    delay_s: Option<Value>,
    worker: String,
    rule: String,
    #[serde(skip)]
    took: String,
}

/// What somebody did to the unit.
#[derive(Debug, Serialize)]
pub(super) struct JournalRow {
    at: String,
    actor: String,
    action: String,
    details: Value,
}

impl Story {
    /// Reads it; `None` if there is no such run.
    pub(super) async fn read(
        id: RunId,
        store: &dyn Store,
        config: Option<&Config>,
    ) -> Result<Option<Self>> {
        let unit = Unit::Run(id).to_string();
        let Some(run) = store.runs_by_id(&[id]).await?.into_iter().next() else {
            return Ok(None);
        };
        let row = UnitRow::new(UnitKind::Run, id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let filter = JournalFilter { unit: Some(unit.clone()), action: None };
        let journal = store.journal_page(&filter, 0, MAX_PAGE).await?;
        let paused = store.paused_queues().await?;

        let policy = config.and_then(|config| config.queue(&run.queue));
        let policy = policy.map(|queue| queue.policy.policy.clone());
        let seed = config.map(|config| config.jitter_seed).unwrap_or_default();
        let rules = Rules::new(policy, seed, &Unit::Run(id));
        let actions = Actions { gives_up: "run.giveup", resets: "run.retry" };
        let attempts = told(&attempts, run.attempts_at_reset, &journal, actions, &rules);
        let next = Next::of(
            &run,
            &Surroundings {
                now: SystemClock.now(),
                lease_now: store.now(),
                config,
                paused: paused.iter().find(|paused| paused.queue == run.queue),
                journal: &journal,
                last_rule: attempts.last().map(|attempt| attempt.rule.as_str()),
            },
        );
        let journal = journal.into_iter().map(JournalRow::from).collect();
        Ok(Some(Self { unit, run: run.into(), attempts, journal, next }))
    }

    /// Prints it: an object, or one part below the other.
    pub(super) fn print(&self, context: &Context) -> std::result::Result<(), Failure> {
        let output = context.output;
        if !output.is_table() {
            return output.record(self);
        }
        output.record(&self.run)?;
        output.remark_list("attempts", &self.attempts)?;
        output.remark_list("journal", &self.journal)?;
        output.remark(&format!("next: {}", self.next.sentence()))
    }
}

impl Row for Story {
    const COLUMNS: &'static [Column] = RunRow::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.run.cells()
    }
}

/// What the journal calls the turns of a unit's story.
#[derive(Debug, Clone, Copy)]
pub(super) struct Actions {
    pub(super) gives_up: &'static str,
    pub(super) resets: &'static str,
}

/// Each attempt with its rule. The count begins anew where an operator sent the unit back.
pub(super) fn told(
    attempts: &[AttemptRecord],
    attempts_at_reset: u32,
    journal: &[JournalRecord],
    actions: Actions,
    rules: &Rules,
) -> Vec<AttemptRow> {
    let gave_up = give_ups(journal, actions.gives_up);
    let mut resets = journal.iter().filter(|row| row.entry.action == actions.resets).peekable();
    let mut count = Count { failures: 0, deferrals: 0 };
    let mut rows = Vec::new();
    for attempt in attempts {
        let mut was_reset = attempt.attempt.0 == attempts_at_reset.saturating_add(1);
        while resets.next_if(|reset| reset.entry.at <= attempt.started_at).is_some() {
            was_reset = true;
        }
        if was_reset {
            count = Count { failures: 0, deferrals: 0 };
        }
        let reason = gave_up.get(&attempt.attempt.0).map(String::as_str);
        rows.push(AttemptRow::new(attempt, rules.words(attempt, count, reason)));
        count = if attempt.counted {
            Count { failures: count.failures.saturating_add(1), deferrals: 0 }
        } else {
            Count { deferrals: count.deferrals.saturating_add(1), ..count }
        };
    }
    rows
}

/// The reasons that the journal has, by attempt.
pub(super) fn give_ups(journal: &[JournalRecord], action: &str) -> HashMap<u32, String> {
    let reason = |row: &JournalRecord| {
        let details: Value = serde_json::from_str(&row.entry.details).ok()?;
        let attempt = u32::try_from(details.get("attempts")?.as_u64()?).ok()?;
        Some((attempt, details.get("reason")?.as_str()?.to_owned()))
    };
    let rows = journal.iter().filter(|row| row.entry.action == action);
    rows.filter_map(reason).collect()
}

impl AttemptRow {
    /// The rule behind what followed.
    pub(super) fn rule(&self) -> &str {
        &self.rule
    }

    pub(super) fn new(attempt: &AttemptRecord, rule: String) -> Self {
        let took = attempt.ended_at.duration_since(attempt.started_at);
        let took = took.try_into().unwrap_or_default();
        Self {
            attempt: attempt.attempt.0,
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.to_string(),
            took_s: seconds(took),
            outcome: attempt.outcome.name(),
            class: attempt.class.clone(),
            code: attempt.code.clone(),
            message: attempt.message.clone(),
            cause: attempt.cause.map(|cause| cause.name()),
            counted: attempt.counted,
            delay_s: attempt.delay.map(seconds),
            worker: attempt.worker.clone(),
            rule,
            took: rounded(took),
        }
    }
}

impl Row for AttemptRow {
    const COLUMNS: &'static [Column] = &[
        Column::number("attempt"),
        Column::text("started at"),
        Column::number("took"),
        Column::text("outcome"),
        Column::text("class"),
        Column::text("code"),
        Column::text("rule"),
        Column::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.attempt.to_string(),
            self.started_at.clone(),
            self.took.clone(),
            self.outcome.to_owned(),
            self.class.clone().unwrap_or_default(),
            self.code.clone().unwrap_or_default(),
            self.rule.clone(),
            self.message.clone().unwrap_or_default(),
        ]
    }
}

impl From<JournalRecord> for JournalRow {
    fn from(record: JournalRecord) -> Self {
        let entry = record.entry;
        let details = serde_json::from_str(&entry.details).unwrap_or_else(|_| entry.details.into());
        Self { at: entry.at.to_string(), actor: entry.actor, action: entry.action, details }
    }
}

impl Row for JournalRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("at"),
        Column::text("actor"),
        Column::text("action"),
        Column::text("details"),
    ];

    fn cells(&self) -> Vec<String> {
        let details = self.details.to_string();
        vec![self.at.clone(), self.actor.clone(), self.action.clone(), details]
    }
}
