//! The interface of handlers, and handlers written as async Rust functions.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Failure, Unit};
use redrive_store::{UnitKind, Verdict};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{logs::CallLog, traces::TRACEPARENT};
use redrive_retry::Stop;

/// One attempt at a unit, as a handler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub unit: Unit,
    pub attempt: AttemptNumber,
    /// The run id of the raw partition to write. Partitions only.
    pub run_id: Option<String>,
    /// Fields of the kind of work, such as the `queue`, `category` and `payload` of a run.
    pub details: Map<String, Value>,
    /// What the handler logs here is kept with the attempt, and shown by `redrive logs`.
    pub log: CallLog,
}

impl Call {
    /// The kind of the unit: `run`, `partition`, `item` or `sample`.
    pub fn kind(&self) -> &'static str {
        UnitKind::from(&self.unit).name()
    }

    /// Unique among all calls: the unit and the number of the attempt.
    pub fn id(&self) -> String {
        format!("{}#{}", self.unit, self.attempt)
    }

    /// The call as one JSON object, as the handler protocol defines it.
    pub fn to_json(&self) -> Value {
        let mut call = self.details.clone();
        call.extend(self.fixed_fields().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(call)
    }

    /// The call as JSON text. `id` comes first, so that even a shell script can find it.
    pub(crate) fn to_text(&self) -> String {
        // Cannot fail: all keys are strings and all values are JSON.
        serde_json::to_string(&CallJson(self)).unwrap_or_default()
    }

    pub(crate) fn to_line(&self) -> String {
        self.to_text() + "\n"
    }

    /// The span of the attempt, if attempts are traced. Spans of the handler belong below it.
    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.details.get(TRACEPARENT).and_then(Value::as_str)
    }

    /// The fields that every call has. They take precedence over details of the same name.
    fn fixed_fields(&self) -> [(&'static str, Value); 5] {
        [
            ("id", self.id().into()),
            ("kind", self.kind().into()),
            ("unit", self.unit.to_string().into()),
            ("attempt", self.attempt.0.into()),
            ("run_id", self.run_id.clone().into()),
        ]
    }
}

struct CallJson<'a>(&'a Call);

impl Serialize for CallJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fixed_fields = self.0.fixed_fields();
        let details = &self.0.details;
        let details = details
            .iter()
            .filter(|(name, _)| fixed_fields.iter().all(|fixed_fields| fixed_fields.0 != *name));
        let fixed_fields = fixed_fields.iter().map(|(name, value)| (*name, value));
        serializer
            .collect_map(fixed_fields.chain(details.map(|(name, value)| (name.as_str(), value))))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Answered {
        value: Option<Value>,
        /// For runs only.
        verdict: Option<Verdict>,
    },
    /// The handler skipped the unit, for this reason. Samples only.
    Skipped(String),
    Failed(Failure),
    /// The handler was stopped before it had an answer. The attempt does not count. A handler that
    /// returns this without having been stopped fails with the code `bad_reply`.
    Stopped,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Performs one attempt.
///
/// A handler enforces its time limit itself, because only the handler knows how to end what it started.
/// When it is stopped, it ends within its grace time and returns [`Outcome::Stopped`]. Its future may be
/// dropped at any time; nothing of the call may keep running then.
#[async_trait]
pub trait Handler: Send + Sync {
    async fn handle(&self, call: &Call, time_limit: Duration, stop: Stop) -> Outcome;

    /// The most calls that the handler can work on at once; `None` is no limit. Workers claim no more
    /// units than that: another worker could process a unit that waits inside a handler.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// How often a program that stays running was started again after a failure.
    fn restarts(&self) -> u64 {
        0
    }

    /// Ends whatever keeps running between calls, and waits until it has ended. Called when no call is
    /// running and none is expected; a later call starts it again.
    async fn release(&self) {}
}

/// Drops the future of the function when the time limit passes or the handler is stopped.
struct HandlerFn<F>(F);

/// Makes an async function a handler.
///
/// ```
/// use redrive_engine::{Call, Outcome, handler_fn};
///
/// let handler = handler_fn(|call: Call| async move {
///     Outcome::Answered { value: Some(call.details["payload"].clone()), verdict: None }
/// });
/// # let _ = handler;
/// ```
pub fn handler_fn<F, R>(function: F) -> Arc<dyn Handler>
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(HandlerFn(function))
}

#[async_trait]
impl<F, R> Handler for HandlerFn<F>
where
    F: Fn(Call) -> R + Send + Sync,
    R: Future<Output = Outcome> + Send,
{
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        let work = (self.0)(call.clone());
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = stop.stopped() => Outcome::Stopped,
            () = tokio::time::sleep(time_limit) => {
                Outcome::Failed(Failure::timeout("the handler took longer than its time limit"))
            }
        }
    }
}
