//! Explains a partition.

use redrive_core::{AttemptNumber, FailedPartition, PartitionKey, RetryForecast, Unit};
use redrive_engine::PartitionRules;
use redrive_store::{
    AttemptOutcome, AttemptRecord, MAX_PAGE, PartitionRecord, Result, UnitKind, UnitRow,
};
use serde::Serialize;

use super::{Next, PartitionNext, journal::read_journal, rule::partition_wait, run::give_ups};
use crate::{
    Ops,
    views::{AttemptView, JournalView, PartitionView},
};

/// The explanation of a partition.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartitionExplanation {
    /// The unit, as `partition:SOURCE/CUSTOMER/QUERY/DATE`.
    pub unit: String,
    pub partition: PartitionView,
    /// Each attempt with the rule behind the decision.
    pub attempts: Vec<AttemptView>,
    pub journal: Vec<JournalView>,
    pub next: Next,
}

impl PartitionExplanation {
    pub(super) async fn read(key: &PartitionKey, ops: &Ops) -> Result<Option<Self>> {
        let (store, rules) = (ops.store(), ops.partitions().rules());
        let found = store.partitions_by_key(std::slice::from_ref(key)).await?.pop().flatten();
        let Some(partition) = found else { return Ok(None) };
        let unit = Unit::Partition(key.clone()).to_string();
        let row = UnitRow::new(UnitKind::Partition, partition.id.0);
        let attempts = store.attempts_of(&row, AttemptNumber(0), MAX_PAGE).await?;
        let journal = read_journal(&unit, &**store).await?;
        let mut next = PartitionNext::of(&partition, rules, ops.now(), store.now());
        let waits = partition.work.as_ref().is_some_and(|work| {
            work.request.is_some() && work.lease_owner.is_none() && work.paused.is_none()
        });
        if waits
            && let Some(gate) =
                ops.gate_before(UnitKind::Partition, key.source(), key.customer_id()).await?
        {
            next.because = format!("{}; but {gate}", next.because);
        }

        let gave_up = give_ups(&journal, "partition.giveup");
        let mut was_good = false;
        let mut explained = Vec::new();
        for attempt in &attempts {
            let ended = gave_up.get(&attempt.attempt.0).map(String::as_str);
            let rule = rule(&partition, attempt, rules, was_good, ended);
            was_good |= attempt.outcome == AttemptOutcome::Success;
            explained.push(AttemptView::from(attempt).with_rule(rule));
        }
        let state = partition.state().name();
        Ok(Some(Self {
            unit,
            next: Next::new(state, next.retry_at, next.because.clone()),
            partition: PartitionView::new(partition, next),
            attempts: explained,
            journal: journal.into_iter().map(JournalView::from).collect(),
        }))
    }
}

/// The rule behind the decision about an attempt. The waits are those of the current policy.
fn rule(
    partition: &PartitionRecord,
    attempt: &AttemptRecord,
    rules: &PartitionRules,
    was_good: bool,
    gave_up: Option<&str>,
) -> String {
    let n = attempt.attempt.0;
    if attempt.outcome == AttemptOutcome::Success {
        return "accepted: the raw run has authority".to_owned();
    }
    if was_good {
        return "rejected: the previous raw run keeps authority".to_owned();
    }
    if let Some(reason) = gave_up {
        return format!("failure {n}; gave up: {reason}");
    }
    let failed = FailedPartition {
        attempt_count: n,
        error_message: None,
        updated_at: attempt.ended_at,
        first_attempt_at: partition.first_attempt_at,
        logical_date: partition.key.logical_date(),
        asked: attempt.asked,
        failure: attempt.failure(),
    };
    match rules.forecast_failed(&partition.key, failed, attempt.ended_at) {
        RetryForecast::RetryAt { delay, .. } => {
            let policy = failed.policy(rules.policy(partition.key.source()));
            format!("failure {n}: {}", partition_wait(policy, n, attempt.asked, delay))
        }
        RetryForecast::Terminal { reason } => format!("failure {n}; ended by the policy: {reason}"),
    }
}
