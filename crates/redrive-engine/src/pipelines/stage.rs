//! One step of a pipeline.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AsFailure, Cause, Class, Code, Failure, Policy, Preset, named};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Call, Handler, JsonPointer, Outcome, Stop, WorkerLimits, handler_fn, sha256_of,
    worker::engine::DEFAULT_TIME_LIMIT,
};

/// The code of a sample that a typed stage cannot read.
const BAD_SAMPLE: &str = "bad_sample";

/// One step of a pipeline.
#[derive(Clone)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Who does the work.
    pub handler: Arc<dyn Handler>,
    /// When to try again.
    pub policy: Policy,
    /// How long an attempt may take.
    pub time_limit: Duration,
    /// How many samples at once, and how patiently.
    pub limits: WorkerLimits,
    /// Stands for what it does: changes when, and only when, that does.
    pub config_hash: String,
}

impl Stage {
    /// A stage with the preset `stage`, the default pace and time limit.
    pub fn new(name: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            handler,
            policy: Preset::Stage.policy(),
            time_limit: DEFAULT_TIME_LIMIT,
            limits: WorkerLimits::default(),
            config_hash: config_hash(&Value::Null),
        }
    }

    /// With a policy.
    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    /// With so many samples at once.
    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }

    /// With what its results depend on, such as the name of a model, for its `stage_config_hash`.
    pub fn with_config(self, config: &Value) -> Self {
        Self { config_hash: config_hash(config), ..self }
    }
}

/// Stands for a configuration, however its keys are ordered: the first 16 digits of a SHA-256.
pub fn config_hash(config: &Value) -> String {
    let mut hash = sha256_of(redrive_store::canonical_json(config).as_bytes());
    hash.truncate(16);
    hash
}

/// What a stage in Rust makes of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageAnswer<O> {
    /// What the sample is from here on.
    Sample(O),
    /// It is passed over, and why.
    Skip(String),
}

/// Makes a handler of an async function from one type to another.
///
/// ```
/// use redrive_core::Failure;
/// use redrive_engine::{Stage, StageAnswer, stage_fn};
///
/// #[derive(serde::Deserialize)]
/// struct Prompt {
///     text: String,
/// }
///
/// #[derive(serde::Serialize)]
/// struct Clean {
///     text: String,
///     words: usize,
/// }
///
/// let clean = stage_fn(|prompt: Prompt| async move {
///     let text = prompt.text.trim().to_lowercase();
///     if text.is_empty() {
///         return Ok::<_, Failure>(StageAnswer::Skip("empty".to_owned()));
///     }
///     let words = text.split_whitespace().count();
///     Ok(StageAnswer::Sample(Clean { text, words }))
/// });
/// let stage = Stage::new("clean", clean);
/// # let _ = stage;
/// ```
pub fn stage_fn<I, O, E, F, R>(function: F) -> Arc<dyn Handler>
where
    I: DeserializeOwned + Send,
    O: Serialize,
    E: AsFailure,
    F: Fn(I) -> R + Send + Sync + 'static,
    R: Future<Output = Result<StageAnswer<O>, E>> + Send + 'static,
{
    handler_fn(move |mut call: Call| {
        let data = call.details.remove("data").unwrap_or_default();
        let sample = serde_json::from_value(data).map(&function);
        async move {
            match sample {
                Ok(answer) => match answer.await {
                    Ok(StageAnswer::Sample(sample)) => answered(&sample),
                    Ok(StageAnswer::Skip(why)) => Outcome::Skipped(why),
                    Err(error) => Outcome::Failed(error.as_failure()),
                },
                Err(error) => {
                    let message = format!("the stage cannot read the sample: {error}");
                    Outcome::Failed(final_failure(BAD_SAMPLE, &message))
                }
            }
        }
    })
}

fn answered(sample: &impl Serialize) -> Outcome {
    match serde_json::to_value(sample) {
        Ok(value) => Outcome::Answered { value: Some(value), verdict: None },
        Err(error) => {
            let message = format!("what the stage made is no JSON: {error}");
            Outcome::Failed(Failure::named(named::BAD_REPLY, Cause::Handler, &message))
        }
    }
}

/// A failure that no retry mends.
pub(super) fn final_failure(code: &'static str, message: &str) -> Failure {
    Failure::reported(Some(Class::Final), Code::name(code), message)
}

/// Puts the answer of a handler into the sample, at a place, instead of taking it for the sample.
pub struct IntoSample {
    /// Who answers.
    pub handler: Arc<dyn Handler>,
    /// Where the answer goes.
    pub pointer: JsonPointer,
}

#[async_trait]
impl Handler for IntoSample {
    async fn handle(&self, call: &Call, time_limit: Duration, stop: Stop) -> Outcome {
        match self.handler.handle(call, time_limit, stop).await {
            Outcome::Answered { value: Some(value), verdict } => {
                let mut sample = call.details.get("data").cloned().unwrap_or_default();
                match self.pointer.put(&mut sample, value) {
                    Ok(()) => Outcome::Answered { value: Some(sample), verdict },
                    Err(problem) => Outcome::Failed(final_failure(BAD_SAMPLE, &problem)),
                }
            }
            outcome => outcome,
        }
    }

    fn capacity(&self) -> Option<usize> {
        self.handler.capacity()
    }

    async fn release(&self) {
        self.handler.release().await;
    }
}
