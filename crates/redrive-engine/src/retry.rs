//! Any async operation of a program, tried again by a policy, without a store.
//!
//! The same policies, classes and [`decide`](redrive_core::decide) as for work in a store; what is
//! counted lives as long as the call. What a process must not forget belongs in a queue instead.
//!
//! An immediate success reads no clock, and allocates nothing unless there are wishes beyond the policy or
//! the policy has a `max_age`.

mod choice;
mod progress;
mod report;

use std::{fmt::Display, pin::Pin, time::Duration};

use pin_project_lite::pin_project;
use redrive_core::{Failure, JitterSeed, Policy};

use self::choice::{Nobody, Told};
pub use self::{
    choice::{AnyError, ByItself, Classify, When},
    progress::Explained,
    report::{Ended, GaveUp, RetryEvent},
};
use crate::{
    clock::Clock,
    course::{Course, Rules},
    stop::Stop,
};

/// Tries an operation until it succeeds or the policy gives up, and returns its last error then.
///
/// Errors say what they are by [`AsFailure`](redrive_core::AsFailure); for those of others there are
/// [`Retry::when`] and [`Retry::any_error`]. A server's hint is waited for and not counted (POL-7).
/// Dropping the future ends it at once, an attempt or a wait with it.
///
/// ```
/// use std::time::Duration;
/// use redrive_core::{Failure, Policy, PolicySpec};
/// use redrive_engine::retry;
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
    Retry { policy, operation, classify: ByItself, observe: Nobody, more: None, state: State::New }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pin_project! {
    /// An operation that is tried again: what [`retry`] returns, a future with options.
    #[must_use = "nothing is tried until it is awaited"]
    pub struct Retry<'a, F, Fut, E, C = ByItself, N = Nobody> {
        policy: &'a Policy,
        operation: F,
        classify: C,
        observe: N,
        // Most calls need none of it: no wish, and no failure.
        more: Option<Box<More<'a>>>,
        #[pin]
        state: State<'a, Fut, E>,
    }
}

/// What is wished for beyond a policy, and what the call has been through.
#[derive(Default)]
struct More<'a> {
    clock: Option<&'a dyn Clock>,
    unit: Option<&'a str>,
    jitter_seed: JitterSeed,
    stop: Option<Stop>,
    sleep: Option<Sleep<'a>>,
    course: Course,
}

type Sleep<'a> = Box<dyn FnMut(Duration) -> Boxed<'a, ()> + Send + 'a>;

impl<'a> More<'a> {
    fn rules(&self, policy: &'a Policy) -> Rules<'a> {
        Rules { policy, clock: self.clock, unit: self.unit, jitter_seed: self.jitter_seed }
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<'a, Fut, E> {
        New,
        Trying { #[pin] attempt: Fut },
        // The error is kept for when no further attempt follows.
        Waiting { waiting: Boxed<'a, Waited>, last: Option<Box<(E, Failure)>> },
    }
}

enum Waited {
    Over,
    Stopped,
}

impl<'a, F, Fut, E, C, N> Retry<'a, F, Fut, E, C, N> {
    /// Classifies errors: a [`Class`](redrive_core::Class) for those that have no code, or a
    /// [`Failure`].
    ///
    /// ```
    /// use redrive_core::{Class, Preset};
    /// use redrive_engine::retry;
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

    /// Takes every error for one that may be retried, because nothing is known about it.
    pub fn any_error(self) -> Retry<'a, F, Fut, E, AnyError, N>
    where
        E: Display,
    {
        self.classified(AnyError)
    }

    /// Names what is tried, so that its jitter is the same whenever it is asked (POL-4): that of
    /// `policy schedule --unit`. Without a name every call has a jitter of its own.
    pub fn unit(mut self, unit: &'a str) -> Self {
        self.wish().unit = Some(unit);
        self
    }

    /// The seed of the jitter of a named unit.
    pub fn jitter_seed(mut self, seed: JitterSeed) -> Self {
        self.wish().jitter_seed = seed;
        self
    }

    /// The clock by which age is judged, instead of [`SteadyClock`](crate::SteadyClock).
    pub fn clock(mut self, clock: &'a dyn Clock) -> Self {
        self.wish().clock = Some(clock);
        self
    }

    /// What waits, instead of tokio's clock.
    pub fn sleep<S, W>(mut self, mut sleep: S) -> Self
    where
        S: FnMut(Duration) -> W + Send + 'a,
        W: Future<Output = ()> + Send + 'a,
    {
        self.wish().sleep = Some(Box::new(move |delay| Box::pin(sleep(delay))));
        self
    }

    /// Hears of every attempt that failed and is followed by another, before the wait.
    pub fn on_retry<O>(self, observe: O) -> Retry<'a, F, Fut, E, C, Told<O>>
    where
        O: FnMut(&RetryEvent<'_, E>),
    {
        let Self { policy, operation, classify, more, state, .. } = self;
        Retry { policy, operation, classify, observe: Told(observe), more, state }
    }

    /// When told to stop, waits no longer and tries no more. An attempt that runs is left to end.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.wish().stop = Some(stop);
        self
    }

    /// Returns the last error with how it came to be the last.
    pub fn explained(self) -> Explained<Self> {
        Explained::of(self)
    }

    fn classified<D>(self, classify: D) -> Retry<'a, F, Fut, E, D, N> {
        let Self { policy, operation, observe, more, state, .. } = self;
        Retry { policy, operation, classify, observe, more, state }
    }

    fn wish(&mut self) -> &mut More<'a> {
        self.more.get_or_insert_default()
    }
}
