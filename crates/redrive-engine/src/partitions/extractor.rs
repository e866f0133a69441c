//! Who writes raw partitions: one interface for Rust, programs and requests.
//!
//! An extractor hands rows to a [`RowWriter`] as they come, and says at the end how it went. It never
//! seals anything: only an extraction that was answered, and none of whose rows was lost, is sealed, by
//! whoever asked for it.

use std::{future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{Cause, Failure, named};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{
    Call, Outcome, Stop,
    partitions::raw::{Extracted, RawWriter},
    worker::failures::{refused_by_sink, unwritable},
};

/// What the answer of an extractor calls the shape of its rows.
const SCHEMA_VERSION: &str = "schema_version";

/// Writes the rows of one attempt.
///
/// An answer means that all rows are written: [`Outcome::Answered`], whose value may be an object. Its
/// `schema_version` is kept with the partition, and all its fields are in `metadata.json`. A failed
/// extraction leaves nothing behind. Otherwise the same holds as for a [`Handler`](crate::Handler): an
/// extractor keeps its time limit itself, ends when it is told to stop, and may be dropped.
#[async_trait]
pub trait Extractor: Send + Sync {
    /// Writes the rows of a partition within a time limit.
    async fn extract(
        &self,
        call: &Call,
        rows: &RowWriter,
        time_limit: Duration,
        stop: Stop,
    ) -> Outcome;

    /// How many calls it can work on at once, if there is a limit.
    fn capacity(&self) -> Option<usize> {
        None
    }

    /// Ends what is kept running between calls, and waits for it.
    async fn release(&self) {}
}

/// Where an extractor puts its rows. Clones write to the same attempt.
#[derive(Debug, Clone)]
pub struct RowWriter(Arc<Mutex<Attempt>>);

/// What is being written.
#[derive(Debug)]
enum Attempt {
    Open(Box<RawWriter>),
    /// A row could not be written, so the rest is of no use.
    Broken(Failure),
    Over,
}

impl RowWriter {
    pub(crate) fn new(writer: RawWriter) -> Self {
        Self(Arc::new(Mutex::new(Attempt::Open(Box::new(writer)))))
    }

    /// Adds one row. It becomes one line of JSON, and must be an object.
    pub async fn row(&self, row: &(impl Serialize + Sync)) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(row).map_err(|error| {
            Failure::named("bad_row", Cause::Handler, &format!("a row is no JSON: {error}"))
        })?;
        line.push(b'\n');
        self.write(&line).await
    }

    /// Adds lines of JSON as they are, in pieces of any size. Once this has failed, nothing of the
    /// attempt is kept, whatever the extractor says.
    pub async fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut attempt = self.0.lock().await;
        let failure = match &mut *attempt {
            Attempt::Open(writer) => match writer.write(bytes).await {
                Ok(()) => return Ok(()),
                Err(error) => refused_by_sink(&error),
            },
            Attempt::Broken(failure) => failure.clone(),
            Attempt::Over => {
                let late = "a row came after the end of its extraction";
                return Err(unwritable(late));
            }
        };
        *attempt = Attempt::Broken(failure.clone());
        Err(failure)
    }

    /// Takes what was written. Nobody can add to it any more.
    pub(crate) async fn end(&self) -> Result<RawWriter, Failure> {
        match std::mem::replace(&mut *self.0.lock().await, Attempt::Over) {
            Attempt::Open(writer) => Ok(*writer),
            Attempt::Broken(failure) => Err(failure),
            Attempt::Over => Err(unwritable("the extraction is over")),
        }
    }
}

/// What an extractor answered about its rows.
pub(crate) fn described(value: Option<Value>) -> Result<Extracted, Failure> {
    let wrong = |what: &str| Err(Failure::named(named::BAD_REPLY, Cause::Handler, what));
    let mut fields = match value {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(fields)) => fields,
        Some(_) => {
            return wrong("the answer of an extractor is an object, such as {\"rows_seen\": 7}");
        }
    };
    let schema_version = match fields.remove(SCHEMA_VERSION) {
        None | Some(Value::Null) => None,
        Some(Value::String(version)) => Some(version),
        Some(Value::Number(version)) => Some(version.to_string()),
        Some(_) => return wrong("schema_version must be a text or a number"),
    };
    Ok(Extracted { schema_version, extractor: fields, ..Extracted::default() })
}

/// An async function as an extractor. Past its time limit, or told to stop, it is dropped.
struct Function<F>(F);

/// Makes an extractor of an async function.
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
    Arc::new(Function(function))
}

#[async_trait]
impl<F, R> Extractor for Function<F>
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
