//! A stage of a pipeline, and stages written in Rust.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AsFailure, Cause, Class, Code, Failure, Policy, Preset, named};
use redrive_store::{GateRule, GateRules};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Call, Handler, JsonPointer, Outcome, Stop, WorkerLimits, handler_fn, sha256_of,
    worker::engine::DEFAULT_TIME_LIMIT,
};

/// The code of a sample that a stage cannot use: wrong type, or no place for the answer.
const BAD_SAMPLE: &str = "bad_sample";

#[derive(Clone)]
pub struct Stage {
    pub name: String,
    pub handler: Arc<dyn Handler>,
    pub policy: Policy,
    /// The time limit of one attempt.
    pub time_limit: Duration,
    pub limits: WorkerLimits,
    /// Identifies the configuration of the stage. The ledger stores it as `stage_config_hash`.
    pub config_hash: String,
    /// The gates that the samples pass here.
    pub gates: GateRules,
    /// Where the data of a sample has its key for divided gates: a JSON pointer.
    pub gate_key: Option<String>,
}

impl Stage {
    /// A stage with the preset `stage` and the default limits.
    pub fn new(name: impl Into<String>, handler: Arc<dyn Handler>) -> Self {
        Self {
            name: name.into(),
            handler,
            policy: Preset::Stage.policy(),
            time_limit: DEFAULT_TIME_LIMIT,
            limits: WorkerLimits::default(),
            config_hash: config_hash(&Value::Null),
            gates: GateRules::default(),
            gate_key: None,
        }
    }

    pub fn with_policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    pub fn with_concurrency(self, concurrency: usize) -> Self {
        let limits = WorkerLimits { concurrency: concurrency.max(1), ..self.limits };
        Self { limits, ..self }
    }

    /// Lets the samples pass gates before this stage. Divided gates have the text at a place of the data as their key, a JSON
    /// pointer.
    pub fn with_gates(self, gates: Vec<GateRule>, key: Option<String>) -> Self {
        Self { gates: gates.into(), gate_key: key, ..self }
    }

    /// Sets what the results depend on, such as the name of a model, for the `stage_config_hash`.
    pub fn with_config(self, config: &Value) -> Self {
        Self { config_hash: config_hash(config), ..self }
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of a configuration. The order of keys does not matter.
pub fn config_hash(config: &Value) -> String {
    let mut hash = sha256_of(redrive_store::canonical_json(config).as_bytes());
    hash.truncate(16);
    hash
}

/// The result of a stage written in Rust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageAnswer<O> {
    /// The sample for the next stage.
    Sample(O),
    /// Skips the sample, with a reason.
    Skip(String),
}

/// Makes a handler of an async function with typed input and output.
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
                    let message = format!(
                        "cannot parse the sample into the input type of the stage: {error}"
                    );
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
            let message = format!("cannot serialize the output of the stage as JSON: {error}");
            Outcome::Failed(Failure::named(named::BAD_REPLY, Cause::Handler, &message))
        }
    }
}

/// A failure of class `final`: no retry.
pub(super) fn final_failure(code: &'static str, message: &str) -> Failure {
    Failure::reported(Some(Class::Final), Code::name(code), message)
}

/// Inserts the answer of a handler into the sample, instead of replacing the sample with the answer.
pub struct IntoSample {
    pub handler: Arc<dyn Handler>,
    /// Where in the sample the answer is inserted.
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

    fn restarts(&self) -> u64 {
        self.handler.restarts()
    }

    async fn release(&self) {
        self.handler.release().await;
    }
}
