//! Explains what happens next to a partition.

use jiff::Timestamp;
use redrive_core::{PartitionState, PolicySpec, RetryForecast, TerminalReason};
use redrive_engine::PartitionRules;
use redrive_store::{Lane, PartitionRecord, PartitionWorkRecord, WorkRequest};

use super::rule::partition_wait;
use crate::words::{apart, human};

#[derive(Debug, Clone)]
pub struct PartitionNext {
    /// Set when automatic retries have ended.
    pub terminal: Option<TerminalReason>,
    /// When the daemon retries the partition.
    pub retry_at: Option<Timestamp>,
    /// The next step and its reason, in words.
    pub because: String,
}

impl PartitionNext {
    pub fn of(
        partition: &PartitionRecord,
        rules: &PartitionRules,
        now: Timestamp,
        lease_now: Timestamp,
    ) -> Self {
        let forecast = rules.forecast(partition, now);
        let terminal = match forecast {
            Some(RetryForecast::Terminal { reason }) => Some(reason),
            Some(RetryForecast::RetryAt { .. }) | None => None,
        };
        let mut next = Self { terminal, retry_at: None, because: String::new() };
        next.because = match partition.state() {
            PartitionState::Absent => "no entry".to_owned(),
            PartitionState::Pending => work(partition, lease_now),
            PartitionState::Success => "nothing: the partition is good".to_owned(),
            PartitionState::Reprocessing => {
                format!(
                    "the partition is good and will be reprocessed: {}",
                    work(partition, lease_now)
                )
            }
            PartitionState::Failed | PartitionState::Terminal => match forecast {
                Some(RetryForecast::RetryAt { at, delay }) => {
                    next.retry_at = Some(at).filter(|_| partition.paused().is_none());
                    let policy = rules.policy(partition.key.source());
                    let attempts = partition.attempt_count;
                    let asked = partition.last_failure.as_ref().and_then(|failure| failure.asked);
                    let rule = partition_wait(policy, attempts, asked, delay);
                    if at > now {
                        let wait = apart(now, at);
                        format!(
                            "the daemon retries the partition in {wait}: failure {attempts}, {rule}"
                        )
                    } else {
                        format!(
                            "due now: failure {attempts}, {rule}; the daemon retries the partition"
                        )
                    }
                }
                Some(RetryForecast::Terminal { reason }) => ended(partition, rules, reason),
                None => String::new(),
            },
        };
        if let Some(by) = partition.paused() {
            let reason = by.reason.as_ref().map(|reason| format!(" ({reason})"));
            let reason = reason.unwrap_or_default();
            let paused = format!("; but {} paused the partition at {}{reason}", by.actor, by.at);
            next.because.push_str(&paused);
        }
        next
    }
}

fn ended(partition: &PartitionRecord, rules: &PartitionRules, reason: TerminalReason) -> String {
    let policy = rules.policy(partition.key.source());
    let spec = partition.failed().map_or(policy, |failed| failed.policy(policy)).spec();
    let attempts = partition.attempt_count;
    let why = match reason {
        TerminalReason::Marked => {
            return "nothing: an operator marked the partition terminal; `redrive state clear-terminal` removes \
                    the mark"
                .to_owned();
        }
        TerminalReason::Policy(_) => match spec.max_attempts.filter(|most| attempts >= *most) {
            Some(most) => format!("{attempts} attempts of {most}"),
            None => too_old(spec).unwrap_or_else(|| reason.to_string()),
        },
    };
    format!("nothing: {reason}: {why}; `redrive state retry --clear-terminal` retries it anyway")
}

/// The limits of age that a policy has.
fn too_old(spec: &PolicySpec) -> Option<String> {
    let first = spec.max_age.map(|age| format!("the first attempt was {} ago or more", human(age)));
    let day = spec.max_logical_age.map(|age| format!("its day is {} old or more", human(age)));
    let limits: Vec<String> = first.into_iter().chain(day).collect();
    (!limits.is_empty()).then(|| limits.join(", or "))
}

fn work(partition: &PartitionRecord, lease_now: Timestamp) -> String {
    let Some(PartitionWorkRecord { request: Some(request), lease_owner, lease_until, .. }) =
        &partition.work
    else {
        return "no work is requested".to_owned();
    };
    let attempt = partition.attempt_count.saturating_add(1);
    match (lease_owner, lease_until) {
        (Some(owner), Some(until)) if *until > lease_now => {
            let rest = apart(lease_now, *until);
            let owner = &owner.0;
            format!(
                "attempt {attempt} is under way, held by {owner} for {rest} more unless renewed"
            )
        }
        (Some(owner), _) => {
            format!(
                "the lease of {} has expired; a worker of the source decides about attempt {attempt}",
                owner.0
            )
        }
        (None, _) => waiting(request, attempt),
    }
}

fn waiting(request: &WorkRequest, attempt: u32) -> String {
    let WorkRequest { requested_at, requested_by, lane, .. } = request;
    let lane = Lane::name(*lane);
    format!(
        "attempt {attempt} waits for a worker of the source; {requested_by} requested the attempt at \
         {requested_at} ({lane})"
    )
}
