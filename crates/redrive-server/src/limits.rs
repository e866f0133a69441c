//! How much a server takes from those who ask.

use std::time::Duration;

/// What is allowed at once, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// Connections at once. Whoever comes then is told to come back. A process may commonly have 1024 files
    /// open, and workers beside the server need some of them.
    pub connections: usize,
    /// How long a client may take to say what it wants: for the head of a request, also of the next one on a
    /// connection that is kept, and for its body.
    pub client_timeout: Duration,
    /// Requests from one address within a second.
    pub requests_a_second: u32,
    /// Bytes of an item that is added. They are held in memory until they are kept.
    pub item_bytes: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            connections: 512,
            client_timeout: Duration::from_secs(30),
            requests_a_second: 5_000,
            item_bytes: 32 * 1024 * 1024,
        }
    }
}
