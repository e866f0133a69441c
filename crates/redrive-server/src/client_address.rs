//! Where a request comes from, also behind a proxy.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

use crate::access::Access;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress {
    pub(crate) ip: IpAddr,
    /// Whether a trusted proxy says that the client uses TLS.
    pub(crate) is_https: bool,
}

impl ClientAddress {
    /// The sender of a request. Anyone can send forwarding headers, so only those of trusted proxies count: each
    /// proxy appends the address that it sees, and the last one that is not a proxy is the client.
    pub(crate) fn of(headers: &HeaderMap, peer: IpAddr, access: &Access) -> Self {
        let peer = peer.to_canonical();
        if !access.is_trusted_proxy(peer) {
            return Self { ip: peer, is_https: false };
        }
        let (addresses, protocol) = match headers.contains_key(&X_FORWARDED_FOR) {
            true => (parts(headers, &X_FORWARDED_FOR), parts(headers, &X_FORWARDED_PROTO).pop()),
            false => {
                let elements = parts(headers, &header::FORWARDED);
                let protocol = elements.last().and_then(|element| pair(element, "proto"));
                (elements.iter().filter_map(|element| pair(element, "for")).collect(), protocol)
            }
        };
        let mut ip = peer;
        for address in addresses.iter().rev() {
            let Some(known) = address_of(address) else { break };
            ip = known;
            if !access.is_trusted_proxy(ip) {
                break;
            }
        }
        Self { ip, is_https: protocol.is_some_and(|it| it.eq_ignore_ascii_case("https")) }
    }
}

/// The client that an address counts for: one client usually has a whole IPv6 network of 64 bits.
pub(crate) fn limited_as(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        ip => ip,
    }
}

/// The elements of a list header, over all lines of that name.
fn parts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    // A line that is no text names nobody, and neither do the lines before it.
    let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("unknown"));
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// A value of an element of `Forwarded`, such as `for="[2001:db8::1]:80";proto=https`.
fn pair<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(value.trim_matches('"'))
}

/// An address with or without a port.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']').parse();
    let ip = bare.ok().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()))?;
    Some(ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[track_caller]
    fn check(peer: &str, lines: &[(&'static str, &'static str)], expected: (&str, bool)) {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let access = Access { trusted_proxies, ..Access::default() };
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let client = ClientAddress::of(&headers, peer.parse().unwrap(), &access);
        assert_eq!((client.ip.to_string().as_str(), client.is_https), expected, "{lines:?}");
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let spoofed = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-proto", "https")];
        check("9.9.9.9", &spoofed, ("9.9.9.9", false));
        check("10.0.0.1", &[], ("10.0.0.1", false));
        check("10.0.0.1", &spoofed, ("1.1.1.1", true));
        // What the client itself sent comes before what the proxies appended.
        check(
            "10.0.0.1",
            &[("x-forwarded-for", "8.8.8.8, 7.7.7.7:443, 10.0.0.2")],
            ("7.7.7.7", false),
        );
        let two = [("x-forwarded-for", "8.8.8.8"), ("x-forwarded-for", "7.7.7.7")];
        check("10.0.0.1", &two, ("7.7.7.7", false));
        check("10.0.0.1", &[("x-forwarded-for", "8.8.8.8, unknown")], ("10.0.0.1", false));
        let hidden = [("x-forwarded-for", "\u{e9}"), ("forwarded", "for=8.8.8.8")];
        check("10.0.0.1", &hidden, ("10.0.0.1", false));
        let forwarded = "for=8.8.8.8;proto=http, for=\"[2001:db8::1]:80\";proto=https";
        check("10.0.0.1", &[("forwarded", forwarded)], ("2001:db8::1", true));
    }
}
