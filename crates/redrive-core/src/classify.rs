//! From what was observed to a class (CLS-2, CLS-4).
//!
//! The tables are data in one place. What a handler says of itself goes before all of this.

use std::time::Duration;

use crate::Class;

/// The named codes Redrive gives to failures that have no number.
pub mod named {
    /// The time limit ran out.
    pub const TIMEOUT: &str = "timeout";
    /// The handler could not be started.
    pub const SPAWN: &str = "spawn";
    /// The worker's lease ended without a word from it.
    pub const LOST_WORKER: &str = "lost_worker";
    /// The reply fits nothing.
    pub const BAD_REPLY: &str = "bad_reply";
    /// A program that stays running was ended because of another call, or nobody can tell which.
    pub const STREAM_RESET: &str = "stream_reset";
    /// A program that stays running ended well, and left a call without a reply.
    pub const STREAM_ENDED: &str = "stream_ended";
    /// The connection was refused.
    pub const CONNECTION_REFUSED: &str = "connection_refused";
    /// The connection was reset.
    pub const CONNECTION_RESET: &str = "connection_reset";
    /// The connection timed out.
    pub const CONNECTION_TIMEOUT: &str = "connection_timeout";
    /// The name could not be resolved.
    pub const DNS: &str = "dns";
    /// The body ended before it was complete.
    pub const CUT_BODY: &str = "cut_body";
    /// The connection failed in some other way.
    pub const CONNECTION_FAILED: &str = "connection_failed";
    /// The two sides could not agree on encryption, for a reason other than a certificate.
    pub const TLS: &str = "tls";
    /// What came back is not HTTP, or its headers have no end.
    pub const BAD_RESPONSE: &str = "bad_response";
    /// The body is longer than what is read of one.
    pub const BODY_TOO_LARGE: &str = "body_too_large";
    /// The certificate was refused. Trying again will not change it.
    pub const CERTIFICATE: &str = "certificate";
    /// An error of a program that has no code of its own.
    pub const ERROR: &str = "error";
    /// The address is one of a private network, and the configuration refuses those.
    pub const PRIVATE_ADDRESS: &str = "private_address";
    /// The body asks for a value that the call does not have.
    pub const BAD_TEMPLATE: &str = "bad_template";
}

/// Statuses that a later try may change.
const RETRYABLE_STATUSES: [u16; 6] = [408, 425, 500, 502, 503, 504];

/// Named codes of what stays as it is until somebody changes a configuration or a call.
const FINAL_NAMES: [&str; 3] = [named::CERTIFICATE, named::PRIVATE_ADDRESS, named::BAD_TEMPLATE];

/// Exit codes of `sysexits.h` that say trying again cannot help: usage, bad data, no input, no
/// permission, bad configuration.
const FINAL_EXITS: [u8; 5] = [64, 65, 66, 77, 78];

/// The class of an HTTP status that is not a success. Redirects are not followed and so are final.
///
/// ```
/// use redrive_core::{Class, class_of_http};
///
/// assert_eq!(class_of_http(429, None), Class::RateLimited { retry_after: None });
/// assert_eq!(class_of_http(404, None), Class::Final);
/// ```
pub fn class_of_http(status: u16, retry_after: Option<Duration>) -> Class {
    match status {
        429 => Class::RateLimited { retry_after },
        503 if retry_after.is_some() => Class::RateLimited { retry_after },
        status if RETRYABLE_STATUSES.contains(&status) => Class::Retryable,
        300..=499 | 501 | 505 => Class::Final,
        _ => Class::Retryable,
    }
}

/// The class of a command's non-zero exit code.
///
/// ```
/// use redrive_core::{Class, class_of_exit};
///
/// assert_eq!(class_of_exit(65), Class::Final);
/// assert_eq!(class_of_exit(75), Class::Retryable);
/// assert_eq!(class_of_exit(1), Class::Retryable);
/// ```
pub fn class_of_exit(code: u8) -> Class {
    if FINAL_EXITS.contains(&code) { Class::Final } else { Class::Retryable }
}

/// The class of a named code.
///
/// ```
/// use redrive_core::{Class, class_of_name, named};
///
/// assert_eq!(class_of_name(named::DNS), Class::Retryable);
/// assert_eq!(class_of_name(named::CERTIFICATE), Class::Final);
/// ```
pub fn class_of_name(name: &str) -> Class {
    if FINAL_NAMES.contains(&name) { Class::Final } else { Class::Retryable }
}
