//! Networks in CIDR notation.

use std::{net::IpAddr, str::FromStr};

/// An address, or all addresses with a common prefix, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network {
    ip: IpAddr,
    prefix: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address or a network")]
pub struct InvalidNetwork;

impl Network {
    pub fn contains(&self, ip: IpAddr) -> bool {
        let shift = |bits: u8| u32::from(bits - self.prefix);
        match (self.ip, ip.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(ip)) => {
                (ours.to_bits() ^ ip.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(ip)) => {
                (ours.to_bits() ^ ip.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| InvalidNetwork)?;
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(bits), str::parse).map_err(|_| InvalidNetwork)?;
        if prefix > bits { Err(InvalidNetwork) } else { Ok(Self { ip, prefix }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, ip: &str, expected: bool) {
        let network: Network = network.parse().unwrap();
        assert_eq!(network.contains(ip.parse().unwrap()), expected, "{network:?} {ip}");
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix() {
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.0.0.1", true);
        check("10.0.0.7", "10.0.0.7", true);
        check("10.0.0.7", "10.0.0.6", false);
        check("0.0.0.0/0", "1.2.3.4", true);
        check("0.0.0.0/0", "::1", false);
        check("fd00::/8", "fd12::1", true);
        check("::/0", "2001:db8::1", true);
        for wrong in ["", "10.0.0.0/33", "10.0.0", "::/129", "10.0.0.0/-1", "proxy.example"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
