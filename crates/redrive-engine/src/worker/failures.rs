//! The failures of attempts that returned no outcome.

use std::any::Any;

use redrive_core::{Cause, Failure, named};
use redrive_store::WorkerId;
use tokio::task::JoinError;

/// The failure of a handler that reports to have been stopped although nobody stopped it.
pub(crate) fn stopped_without_signal() -> Failure {
    let message = "the handler reports that it was stopped, but it received no stop signal";
    Failure::named(named::BAD_REPLY, Cause::Handler, message)
}

/// The failure of an attempt whose task ended without an outcome.
pub(crate) fn task_failure(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => panic_failure(panic),
        Err(_) => panicked("the attempt was aborted"),
    }
}

/// The failure of a handler that panicked, with the panic's message.
pub(crate) fn panic_failure(panic: Box<dyn Any + Send>) -> Failure {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    panicked(message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default())
}

fn panicked(message: &str) -> Failure {
    Failure::named(named::PANIC, Cause::Handler, &format!("the handler panicked: {message}"))
}

/// The failure of an attempt whose worker was lost. Only that worker knows whether the attempt had begun.
pub(crate) fn lost_worker(owner: &WorkerId) -> Failure {
    Failure::lost_worker(&format!(
        "worker {owner} did not renew its lease; the attempt may have begun"
    ))
}
