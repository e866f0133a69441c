//! How a plan is applied: canary, pace, ramp and abort condition (PLN-2), as people write them.

use std::{fmt, str::FromStr, time::Duration};

use crate::{HumanDuration, Rate};

/// Checked by [`PlanSettings::new`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlanSettings {
    canary: Option<u64>,
    pace: Option<Rate>,
    ramp: Option<Duration>,
    abort_if: Option<AbortShare>,
}

/// Why settings of a plan are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPlanSettings {
    #[error("a canary has at least 1 unit")]
    EmptyCanary,
    #[error("a ramp needs a pace: it says how long the plan takes to reach the pace")]
    RampWithoutPace,
    #[error("the canary ({canary}) must be smaller than the plan ({units} unit{})", if *units == 1 { "" } else { "s" })]
    CanaryTooLarge { canary: u64, units: u64 },
    #[error(
        "{action} tries no unit again, so it has neither a canary nor an abort condition; {others} have"
    )]
    NothingTried { action: &'static str, others: String },
}

impl PlanSettings {
    /// The share of failed units that stops a plan with a canary, if no other is given.
    pub const CANARY_ABORT_IF: AbortShare = AbortShare(0.2);

    /// A canary of up to so many units may be as large as its plan: a small plan is no more of a risk than a canary.
    pub const SMALL_CANARY: u64 = 10;

    pub fn new(
        canary: Option<u64>,
        pace: Option<Rate>,
        ramp: Option<Duration>,
        abort_if: Option<AbortShare>,
    ) -> Result<Self, InvalidPlanSettings> {
        if canary == Some(0) {
            return Err(InvalidPlanSettings::EmptyCanary);
        }
        let ramp = ramp.filter(|ramp| !ramp.is_zero());
        if ramp.is_some() && pace.is_none() {
            return Err(InvalidPlanSettings::RampWithoutPace);
        }
        let abort_if = abort_if.or_else(|| canary.map(|_| Self::CANARY_ABORT_IF));
        Ok(Self { canary, pace, ramp, abort_if })
    }

    /// These settings, with others for those that are given.
    pub fn with(
        &self,
        canary: Option<u64>,
        pace: Option<Rate>,
        ramp: Option<Duration>,
        abort_if: Option<AbortShare>,
    ) -> Result<Self, InvalidPlanSettings> {
        Self::new(
            canary.or(self.canary),
            pace.or(self.pace),
            ramp.or(self.ramp),
            abort_if.or(self.abort_if),
        )
    }

    /// Refuses a canary that leaves no units to protect.
    pub fn check_canary(&self, units: u64) -> Result<(), InvalidPlanSettings> {
        match self.canary.filter(|canary| *canary > Self::SMALL_CANARY && *canary >= units) {
            Some(canary) => Err(InvalidPlanSettings::CanaryTooLarge { canary, units }),
            None => Ok(()),
        }
    }

    /// Units that are changed first, and must end before the others are changed.
    pub fn canary(&self) -> Option<u64> {
        self.canary
    }

    pub fn pace(&self) -> Option<Rate> {
        self.pace
    }

    /// The time from slow to the full pace.
    pub fn ramp(&self) -> Option<Duration> {
        self.ramp
    }

    pub fn abort_if(&self) -> Option<AbortShare> {
        self.abort_if
    }
}

/// The share of failed units from which a plan is aborted: `20%`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct AbortShare(f64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a share: write more than 0% and at most 100%, such as 20%")]
pub struct InvalidShare(pub String);

impl AbortShare {
    /// Whether so many failures are the share, or more.
    pub fn is_reached(self, failed: u64, of: u64) -> bool {
        of > 0 && failed as f64 >= self.0 * of as f64
    }
}

impl FromStr for AbortShare {
    type Err = InvalidShare;

    fn from_str(text: &str) -> Result<Self, InvalidShare> {
        let percent: Option<f64> =
            text.trim().strip_suffix('%').and_then(|percent| percent.parse().ok());
        // Rounded as it is printed: a plan stores the text, and must be able to read it.
        let percent = percent.map(|percent| (percent * 1e6).round() / 1e6);
        let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
        percent
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| InvalidShare(text.chars().take(80).collect()))
    }
}

impl fmt::Display for AbortShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, because 0.07 × 100 is 7.000000000000001. As precise as what is read.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

/// `canary 10, pace 50/s, ramp 10m, abort-if 20%`; empty if nothing is set.
impl fmt::Display for PlanSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.canary.map(|canary| format!("canary {canary}")),
            self.pace.map(|pace| format!("pace {pace}")),
            self.ramp.map(|ramp| format!("ramp {}", HumanDuration::from(ramp))),
            self.abort_if.map(|share| format!("abort-if {share}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}
