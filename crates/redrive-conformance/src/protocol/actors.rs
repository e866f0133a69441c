//! What those who write to a run know, and what they write.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Epoch, Failure, History, Jitter, JitterKey, JitterSeed, Policy, PolicySpec,
    Preset, RunId, Unit, decide,
};

use redrive_store::{RunCompletion, RunFinish, Verdict, WorkerId};

/// What a worker knows of the run it holds, or a reaper of the run it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelClaim {
    /// Which of all claims this is. Nobody in the state can see it; the invariants can.
    pub(super) serial: i64,
    /// The epoch under which it is held.
    pub epoch: i64,
    /// The number of the attempt.
    pub attempt: u32,
    /// Counted failures before it.
    pub counted: u32,
    /// Waits for a hint before it.
    pub deferrals: u32,
}

/// How an attempt may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelCompletion {
    /// The handler judged it good.
    Passed,
    /// The handler wants a person to look.
    NeedsReview,
    /// The handler judged it bad.
    Failed,
    /// A failure that may be tried again.
    Error,
    /// A failure with a hint.
    Hint,
    /// A failure for good.
    Final,
    /// Its worker was lost: what a reaper says.
    Lost,
}

impl ModelCompletion {
    /// What a worker may say.
    pub const OF_A_WORKER: [Self; 6] =
        [Self::Passed, Self::NeedsReview, Self::Failed, Self::Error, Self::Hint, Self::Final];
}

/// What somebody says of a run they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerReport {
    /// The attempt ended.
    Completed(ModelCompletion),
    /// It goes back untried.
    Released,
}

/// Two attempts, one uncounted wait: the least that has every branch.
pub(super) const MAX_ATTEMPTS: u32 = 2;

fn policy() -> Policy {
    let spec = PolicySpec {
        max_attempts: Some(MAX_ATTEMPTS),
        max_deferrals: 1,
        jitter: Jitter::None,
        ..PolicySpec::default()
    };
    Policy::new(spec).unwrap_or_else(|_| Preset::Stage.policy())
}

impl ModelClaim {
    /// What the store told its holder.
    pub(crate) fn of(epoch: Epoch, attempt: AttemptNumber, counted: u32, deferrals: u32) -> Self {
        Self { serial: 0, epoch: epoch.0, attempt: attempt.0, counted, deferrals }
    }

    /// What is written at the end of an attempt at a run, as workers and reapers work it out.
    pub fn finish(&self, id: RunId, end: ModelCompletion, now: Timestamp) -> RunFinish {
        let history =
            History { counted: self.counted, deferrals: self.deferrals, first_attempt_at: None };
        let judged = |verdict| RunCompletion::Judged { verdict, result: None };
        let failed = |failure: Failure| {
            let jitter = JitterKey::new(JitterSeed::default(), &Unit::Run(id));
            let decision = decide(&policy(), &history, &failure, now, jitter);
            RunCompletion::Failed { failure, decision }
        };
        RunFinish {
            id,
            epoch: Epoch(self.epoch),
            attempt: AttemptNumber(self.attempt),
            history,
            started_at: now,
            ended_at: now,
            worker: WorkerId("w".to_owned()),
            completion: match end {
                ModelCompletion::Passed => judged(Verdict::Passed),
                ModelCompletion::NeedsReview => judged(Verdict::NeedsReview),
                ModelCompletion::Failed => judged(Verdict::Failed),
                ModelCompletion::Error => failed(Failure::exit(75, "not yet")),
                ModelCompletion::Hint => {
                    failed(Failure::http(429, Some(Duration::from_secs(1)), "later"))
                }
                ModelCompletion::Final => failed(Failure::exit(65, "never")),
                ModelCompletion::Lost => failed(Failure::lost_worker("no word")),
            },
        }
    }
}
