//! The limits of a server.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Concurrent connections; further ones get a `503`, except health checks. Processes can commonly open 1024 files, and
    /// workers in the same process need some of them.
    pub connections: usize,
    /// Concurrent connections from one address. A trusted proxy has no such limit.
    pub connections_per_address: usize,
    /// The time for the head of a request, including the wait for the next request on a kept connection, again for its
    /// body, and for the client to read some more of the response.
    pub client_timeout: Duration,
    /// For each address.
    pub requests_a_second: u32,
    /// The largest item. Its content is held in memory until it is stored.
    pub item_bytes: usize,
}

impl ServerLimits {
    pub const DEFAULT: Self = Self {
        connections: 512,
        connections_per_address: 256,
        client_timeout: Duration::from_secs(30),
        requests_a_second: 5_000,
        item_bytes: 32 * 1024 * 1024,
    };
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
