//! What a caller chooses: how errors are classified, and who hears of retries.
//!
//! Types instead of boxed functions, so that what is not chosen costs nothing.

use std::fmt::Display;

use redrive_core::{AsFailure, Cause, Failure, named};

use super::RetryEvent;

/// Makes a failure of an error.
pub trait Classify<E> {
    /// The failure.
    fn failure(&self, error: &E) -> Failure;
}

/// By what the error says of itself.
#[derive(Debug, Clone, Copy)]
pub struct ByItself;

impl<E: AsFailure> Classify<E> for ByItself {
    fn failure(&self, error: &E) -> Failure {
        error.as_failure()
    }
}

/// Every error may be retried.
#[derive(Debug, Clone, Copy)]
pub struct AnyError;

impl<E: Display> Classify<E> for AnyError {
    fn failure(&self, error: &E) -> Failure {
        Failure::named(named::ERROR, Cause::Handler, &error.to_string())
    }
}

/// By a function of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct When<W>(pub W);

impl<E, W, R> Classify<E> for When<W>
where
    W: Fn(&E) -> R,
    R: Into<Failure>,
{
    fn failure(&self, error: &E) -> Failure {
        (self.0)(error).into()
    }
}

/// Hears of retries.
pub trait Observe<E> {
    /// One is about to be waited for.
    fn retrying(&mut self, event: &RetryEvent<'_, E>);
}

/// Nobody hears.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl<E> Observe<E> for Nobody {
    fn retrying(&mut self, _: &RetryEvent<'_, E>) {}
}

/// A function of the caller's hears.
#[derive(Debug, Clone, Copy)]
pub struct Told<N>(pub(super) N);

impl<E, N: FnMut(&RetryEvent<'_, E>)> Observe<E> for Told<N> {
    fn retrying(&mut self, event: &RetryEvent<'_, E>) {
        (self.0)(event);
    }
}
