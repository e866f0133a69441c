//! Everyone, and what each may do next.

use redrive_core::RunState;

use super::{
    actors::{Claim, End, Said},
    row::{Lease, Mutant, Row, Trace},
};
use redrive_store::{RunAction, Written};

/// How many there are of each. The operator is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cast {
    /// Workers.
    pub workers: usize,
    /// Reapers.
    pub reapers: usize,
}

/// A worker or a reaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Seat {
    /// It holds nothing; a worker that died is such a one again.
    Idle,
    /// It holds a run, as far as it knows.
    Holds(Claim),
    /// It wrote something and heard no answer, so it will write the same again.
    Unsure(Claim, Said),
}

/// One moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The run.
    pub row: Row,
    /// Who works.
    pub workers: Vec<Seat>,
    /// Who looks for the lost.
    pub reapers: Vec<Seat>,
}

/// What may happen next. The number says who.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// A worker claims.
    Claim(usize),
    /// A worker renews its lease.
    Renew(usize),
    /// A worker writes what became of its run, and hears the answer or does not.
    Say(usize, Said, bool),
    /// A worker dies.
    Die(usize),
    /// Time passes.
    LeaseEnds,
    /// A reaper finds an ended lease.
    Look(usize),
    /// A reaper writes to a lease that ended, to hear whether the store takes writes. Here it makes the lease good
    /// again, which is more than a reaper does: it moves no end.
    Probe(usize),
    /// A reaper writes what it decided, and hears the answer or does not.
    Reap(usize, bool),
    /// A reaper dies.
    Forget(usize),
    /// An operator wishes.
    Wish(RunAction),
}

impl Step {
    /// Whether it brings the run on: nobody dies, nothing is lost on the way, nobody interferes.
    pub(super) fn helps(self) -> bool {
        match self {
            Self::Claim(_) | Self::LeaseEnds | Self::Look(_) => true,
            Self::Say(_, _, heard) | Self::Reap(_, heard) => heard,
            Self::Renew(_) | Self::Die(_) | Self::Probe(_) | Self::Forget(_) | Self::Wish(_) => {
                false
            }
        }
    }
}

impl World {
    /// Before anything.
    pub(crate) fn new(cast: Cast) -> Self {
        let seats = |count| vec![Seat::Idle; count];
        Self { row: Row::submitted(), workers: seats(cast.workers), reapers: seats(cast.reapers) }
    }

    /// Everything that may happen now.
    pub(super) fn steps(&self, mutant: Option<Mutant>) -> Vec<Step> {
        let mut steps: Vec<Step> = RunAction::ALL.into_iter().map(Step::Wish).collect();
        if self.row.lease == Some(Lease::Good) {
            steps.push(Step::LeaseEnds);
        }
        for (at, seat) in self.workers.iter().enumerate() {
            match seat {
                Seat::Idle => steps.push(Step::Claim(at)),
                Seat::Holds(_) => {
                    let ends = End::OF_A_WORKER.map(Said::Ended).into_iter();
                    let said = ends.chain([Said::HandedBack]);
                    steps.extend(
                        said.flat_map(|said| [true, false].map(|heard| Step::Say(at, said, heard))),
                    );
                    steps.extend([Step::Renew(at), Step::Die(at)]);
                }
                Seat::Unsure(_, said) => {
                    steps.extend([Step::Say(at, *said, true), Step::Die(at)]);
                }
            }
        }
        let lost = self.row.state == RunState::Processing && self.row.lease == Some(Lease::Ended);
        for (at, seat) in self.reapers.iter().enumerate() {
            match seat {
                Seat::Idle if lost && mutant != Some(Mutant::NoReaper) => {
                    steps.push(Step::Look(at));
                }
                Seat::Idle => {}
                Seat::Holds(_) | Seat::Unsure(..) => {
                    let reaps = [true, false].map(|heard| Step::Reap(at, heard));
                    steps.extend(reaps);
                    steps.extend([Step::Probe(at), Step::Forget(at)]);
                }
            }
        }
        steps
    }

    /// The world after a step, and what the step left behind; nothing if it changes nothing.
    pub(crate) fn after(&self, step: Step, mutant: Option<Mutant>) -> Option<(Self, Vec<Trace>)> {
        let mut world = self.clone();
        let mut traces = Vec::new();
        match step {
            Step::Claim(at) => {
                let claim = world.row.claim(mutant)?;
                *world.workers.get_mut(at)? = Seat::Holds(claim);
            }
            Step::Renew(at) => {
                let seat = world.workers.get_mut(at)?;
                let claim = seat.claim()?;
                if world.row.renew(&claim, mutant, &mut traces) == Written::Stale {
                    *seat = Seat::Idle;
                }
            }
            Step::Say(at, said, heard) => {
                let seat = world.workers.get_mut(at)?;
                let claim = seat.claim()?;
                _ = match said {
                    Said::Ended(end) => world.row.finish(&claim, end, mutant, &mut traces),
                    Said::HandedBack => world.row.release_leases(&claim, mutant, &mut traces),
                };
                *seat = if heard { Seat::Idle } else { Seat::Unsure(claim, said) };
            }
            Step::Die(at) => *world.workers.get_mut(at)? = Seat::Idle,
            Step::LeaseEnds => world.row.lease = Some(Lease::Ended),
            Step::Look(at) => *world.reapers.get_mut(at)? = Seat::Holds(world.row.read()),
            Step::Probe(at) => {
                let claim = world.reapers.get(at)?.claim()?;
                _ = world.row.renew(&claim, mutant, &mut traces);
            }
            Step::Reap(at, heard) => {
                let seat = world.reapers.get_mut(at)?;
                let claim = seat.claim()?;
                _ = world.row.finish(&claim, End::Lost, mutant, &mut traces);
                let unsure = Seat::Unsure(claim, Said::Ended(End::Lost));
                *seat = if heard { Seat::Idle } else { unsure };
            }
            Step::Forget(at) => *world.reapers.get_mut(at)? = Seat::Idle,
            Step::Wish(action) => {
                if !world.row.action(action, mutant, &mut traces) {
                    return None;
                }
            }
        }
        Some((world, traces))
    }

    /// The same world with numbers that count from the row: what differs in nothing that matters is one
    /// world. A claim under an epoch that is past can be told from no other such claim.
    pub(super) fn relative(&self) -> Self {
        let row = self.row;
        let claim = |claim: Claim| {
            let past = claim.epoch != row.epoch && Some(claim.serial) != row.holder;
            if past {
                return Claim { serial: 0, epoch: 0, attempt: 0, counted: 0, deferrals: 0 };
            }
            Claim {
                serial: i64::from(Some(claim.serial) == row.holder),
                epoch: i64::from(claim.epoch == row.epoch),
                attempt: (claim.attempt + 1).saturating_sub(row.attempts),
                ..claim
            }
        };
        let seat = |seat: &Seat| match *seat {
            Seat::Idle => Seat::Idle,
            Seat::Holds(it) => Seat::Holds(claim(it)),
            Seat::Unsure(it, said) => match claim(it) {
                // Whatever it says, it will be told that it is late.
                late if (late.epoch, late.serial) == (0, 0) => Seat::Holds(late),
                it => Seat::Unsure(it, said),
            },
        };
        let seats = |all: &[Seat]| {
            let mut all: Vec<Seat> = all.iter().map(seat).collect();
            all.sort_unstable();
            all
        };
        Self {
            row: Row { epoch: 1, attempts: 0, claims: 0, holder: row.holder.map(|_| 1), ..row },
            workers: seats(&self.workers),
            reapers: seats(&self.reapers),
        }
    }
}

impl Seat {
    /// What it holds, as far as it knows.
    pub fn claim(&self) -> Option<Claim> {
        match self {
            Self::Idle => None,
            Self::Holds(claim) | Self::Unsure(claim, _) => Some(*claim),
        }
    }
}
