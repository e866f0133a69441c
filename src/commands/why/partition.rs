//! All there is to tell of a partition, read from the store.

use redrive::{
    AttemptNumber, FailedPartition, PartitionKey, PartitionRecord, PartitionRules, Prospect, Unit,
};
use redrive_engine::{Clock, SystemClock};
use redrive_store::{
    AttemptOutcome, AttemptRecord, JournalFilter, MAX_PAGE, Result, UnitKind, UnitRow,
};
use serde::Serialize;

use super::{
    next::Next,
    rule::formula,
    story::{AttemptRow, JournalRow, give_ups},
};
use crate::{
    commands::state::{PartitionNext, PartitionRow},
    context::Context,
    desk::Desk,
    exit::Failure,
    output::{Column, Row},
};

/// A partition's story.
#[derive(Debug, Serialize)]
pub(super) struct PartitionStory {
    unit: String,
    partition: PartitionRow,
    attempts: Vec<AttemptRow>,
    journal: Vec<JournalRow>,
    next: Next,
}

impl PartitionStory {
    /// Reads it; `None` if there is no entry.
    pub(super) async fn read(key: &PartitionKey, desk: &Desk) -> Result<Option<Self>> {
        let (store, rules) = (desk.control.store(), desk.control.rules());
        let found = store.partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten();
        let Some(partition) = found else { return Ok(None) };
        let unit = Unit::Partition(key.clone()).to_string();
        let row = UnitRow::new(UnitKind::Partition, partition.id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let filter = JournalFilter { unit: Some(unit.clone()), action: None };
        let journal = store.journal_page(&filter, 0, MAX_PAGE).await?;
        let next = PartitionNext::of(&partition, rules, SystemClock.now(), store.now());

        let gave_up = give_ups(&journal, "partition.giveup");
        let mut was_good = false;
        let mut told = Vec::new();
        for attempt in &attempts {
            let ended = gave_up.get(&attempt.attempt.0).map(String::as_str);
            let rule = rule(&partition, attempt, rules, was_good, ended);
            was_good |= attempt.outcome == AttemptOutcome::Success;
            told.push(AttemptRow::new(attempt, rule));
        }
        let state = partition.state().name();
        Ok(Some(Self {
            unit,
            next: Next::new(state, next.retry_at, next.because.clone()),
            partition: PartitionRow::new(partition, next),
            attempts: told,
            journal: journal.into_iter().map(JournalRow::from).collect(),
        }))
    }

    /// Prints it: an object, or one part below the other.
    pub(super) fn print(&self, context: &Context) -> std::result::Result<(), Failure> {
        let output = context.output;
        if !output.is_table() {
            return output.record(self);
        }
        output.record(&self.partition)?;
        output.remark_list("attempts", &self.attempts)?;
        output.remark_list("journal", &self.journal)?;
        output.remark(&format!("next: {}", self.next.sentence()))
    }
}

impl Row for PartitionStory {
    const COLUMNS: &'static [Column] = PartitionRow::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.partition.cells()
    }
}

/// The rule behind what followed an attempt. The waits are those of today's policy.
fn rule(
    partition: &PartitionRecord,
    attempt: &AttemptRecord,
    rules: &PartitionRules,
    was_good: bool,
    gave_up: Option<&str>,
) -> String {
    let n = attempt.attempt.0;
    if attempt.outcome == AttemptOutcome::Success {
        return "accepted: its run has authority".to_owned();
    }
    if was_good {
        return "rejected: the run that had authority keeps it".to_owned();
    }
    if let Some(reason) = gave_up {
        return format!("failure {n}; gave up: {reason}");
    }
    let failed = FailedPartition {
        attempt_count: n,
        error_message: None,
        updated_at: attempt.ended_at,
        first_attempt_at: partition.first_attempt_at,
    };
    match rules.prospect_of(&partition.key, failed, attempt.ended_at) {
        Prospect::RetryAt { delay, .. } => {
            let policy = rules.policy(partition.key.source());
            format!("failure {n}: {}", formula(policy, n, delay))
        }
        Prospect::Terminal { reason } => format!("failure {n}; ended by the policy: {reason}"),
    }
}
