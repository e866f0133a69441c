//! Retries an async operation by a policy: `cargo run --example retry`.
//!
//! The simulated server returns 503, then 429 with Retry-After, then a temperature, then 410.

use std::{cell::Cell, time::Duration};

use redrive::{AsFailure, Failure, Policy, PolicySpec, RetryEvent, retry};

#[derive(Debug, thiserror::Error)]
enum WeatherError {
    #[error("the server answered {status}")]
    Status { status: u16, retry_after: Option<Duration> },
    #[error("the response is not a number: {0}")]
    NotANumber(#[from] std::num::ParseIntError),
}

/// Classifies the errors, once for every policy.
impl AsFailure for WeatherError {
    fn as_failure(&self) -> Failure {
        match self {
            Self::Status { status, retry_after } => {
                Failure::http(*status, *retry_after, &self.to_string())
            }
            Self::NotANumber(_) => redrive::Class::Final.into(),
        }
    }
}

/// Simulates the nth request to a server.
async fn temperature(request: u32) -> Result<i32, WeatherError> {
    let busy = |status, retry_after| Err(WeatherError::Status { status, retry_after });
    match request {
        1 => busy(503, None),
        2 => busy(429, Some(Duration::from_millis(300))),
        3 => Ok("21".parse()?),
        _ => busy(410, None),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Runtime::new()?.block_on(print_temperatures())
}

#[allow(clippy::print_stdout, reason = "an example prints its results")]
async fn print_temperatures() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new(PolicySpec {
        max_attempts: Some(4),
        base: Duration::from_millis(100),
        max_age: Some(Duration::from_secs(10)),
        ..PolicySpec::default()
    })?;
    let requests = Cell::new(0);
    let request = || {
        requests.set(requests.get() + 1);
        temperature(requests.get())
    };
    let log_retry = |event: &RetryEvent<'_, WeatherError>| {
        println!("attempt {}: {}; again in {:?}", event.attempt, event.error, event.delay);
    };

    let degrees = retry(&policy, request).on_retry(log_retry).await?;
    println!("{degrees} °C");

    match retry(&policy, request).on_retry(log_retry).explained().await {
        Ok(degrees) => println!("{degrees} °C"),
        Err(gave_up) => println!("{gave_up}: {}", gave_up.error),
    }
    Ok(())
}
