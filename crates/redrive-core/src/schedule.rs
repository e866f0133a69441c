//! The waits of a policy, computed before anything fails (POL-9).

use std::time::Duration;

use jiff::Timestamp;

use crate::{Cause, Decision, Failure, GiveUpReason, History, JitterKey, Policy, decide, named};

/// The consequence of the n-th counted failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The number of the failed attempt, n.
    pub attempt: u32,
    /// The wait before the next attempt.
    pub delay: Duration,
    /// Why the policy gives up at this attempt; `None` if it retries.
    pub gives_up: Option<GiveUpReason>,
}

/// The waits after failures 1 to `attempts`, as [`decide`] gives them for a retriable failure. The
/// schedule continues past the policy's limits and marks where they apply.
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
        let history =
            History { counted: attempt - 1, first_attempt_at: Some(start), ..History::default() };
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
