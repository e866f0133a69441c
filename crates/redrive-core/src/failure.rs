//! What ended an attempt badly: a class, a code, a message, a cause.

use std::{fmt, str::FromStr, time::Duration};

use crate::{
    Message,
    classify::{class_of_exit, class_of_http, class_of_name, named},
};

/// How a failure is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Trying again cannot help.
    Final,
    /// Trying again may help.
    Retryable,
    /// The other side asked for patience, perhaps saying for how long.
    RateLimited {
        /// How long to wait, if it said so.
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

    /// The server's hint, which only a rate limit carries.
    pub fn hint(self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } => retry_after,
            Self::Final | Self::Retryable => None,
        }
    }
}

/// What a failure calls itself: a number (an HTTP status or an exit code) or a name.
///
/// A name made of digits is that number: `"429"` equals `429`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Code {
    /// An HTTP status or an exit code.
    Number(u32),
    /// A name such as `timeout`.
    Name(String),
}

/// The longest name a code may have, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// A text that cannot be a code.
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
    /// The handler failed.
    Handler,
    /// The validator rejected the result.
    Validator,
    /// The time limit ran out.
    Timeout,
    /// The worker's lease ended without a word from it.
    LostWorker,
    /// The worker was told to stop.
    Shutdown,
    /// The handler could not be started.
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

    /// The name under which the cause is stored.
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

    /// The cause of that name.
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
    /// An HTTP answer that is not a success, with its parsed Retry-After.
    pub fn http(status: u16, retry_after: Option<Duration>, message: &str) -> Self {
        Self::derived(
            class_of_http(status, retry_after),
            Code::Number(status.into()),
            message,
            Cause::Handler,
        )
    }

    /// A command that ended with a non-zero code.
    pub fn exit(code: u8, message: &str) -> Self {
        Self::derived(class_of_exit(code), Code::Number(code.into()), message, Cause::Handler)
    }

    /// A command that a signal ended.
    pub fn signal(signal: i32, message: &str) -> Self {
        let code = Code::Name(format!("signal_{signal}"));
        Self::derived(Class::Retryable, code, message, Cause::Handler)
    }

    /// A failure that has only a name, such as `timeout` or `connection_refused`.
    pub fn named(name: &'static str, cause: Cause, message: &str) -> Self {
        Self::derived(class_of_name(name), Code::name(name), message, cause)
    }

    /// A handler over its time limit.
    pub fn timeout(message: &str) -> Self {
        Self::named(named::TIMEOUT, Cause::Timeout, message)
    }

    /// A handler that could not be started.
    pub fn spawn(message: &str) -> Self {
        Self::named(named::SPAWN, Cause::Spawn, message)
    }

    /// A worker that vanished.
    pub fn lost_worker(message: &str) -> Self {
        Self::named(named::LOST_WORKER, Cause::LostWorker, message)
    }

    /// An error that a handler reported itself. With a class it is a statement, and a stated
    /// `final` binds; without one the code decides, a number being read as an HTTP status.
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

    /// The same class and code in other words, and by another cause if one is given.
    pub fn retold(self, cause: Option<Cause>, message: &str) -> Self {
        Self { cause: cause.unwrap_or(self.cause), message: Message::clean(message), ..self }
    }

    /// The class, stated by the handler or derived from the code.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether the handler stated the class in so many words.
    pub fn is_stated(&self) -> bool {
        self.stated
    }

    /// The code.
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The message, cleaned and bounded.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Who or what ended the attempt.
    pub fn cause(&self) -> Cause {
        self.cause
    }
}

/// The code, and what was said.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code.fmt(f)?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}

impl std::error::Error for Failure {}
