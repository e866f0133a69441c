//! What a measurement takes: time, and work of the processors.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::runs::median;

/// What so many of something took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) per_second: f64,
    /// Microseconds of processor time for each, of all threads of this process together.
    pub(super) processor: f64,
}

/// The beginning of a measurement.
pub(super) struct Begun {
    at: Instant,
    processor: Duration,
}

impl Begun {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), processor: processor_time() }
    }

    /// Since then so many were done.
    pub(super) fn done(&self, count: usize) -> Spent {
        let processor = processor_time().saturating_sub(self.processor);
        Spent {
            per_second: count as f64 / self.at.elapsed().as_secs_f64(),
            processor: processor.as_secs_f64() * 1e6 / count as f64,
        }
    }
}

impl Spent {
    /// The medians of several.
    pub(super) fn median(all: &[Self]) -> Self {
        Self {
            per_second: median(all.iter().map(|spent| spent.per_second).collect()),
            processor: median(all.iter().map(|spent| spent.processor).collect()),
        }
    }
}

/// Of all threads of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}
