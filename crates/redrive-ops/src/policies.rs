//! Policies, and the waits they give before anything fails (POL-9).

use std::time::Duration;

use redrive_core::{
    Backoff, InvalidPolicy, Jitter, JitterKey, JitterSeed, Policy, PolicySpec, Preset, Scheduled,
    Unit, schedule,
};

use crate::Ops;

/// Rows for a policy that never gives up.
const ENDLESS_ROWS: u32 = 10;

/// The most rows unless asked for.
const UNASKED_ROWS: u32 = 100;

impl Ops {
    /// Every policy that has a name: the presets, then those that are declared.
    pub fn policies(&self) -> Vec<(String, Policy)> {
        let presets = Preset::ALL.map(|preset| (preset.name().to_owned(), preset.policy()));
        let declared = self.declared().into_iter().flat_map(|declared| declared.policies.clone());
        presets.into_iter().chain(declared).collect()
    }
}

/// Settings that differ from those of a policy.
#[derive(Debug, Clone, Copy, Default)]
pub struct PolicyOverrides {
    /// Executions including the first, or no limit.
    pub max_attempts: Option<Option<u32>>,
    /// How waits grow.
    pub backoff: Option<Backoff>,
    /// The first wait.
    pub base: Option<Duration>,
    /// The growth of an exponential backoff.
    pub multiplier: Option<f64>,
    /// The longest wait before jitter.
    pub cap: Option<Duration>,
    /// What spreads the waits.
    pub jitter: Option<Jitter>,
}

impl PolicyOverrides {
    /// The policy that differs so from another, or from the defaults.
    pub fn of(self, start: Option<&Policy>) -> Result<Policy, InvalidPolicy> {
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

/// Reads a number of executions, or `none` for no limit.
pub fn parse_max_attempts(text: &str) -> Result<Option<u32>, String> {
    match text {
        "none" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| format!("write a whole number from 1 to {}, or none", u32::MAX)),
    }
}

/// The waits of a unit that fails again and again.
#[derive(Debug, Clone)]
pub struct Waits {
    /// What follows each attempt, past the policy's own end.
    pub waits: Vec<Scheduled>,
    /// Where the policy gives up, if that is among them or right after.
    pub end: Option<Scheduled>,
}

impl Waits {
    /// More than this are a mistake.
    pub const MAX_ATTEMPTS: u32 = 10_000;

    /// For so many attempts; for the policy's retries, or ten, unless given.
    pub fn new(policy: &Policy, seed: JitterSeed, unit: &Unit, attempts: Option<u32>) -> Self {
        let retries =
            policy.spec().max_attempts.map(|max| max.saturating_sub(1).clamp(1, UNASKED_ROWS));
        let attempts = attempts.or(retries).unwrap_or(ENDLESS_ROWS).min(Self::MAX_ATTEMPTS);
        // One more than is shown, to see whether the policy ends right after.
        let mut waits: Vec<Scheduled> =
            schedule(policy, JitterKey::new(seed, unit), attempts + 1).collect();
        let end = waits.iter().find(|wait| wait.gives_up.is_some()).copied();
        waits.truncate(attempts as usize);
        Self { waits, end }
    }
}
