//! The interface of extractors: Rust functions, programs and HTTP requests.
//!
//! An extractor passes rows to a [`RowWriter`] as they arrive, and returns an outcome at the end. It never seals a
//! partition: the worker seals it, and only if the extractor answered and every row was written.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{Cause, Failure, named};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{
    Call, Outcome, Stop,
    partitions::raw::{Extracted, RawError, RawWriter},
};

/// The field of an extractor's answer with the schema of its rows.
const SCHEMA_VERSION: &str = "schema_version";

/// Extracts the rows of a partition.
///
/// [`Outcome::Answered`] means that all rows were written. Its value may be an object: `schema_version` is stored with the
/// partition, and all fields go to `metadata.json`. A failed extraction leaves nothing behind. As for a
/// [`Handler`](crate::Handler), an extractor enforces its time limit, ends when stopped, and may be dropped.
#[async_trait]
pub trait Extractor: Send + Sync {
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome;

    /// The number of calls it can handle at once, if limited.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// How often a program that stays running was started again after a failure.
    fn restarts(&self) -> u64 {
        0
    }

    /// Ends what runs between calls, and waits for the end.
    async fn release(&self) {}
}

/// Takes the rows of an extractor. Clones write to the same attempt.
#[derive(Debug, Clone)]
pub struct RowWriter(Arc<Mutex<WriterState>>);

#[derive(Debug)]
enum WriterState {
    Open(Box<RawWriter>),
    /// A row could not be written, so the other rows are useless.
    Broken(ExtractError),
    Closed,
}

/// The failure code of a raw sink without space, and the reason in the journal for the release of a partition.
pub(crate) const RAW_FULL: &str = "raw_full";

/// The failure code of a raw sink that cannot be written.
const RAW_UNWRITABLE: &str = "raw_unwritable";

/// Why an extraction produced no sealed rows.
///
/// A full sink is a variant, not a failure code: an extractor may return any code, and a partition must not be released
/// because of it.
#[derive(Debug, Clone)]
pub(crate) enum ExtractError {
    /// The sink itself reported that no space is left. The partition is released, uncounted, unless it does not fit alone.
    SinkFull(Failure),
    Failed(Failure),
}

impl ExtractError {
    pub(crate) fn of_sink(error: &RawError) -> Self {
        let message = error.in_words();
        match error.is_disk_full() {
            true => Self::SinkFull(Failure::named(RAW_FULL, Cause::Handler, &message)),
            false => Self::Failed(Failure::named(RAW_UNWRITABLE, Cause::Handler, &message)),
        }
    }

    fn closed() -> Self {
        let message = "a row was written after the end of its extraction";
        Self::Failed(Failure::named(RAW_UNWRITABLE, Cause::Handler, message))
    }

    fn failure(&self) -> &Failure {
        match self {
            Self::SinkFull(failure) | Self::Failed(failure) => failure,
        }
    }

    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::SinkFull(failure) | Self::Failed(failure) => failure,
        }
    }
}

impl RowWriter {
    pub(crate) fn new(writer: RawWriter) -> Self {
        Self(Arc::new(Mutex::new(WriterState::Open(Box::new(writer)))))
    }

    /// Writes one row as a line of JSON. A row must be an object.
    pub async fn row(&self, row: &(impl Serialize + Sync)) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(row).map_err(|error| {
            Failure::named(
                "bad_row",
                Cause::Handler,
                &format!("a row cannot be written as JSON: {error}"),
            )
        })?;
        line.push(b'\n');
        self.write(&line).await
    }

    /// Writes lines of JSON as they are, in pieces of any size. After an error nothing of the attempt is kept, whatever the
    /// extractor returns.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut state = self.0.lock().await;
        let error = match &mut *state {
            WriterState::Open(writer) => match writer.write(bytes).await {
                Ok(()) => return Ok(()),
                Err(error) => ExtractError::of_sink(&error),
            },
            WriterState::Broken(error) => return Err(error.failure().clone()),
            WriterState::Closed => return Err(ExtractError::closed().failure().clone()),
        };
        let failure = error.failure().clone();
        *state = WriterState::Broken(error);
        Err(failure)
    }

    /// Closes the writer, and returns what was written.
    pub(crate) async fn end(&self) -> Result<RawWriter, ExtractError> {
        match std::mem::replace(&mut *self.0.lock().await, WriterState::Closed) {
            WriterState::Open(writer) => Ok(*writer),
            WriterState::Broken(error) => Err(error),
            WriterState::Closed => Err(ExtractError::closed()),
        }
    }
}

/// Reads the answer of an extractor.
pub(crate) fn described(value: Option<Value>) -> Result<Extracted, Failure> {
    let wrong = |what: &str| Err(Failure::named(named::BAD_REPLY, Cause::Handler, what));
    let mut fields = match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(fields)) => fields,
        Some(_) => {
            return wrong("an extractor must answer with an object, such as {\"rows_seen\": 7}");
        }
    };
    let schema_version = match fields.remove(SCHEMA_VERSION) {
        None | Some(Value::Null) => None,
        Some(Value::String(version)) => Some(version),
        Some(Value::Number(version)) => Some(version.to_string()),
        Some(_) => return wrong("schema_version must be a string or a number"),
    };
    Ok(Extracted { schema_version, extractor: fields, ..Extracted::default() })
}

/// An async function as an extractor. It is dropped at its time limit or when stopped.
struct ExtractorFn<F>(F);

/// Turns an async function into an extractor.
///
/// ```
/// use redrive_engine::{Call, Outcome, RowWriter, extractor_fn};
/// use serde_json::json;
///
/// let extractor = extractor_fn(|call: Call, rows: RowWriter| async move {
///     for clicks in [7, 8, 9] {
///         if let Err(failure) = rows.row(&json!({ "clicks": clicks })).await {
///             return Outcome::Failed(failure);
///         }
///     }
///     Outcome::Answered { value: Some(json!({ "schema_version": "2" })), verdict: None }
/// });
/// # let _ = extractor;
/// ```
pub fn extractor_fn<F, R>(function: F) -> Arc<dyn Extractor>
where
    F: Fn(Call, RowWriter) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(ExtractorFn(function))
}

#[async_trait]
impl<F, R> Extractor for ExtractorFn<F>
where
    F: Fn(Call, RowWriter) -> R + Send + Sync,
    R: Future<Output = Outcome> + Send,
{
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        mut stop: Stop,
    ) -> Outcome {
        let work = (self.0)(call.clone(), rows.clone());
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = stop.stopped() => Outcome::Stopped,
            () = tokio::time::sleep(time_limit) => {
                Outcome::Failed(Failure::timeout("the extractor took longer than its time limit"))
            }
        }
    }
}
