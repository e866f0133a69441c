//! The attempts and the waits between them, as a future.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use redrive_core::Decision;

use super::{
    Boxed, Ended, GaveUp, Retry, RetryEvent, State, StateProjection, Waited,
    choice::{Classify, Observe},
};
use crate::stop::Stop;

impl<T, E, F, Fut, C, N> Retry<'_, F, Fut, E, C, N>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    N: Observe<E>,
{
    #[inline]
    fn poll_explained(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<T, GaveUp<E>>> {
        loop {
            let mut this = self.as_mut().project();
            match this.state.as_mut().project() {
                StateProjection::New => {
                    if this.policy.spec().max_age.is_some() {
                        let more = this.more.get_or_insert_default();
                        let rules = more.rules(this.policy);
                        more.course.begin(&rules);
                    }
                    let attempt = (this.operation)();
                    this.state.set(State::Trying { attempt });
                }
                StateProjection::Trying { attempt } => match ready!(attempt.poll(context)) {
                    Ok(value) => return Poll::Ready(Ok(value)),
                    Err(error) => {
                        if let Some(gave_up) = self.as_mut().failed(error) {
                            return Poll::Ready(Err(gave_up));
                        }
                    }
                },
                StateProjection::Waiting { waiting, last } => {
                    let waited = ready!(waiting.as_mut().poll(context));
                    if let (Waited::Stopped, Some(last)) = (waited, last.take()) {
                        let ((error, failure), ended) = (*last, Ended::Stopped);
                        let attempts = this.more.get_or_insert_default().course.attempts();
                        return Poll::Ready(Err(GaveUp { error, failure, attempts, ended }));
                    }
                    let attempt = (this.operation)();
                    this.state.set(State::Trying { attempt });
                }
            }
        }
    }

    /// Decides about an error: waits, or gives up.
    #[cold]
    fn failed(self: Pin<&mut Self>, error: E) -> Option<GaveUp<E>> {
        let mut this = self.project();
        let failure = this.classify.failure(&error);
        let more = this.more.get_or_insert_default();
        let rules = more.rules(this.policy);
        let decision = more.course.decide(&rules, &failure);
        let attempts = more.course.attempts();
        match decision {
            Decision::GiveUp { reason } => {
                let ended = Ended::GaveUp(reason);
                Some(GaveUp { error, failure, attempts, ended })
            }
            Decision::RetryAt { .. } if more.stop.as_ref().is_some_and(Stop::is_told) => {
                Some(GaveUp { error, failure, attempts, ended: Ended::Stopped })
            }
            Decision::RetryAt { at, delay, counted } => {
                let (attempt, told) = (attempts, &error);
                let event =
                    RetryEvent { attempt, error: told, failure: &failure, delay, at, counted };
                this.observe.retrying(&event);
                let sleeping: Boxed<'_, ()> = match &mut more.sleep {
                    Some(sleep) => sleep(delay),
                    None => Box::pin(tokio::time::sleep(delay)),
                };
                let waiting = Box::pin(wait(sleeping, more.stop.clone()));
                let last = Some(Box::new((error, failure)));
                this.state.set(State::Waiting { waiting, last });
                None
            }
        }
    }
}

async fn wait(sleeping: Boxed<'_, ()>, stop: Option<Stop>) -> Waited {
    let Some(mut stop) = stop else {
        sleeping.await;
        return Waited::Over;
    };
    tokio::select! {
        biased;
        () = stop.told() => Waited::Stopped,
        () = sleeping => Waited::Over,
    }
}

impl<T, E, F, Fut, C, N> Future for Retry<'_, F, Fut, E, C, N>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    N: Observe<E>,
{
    type Output = Result<T, E>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        self.poll_explained(context).map_err(|gave_up| gave_up.error)
    }
}

pin_project! {
    /// The same with [`GaveUp`] for an error; see [`Retry::explained`].
    #[must_use = "nothing is tried until it is awaited"]
    pub struct Explained<R> {
        #[pin]
        retry: R,
    }
}

impl<R> Explained<R> {
    pub(super) fn of(retry: R) -> Self {
        Self { retry }
    }
}

impl<T, E, F, Fut, C, N> Future for Explained<Retry<'_, F, Fut, E, C, N>>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    C: Classify<E>,
    N: Observe<E>,
{
    type Output = Result<T, GaveUp<E>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().retry.poll_explained(context)
    }
}
