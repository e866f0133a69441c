//! A rate limit for each client address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;

use crate::client_address::limited_as;

/// Counts events by address in fixed windows.
#[derive(Debug)]
pub(crate) struct AddressRateLimit {
    limit: u32,
    window_seconds: i64,
    counts: Mutex<WindowCounts>,
}

#[derive(Debug, Default)]
struct WindowCounts {
    window: i64,
    by_address: HashMap<IpAddr, u32>,
}

impl AddressRateLimit {
    /// Bounds memory: further addresses share one count.
    const MAX_ADDRESSES: usize = 10_000;

    pub(crate) fn new(limit: u32, window_seconds: i64) -> Self {
        Self { limit, window_seconds, counts: Mutex::default() }
    }

    /// Counts an event and returns whether it is within the limit.
    pub(crate) fn count(&self, from: IpAddr, now: Timestamp) -> bool {
        self.with(from, now, |count| {
            *count = count.saturating_add(1);
            *count <= self.limit
        })
    }

    /// Seconds until the next window.
    pub(crate) fn seconds_left(&self, now: Timestamp) -> i64 {
        self.window_seconds - now.as_second().rem_euclid(self.window_seconds)
    }

    fn with<T>(&self, from: IpAddr, now: Timestamp, then: impl FnOnce(&mut u32) -> T) -> T {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let window = now.as_second().div_euclid(self.window_seconds);
        if counts.window != window {
            counts.window = window;
            counts.by_address.clear();
        }
        let from = limited_as(from);
        let is_known = counts.by_address.contains_key(&from);
        let is_full = !is_known && counts.by_address.len() >= Self::MAX_ADDRESSES;
        let from = if is_full { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { from };
        then(counts.by_address.entry(from).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_limited_until_the_window_ends() {
        let limit = AddressRateLimit::new(2, 60);
        let [one, other] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!([0, 1, 2].map(|second| limit.count(one, at(second))), [true, true, false]);
        assert!(!limit.count(one, at(59)) && limit.count(other, at(59)));
        assert_eq!((limit.seconds_left(at(0)), limit.seconds_left(at(59))), (60, 1));
        assert!(limit.count(one, at(60)));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_client() {
        let limit = AddressRateLimit::new(1, 60);
        let [one, other, far] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|ip| ip.parse().unwrap());
        assert!(limit.count(one, Timestamp::UNIX_EPOCH));
        assert!(
            !limit.count(other, Timestamp::UNIX_EPOCH) && limit.count(far, Timestamp::UNIX_EPOCH)
        );
    }

    #[test]
    fn further_addresses_share_a_count() {
        let (limit, now) = (AddressRateLimit::new(1, 60), Timestamp::UNIX_EPOCH);
        for n in 0..AddressRateLimit::MAX_ADDRESSES as u32 {
            assert!(limit.count(Ipv4Addr::from_bits(0x0a00_0000 + n).into(), now));
        }
        assert!(limit.count(Ipv4Addr::new(11, 0, 0, 1).into(), now));
        assert!(!limit.count(Ipv4Addr::new(11, 0, 0, 2).into(), now));
    }
}
