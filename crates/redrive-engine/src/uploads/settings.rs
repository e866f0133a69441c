//! The two budgets of an upload.

use std::time::Duration;

use jiff::Timestamp;
use redrive_core::{
    Code, Decision, Failure, GiveUpReason, History, JitterKey, Policy, PolicySpec, Preset,
    Retriable, decide,
};
use redrive_store::ItemRecord;

/// The retries in one call of the preset `upload`.
pub const DEFAULT_IN_CALL_RETRIES: u32 = 3;

/// How often a call is repeated, and how often an item may be rejected.
///
/// The default is the preset `upload`: 3 retries in a call after 2, 4 and 8 seconds, never more than
/// 60; 5 attempts at an item over all calls.
#[derive(Debug, Clone)]
pub struct RetrySettings {
    max_in_call_retries: u32,
    item: Policy,
    in_call: Policy,
}

impl RetrySettings {
    /// The policy limits the attempts of an item and defines the delays.
    pub fn new(policy: Policy, max_in_call_retries: u32) -> Self {
        // The first call and its retries, for any class of failure.
        let in_call = PolicySpec {
            max_attempts: Some(max_in_call_retries.saturating_add(1)),
            max_age: None,
            retriable: Retriable::All,
            // Of a call, not of an item.
            rules: Vec::new(),
            ..policy.spec().clone()
        };
        let in_call = Policy::new(in_call).unwrap_or_else(|_| Preset::Upload.policy());
        Self { max_in_call_retries, item: policy, in_call }
    }

    pub fn max_in_call_retries(&self) -> u32 {
        self.max_in_call_retries
    }

    pub fn item_policy(&self) -> &Policy {
        &self.item
    }

    /// The longest sleep, and the delay of `next_retry_at`.
    pub fn cap(&self) -> Duration {
        self.item.spec().cap
    }

    /// The reason to give up an item with this many rejections, if there is one.
    pub(super) fn gives_up(
        &self,
        item: &ItemRecord,
        attempts: u32,
        failure: &Failure,
        now: Timestamp,
    ) -> Option<GiveUpReason> {
        let since_reset = attempts.saturating_sub(item.attempts_at_reset);
        let history = History { counted: since_reset.saturating_sub(1), ..History::default() };
        let jitter = JitterKey::written(Default::default(), "");
        match decide(&self.item, &history, failure, now, jitter) {
            Decision::GiveUp { reason } => Some(reason),
            Decision::RetryAt { .. } => None,
        }
    }

    /// How long to sleep before the next retry; `None` if no retry is left. The hint of a server makes the sleep
    /// longer, up to the cap.
    pub(super) fn sleep_before_retry(
        &self,
        retries_used: u32,
        hint: Option<Duration>,
        now: Timestamp,
        jitter: JitterKey,
    ) -> Option<Duration> {
        let rejected = Failure::reported(None, Code::name("partial"), "some items were rejected");
        let history = History { counted: retries_used, ..History::default() };
        match decide(&self.in_call, &history, &rejected, now, jitter) {
            Decision::RetryAt { delay, .. } => {
                Some(delay.max(hint.unwrap_or_default().min(self.cap())))
            }
            Decision::GiveUp { .. } => None,
        }
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self::new(Preset::Upload.policy(), DEFAULT_IN_CALL_RETRIES)
    }
}
