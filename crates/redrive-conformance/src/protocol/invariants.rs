//! The invariants of every step.

use redrive_core::RunState;

use super::{
    actors::MAX_ATTEMPTS,
    row::Effect,
    state::{ModelState, ModelStep},
};
use redrive_store::RunAction;

/// Whether a run has ended; only an operator can change it then.
pub(super) fn is_over(state: RunState) -> bool {
    match state {
        RunState::Passed
        | RunState::NeedsReview
        | RunState::Failed
        | RunState::GivenUp
        | RunState::Cancelled => true,
        RunState::Discovered | RunState::Processing | RunState::WaitingForRetry => false,
    }
}

/// The invariant that the step violates, if any.
pub(super) fn broken(
    before: &ModelState,
    step: ModelStep,
    after: &ModelState,
    effects: &[Effect],
) -> Option<&'static str> {
    let (was, is) = (&before.row, &after.row);
    let operated = matches!(step, ModelStep::Operate(_));
    let claimed = matches!(step, ModelStep::Claim(_));
    let closed: Vec<i64> = effects.iter().filter_map(|effect| effect.closed()).collect();
    let ledger: Vec<u32> = effects.iter().filter_map(|effect| effect.ledger()).collect();
    let invariants = [
        (!claimed || was.holder.is_none(), "a held run is not claimed"),
        (
            closed.iter().all(|serial| was.holder == Some(*serial)),
            "only the holder of a run ends its attempt",
        ),
        (closed.len() <= 1, "a claim ends once"),
        (
            was.holder.is_none() || was.holder == is.holder || closed.len() == 1,
            "every claim ends in a row of ledger or journal",
        ),
        (
            effects.iter().filter_map(|effect| effect.renewed()).all(|it| was.holder == Some(it)),
            "only the holder of a run renews its lease",
        ),
        (
            match step {
                ModelStep::Operate(RunAction::Retry) => is.state == RunState::Discovered,
                ModelStep::Operate(RunAction::Cancel) => is.state == RunState::Cancelled,
                _ => true,
            },
            "an operator action has taken effect when the call returns",
        ),
        (
            operated || !is_over(was.state) || is.state == was.state,
            "an ended run changes only by an operator action",
        ),
        (
            operated || claimed || was.state == is.state || was.state == RunState::Processing,
            "a run without a holder changes only by a claim or an operator action",
        ),
        (
            matches!(step, ModelStep::Report(..) | ModelStep::Reap(..)) || ledger.is_empty(),
            "only the end of an attempt is in the ledger",
        ),
        (
            ledger.iter().copied().eq((was.attempts + 1..).take(ledger.len())),
            "numbers of the ledger have no gaps and no doubles",
        ),
        (
            is.attempts == was.attempts + ledger.len() as u32,
            "the run knows how many rows the ledger has",
        ),
        (
            (is.state == RunState::Processing) == is.lease.is_some()
                && is.lease.is_some() == is.holder.is_some(),
            "a run has a lease exactly while it is processing",
        ),
        (is.epoch >= was.epoch, "epochs never go back"),
        (is.counted < MAX_ATTEMPTS, "no run is tried more often than its policy allows"),
        (
            !matches!(step, ModelStep::Reap(..))
                || closed.is_empty()
                || is.counted > was.counted
                || is_over(is.state),
            "a lost worker counts",
        ),
    ];
    invariants.iter().find(|(holds, _)| !holds).map(|(_, invariant)| *invariant)
}

impl Effect {
    fn closed(&self) -> Option<i64> {
        match self {
            Self::Closed(serial) => Some(*serial),
            Self::Ledger(_) | Self::Renewed(_) => None,
        }
    }

    fn ledger(&self) -> Option<u32> {
        match self {
            Self::Ledger(number) => Some(*number),
            Self::Closed(_) | Self::Renewed(_) => None,
        }
    }

    fn renewed(&self) -> Option<i64> {
        match self {
            Self::Renewed(serial) => Some(*serial),
            Self::Closed(_) | Self::Ledger(_) => None,
        }
    }
}
