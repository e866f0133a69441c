//! The attempts and the waits between them, as a future.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use redrive_core::Decision;

use super::{
    Boxed, Ended, GaveUp, Progress, ProgressProjection, Retry, RetryEvent, Waited,
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
            match this.progress.as_mut().project() {
                ProgressProjection::New => {
                    if this.policy.spec().max_age.is_some() {
                        let options = this.options.get_or_insert_default();
                        let rules = options.rules(this.policy);
                        options.state.start(&rules);
                    }
                    let attempt = (this.operation)();
                    this.progress.set(Progress::Trying { attempt });
                }
                ProgressProjection::Trying { attempt } => match ready!(attempt.poll(context)) {
                    Ok(value) => return Poll::Ready(Ok(value)),
                    Err(error) => {
                        if let Some(gave_up) = self.as_mut().failed(error) {
                            return Poll::Ready(Err(gave_up));
                        }
                    }
                },
                ProgressProjection::Waiting { waiting, last } => {
                    let waited = ready!(waiting.as_mut().poll(context));
                    if let (Waited::Stopped, Some(last)) = (waited, last.take()) {
                        let ((error, failure), ended) = (*last, Ended::Stopped);
                        let attempts = this.options.get_or_insert_default().state.attempts();
                        return Poll::Ready(Err(GaveUp { error, failure, attempts, ended }));
                    }
                    let attempt = (this.operation)();
                    this.progress.set(Progress::Trying { attempt });
                }
            }
        }
    }

    /// Decides what follows an error: a wait, or giving up.
    #[cold]
    fn failed(self: Pin<&mut Self>, error: E) -> Option<GaveUp<E>> {
        let mut this = self.project();
        let failure = this.classify.failure(&error);
        let options = this.options.get_or_insert_default();
        let rules = options.rules(this.policy);
        let decision = options.state.decide(&rules, &failure);
        let attempts = options.state.attempts();
        match decision {
            Decision::GiveUp { reason } => {
                let ended = Ended::GaveUp(reason);
                Some(GaveUp { error, failure, attempts, ended })
            }
            Decision::RetryAt { .. } if options.stop.as_ref().is_some_and(Stop::is_stopped) => {
                Some(GaveUp { error, failure, attempts, ended: Ended::Stopped })
            }
            Decision::RetryAt { at, delay, counted } => {
                let attempt = attempts;
                let event =
                    RetryEvent { attempt, error: &error, failure: &failure, delay, at, counted };
                this.observe.retrying(&event);
                let sleeping: Boxed<'_, ()> = match &mut options.sleep {
                    Some(sleep) => sleep(delay),
                    None => Box::pin(tokio::time::sleep(delay)),
                };
                let waiting = Box::pin(wait(sleeping, options.stop.clone()));
                let last = Some(Box::new((error, failure)));
                this.progress.set(Progress::Waiting { waiting, last });
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
        () = stop.stopped() => Waited::Stopped,
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
    /// A [`Retry`] whose error is [`GaveUp`]; see [`Retry::explained`].
    #[must_use = "the operation runs only when awaited"]
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
