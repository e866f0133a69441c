//! Maps statuses, exit codes and named codes to classes (CLS-2, CLS-4).
//!
//! A class that a handler states takes precedence over these tables.

use std::time::Duration;

use crate::Class;

/// The named codes Redrive gives to failures that have no number.
pub mod named {
    pub const TIMEOUT: &str = "timeout";
    pub const SPAWN: &str = "spawn";
    /// The worker's lease ended before the worker reported a result.
    pub const LOST_WORKER: &str = "lost_worker";
    /// The handler's reply does not match the protocol.
    pub const BAD_REPLY: &str = "bad_reply";
    /// A streaming program was ended because of another call, or for a reason that names no call.
    pub const STREAM_RESET: &str = "stream_reset";
    /// A streaming program exited with success before it replied to the call.
    pub const STREAM_ENDED: &str = "stream_ended";
    pub const CONNECTION_REFUSED: &str = "connection_refused";
    pub const CONNECTION_RESET: &str = "connection_reset";
    pub const CONNECTION_TIMEOUT: &str = "connection_timeout";
    pub const DNS: &str = "dns";
    pub const CUT_BODY: &str = "cut_body";
    /// The connection failed for a reason without a code of its own.
    pub const CONNECTION_FAILED: &str = "connection_failed";
    /// The TLS handshake failed for a reason other than a certificate.
    pub const TLS: &str = "tls";
    /// The response is not HTTP, or its headers exceed the limit.
    pub const BAD_RESPONSE: &str = "bad_response";
    /// The response body exceeds the read limit.
    pub const BODY_TOO_LARGE: &str = "body_too_large";
    /// The certificate was rejected; a retry cannot change that.
    pub const CERTIFICATE: &str = "certificate";
    /// An error of a program that has no code of its own.
    pub const ERROR: &str = "error";
    /// The address belongs to a private network, and the configuration refuses those.
    pub const PRIVATE_ADDRESS: &str = "private_address";
    /// The body template uses a value that the call does not have.
    pub const BAD_TEMPLATE: &str = "bad_template";
    /// The handler panicked.
    pub const PANIC: &str = "panic";
    /// A program ended, and the operating system does not say how.
    pub const EXIT_UNKNOWN: &str = "exit_unknown";

    /// All of them, for the lists of a policy. A signal is `signal_` and its number.
    pub const ALL: [&str; 21] = [
        TIMEOUT,
        SPAWN,
        LOST_WORKER,
        BAD_REPLY,
        STREAM_RESET,
        STREAM_ENDED,
        CONNECTION_REFUSED,
        CONNECTION_RESET,
        CONNECTION_TIMEOUT,
        DNS,
        CUT_BODY,
        CONNECTION_FAILED,
        TLS,
        BAD_RESPONSE,
        BODY_TOO_LARGE,
        CERTIFICATE,
        ERROR,
        PRIVATE_ADDRESS,
        BAD_TEMPLATE,
        PANIC,
        EXIT_UNKNOWN,
    ];

    /// Whether a failure can have this name without a handler that states it.
    pub fn is_known(name: &str) -> bool {
        let signal = name.strip_prefix("signal_").and_then(|number| number.parse::<u8>().ok());
        signal.is_some() || ALL.contains(&name)
    }
}

/// Named codes that last until the configuration or the call changes.
const FINAL_NAMES: [&str; 3] = [named::CERTIFICATE, named::PRIVATE_ADDRESS, named::BAD_TEMPLATE];

/// Exit codes of `sysexits.h` that a retry cannot change: usage, bad data, no input, no permission,
/// bad configuration.
const FINAL_EXITS: [u8; 5] = [64, 65, 66, 77, 78];

/// The class of an HTTP status that is not a success. A Retry-After makes every error a rate limit.
/// Redirects are not followed, so a redirect is final.
///
/// ```
/// use redrive_core::{Class, class_of_http};
///
/// assert_eq!(class_of_http(429, None), Class::RateLimited { retry_after: None });
/// assert_eq!(class_of_http(404, None), Class::Final);
///
/// let retry_after = Some(std::time::Duration::from_secs(30));
/// assert_eq!(class_of_http(403, retry_after), Class::RateLimited { retry_after });
/// ```
pub fn class_of_http(status: u16, retry_after: Option<Duration>) -> Class {
    let limited = Class::RateLimited { retry_after };
    match status {
        429 => limited,
        400..=599 if limited.hint().is_some() => limited,
        408 | 425 => Class::Retryable,
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
