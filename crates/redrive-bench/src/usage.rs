//! What a benchmark uses: wall-clock time, processor time and memory.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The rate and the cost of a number of operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) per_second: f64,
    /// Microseconds of processor time for each operation, over all threads of this process.
    pub(crate) cpu_micros: f64,
}

pub(crate) struct Stopwatch {
    started: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu_time() }
    }

    /// The usage of so many operations since the start.
    pub(crate) fn usage_for(&self, operations: usize) -> Usage {
        let cpu = cpu_time().saturating_sub(self.cpu);
        Usage {
            per_second: operations as f64 / self.started.elapsed().as_secs_f64(),
            cpu_micros: cpu.as_secs_f64() * 1e6 / operations as f64,
        }
    }
}

impl Usage {
    pub(crate) fn median(rounds: &[Self]) -> Self {
        Self {
            per_second: median(rounds.iter().map(|usage| usage.per_second).collect()),
            cpu_micros: median(rounds.iter().map(|usage| usage.cpu_micros).collect()),
        }
    }
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

/// The median of rounds: a round that stalled says nothing about the others.
pub(crate) fn median_time(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The processor time that all threads of this process have used.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs().try_into().unwrap_or(0))
}

/// Starts the count of the peak memory anew. Linux only; elsewhere the next figure may be too high, never too low.
pub(crate) fn reset_peak_memory() {
    _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that this process had, in megabytes. Linux only.
pub(crate) fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}
