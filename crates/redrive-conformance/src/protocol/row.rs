//! The row of a run, and the guarded statements that change it, as the stores implement them in
//! SQL.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{RunEvent, RunId, RunState};

use super::actors::{ModelClaim, ModelCompletion};
use redrive_store::{RunAction, RunChange, Written};

/// A rule that the model can break on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelMutant {
    FinishIgnoresEpoch,
    FinishIgnoresState,
    FinishForgetsLedger,
    /// A ledger row is written although the finish was stale.
    LedgerOutsideTheGuard,
    ReaperIgnoresEpoch,
    /// A reaper returns a lost run without counting the attempt.
    ReaperDoesNotCount,
    NoReaper,
    ClaimKeepsEpoch,
    ClaimTakesWhatIsHeld,
    ReleaseIgnoresEpoch,
    ReleaseIgnoresState,
    RenewalIgnoresEpoch,
    /// A cancel takes effect only when the worker notices it.
    CancelWaitsForTheWorker,
}

impl ModelMutant {
    pub const ALL: [Self; 13] = [
        Self::FinishIgnoresEpoch,
        Self::FinishIgnoresState,
        Self::FinishForgetsLedger,
        Self::LedgerOutsideTheGuard,
        Self::ReaperIgnoresEpoch,
        Self::ReaperDoesNotCount,
        Self::NoReaper,
        Self::ClaimKeepsEpoch,
        Self::ClaimTakesWhatIsHeld,
        Self::ReleaseIgnoresEpoch,
        Self::ReleaseIgnoresState,
        Self::RenewalIgnoresEpoch,
        Self::CancelWaitsForTheWorker,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelRow {
    pub state: RunState,
    /// The epoch of the last lease.
    pub epoch: i64,
    pub lease: Option<ModelLease>,
    /// The number of ledger rows.
    pub attempts: u32,
    /// Counted failures since the last reset.
    pub counted: u32,
    /// Consecutive waits for a hint.
    pub deferrals: u32,
    /// The open claim; no actor can see it.
    pub(super) holder: Option<i64>,
    /// The number of claims so far.
    pub(super) claims: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelLease {
    Live,
    Expired,
}

/// What a write did besides changing the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The claim ended with a ledger or journal row, written by the holder of this claim.
    Closed(i64),
    /// A ledger row with this attempt number.
    Ledger(u32),
    /// The holder of this claim renewed its lease.
    Renewed(i64),
}

impl ModelRow {
    pub(super) fn submitted() -> Self {
        Self {
            state: RunState::Discovered,
            epoch: 0,
            lease: None,
            attempts: 0,
            counted: 0,
            deferrals: 0,
            holder: None,
            claims: 0,
        }
    }

    pub(super) fn read(&self) -> ModelClaim {
        ModelClaim {
            serial: self.holder.unwrap_or_default(),
            epoch: self.epoch,
            attempt: self.attempts + 1,
            counted: self.counted,
            deferrals: self.deferrals,
        }
    }

    /// `claim_runs`: takes a ready run under the next epoch.
    pub(super) fn claim(&mut self, mutant: Option<ModelMutant>) -> Option<ModelClaim> {
        let held = self.state == RunState::Processing;
        let state = match self.state.apply(RunEvent::Claim) {
            Ok(state) => state,
            Err(_) if held && mutant == Some(ModelMutant::ClaimTakesWhatIsHeld) => self.state,
            Err(_) => return None,
        };
        self.state = state;
        self.epoch += i64::from(mutant != Some(ModelMutant::ClaimKeepsEpoch));
        self.lease = Some(ModelLease::Live);
        self.claims += 1;
        self.holder = Some(self.claims);
        Some(self.read())
    }

    /// `renew_run_leases`.
    pub(super) fn renew(
        &mut self,
        claim: &ModelClaim,
        mutant: Option<ModelMutant>,
        effects: &mut Vec<Effect>,
    ) -> Written {
        let epoch = claim.epoch == self.epoch || mutant == Some(ModelMutant::RenewalIgnoresEpoch);
        if !epoch || self.state != RunState::Processing {
            return Written::Stale;
        }
        self.lease = Some(ModelLease::Live);
        effects.push(Effect::Renewed(claim.serial));
        Written::Applied
    }

    /// `finish_runs`, called by a worker or a reaper.
    pub(super) fn finish(
        &mut self,
        claim: &ModelClaim,
        end: ModelCompletion,
        mutant: Option<ModelMutant>,
        effects: &mut Vec<Effect>,
    ) -> Written {
        let now = Timestamp::UNIX_EPOCH;
        let finish = claim.finish(RunId(1), end, now);
        let row = finish.ledger_row();
        let lax = match end {
            ModelCompletion::Lost => ModelMutant::ReaperIgnoresEpoch,
            _ => ModelMutant::FinishIgnoresEpoch,
        };
        let epoch = claim.epoch == self.epoch || mutant == Some(lax);
        let processing = self.state == RunState::Processing;
        if !epoch || !(processing || mutant == Some(ModelMutant::FinishIgnoresState)) {
            if mutant == Some(ModelMutant::LedgerOutsideTheGuard) {
                effects.push(Effect::Ledger(row.attempt.0));
            }
            return Written::Stale;
        }
        let columns = finish.columns(now);
        self.state = RunState::of(columns.status, columns.next_retry_at.is_some());
        if !(end == ModelCompletion::Lost && mutant == Some(ModelMutant::ReaperDoesNotCount)) {
            self.counted = columns.retry_count;
            self.deferrals = columns.deferrals;
        }
        self.attempts = finish.attempt.0;
        self.lease = None;
        self.holder = None;
        effects.push(Effect::Closed(claim.serial));
        if mutant != Some(ModelMutant::FinishForgetsLedger) {
            effects.push(Effect::Ledger(row.attempt.0));
        }
        Written::Applied
    }

    /// `release_runs`.
    pub(super) fn release_leases(
        &mut self,
        claim: &ModelClaim,
        mutant: Option<ModelMutant>,
        effects: &mut Vec<Effect>,
    ) -> Written {
        let epoch = claim.epoch == self.epoch || mutant == Some(ModelMutant::ReleaseIgnoresEpoch);
        let state = match self.state.apply(RunEvent::LeaseRelease) {
            Ok(state) => state,
            Err(_) if mutant == Some(ModelMutant::ReleaseIgnoresState) => RunState::Discovered,
            Err(_) => return Written::Stale,
        };
        if !epoch {
            return Written::Stale;
        }
        self.state = state;
        self.lease = None;
        self.holder = None;
        effects.push(Effect::Closed(claim.serial));
        Written::Applied
    }

    /// `retry_runs` and `cancel_runs`. A cancelled run loses its worker.
    pub(super) fn action(
        &mut self,
        action: RunAction,
        mutant: Option<ModelMutant>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let id = RunId(1);
        let changes = action.changes(&[id], HashMap::from([(id, self.state)]));
        let Some((_, RunChange::Done(before))) = changes.first() else { return false };
        match action {
            RunAction::Retry => (self.counted, self.deferrals) = (0, 0),
            RunAction::Cancel
                if mutant == Some(ModelMutant::CancelWaitsForTheWorker)
                    && self.holder.is_some() =>
            {
                return true;
            }
            RunAction::Cancel => self.epoch += i64::from(*before == RunState::Processing),
        }
        self.state = before.apply(action.event()).unwrap_or(*before);
        self.lease = None;
        effects.extend(self.holder.take().map(Effect::Closed));
        true
    }
}
