//! From an error of a Rust program to a failure.
//!
//! A policy decides about failures, a program has errors of its own. What an error says of itself in
//! so many words binds (CLS-5); what is only known by its kind is a code, with the class of CLS-2 and
//! CLS-4; what nothing is known about may be tried again.

use std::{convert::Infallible, error::Error, io};

use crate::{Cause, Class, Code, Failure, named};

/// An error that a policy can decide about.
///
/// ```
/// use redrive_core::{AsFailure, Class, Code, Failure};
///
/// enum Refusal {
///     Closed,
///     Busy,
/// }
///
/// impl AsFailure for Refusal {
///     fn as_failure(&self) -> Failure {
///         match self {
///             Self::Closed => Class::Final.into(),
///             Self::Busy => Failure::http(503, None, "busy"),
///         }
///     }
/// }
/// assert_eq!(Refusal::Closed.as_failure().class(), Class::Final);
/// assert_eq!(Refusal::Busy.as_failure().code(), &Code::Number(503));
/// ```
#[diagnostic::on_unimplemented(
    message = "Redrive does not know when `{Self}` may be retried",
    note = "implement `AsFailure` for it, or say so at the call: `.when(|error| …)` for some of its \
            values, `.any_error()` for all"
)]
pub trait AsFailure {
    /// The error as a failure.
    fn as_failure(&self) -> Failure;
}

impl AsFailure for Failure {
    fn as_failure(&self) -> Failure {
        self.clone()
    }
}

/// A class alone is a statement, and a stated `final` binds.
impl From<Class> for Failure {
    fn from(class: Class) -> Self {
        Self::reported(Some(class), Code::name(named::ERROR), "")
    }
}

/// What went wrong on the way to another machine is retryable, with the codes of CLS-2. What exits 64,
/// 65, 66 and 77 stand for, bad usage, bad data, no input and no permission, is final.
impl AsFailure for io::Error {
    fn as_failure(&self) -> Failure {
        use io::ErrorKind as Kind;

        let (class, code) = match self.kind() {
            Kind::ConnectionRefused => (Class::Retryable, named::CONNECTION_REFUSED),
            Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
                (Class::Retryable, named::CONNECTION_RESET)
            }
            Kind::TimedOut => (Class::Retryable, named::CONNECTION_TIMEOUT),
            Kind::UnexpectedEof => (Class::Retryable, named::CUT_BODY),
            Kind::NotFound => (Class::Final, "not_found"),
            Kind::PermissionDenied => (Class::Final, "permission_denied"),
            Kind::InvalidInput => (Class::Final, "invalid_input"),
            Kind::InvalidData => (Class::Final, "invalid_data"),
            Kind::Unsupported => (Class::Final, "unsupported"),
            _ => (Class::Retryable, named::ERROR),
        };
        Failure::derived(class, Code::name(code), &self.to_string(), Cause::Handler)
    }
}

/// The first of its causes that is a [`Failure`] or an [`io::Error`] speaks for it.
impl AsFailure for Box<dyn Error + Send + Sync> {
    fn as_failure(&self) -> Failure {
        let mut cause: Option<&(dyn Error + 'static)> = Some(self.as_ref());
        while let Some(error) = cause {
            if let Some(failure) = error.downcast_ref::<Failure>() {
                return failure.clone();
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                return error.as_failure();
            }
            cause = error.source();
        }
        Failure::named(named::ERROR, Cause::Handler, &self.to_string())
    }
}

/// It does not happen.
impl AsFailure for Infallible {
    fn as_failure(&self) -> Failure {
        match *self {}
    }
}
