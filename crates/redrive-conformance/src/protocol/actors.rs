//! Claims and completions of the workers and reapers in the model.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Epoch, Failure, History, Jitter, JitterKey, JitterSeed, Policy, PolicySpec,
    Preset, RunId, Unit, decide,
};

use redrive_store::{RunCompletion, RunFinish, Verdict, WorkerId};

/// What a worker knows of the run that it holds, or a reaper of the run that it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelClaim {
    /// The number of the claim. Only the invariants use it; no actor can see it.
    pub(super) serial: i64,
    pub epoch: i64,
    pub attempt: u32,
    pub counted: u32,
    pub deferrals: u32,
}

/// How an attempt may complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelCompletion {
    Passed,
    NeedsReview,
    Failed,
    /// A retryable failure.
    Error,
    /// A failure with a Retry-After hint.
    Hint,
    Final,
    /// The worker was lost; reported by a reaper.
    Lost,
}

impl ModelCompletion {
    /// The completions that a worker may report.
    pub const OF_A_WORKER: [Self; 6] =
        [Self::Passed, Self::NeedsReview, Self::Failed, Self::Error, Self::Hint, Self::Final];
}

/// What a worker reports about a run that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkerReport {
    Completed(ModelCompletion),
    /// Released without an attempt.
    Released,
}

/// Two attempts and one uncounted wait: the smallest policy that reaches every branch.
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
    pub(crate) fn of(epoch: Epoch, attempt: AttemptNumber, counted: u32, deferrals: u32) -> Self {
        Self { serial: 0, epoch: epoch.0, attempt: attempt.0, counted, deferrals }
    }

    /// The finish that workers and reapers write.
    pub fn finish(&self, id: RunId, end: ModelCompletion, now: Timestamp) -> RunFinish {
        let history =
            History { counted: self.counted, deferrals: self.deferrals, ..History::default() };
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
            gates: None,
        }
    }
}
