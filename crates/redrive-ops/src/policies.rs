//! Policies, and the waits that a policy would give (POL-9).

use std::time::Duration;

use redrive_core::{
    Backoff, InvalidPolicy, Jitter, JitterKey, JitterSeed, Policy, PolicySpec, Preset, Scheduled,
    Unit, schedule,
};

use crate::Ops;

/// The default number of rows for a policy without a limit.
const UNLIMITED_ROWS: u32 = 10;

/// The most rows without an explicit number.
const MAX_DEFAULT_ROWS: u32 = 100;

impl Ops {
    /// The presets, then the declared policies.
    pub fn policies(&self) -> Vec<(String, Policy)> {
        let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.policy()));
        let declared = self.declared().into_iter().flat_map(|declared| declared.policies.clone());
        presets.into_iter().chain(declared).collect()
    }
}

/// Settings that override those of a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolicyOverrides {
    /// Executions including the first; `Some(None)` means no limit.
    pub max_attempts: Option<Option<u32>>,
    pub backoff: Option<Backoff>,
    pub base: Option<Duration>,
    /// The factor of an exponential backoff.
    pub multiplier: Option<f64>,
    /// The longest wait before jitter.
    pub cap: Option<Duration>,
    pub jitter: Option<Jitter>,
}

impl PolicyOverrides {
    /// Without a policy the overrides apply to the defaults.
    pub fn apply_to(self, start: Option<&Policy>) -> Result<Policy, InvalidPolicy> {
        let start = start.map_or_else(PolicySpec::default, |policy| policy.spec().clone());
        Policy::new(PolicySpec {
            max_attempts: self.max_attempts.unwrap_or(start.max_attempts),
            backoff: self.backoff.unwrap_or(start.backoff),
            base: self.base.unwrap_or(start.base),
            multiplier: self.multiplier.unwrap_or(start.multiplier),
            cap: self.cap.unwrap_or(start.cap),
            jitter: self.jitter.unwrap_or(start.jitter),
            ..start
        })
    }
}

/// Parses a number of executions, or `none` for no limit.
pub fn parse_max_attempts(text: &str) -> Result<Option<u32>, String> {
    match text {
        "none" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| format!("write a whole number from 1 to {}, or none", u32::MAX)),
    }
}

/// The waits of a unit whose every attempt fails.
#[derive(Debug, Clone)]
pub struct Waits {
    /// One wait for each attempt, also beyond the limits of the policy.
    pub waits: Vec<Scheduled>,
    /// The wait at which the policy gives up, if it is one of `waits` or the next.
    pub end: Option<Scheduled>,
}

impl Waits {
    pub const MAX_ATTEMPTS: u32 = 10_000;

    /// `attempts` defaults to the retries of the policy, or to ten without a limit.
    pub fn new(policy: &Policy, seed: JitterSeed, unit: &Unit, attempts: Option<u32>) -> Self {
        let retries =
            policy.spec().max_attempts.map(|max| max.saturating_sub(1).clamp(1, MAX_DEFAULT_ROWS));
        let attempts = attempts.or(retries).unwrap_or(UNLIMITED_ROWS).min(Self::MAX_ATTEMPTS);
        // One more than requested, to see whether the policy gives up right after.
        let mut waits: Vec<Scheduled> =
            schedule(policy, JitterKey::new(seed, unit), attempts + 1).collect();
        let end = waits.iter().find(|wait| wait.gives_up.is_some()).copied();
        waits.truncate(attempts as usize);
        Self { waits, end }
    }
}
