//! Backoff before jitter (POL-2). All arithmetic saturates (POL-5).

use std::time::Duration;

use crate::{Backoff, Policy};

impl Policy {
    /// The wait after the n-th counted failure, before jitter. The wait never shrinks as n grows
    /// and never overflows.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::Preset;
    ///
    /// let run = Preset::Run.policy();
    /// assert_eq!(run.backoff_delay(1), Duration::from_secs(60));
    /// assert_eq!(run.backoff_delay(4), Duration::from_secs(480));
    /// assert_eq!(run.backoff_delay(u32::MAX), Duration::from_secs(3600));
    /// ```
    pub fn backoff_delay(&self, n: u32) -> Duration {
        let spec = self.spec();
        let n = n.max(1);
        match spec.backoff {
            Backoff::Fixed => spec.base,
            Backoff::Linear => spec.base.saturating_mul(n).min(spec.cap),
            Backoff::Exponential => exponential(spec.base, spec.multiplier, spec.cap, n - 1),
        }
    }
}

/// An overflow gives infinity, which is not below the cap. A double cannot hold every nanosecond of
/// a base of months, so a factor of one returns the base unchanged.
fn exponential(base: Duration, multiplier: f64, cap: Duration, exponent: u32) -> Duration {
    let factor = multiplier.powi(i32::try_from(exponent).unwrap_or(i32::MAX));
    if factor <= 1.0 {
        return base;
    }
    let seconds = base.as_secs_f64() * factor;
    if seconds < cap.as_secs_f64() { Duration::from_secs_f64(seconds) } else { cap }
}
