//! Retry policies as a layer of `tower` services (feature `tower`).
//!
//! [`retry`] builds a layer for HTTP clients. It classifies responses by status and Retry-After
//! (CLS-2, CLS-3) and errors by [`AsFailure`](crate::AsFailure). When the policy gives up, the layer
//! returns the last response or error unchanged. It clones the request and the service for each
//! further attempt.
//!
//! ```
//! # use std::{convert::Infallible, time::Duration};
//! # use redrive::{Policy, PolicySpec};
//! # use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let policy = Policy::new(PolicySpec { base: Duration::from_millis(5), ..PolicySpec::default() })?;
//! let statuses = std::sync::Mutex::new(vec![200, 503]);
//! let statuses = &statuses;
//! let server = service_fn(move |_request: http::Request<()>| async move {
//!     let status = statuses.lock().unwrap().pop().unwrap();
//!     let response = http::Response::builder().status(status).body(()).unwrap();
//!     Ok::<_, Infallible>(response)
//! });
//!
//! let client = ServiceBuilder::new().layer(redrive::tower::retry(policy)).service(server);
//! let response = client.oneshot(http::Request::new(())).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }) }
//! ```

use std::sync::Arc;

use http::{
    Response,
    header::{DATE, RETRY_AFTER},
};
use jiff::Timestamp;
use redrive_core::{Decision, Failure, HumanDuration, JitterSeed, Policy, parse_retry_after};
use redrive_retry::{AnyError, ByItself, Classify, Clock, RetryRules, RetryState, When};

/// A layer that retries calls by a policy. The layer classifies HTTP responses; for other services see
/// [`errors_only`](RetryLayer::errors_only) and [`when_response`](RetryLayer::when_response).
pub fn retry(policy: Policy) -> RetryLayer<ByStatus, ByItself> {
    let settings = Settings { policy, clock: None, unit: None, jitter_seed: JitterSeed::default() };
    RetryLayer { settings, responses: ByStatus, errors: ByItself }
}

/// Retries the calls of a service; built by [`retry`].
#[derive(Clone)]
pub struct RetryLayer<A, C> {
    settings: Settings,
    responses: A,
    errors: C,
}

#[derive(Clone)]
struct Settings {
    policy: Policy,
    clock: Option<Arc<dyn Clock>>,
    unit: Option<String>,
    jitter_seed: JitterSeed,
}

impl Settings {
    fn rules(&self) -> RetryRules<'_> {
        RetryRules {
            policy: &self.policy,
            clock: self.clock.as_deref(),
            unit: self.unit.as_deref(),
            jitter_seed: self.jitter_seed,
        }
    }
}

impl<A, C> RetryLayer<A, C> {
    /// Classifies errors with a function that returns a [`Failure`], or a [`Class`](crate::Class) for
    /// errors without a code.
    pub fn when<E, W, R>(self, classify: W) -> RetryLayer<A, When<W>>
    where
        W: Fn(&E) -> R,
        R: Into<Failure>,
    {
        let Self { settings, responses, .. } = self;
        RetryLayer { settings, responses, errors: When(classify) }
    }

    /// Classifies every error as retryable.
    pub fn any_error(self) -> RetryLayer<A, AnyError> {
        let Self { settings, responses, .. } = self;
        RetryLayer { settings, responses, errors: AnyError }
    }

    /// Treats every response as a success and retries errors only.
    pub fn errors_only(self) -> RetryLayer<AnyResponse, C> {
        let Self { settings, errors, .. } = self;
        RetryLayer { settings, responses: AnyResponse, errors }
    }

    /// Classifies responses with a function that returns the failure, or `None` for a success.
    pub fn when_response<Res, J>(self, classify: J) -> RetryLayer<ResponseClassifier<J>, C>
    where
        J: Fn(&Res) -> Option<Failure>,
    {
        let Self { settings, errors, .. } = self;
        RetryLayer { settings, responses: ResponseClassifier(classify), errors }
    }

    /// Gives all calls the jitter of one unit (POL-4), for tests. By default every call has its own
    /// jitter, so that calls which fail together are not retried together.
    pub fn unit(mut self, unit: &str) -> Self {
        self.settings.unit = Some(unit.to_owned());
        self
    }

    pub fn jitter_seed(mut self, seed: JitterSeed) -> Self {
        self.settings.jitter_seed = seed;
        self
    }

    /// The clock for ages and for dates in Retry-After; default [`SteadyClock`](crate::SteadyClock).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = Some(clock);
        self
    }
}

impl<S, A: Clone, C: Clone> ::tower::Layer<S> for RetryLayer<A, C> {
    type Service = ::tower::retry::Retry<RetryPolicy<A, C>, S>;

    fn layer(&self, service: S) -> Self::Service {
        let policy = RetryPolicy {
            settings: Arc::new(self.settings.clone()),
            responses: self.responses.clone(),
            errors: self.errors.clone(),
            state: RetryState::default(),
        };
        ::tower::retry::Retry::new(policy, service)
    }
}

/// The policy for `tower`. Each call has its own copy, which counts the attempts.
#[derive(Clone)]
pub struct RetryPolicy<A, C> {
    settings: Arc<Settings>,
    responses: A,
    errors: C,
    state: RetryState,
}

impl<Req, Res, E, A, C> ::tower::retry::Policy<Req, Res, E> for RetryPolicy<A, C>
where
    Req: Clone,
    A: ClassifyResponse<Res>,
    C: Classify<E>,
{
    type Future = tokio::time::Sleep;

    fn retry(&mut self, _: &mut Req, result: &mut Result<Res, E>) -> Option<Self::Future> {
        let rules = self.settings.rules();
        let failure = match result {
            Ok(response) => self.responses.failure(response, || self.state.now(&rules))?,
            Err(error) => self.errors.failure(error),
        };
        let decision = self.state.decide(&rules, &failure);
        let attempt = self.state.attempts();
        match decision {
            Decision::RetryAt { delay, .. } => {
                let wait = HumanDuration::from(delay);
                tracing::debug!(attempt, error = %failure, "failed; retry in {wait}");
                Some(tokio::time::sleep(delay))
            }
            Decision::GiveUp { reason } => {
                tracing::debug!(attempt, error = %failure, "given up: {reason}");
                None
            }
        }
    }

    /// `tower` calls this before each attempt. Zero attempts mean a new call: the state of the previous
    /// call is reset.
    fn clone_request(&mut self, request: &Req) -> Option<Req> {
        if self.state.attempts() == 0 {
            self.state = RetryState::default();
            self.state.start(&self.settings.rules());
        }
        Some(request.clone())
    }
}

/// Classifies responses.
pub trait ClassifyResponse<Res> {
    /// The failure, or `None` for a success. `now` is needed for hints that are dates.
    fn failure(&self, response: &Res, now: impl FnOnce() -> Timestamp) -> Option<Failure>;
}

/// Classifies by HTTP status and Retry-After. Every status below 400 is a success, so redirects
/// pass.
#[derive(Debug, Clone, Copy)]
pub struct ByStatus;

impl<B> ClassifyResponse<Response<B>> for ByStatus {
    fn failure(&self, response: &Response<B>, now: impl FnOnce() -> Timestamp) -> Option<Failure> {
        let status = response.status();
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let hint =
            header(RETRY_AFTER).and_then(|value| parse_retry_after(value, header(DATE), now()));
        Some(Failure::http(status.as_u16(), hint, status.canonical_reason().unwrap_or_default()))
    }
}

/// Treats every response as a success.
#[derive(Debug, Clone, Copy)]
pub struct AnyResponse;

impl<Res> ClassifyResponse<Res> for AnyResponse {
    fn failure(&self, _: &Res, _: impl FnOnce() -> Timestamp) -> Option<Failure> {
        None
    }
}

/// Classifies with a function of the caller.
#[derive(Debug, Clone, Copy)]
pub struct ResponseClassifier<J>(J);

impl<Res, J: Fn(&Res) -> Option<Failure>> ClassifyResponse<Res> for ResponseClassifier<J> {
    fn failure(&self, response: &Res, _: impl FnOnce() -> Timestamp) -> Option<Failure> {
        (self.0)(response)
    }
}
