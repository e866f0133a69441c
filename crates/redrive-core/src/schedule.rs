//! The waits a policy gives, printed before anything fails (POL-9).

use std::time::Duration;

use jiff::Timestamp;

use crate::{Cause, Decision, Failure, GiveUpReason, History, JitterKey, Policy, decide, named};

/// What follows the n-th counted failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// n, the number of the attempt that failed.
    pub attempt: u32,
    /// The wait the backoff gives after it.
    pub delay: Duration,
    /// Why the policy stops here instead, if it does.
    pub gives_up: Option<GiveUpReason>,
}

/// The waits after failures 1 to `attempts`, as [`decide`] gives them for a failure that may be
/// retried. It looks past the policy's own end and marks where that is.
pub fn schedule(
    policy: &Policy,
    jitter: JitterKey,
    attempts: u32,
) -> impl Iterator<Item = Scheduled> {
    let start = Timestamp::UNIX_EPOCH;
    let endless = policy.without_limits().retrying_all();
    let policy = policy.retrying_all();
    let failure = Failure::named(named::TIMEOUT, Cause::Timeout, "");
    let mut now = start;
    (1..=attempts).filter_map(move |attempt| {
        let history = History { counted: attempt - 1, deferrals: 0, first_attempt_at: Some(start) };
        let gives_up = match decide(&policy, &history, &failure, now, jitter) {
            Decision::RetryAt { .. } => None,
            Decision::GiveUp { reason } => Some(reason),
        };
        match decide(&endless, &history, &failure, now, jitter) {
            Decision::RetryAt { at, delay, .. } => {
                now = at;
                Some(Scheduled { attempt, delay, gives_up })
            }
            Decision::GiveUp { .. } => None,
        }
    })
}
