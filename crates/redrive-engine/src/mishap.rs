//! Attempts that came to no outcome, as failures.

use std::any::Any;

use redrive_core::{Cause, Failure, named};
use tokio::task::JoinError;

/// The failure of a handler that says it was told to stop, and was not.
pub(crate) fn stopped_unasked() -> Failure {
    let message = "the handler says that it was told to stop, and it was not";
    Failure::named(named::BAD_REPLY, Cause::Handler, message)
}

/// The failure of an attempt whose task ended without an outcome.
pub(crate) fn panicked(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => panic_failure(panic),
        Err(_) => panic_in_words("the attempt was aborted"),
    }
}

/// The failure of a handler that panicked, with what it said.
pub(crate) fn panic_failure(panic: Box<dyn Any + Send>) -> Failure {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    panic_in_words(said.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default())
}

fn panic_in_words(message: &str) -> Failure {
    Failure::named("panic", Cause::Handler, &format!("the handler panicked: {message}"))
}
