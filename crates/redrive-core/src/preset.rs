//! The named policies every installation has (POL-8).

use std::time::Duration;

use crate::{Backoff, Jitter, Policy, PolicySpec, Retriable};

/// A policy with a name, and its numbers:
///
/// | preset | max attempts | backoff | jitter | retriable |
/// | --- | --- | --- | --- | --- |
/// | `partition` | none | 5 min × 2^(n−1), cap 6 h | ± 30 s | all (the daemon selects) |
/// | `run` | 9 (8 retries) | 60 s × 2^(n−1), cap 3600 s | none | by class |
/// | `upload` | 5 per item (and 3 retries in one call) | 2 s × 2^(n−1), cap 60 s | none | all |
/// | `stage` | 3 | 1 s × 2^(n−1), cap 60 s | ± 25 % | all |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Partitions, retried by the daemon.
    Partition,
    /// Runs in a queue.
    Run,
    /// Items of an upload.
    Upload,
    /// Stages of a pipeline.
    Stage,
}

impl Preset {
    /// All presets, in the order of the specification.
    pub const ALL: [Self; 4] = [Self::Partition, Self::Run, Self::Upload, Self::Stage];

    /// The name used in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Run => "run",
            Self::Upload => "upload",
            Self::Stage => "stage",
        }
    }

    /// The preset of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its policy.
    #[allow(clippy::expect_used, reason = "the presets are constants; a test builds each of them")]
    pub fn policy(self) -> Policy {
        Policy::new(self.spec()).expect("every preset is valid")
    }

    /// Its settings.
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
