//! An operation of one's own, tried again by a policy: `cargo run --example retry`.
//!
//! A little server is busy, then asks for patience, then answers; after that it has gone for good.

use std::{cell::Cell, time::Duration};

use redrive::{AsFailure, Failure, Policy, PolicySpec, RetryEvent, retry};

/// The errors of this program.
#[derive(Debug, thiserror::Error)]
enum WeatherError {
    #[error("the server answered {status}")]
    Status { status: u16, retry_after: Option<Duration> },
    #[error("the answer is no number: {0}")]
    NotANumber(#[from] std::num::ParseIntError),
}

/// Says what each of them is, once, for every policy.
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

/// Stands for a request to a server.
async fn temperature(asked: u32) -> Result<i32, WeatherError> {
    let busy = |status, retry_after| Err(WeatherError::Status { status, retry_after });
    match asked {
        1 => busy(503, None),
        2 => busy(429, Some(Duration::from_millis(300))),
        3 => Ok("21".parse()?),
        _ => busy(410, None),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Runtime::new()?.block_on(weather())
}

#[allow(clippy::print_stdout, reason = "an example that people run")]
async fn weather() -> Result<(), Box<dyn std::error::Error>> {
    let policy = Policy::new(PolicySpec {
        max_attempts: Some(4),
        base: Duration::from_millis(100),
        max_age: Some(Duration::from_secs(10)),
        ..PolicySpec::default()
    })?;
    let asked = Cell::new(0);
    let ask = || {
        asked.set(asked.get() + 1);
        temperature(asked.get())
    };
    let tell = |event: &RetryEvent<'_, WeatherError>| {
        println!("attempt {}: {}; again in {:?}", event.attempt, event.error, event.delay);
    };

    let degrees = retry(&policy, ask).on_retry(tell).await?;
    println!("it is {degrees} °C");

    match retry(&policy, ask).on_retry(tell).explained().await {
        Ok(degrees) => println!("it is {degrees} °C"),
        Err(gave_up) => println!("{gave_up}: {}", gave_up.error),
    }
    Ok(())
}
