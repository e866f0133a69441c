//! The story of every partition, told again from what the store was asked and answered: a reference
//! model, event by event. Whatever the store did that the story does not allow is a problem.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use redrive_core::{
    FailedPartition, PartitionEvent, PartitionKey, PartitionRunId, PartitionState, RetryForecast,
};
use redrive_engine::PartitionRules;
use redrive_store::{LeaseRef, Leased, PartitionAction, PartitionChange, Written};

use super::operators::DAEMON;
use crate::simulator::log::{Event, LoggedVerdict, What};

/// A partition as its story has it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) state: PartitionState,
    pub(crate) current: Option<PartitionRunId>,
    /// Run and outcome of each verdict, in order.
    pub(crate) verdicts: Vec<(PartitionRunId, bool)>,
    pub(crate) paused: bool,
    pub(crate) lease: Option<(LeaseRef, PartitionRunId)>,
    /// What was done to it by the control plane, by action.
    pub(crate) actions: BTreeMap<&'static str, usize>,
    asked: bool,
    updated_at: Timestamp,
    first_attempt_at: Option<Timestamp>,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            state: PartitionState::Absent,
            current: None,
            verdicts: Vec::new(),
            paused: false,
            lease: None,
            actions: BTreeMap::new(),
            asked: false,
            updated_at: Timestamp::UNIX_EPOCH,
            first_attempt_at: None,
        }
    }
}

/// All stories together.
pub(crate) struct Story<'a> {
    rules: &'a PartitionRules,
    pub(crate) told: BTreeMap<PartitionKey, Told>,
    /// Runs that were ever begun, and those that an extractor worked on.
    runs: BTreeSet<PartitionRunId>,
    extracted: BTreeSet<PartitionRunId>,
    pub(crate) problems: Vec<String>,
}

impl<'a> Story<'a> {
    /// Tells everything again.
    pub(crate) fn of(events: &[Event], rules: &'a PartitionRules) -> Self {
        let mut story = Self {
            rules,
            told: BTreeMap::new(),
            runs: BTreeSet::new(),
            extracted: BTreeSet::new(),
            problems: Vec::new(),
        };
        for event in events {
            let problem = story.follow(event);
            story.problems.extend(problem.map(|problem| format!("{problem}: {event:?}")));
        }
        story
    }

    fn follow(&mut self, event: &Event) -> Option<String> {
        match &event.what {
            What::Took { key, lease, run_id, attempt } => self.took(key, *lease, run_id, *attempt),
            What::Judged { key, verdict, written } => self.judged(key, verdict, *written),
            What::Wished { action, key, at, change } => {
                self.wished(*action, key, *at, *change, event.who.starts_with(DAEMON))
            }
            What::Renewed { lease, written, .. } if lease.kind == Leased::Partition => {
                self.guarded(lease.id, lease.epoch, *written)
            }
            What::HandedBack { lease: back, written } if back.kind == Leased::Partition => {
                let problem = self.guarded(back.id, back.epoch, *written);
                if *written == Written::Applied {
                    self.told.values_mut().for_each(|told| {
                        told.lease.take_if(|(lease, _)| lease.id == back.id);
                    });
                }
                problem
            }
            What::Extracting { run_id, .. } => {
                (!self.extracted.insert(run_id.clone())).then(|| "a run was made twice".to_owned())
            }
            What::Consumed { key, run_id } => {
                let verdicts = self.told.get(key).map(|told| &told.verdicts[..]);
                let good = (run_id.clone(), true);
                let readable = verdicts.is_some_and(|verdicts| verdicts.contains(&good));
                (!readable).then(|| "a consumer read what nobody had accepted".to_owned())
            }
            _ => None,
        }
    }

    fn took(
        &mut self,
        key: &PartitionKey,
        lease: LeaseRef,
        run_id: &PartitionRunId,
        attempt: u32,
    ) -> Option<String> {
        let fresh = self.runs.insert(run_id.clone());
        let told = self.told.entry(key.clone()).or_default();
        let held = told.lease.replace((lease, run_id.clone()));
        let rules = [
            (held.is_none(), "claimed while somebody holds it"),
            (told.asked, "claimed, and nobody asked for it"),
            (!told.paused, "claimed while it is paused"),
            (fresh, "a run_id was used twice"),
            (attempt as usize == told.verdicts.len() + 1, "its attempt has a wrong number"),
        ];
        broken(&rules)
    }

    fn judged(
        &mut self,
        key: &PartitionKey,
        verdict: &LoggedVerdict,
        written: Written,
    ) -> Option<String> {
        let told = self.told.entry(key.clone()).or_default();
        let holder = (verdict.lease, verdict.run_id.clone());
        let holds = told.lease.as_ref() == Some(&holder);
        match (holds, written) {
            (false, Written::Stale) => return None,
            (true, Written::Stale) => return Some("the holder was refused".to_owned()),
            (false, Written::Applied) => return Some("a stale verdict was accepted".to_owned()),
            (true, Written::Applied) => {}
        }
        told.verdicts.push((verdict.run_id.clone(), verdict.good));
        told.first_attempt_at.get_or_insert(verdict.started_at);
        told.updated_at = verdict.ended_at;
        (told.lease, told.asked) = (None, false);
        let event = if verdict.good { PartitionEvent::Pass } else { PartitionEvent::Fail };
        if verdict.good {
            told.current = Some(verdict.run_id.clone());
        }
        let made = verdict.lost || self.extracted.contains(&verdict.run_id);
        match told.state.apply(event) {
            Ok(after) => told.state = after,
            Err(illegal) => return Some(illegal.to_string()),
        }
        (!made).then(|| "a run was judged that nobody made or lost".to_owned())
    }

    fn wished(
        &mut self,
        action: PartitionAction,
        key: &PartitionKey,
        at: Timestamp,
        change: PartitionChange,
        by_daemon: bool,
    ) -> Option<String> {
        let told = self.told.entry(key.clone()).or_default();
        let before = match change {
            PartitionChange::Done(state) => state,
            PartitionChange::Already(state)
            | PartitionChange::Refused(state)
            | PartitionChange::Moved(state) => {
                return (state != told.state).then(|| otherwise(told.state));
            }
            PartitionChange::Unknown => {
                return (told.state != PartitionState::Absent).then(|| otherwise(told.state));
            }
        };
        if before != told.state {
            return Some(otherwise(told.state));
        }
        let early = by_daemon.then(|| too_early(self.rules, key, told, action, at)).flatten();
        *told.actions.entry(action.action()).or_default() += 1;
        early.or_else(|| told.change(action, at))
    }

    /// A guarded write is applied if, and only if, its lease is one that holds.
    fn guarded(&self, id: i64, epoch: i64, written: Written) -> Option<String> {
        let is_it = |(lease, _): &(LeaseRef, _)| (lease.id, lease.epoch.0) == (id, epoch);
        let holds = self.told.values().any(|told| told.lease.as_ref().is_some_and(is_it));
        match (holds, written) {
            (true, Written::Applied) | (false, Written::Stale) => None,
            (true, Written::Stale) => Some("the holder was refused".to_owned()),
            (false, Written::Applied) => Some("a stale write was accepted".to_owned()),
        }
    }
}

impl Told {
    fn change(&mut self, action: PartitionAction, at: Timestamp) -> Option<String> {
        use PartitionEvent as E;
        let terminal = self.state == PartitionState::Terminal;
        let events: &[E] = match action {
            PartitionAction::Retry { clear_terminal: true, .. } if terminal => {
                &[E::ClearTerminal, E::Retry]
            }
            PartitionAction::Retry { .. } => &[E::Retry],
            PartitionAction::Reprocess { .. } => &[E::Reprocess],
            PartitionAction::Backfill { force_pending: true, .. } => &[E::ForcePending],
            PartitionAction::Backfill { force_pending: false, .. } => &[E::Backfill],
            PartitionAction::MarkTerminal => &[E::MarkTerminal],
            PartitionAction::ClearTerminal => &[E::ClearTerminal],
            PartitionAction::Pause | PartitionAction::Resume => &[],
        };
        let paused = self.paused;
        match action {
            PartitionAction::Pause => self.paused = true,
            PartitionAction::Resume => self.paused = false,
            PartitionAction::Reprocess { .. } => self.asked = true,
            PartitionAction::Retry { .. } | PartitionAction::Backfill { .. } => {
                (self.asked, self.updated_at) = (true, at);
            }
            PartitionAction::MarkTerminal | PartitionAction::ClearTerminal => self.updated_at = at,
        }
        for event in events {
            match self.state.apply(*event) {
                Ok(after) => self.state = after,
                Err(illegal) => return Some(illegal.to_string()),
            }
        }
        (events.is_empty() && paused == self.paused).then(|| "it was so already".to_owned())
    }
}

/// A daemon retries what failed, when its time has come, past no mark and no limit.
fn too_early(
    rules: &PartitionRules,
    key: &PartitionKey,
    told: &Told,
    action: PartitionAction,
    at: Timestamp,
) -> Option<String> {
    if !matches!(action, PartitionAction::Retry { clear_terminal: false, .. }) {
        return Some("a daemon did more than retry".to_owned());
    }
    let failed = FailedPartition {
        attempt_count: told.verdicts.len() as u32,
        error_message: None,
        updated_at: told.updated_at,
        first_attempt_at: told.first_attempt_at,
        logical_date: key.logical_date(),
        asked: None,
        failure: None,
    };
    let forecast = rules.forecast_failed(key, failed, at);
    match forecast {
        RetryForecast::Terminal { reason } => Some(format!("a daemon passed a limit ({reason})")),
        RetryForecast::RetryAt { .. } if told.paused => {
            Some("a daemon retried what is paused".into())
        }
        RetryForecast::RetryAt { .. } => {
            (!forecast.is_due(at)).then(|| "a daemon retried before its time".to_owned())
        }
    }
}

fn otherwise(state: PartitionState) -> String {
    format!("the store saw it otherwise, it is {}", state.name())
}

fn broken(rules: &[(bool, &str)]) -> Option<String> {
    rules.iter().find(|(holds, _)| !holds).map(|(_, rule)| (*rule).to_owned())
}
