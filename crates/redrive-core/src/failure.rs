//! Failures: the class, code, message and cause of an attempt that failed.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    Fingerprint, Message,
    classify::{class_of_exit, class_of_http, class_of_name, named},
};

/// The shortest wait that counts as a hint.
const SHORTEST_HINT: Duration = Duration::from_secs(1);

/// How a policy treats a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A retry cannot help.
    Final,
    /// A retry may help.
    Retryable,
    /// The server asked the client to slow down.
    RateLimited {
        /// The wait that the server asked for, if it did.
        retry_after: Option<Duration>,
    },
}

impl Class {
    /// The name under which the class is stored: `final`, `retryable`, `rate_limited`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Retryable => "retryable",
            Self::RateLimited { .. } => "rate_limited",
        }
    }

    /// The server's hint, which only a rate limit carries. A wait of less than a second is no hint (POL-7).
    pub fn hint(self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } => retry_after.filter(|wait| *wait >= SHORTEST_HINT),
            Self::Final | Self::Retryable => None,
        }
    }
}

/// The code of a failure: a number (an HTTP status or an exit code) or a name.
///
/// A name made of digits is that number: `"429"` equals `429`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Code {
    Number(u32),
    Name(String),
}

/// The longest name a code may have, in bytes.
const MAX_CODE_BYTES: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a code: write a whole number such as 429, or a name such as timeout \
     (at most {MAX_CODE_BYTES} printable characters, no spaces)"
)]
pub struct InvalidCode(pub String);

impl Code {
    /// A named code of Redrive's own; see [`named`].
    pub fn name(name: &'static str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl FromStr for Code {
    type Err = InvalidCode;

    fn from_str(text: &str) -> Result<Self, InvalidCode> {
        if text.bytes().all(|b| b.is_ascii_digit())
            && let Ok(number) = text.parse()
        {
            return Ok(Self::Number(number));
        }
        let fits = !text.is_empty() && text.len() <= MAX_CODE_BYTES;
        if fits && text.chars().all(|c| c.is_ascii_graphic()) {
            Ok(Self::Name(text.to_owned()))
        } else {
            Err(InvalidCode(text.chars().take(80).collect()))
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// Who or what ended the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    Handler,
    Validator,
    Timeout,
    /// The worker's lease ended before the worker reported a result.
    LostWorker,
    /// The worker was asked to stop.
    Shutdown,
    Spawn,
}

impl Cause {
    /// All causes, in the order of the specification.
    pub const ALL: [Self; 6] = [
        Self::Handler,
        Self::Validator,
        Self::Timeout,
        Self::LostWorker,
        Self::Shutdown,
        Self::Spawn,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Validator => "validator",
            Self::Timeout => "timeout",
            Self::LostWorker => "lost_worker",
            Self::Shutdown => "shutdown",
            Self::Spawn => "spawn",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

/// A failed attempt, classified.
///
/// ```
/// use redrive_core::{Class, Failure};
///
/// let busy = Failure::http(503, None, "busy");
/// assert_eq!(busy.class(), Class::Retryable);
/// assert!(!busy.is_stated(), "a status is a code, not a statement");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    class: Class,
    stated: bool,
    code: Code,
    message: Message,
    cause: Cause,
}

impl Failure {
    /// An HTTP response that is not a success, with its parsed Retry-After.
    pub fn http(status: u16, retry_after: Option<Duration>, message: &str) -> Self {
        Self::derived(
            class_of_http(status, retry_after),
            Code::Number(status.into()),
            message,
            Cause::Handler,
        )
    }

    /// A command that exited with a non-zero code.
    pub fn exit(code: u8, message: &str) -> Self {
        Self::derived(class_of_exit(code), Code::Number(code.into()), message, Cause::Handler)
    }

    /// A command that was ended by a signal.
    pub fn signal(signal: i32, message: &str) -> Self {
        let code = Code::Name(format!("signal_{signal}"));
        Self::derived(Class::Retryable, code, message, Cause::Handler)
    }

    /// A failure that has only a name, such as `timeout` or `connection_refused`.
    pub fn named(name: &'static str, cause: Cause, message: &str) -> Self {
        Self::derived(class_of_name(name), Code::name(name), message, cause)
    }

    pub fn timeout(message: &str) -> Self {
        Self::named(named::TIMEOUT, Cause::Timeout, message)
    }

    pub fn spawn(message: &str) -> Self {
        Self::named(named::SPAWN, Cause::Spawn, message)
    }

    pub fn lost_worker(message: &str) -> Self {
        Self::named(named::LOST_WORKER, Cause::LostWorker, message)
    }

    /// An error that the handler reported. A stated class binds: a stated `final` is never retried.
    /// Without a class the code decides, and a number is read as an HTTP status.
    pub fn reported(class: Option<Class>, code: Code, message: &str) -> Self {
        let derived = match &code {
            Code::Number(number) => u16::try_from(*number)
                .map_or(Class::Retryable, |status| class_of_http(status, None)),
            Code::Name(name) => class_of_name(name),
        };
        Self {
            class: class.unwrap_or(derived),
            stated: class.is_some(),
            code,
            message: Message::clean(message),
            cause: Cause::Handler,
        }
    }

    pub(crate) fn derived(class: Class, code: Code, message: &str, cause: Cause) -> Self {
        Self { class, stated: false, code, message: Message::clean(message), cause }
    }

    /// Keeps the class; replaces the code.
    pub fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    /// Keeps the class and the code; replaces the message, and the cause if one is given.
    pub fn retold(self, cause: Option<Cause>, message: &str) -> Self {
        Self { cause: cause.unwrap_or(self.cause), message: Message::clean(message), ..self }
    }

    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether the handler stated the class, as opposed to a class derived from the code.
    pub fn is_stated(&self) -> bool {
        self.stated
    }

    pub fn code(&self) -> &Code {
        &self.code
    }

    /// Groups this failure with similar ones.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.class, &self.code.to_string(), self.message.as_str())
    }

    pub fn message(&self) -> &Message {
        &self.message
    }

    pub fn cause(&self) -> Cause {
        self.cause
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for Failure {}
