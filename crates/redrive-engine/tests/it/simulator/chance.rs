//! Chance that a seed decides: splitmix64.

use std::time::Duration;

/// A stream of numbers. The same seed gives the same stream.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of some numbers together, whichever stream they came from.
    pub(crate) fn of(parts: &[u64]) -> Self {
        let mix = |state: u64, part: &u64| Self(state ^ part.wrapping_mul(0x9e37_79b9)).next();
        Self(parts.iter().fold(0x5eed, mix))
    }

    /// A stream of its own, so that drawing from one does not move the other.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` up to and with `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub(crate) fn permille(&mut self, of_thousand: u64) -> bool {
        self.next() % 1_000 < of_thousand
    }

    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.next().is_multiple_of(of)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = self.between(0, from.len() as u64 - 1);
        &from[at as usize]
    }

    /// A time from `low` to `high` milliseconds.
    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }
}
