//! The throughput of a run and the time left.

use std::{collections::VecDeque, time::Duration};

/// The rate covers this many polls.
const WINDOW_POLLS: usize = 30;

/// The latest counts of ended samples, each with the time since the start.
#[derive(Default)]
pub(super) struct Rate(VecDeque<(Duration, u64)>);

impl Rate {
    /// Adds the number of samples that have ended.
    pub(super) fn note(&mut self, at: Duration, ended: u64) {
        // ReprocessCounts dead letters lower the count.
        if self.0.back().is_some_and(|(_, before)| *before > ended) {
            self.0.clear();
        }
        self.0.push_back((at, ended));
        while self.0.len() > WINDOW_POLLS {
            self.0.pop_front();
        }
    }

    /// Samples per second; `None` before the second poll.
    pub(super) fn per_second(&self) -> Option<f64> {
        let ((start, first), (now, last)) = (self.0.front()?, self.0.back()?);
        let seconds = now.saturating_sub(*start).as_secs_f64();
        (seconds > 0.0).then(|| last.saturating_sub(*first) as f64 / seconds)
    }

    /// The time for a number of samples at this rate.
    pub(super) fn time_for(&self, samples: u64) -> Option<Duration> {
        let rate = self.per_second().filter(|rate| *rate > 0.0)?;
        Duration::try_from_secs_f64((samples as f64 / rate).ceil()).ok()
    }
}

/// Estimates the number of samples from the share of the file that was read.
pub(super) fn expected_total(read: u64, bytes_read: u64, bytes_in_all: u64) -> Option<u64> {
    let share = bytes_in_all as f64 / bytes_read.max(1) as f64;
    (bytes_read > 0 && share >= 1.0).then_some((read as f64 * share).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_covers_the_last_polls() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.note(Duration::ZERO, 0);
        assert_eq!(rate.per_second(), None);
        for second in 1..=100_u64 {
            let ended = second.min(50) * 10;
            rate.note(Duration::from_secs(second), ended);
            if second == 50 {
                assert_eq!(rate.per_second(), Some(10.0));
                assert_eq!(rate.time_for(45), Some(Duration::from_secs(5)));
            }
        }
        assert_eq!((rate.per_second(), rate.time_for(45)), (Some(0.0), None));
        rate.note(Duration::from_secs(101), 499);
        assert_eq!(rate.per_second(), None);
    }

    #[test]
    fn a_file_that_is_read_in_part_says_how_much_there_will_be() {
        assert_eq!(expected_total(100, 1_000, 5_000), Some(500));
        assert_eq!(expected_total(0, 0, 5_000), None);
        assert_eq!(expected_total(100, 1_000, 900), None);
    }
}
