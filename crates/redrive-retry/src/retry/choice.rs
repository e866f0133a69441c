//! How errors are classified and who observes retries, as types instead of boxed functions: unused options cost nothing.

use std::fmt::Display;

use redrive_core::{AsFailure, Cause, Failure, named};

use super::RetryEvent;

/// Turns an error into a failure.
pub trait Classify<E> {
    fn failure(&self, error: &E) -> Failure;
}

/// Classifies an error by its [`AsFailure`] implementation.
#[derive(Debug, Clone, Copy)]
pub struct ByItself;

impl<E: AsFailure> Classify<E> for ByItself {
    fn failure(&self, error: &E) -> Failure {
        error.as_failure()
    }
}

/// Treats every error as retryable.
#[derive(Debug, Clone, Copy)]
pub struct AnyError;

impl<E: Display> Classify<E> for AnyError {
    fn failure(&self, error: &E) -> Failure {
        Failure::named(named::ERROR, Cause::Handler, &error.to_string())
    }
}

/// Classifies with a function.
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

/// Observes retries.
pub trait Observe<E> {
    /// Called before each wait.
    fn retrying(&mut self, event: &RetryEvent<'_, E>);
}

/// No observer.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl<E> Observe<E> for NoObserver {
    fn retrying(&mut self, _: &RetryEvent<'_, E>) {}
}

/// Calls a function before each wait.
#[derive(Debug, Clone, Copy)]
pub struct OnRetry<N>(pub(super) N);

impl<E, N: FnMut(&RetryEvent<'_, E>)> Observe<E> for OnRetry<N> {
    fn retrying(&mut self, event: &RetryEvent<'_, E>) {
        (self.0)(event);
    }
}
