//! Retries any async operation under a policy, without a store.
//!
//! Policies, failure classes and [`decide`](redrive_core::decide) are the same as for units in a store; the history
//! lives as long as the call. Work that must survive the process belongs in a queue.
//!
//! A success at the first attempt reads no clock, and allocates only if options were set or the policy has a `max_age`.

mod choice;
mod progress;
mod report;

use std::{fmt::Display, pin::Pin, time::Duration};

use pin_project_lite::pin_project;
use redrive_core::{Failure, JitterSeed, Policy};

use self::choice::{NoObserver, OnRetry};
pub use self::{
    choice::{AnyError, ByItself, Classify, When},
    progress::Explained,
    report::{Ended, GaveUp, RetryEvent},
};
use crate::{
    clock::Clock,
    retry_state::{RetryRules, RetryState},
    stop::Stop,
};

/// Runs an operation until it succeeds or the policy gives up; then returns the last error.
///
/// Errors are classified by [`AsFailure`](redrive_core::AsFailure), by [`Retry::when`] or by [`Retry::any_error`]. A
/// wait that a server asked for is not counted (POL-7). Dropping the future cancels the attempt or the wait at once.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Failure, Policy, PolicySpec};
/// use redrive_retry::retry;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let policy = Policy::new(PolicySpec { base: Duration::from_millis(5), ..PolicySpec::default() })?;
/// let mut answers = vec![Ok(42), Err(Failure::http(503, None, "still starting"))];
///
/// let answer = retry(&policy, || {
///     let next = answers.pop();
///     async { next.unwrap_or(Ok(0)) }
/// });
/// assert_eq!(answer.await?, 42);
/// # Ok(())
/// # }) }
/// ```
pub fn retry<T, E, F, Fut>(policy: &Policy, operation: F) -> Retry<'_, F, Fut, E>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    Retry {
        policy,
        operation,
        classify: ByItself,
        observe: NoObserver,
        options: None,
        progress: Progress::New,
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pin_project! {
    /// A retried operation: the future, with options, that [`retry`] returns.
    #[must_use = "the operation runs only when awaited"]
    pub struct Retry<'a, F, Fut, E, C = ByItself, N = NoObserver> {
        policy: &'a Policy,
        operation: F,
        classify: C,
        observe: N,
        // Allocated by the first option or failure: most calls have neither.
        options: Option<Box<RetryOptions<'a>>>,
        #[pin]
        progress: Progress<'a, Fut, E>,
    }
}

/// Options beyond the policy, and the state of the call.
#[derive(Default)]
struct RetryOptions<'a> {
    clock: Option<&'a dyn Clock>,
    unit: Option<&'a str>,
    jitter_seed: JitterSeed,
    stop: Option<Stop>,
    sleep: Option<SleepFn<'a>>,
    state: RetryState,
}

type SleepFn<'a> = Box<dyn FnMut(Duration) -> Boxed<'a, ()> + Send + 'a>;

impl<'a> RetryOptions<'a> {
    fn rules(&self, policy: &'a Policy) -> RetryRules<'a> {
        RetryRules { policy, clock: self.clock, unit: self.unit, jitter_seed: self.jitter_seed }
    }
}

pin_project! {
    #[project = ProgressProjection]
    enum Progress<'a, Fut, E> {
        New,
        Trying { #[pin] attempt: Fut },
        // Keeps the error in case no further attempt follows.
        Waiting { waiting: Boxed<'a, Waited>, last: Option<Box<(E, Failure)>> },
    }
}

enum Waited {
    Over,
    Stopped,
}

impl<'a, F, Fut, E, C, N> Retry<'a, F, Fut, E, C, N> {
    /// Classifies errors with a function that returns a [`Class`](redrive_core::Class) or a [`Failure`].
    ///
    /// ```
    /// use redrive_core::{Class, Preset};
    /// use redrive_retry::retry;
    ///
    /// # async fn example() -> Result<(), std::num::ParseIntError> {
    /// let policy = Preset::Stage.policy();
    /// let number = retry(&policy, || async { "seven".parse::<u32>() })
    ///     .when(|_| Class::Final)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn when<W, R>(self, classify: W) -> Retry<'a, F, Fut, E, When<W>, N>
    where
        W: Fn(&E) -> R,
        R: Into<Failure>,
    {
        self.classified(When(classify))
    }

    /// Treats every error as retryable.
    pub fn any_error(self) -> Retry<'a, F, Fut, E, AnyError, N>
    where
        E: Display,
    {
        self.classified(AnyError)
    }

    /// Names the unit, which makes its jitter reproducible (POL-4): the same as in `policy schedule --unit`. Without a
    /// name every call has its own jitter.
    pub fn unit(mut self, unit: &'a str) -> Self {
        self.options().unit = Some(unit);
        self
    }

    /// Sets the jitter seed of a named unit.
    pub fn jitter_seed(mut self, seed: JitterSeed) -> Self {
        self.options().jitter_seed = seed;
        self
    }

    /// Replaces [`SteadyClock`](crate::SteadyClock) as the clock for `max_age`.
    pub fn clock(mut self, clock: &'a dyn Clock) -> Self {
        self.options().clock = Some(clock);
        self
    }

    /// Replaces tokio's timer for waits.
    pub fn sleep<S, W>(mut self, mut sleep: S) -> Self
    where
        S: FnMut(Duration) -> W + Send + 'a,
        W: Future<Output = ()> + Send + 'a,
    {
        self.options().sleep = Some(Box::new(move |delay| Box::pin(sleep(delay))));
        self
    }

    /// Calls a function after each failed attempt that another one follows, before the wait.
    pub fn on_retry<O>(self, observe: O) -> Retry<'a, F, Fut, E, C, OnRetry<O>>
    where
        O: FnMut(&RetryEvent<'_, E>),
    {
        let Self { policy, operation, classify, options, progress, .. } = self;
        Retry { policy, operation, classify, observe: OnRetry(observe), options, progress }
    }

    /// Ends waits and starts no further attempt once stopped. A running attempt may complete.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.options().stop = Some(stop);
        self
    }

    /// Returns the last error together with the reason for giving up.
    pub fn explained(self) -> Explained<Self> {
        Explained::of(self)
    }

    fn classified<D>(self, classify: D) -> Retry<'a, F, Fut, E, D, N> {
        let Self { policy, operation, observe, options, progress, .. } = self;
        Retry { policy, operation, classify, observe, options, progress }
    }

    fn options(&mut self) -> &mut RetryOptions<'a> {
        self.options.get_or_insert_default()
    }
}
