//! Attempts that came to no outcome: failures, and what is nobody's failure.

use std::any::Any;

use redrive_core::{Cause, Failure, named};
use tokio::task::JoinError;

use crate::partitions::raw::RawError;

/// The code of a sink that cannot be written to.
const RAW_UNWRITABLE: &str = "raw_unwritable";

/// The code of a sink that has no room. No partition fails of it: it is not their fault, and passes.
pub(crate) const RAW_FULL: &str = "raw_full";

/// The failure of a handler that says it was told to stop, and was not.
pub(crate) fn stopped_unasked() -> Failure {
    let message = "the handler says that it was told to stop, and it was not";
    Failure::named(named::BAD_REPLY, Cause::Handler, message)
}

/// The failure of a sink, or of what is done to it.
pub(crate) fn unwritable(what: &str) -> Failure {
    Failure::named(RAW_UNWRITABLE, Cause::Handler, what)
}

/// What became of an attempt that the sink took no more of.
pub(crate) fn refused_by_sink(error: &RawError) -> Failure {
    match error.is_disk_full() {
        true => Failure::named(RAW_FULL, Cause::Handler, &error.in_words()),
        false => unwritable(&error.in_words()),
    }
}

/// Whether there was no room, which costs nobody an attempt.
pub(crate) fn is_for_want_of_room(failure: &Failure) -> bool {
    failure.code().to_string() == RAW_FULL
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
