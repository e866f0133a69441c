//! Who does the work: one interface for Rust, programs, and whatever else answers a call.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Failure, Unit};
use redrive_store::{UnitKind, Verdict};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::traces::TRACEPARENT;
use redrive_retry::Stop;

/// One attempt at a unit, as a handler sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The unit.
    pub unit: Unit,
    /// The attempt's number in the ledger.
    pub attempt: AttemptNumber,
    /// The raw partition to write; partitions alone.
    pub run_id: Option<String>,
    /// What the kind of work adds: a run's `queue`, `category` and `payload`, for example.
    pub details: Map<String, Value>,
}

impl Call {
    /// The kind of the unit: `run`, `partition`, `item` or `sample`.
    pub fn kind(&self) -> &'static str {
        UnitKind::from(&self.unit).name()
    }

    /// What tells this call from every other.
    pub fn id(&self) -> String {
        format!("{}#{}", self.unit, self.attempt)
    }

    /// The call as the protocol writes it: one JSON object.
    pub fn to_json(&self) -> Value {
        let mut call = self.details.clone();
        call.extend(self.fixed_fields().map(|(name, value)| (name.to_owned(), value)));
        Value::Object(call)
    }

    /// The same as text. `id` comes first, so that the simplest of programs can find it.
    pub(crate) fn to_text(&self) -> String {
        // Keys are texts, and values can be written: it never fails.
        serde_json::to_string(&CallJson(self)).unwrap_or_default()
    }

    /// The same as a line.
    pub(crate) fn to_line(&self) -> String {
        self.to_text() + "\n"
    }

    /// The span of the attempt, if attempts are traced. Spans of the handler belong below it.
    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.details.get(TRACEPARENT).and_then(Value::as_str)
    }

    /// What every call has. No detail can stand in for it.
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

/// A call as it is written.
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

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The handler answered.
    Answered {
        /// Its answer.
        value: Option<Value>,
        /// Its verdict on a run, if it gave one.
        verdict: Option<Verdict>,
    },
    /// The handler passed the unit over; samples alone.
    Skipped(String),
    /// The handler failed.
    Failed(Failure),
    /// The handler was told to stop before it had an answer. The attempt does not count. From a
    /// handler that was not told, it is a failure with the code `bad_reply`.
    Stopped,
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Does the work of one attempt.
///
/// A handler keeps its time limit itself, because only it knows how to end what it started; when
/// told to stop, it ends within its grace time and answers [`Outcome::Stopped`]. Its future may be
/// dropped at any time, and then nothing of the call may be left running.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles a call within a time limit.
    async fn handle(&self, call: &Call, time_limit: Duration, stop: Stop) -> Outcome;

    /// How many calls it can work on at once, if there is a limit. Nobody takes more units than that:
    /// a unit that waits inside a handler could be worked on elsewhere.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Ends what is kept running between calls, and waits for it. For when no call is under way and
    /// none is to come for now; a later call starts anew.
    async fn release(&self) {}
}

/// An async function as a handler. Past its time limit, or told to stop, it is dropped.
struct HandlerFn<F>(F);

/// Makes a handler of an async function.
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
