//! What the way to the store is like: calls that fail, answers that get lost, calls that take long.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use redrive_store::Error;

use super::chance::Chance;

/// The longest that a call takes or a worker stands still: much longer than every lease.
pub(crate) const LONGEST_TROUBLE: Duration = Duration::from_secs(60);

/// How likely each fault is, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Conditions {
    pub(crate) fails: u64,
    pub(crate) loses_answer: u64,
    pub(crate) slow: u64,
    pub(crate) slowest_millis: u64,
    /// The calls that they befall, if not all.
    pub(crate) only: Option<&'static [&'static str]>,
    /// Whether the store itself is in trouble, for everybody and at the same time.
    pub(crate) everybodys: bool,
}

const CLAIMS: &[&str] = &[
    "claim_runs",
    "claim_partitions",
    "claim_samples",
    "claim_feeds",
    "claim_group",
    "claim_plans",
];

/// The calls of workers, executors and clients that write.
const WRITES: &[&str] = &[
    "claim_runs",
    "claim_partitions",
    "claim_samples",
    "claim_feeds",
    "claim_group",
    "renew_leases",
    "hand_back",
    "finish_runs",
    "finish_partitions",
    "finish_samples",
    "finish_feeds",
    "append_samples",
    "append_attempts",
    "append_journal",
    "increment_upload_attempts",
    "move_items",
    "submit_runs",
    "claim_plans",
    "renew_plan",
    "release_plan",
    "step_plan",
    "settle_plan",
    "undo_plan",
    "end_plan",
    "change_plan",
    "create_plan",
    "add_plan_units",
    "freeze_plan",
];

impl Conditions {
    /// Nothing gets through.
    pub(crate) const OUTAGE: Self = Self {
        fails: 1_000,
        loses_answer: 0,
        slow: 0,
        slowest_millis: 0,
        only: None,
        everybodys: false,
    };

    /// The store answers questions and takes no writes: its disk is full, or it is read-only.
    pub(crate) const NO_WRITES: Self =
        Self { only: Some(WRITES), everybodys: true, ..Self::OUTAGE };

    /// Claims are made, and nobody hears of it.
    pub(crate) const LOST_CLAIMS: Self =
        Self { fails: 0, loses_answer: 500, only: Some(CLAIMS), ..Self::OUTAGE };

    /// Something between hardly noticeable and unbearable.
    pub(crate) fn random(chance: &mut Chance) -> Self {
        Self {
            fails: *chance.pick(&[0, 10, 50, 200, 500]),
            loses_answer: *chance.pick(&[0, 10, 50, 200]),
            slow: *chance.pick(&[0, 20, 100, 400]),
            slowest_millis: *chance.pick(&[50, 1_000, 10_000, LONGEST_TROUBLE.as_millis() as u64]),
            only: None,
            everybodys: false,
        }
    }
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Nothing is done.
    Unavailable,
    /// Nothing is done.
    Full,
    /// It is done, and nobody hears of it.
    AnswerLost,
    /// It reaches the store late.
    SlowThere(Duration),
    /// Its answer comes late.
    SlowBack(Duration),
}

/// The conditions as they are now, for one worker or client.
#[derive(Default)]
pub(crate) struct Weather(Mutex<Conditions>);

impl Weather {
    pub(crate) fn set(&self, conditions: Conditions) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = conditions;
    }

    pub(crate) fn now(&self) -> Conditions {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fault(&self, call: &str, chance: &mut Chance) -> Fault {
        let now = self.now();
        if now.only.is_some_and(|only| !only.contains(&call)) {
            return Fault::None;
        }
        if chance.permille(now.fails) {
            return if chance.one_in(3) { Fault::Full } else { Fault::Unavailable };
        }
        if chance.permille(now.loses_answer) {
            return Fault::AnswerLost;
        }
        if chance.permille(now.slow) {
            let time = chance.millis(1, now.slowest_millis);
            return if chance.one_in(2) { Fault::SlowThere(time) } else { Fault::SlowBack(time) };
        }
        Fault::None
    }
}

pub(crate) fn unavailable(call: &str) -> Error {
    Error::Unavailable { doing: call.to_owned(), source: "bad weather".into() }
}

pub(crate) fn full(call: &str) -> Error {
    Error::Full { doing: call.to_owned(), source: "bad weather".into() }
}
