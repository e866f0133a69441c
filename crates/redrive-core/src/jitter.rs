//! Deterministic jitter (POL-3, POL-4).
//!
//! The retry daemon evaluates every failed partition on every tick. With fresh randomness per
//! evaluation the smallest draw would win, and the spread would disappear. So jitter is a pure
//! function of a seed, the unit and the backoff number, and gives the same result on every host.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Unit;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Jitter {
    #[default]
    None,
    /// Plus or minus a duration.
    Absolute(Duration),
    /// Plus or minus a fraction of the wait, from 0 to 1.
    Fraction(f64),
    /// Uniform between zero and the wait.
    Full,
}

/// The seed of all jitter. Every host must use the same seed; the default is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JitterSeed(pub u64);

/// The jitter input for one unit: everything except the backoff number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JitterKey(u64);

impl JitterKey {
    pub fn new(seed: JitterSeed, unit: &Unit) -> Self {
        Self::written(seed, &unit.to_string())
    }

    /// The key for the written form of a unit, or for any other unique name.
    ///
    /// ```
    /// use redrive_core::{JitterKey, JitterSeed, RunId, Unit};
    ///
    /// let seed = JitterSeed::default();
    /// assert_eq!(JitterKey::written(seed, "run:7"), JitterKey::new(seed, &Unit::Run(RunId(7))));
    /// ```
    pub fn written(seed: JitterSeed, unit: &str) -> Self {
        Self(xxh3_64_with_seed(unit.as_bytes(), seed.0))
    }

    /// A number in [0, 1) for the n-th backoff of the unit.
    pub fn draw(self, n: u32) -> f64 {
        let bits = xxh3_64_with_seed(&n.to_le_bytes(), self.0);
        // A double holds 53 bits exactly.
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl Jitter {
    /// Spreads a wait by a draw from [0, 1). The result is never negative and never beyond the
    /// bounds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redrive_core::Jitter;
    ///
    /// let capped = Duration::from_secs(3);
    /// assert_eq!(Jitter::Fraction(0.25).spread(capped, 0.0), Duration::from_millis(2250));
    /// assert_eq!(Jitter::Full.spread(capped, 0.5), Duration::from_millis(1500));
    /// ```
    pub fn spread(self, delay: Duration, draw: f64) -> Duration {
        let seconds = delay.as_secs_f64();
        let swing = 2.0 * draw - 1.0;
        let spread = match self {
            Self::None => return delay,
            Self::Absolute(time) => seconds + swing * time.as_secs_f64(),
            Self::Fraction(fraction) => seconds + swing * fraction * seconds,
            Self::Full => draw * seconds,
        };
        Duration::try_from_secs_f64(spread.max(0.0)).unwrap_or(delay)
    }
}
