//! Turns the errors of a Rust program into failures.
//!
//! A policy decides about failures, but a program has its own error types. An error that states its
//! class binds the policy (CLS-5). An error known only by its kind becomes a code with the class of
//! CLS-2 and CLS-4. Any other error is retryable.

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
    fn as_failure(&self) -> Failure;
}

impl AsFailure for Failure {
    fn as_failure(&self) -> Failure {
        self.clone()
    }
}

/// A class alone counts as stated by the handler, so `Class::Final` is never retried.
impl From<Class> for Failure {
    fn from(class: Class) -> Self {
        Self::reported(Some(class), Code::name(named::ERROR), "")
    }
}

/// Network errors are retryable, with the codes of CLS-2. Kinds that correspond to the exit codes
/// 64, 65, 66 and 77 (bad usage, bad data, no input, no permission) are final.
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

/// Uses the first error in the chain that is a [`Failure`] or an [`io::Error`].
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

impl AsFailure for Infallible {
    fn as_failure(&self) -> Failure {
        match *self {}
    }
}
