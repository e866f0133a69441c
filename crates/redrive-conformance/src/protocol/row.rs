//! The row of a run, and the guarded statements that change it: what SQL does in the stores.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{RunEvent, RunId, RunState};

use super::actors::{ModelClaim, ModelCompletion};
use redrive_store::{RunAction, RunChange, Written};

/// A rule that the model may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelMutant {
    /// A result is taken whatever its epoch.
    FinishIgnoresEpoch,
    /// A result is taken whatever the state of the run.
    FinishIgnoresState,
    /// A result is written and its row of the ledger is not.
    FinishForgetsLedger,
    /// A row of the ledger is written though the result was refused.
    LedgerOutsideTheGuard,
    /// A reaper's result is taken whatever its epoch.
    ReaperIgnoresEpoch,
    /// A reaper sends a lost run back without counting.
    ReaperDoesNotCount,
    /// Nobody looks for ended leases.
    NoReaper,
    /// A claim does not raise the epoch.
    ClaimKeepsEpoch,
    /// A claim takes what is held.
    ClaimTakesWhatIsHeld,
    /// A hand-back is taken whatever its epoch.
    ReleaseIgnoresEpoch,
    /// A hand-back is taken whatever the state of the run.
    ReleaseIgnoresState,
    /// A lease is renewed whatever the epoch.
    RenewalIgnoresEpoch,
    /// An operator's cancel is done when the worker hears of it.
    CancelWaitsForTheWorker,
}

impl ModelMutant {
    /// All of them.
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

/// The run as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModelRow {
    /// Its state.
    pub state: RunState,
    /// The last epoch it was held under.
    pub epoch: i64,
    /// Whether it has a lease, and whether that has ended.
    pub lease: Option<ModelLease>,
    /// Rows of the ledger.
    pub attempts: u32,
    /// Counted failures since the last reset.
    pub counted: u32,
    /// Waits for a hint in a row.
    pub deferrals: u32,
    /// The claim that is open, which nobody in the state can see.
    pub(super) holder: Option<i64>,
    /// How many claims there were.
    pub(super) claims: i64,
}

/// The end of a lease, on the clock of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelLease {
    /// It is still to come.
    Live,
    /// It has passed.
    Expired,
}

/// What a write left behind, beside the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A claim ended, with a row of ledger or journal, by whoever had this claim.
    Closed(i64),
    /// A row of the ledger, with its number.
    Ledger(u32),
    /// A lease was renewed by whoever had this claim.
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

    /// What a reader sees of the run.
    pub(super) fn read(&self) -> ModelClaim {
        ModelClaim {
            serial: self.holder.unwrap_or_default(),
            epoch: self.epoch,
            attempt: self.attempts + 1,
            counted: self.counted,
            deferrals: self.deferrals,
        }
    }

    /// `claim_runs`: what is ready is taken under the next epoch.
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

    /// `finish_runs`, of a worker or of a reaper.
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

    /// `retry_runs` and `cancel_runs`. A run that is stopped loses its worker.
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
