//! The named policies of every installation (POL-8).

use std::time::Duration;

use crate::{Backoff, Jitter, Policy, PolicySpec, Retriable};

/// A named policy:
///
/// | preset | max attempts | backoff | jitter | retriable |
/// | --- | --- | --- | --- | --- |
/// | `partition` | none | 5 min × 2^(n−1), cap 6 h | ± 30 s | all (the daemon selects) |
/// | `run` | 9 (8 retries) | 60 s × 2^(n−1), cap 3600 s | none | by class |
/// | `upload` | 5 per item (and 3 retries in one call) | 2 s × 2^(n−1), cap 60 s | none | all |
/// | `stage` | 3 | 1 s × 2^(n−1), cap 60 s | ± 25 % | all |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    Partition,
    Run,
    Upload,
    Stage,
}

impl Preset {
    pub const ALL: [Self; 4] = [Self::Partition, Self::Run, Self::Upload, Self::Stage];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Run => "run",
            Self::Upload => "upload",
            Self::Stage => "stage",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    #[allow(clippy::expect_used, reason = "the presets are constants; a test builds each of them")]
    pub fn policy(self) -> Policy {
        Policy::new(self.spec()).expect("every preset is valid")
    }

    pub fn spec(self) -> PolicySpec {
        let (max_attempts, base, cap, jitter, retriable) = match self {
            Self::Partition => {
                (None, 300, 6 * 3600, Jitter::Absolute(Duration::from_secs(30)), Retriable::All)
            }
            Self::Run => (Some(9), 60, 3600, Jitter::None, Retriable::ByClass),
            Self::Upload => (Some(5), 2, 60, Jitter::None, Retriable::All),
            Self::Stage => (Some(3), 1, 60, Jitter::Fraction(0.25), Retriable::All),
        };
        PolicySpec {
            max_attempts,
            backoff: Backoff::Exponential,
            base: Duration::from_secs(base),
            multiplier: 2.0,
            cap: Duration::from_secs(cap),
            jitter,
            retriable,
            ..PolicySpec::default()
        }
    }
}
