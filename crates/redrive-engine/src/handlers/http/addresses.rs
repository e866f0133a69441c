//! Which addresses are not on the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address belongs to this machine, to a private network, or to no host at all. An IPv4
/// address inside an IPv6 address is judged as the IPv4 address.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_private_v4(address),
            None => is_private_v6(address),
        },
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        // This host, private networks, loopback, link-local (and every cloud's metadata service).
        (0 | 10 | 127, ..) | (172, 16..=31, _) | (192, 168, _) | (169, 254, _) => true,
        // Carrier-grade NAT, and protocol assignments.
        (100, 64..=127, _) | (192, 0, 0) => true,
        // Documentation and benchmarks.
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (198, 18..=19, _) => true,
        // Multicast, reserved, broadcast.
        (224.., ..) => true,
        _ => false,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Unspecified and loopback; a network's own NAT64.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] | [0x64, 0xff9b, 1, ..] => true,
        // Unique local, link-local, site-local, multicast.
        [0xfc00..=0xfdff | 0xfe80..=0xfeff | 0xff00..=0xffff, ..] => true,
        // Documentation, and the discard prefix.
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] | [0x100, 0, 0, 0, ..] => true,
        _ => false,
    }
}

/// The IPv4 address that a gateway would forward to: NAT64, 6to4, and the old compatible form.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high @ 1..=0xffff, low] => {
            (high, low)
        }
        [0x2002, high, low, ..] => (high, low),
        _ => return None,
    };
    Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // HANDLERS-4
    #[test]
    fn an_address_that_no_stranger_has_is_private() {
        let private = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:c0a8:1::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "3fff:fff::1",
            "100::1",
        ];
        for address in private {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
    }

    // HANDLERS-4
    #[test]
    fn an_address_of_the_internet_is_not_private() {
        let public = [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.0.1",
            "169.255.0.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.0.1",
            "192.169.0.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450:4001::1",
            "fbff::1",
            "3fff:1000::1",
        ];
        for address in public {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
