//! The validator: the only component that accepts or rejects a partition (PAR-4).
//!
//! The validator trusts no report of the extractor. It reads the payload again from the raw sink, compares it
//! with the sealed metadata, and checks every row. Last, it calls the validation handler of the user, if there is
//! one. A failed extraction gets a verdict too, so every attempt ends in one. The validator never writes raw data.
//!
//! - `codes`: the error codes of rejected partitions
//! - `row_checker`: checks every row while the payload is read
//! - `schema`: the JSON Schema of a row

mod codes;
mod row_checker;
mod schema;

use std::{sync::Arc, time::Duration};

use redrive_core::{
    AttemptNumber, Cause, Failure, PartitionKey, PartitionRunId, Unit, defuse_terminal_mark, named,
};
use redrive_store::{PartitionVerdict, Verdict};
use serde_json::{Map, Value};

use crate::{
    Call, CallLog, Damage, Handler, Outcome, RawError, RawMetadata, RawSink, Stop, traces::Traces,
    worker::engine::DEFAULT_TIME_LIMIT,
};

pub(crate) use codes::NO_RAW_PARTITION;
pub use codes::verdict_code;
pub use row_checker::MAX_ROW_BYTES;
pub use schema::{InvalidSchema, RowSchema};

use row_checker::RowChecker;

/// Chunks up to this size are checked on the async thread: moving them to a blocking thread costs more than
/// the check.
const INLINE_BYTES: usize = 8 * 1024;

/// Checks of a source in addition to those that every partition must pass.
#[derive(Clone, Default)]
pub struct ValidationRules {
    pub min_rows: Option<u64>,
    pub max_rows: Option<u64>,
    pub schema: Option<Arc<RowSchema>>,
    /// Called last, and only if all other checks pass.
    pub handler: Option<ValidationHandler>,
}

/// A user's handler that validates partitions.
///
/// The call has the details `source`, `customer_id`, `query_name` and `logical_date` of the partition, and of
/// its raw data `raw_payload` and `raw_metadata` (paths, or URLs in an object store), `record_count` and
/// `schema_version`. An answer accepts the partition. An error, or a verdict other than `passed`, rejects it.
#[derive(Clone)]
pub struct ValidationHandler {
    pub handler: Arc<dyn Handler>,
    pub time_limit: Duration,
}

/// The attempt to validate.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationRequest {
    pub key: PartitionKey,
    /// The run that the attempt writes to the raw sink.
    pub run_id: PartitionRunId,
    /// The number of its ledger row.
    pub attempt: AttemptNumber,
    /// Of the attempt: a validation handler logs there too.
    pub log: CallLog,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractionOutcome {
    /// The extraction reports that it sealed a run. The validator verifies that.
    Done,
    /// The extraction failed and sealed nothing.
    Failed(Failure),
    /// The worker was lost. A sealed run is validated as usual; without one, this failure is the verdict.
    Unknown(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidationOutcome {
    Verdict(PartitionVerdict),
    /// The validation handler was stopped before it gave a verdict.
    Stopped,
}

/// Validates the partitions of a source.
#[derive(Clone)]
pub struct Validator {
    sink: RawSink,
    rules: ValidationRules,
    traces: Traces,
}

impl ValidationHandler {
    /// Uses the default time limit.
    pub fn new(handler: Arc<dyn Handler>) -> Self {
        Self { handler, time_limit: DEFAULT_TIME_LIMIT }
    }
}

impl Validator {
    pub fn new(sink: RawSink, rules: ValidationRules) -> Self {
        Self { sink, rules, traces: Traces::default() }
    }

    /// Passes the traceparent to the validation handler.
    pub(crate) fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Validates the run of an attempt.
    pub async fn validate(
        &self,
        request: &ValidationRequest,
        extraction: ExtractionOutcome,
        stop: Stop,
    ) -> ValidationOutcome {
        let verdict = match extraction {
            ExtractionOutcome::Failed(failure) => Err(no_raw_partition(&failure)),
            ExtractionOutcome::Done => self.check_raw(request, None).await,
            ExtractionOutcome::Unknown(failure) => self.check_raw(request, Some(&failure)).await,
        };
        let verdict = match (verdict, &self.rules.handler) {
            (Ok(metadata), Some(validation)) => {
                match self.call_handler(validation, request, &metadata, stop).await {
                    Some(answer) => answer.map(|()| metadata),
                    None => return ValidationOutcome::Stopped,
                }
            }
            (verdict, _) => verdict,
        };
        ValidationOutcome::Verdict(match verdict {
            Ok(RawMetadata { record_count, schema_version, .. }) => {
                PartitionVerdict::Accepted { record_count, schema_version }
            }
            Err(failure) => {
                let message = defuse_terminal_mark(failure.message().as_str()).into_owned();
                PartitionVerdict::Rejected { failure: failure.retold(None, &message) }
            }
        })
    }

    /// Reads the run from the sink and applies every rule except the validation handler.
    async fn check_raw(
        &self,
        request: &ValidationRequest,
        lost: Option<&Failure>,
    ) -> Result<RawMetadata, Failure> {
        let ValidationRequest { key, run_id, .. } = request;
        let mut reader = match (self.sink.read(key, run_id).await, lost) {
            (Err(RawError::NotSealed { .. }), Some(lost)) => return Err(no_raw_partition(lost)),
            (reader, _) => reader.map_err(|error| unreadable(&error))?,
        };
        let mut rows = RowChecker::new(self.rules.schema.clone());
        while let Some(chunk) = reader.next().await.map_err(|error| unreadable(&error))? {
            if rows.partial_bytes() + chunk.len() <= INLINE_BYTES {
                rows.push(&chunk);
                continue;
            }
            rows = run_blocking(move || {
                rows.push(&chunk);
                rows
            })
            .await?;
        }
        self.check_rows(reader.metadata(), &rows)?;
        Ok(reader.metadata().clone())
    }

    fn check_rows(&self, metadata: &RawMetadata, rows: &RowChecker) -> Result<(), Failure> {
        let count = metadata.record_count;
        if let Some(bad) = rows.bad_row() {
            return Err(rejected(verdict_code::BAD_ROW, bad));
        }
        if let Some(min) = self.rules.min_rows.filter(|min| count < *min) {
            let why = format!("the partition has {count} rows, the minimum is {min}");
            return Err(rejected(verdict_code::TOO_FEW_ROWS, &why));
        }
        if let Some(max) = self.rules.max_rows.filter(|max| count > *max) {
            let why = format!("the partition has {count} rows, the maximum is {max}");
            return Err(rejected(verdict_code::TOO_MANY_ROWS, &why));
        }
        match rows.schema_error() {
            Some(schema_error) => {
                let why = format!("a row does not match the schema: {schema_error}");
                Err(rejected(verdict_code::SCHEMA, &why))
            }
            None => Ok(()),
        }
    }

    /// Calls the validation handler. `None` means that the handler was stopped.
    async fn call_handler(
        &self,
        validation: &ValidationHandler,
        request: &ValidationRequest,
        metadata: &RawMetadata,
        stop: Stop,
    ) -> Option<Result<(), Failure>> {
        let call = self.call(request, metadata);
        let verdict = match validation.handler.handle(&call, validation.time_limit, stop).await {
            Outcome::Stopped => return None,
            Outcome::Answered { verdict, value } => match verdict {
                None | Some(Verdict::Passed) => Ok(()),
                Some(Verdict::NeedsReview) => Err(rejected_by_handler("needs_review", value)),
                Some(Verdict::Failed) => Err(rejected_by_handler("failed", value)),
            },
            Outcome::Skipped(why) => {
                let why = format!("a partition cannot be skipped: {why}");
                Err(rejected(named::BAD_REPLY, &why))
            }
            Outcome::Failed(failure) => {
                // Other causes, such as a timeout or a program that cannot start, are more specific.
                let by_handler = failure.cause() == Cause::Handler;
                let message = failure.message().as_str().to_owned();
                Err(failure.retold(by_handler.then_some(Cause::Validator), &message))
            }
        };
        Some(verdict)
    }

    fn call(&self, request: &ValidationRequest, metadata: &RawMetadata) -> Call {
        let ValidationRequest { key, run_id, attempt, log } = request;
        let location = self.sink.location(key, run_id);
        let details: [(&str, Value); 8] = [
            ("source", key.source().into()),
            ("customer_id", key.customer_id().into()),
            ("query_name", key.query_name().into()),
            ("logical_date", key.logical_date().to_string().into()),
            ("raw_payload", location.payload.into()),
            ("raw_metadata", location.metadata.into()),
            ("record_count", metadata.record_count.into()),
            ("schema_version", metadata.schema_version.clone().into()),
        ];
        let mut call = Call {
            unit: Unit::Partition(key.clone()),
            attempt: *attempt,
            run_id: Some(run_id.to_string()),
            details: details
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Map<_, _>>(),
            log: log.clone(),
        };
        self.traces.add_traceparent(&mut call);
        call
    }
}

fn rejected(code: &'static str, why: &str) -> Failure {
    Failure::named(code, Cause::Validator, why)
}

/// Includes the value that the handler returned, if there is one.
fn rejected_by_handler(verdict: &str, value: Option<Value>) -> Failure {
    let why = value.filter(|value| !value.is_null());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    rejected(
        verdict_code::REJECTED,
        &format!("the validation handler returned the verdict {verdict}{why}"),
    )
}

/// The failure of the extractor as a verdict. Class, code and cause stay.
fn no_raw_partition(failure: &Failure) -> Failure {
    let why = match failure.message().as_str() {
        "" => failure.code().to_string(),
        why => why.to_owned(),
    };
    failure.clone().retold(None, &format!("{NO_RAW_PARTITION}: {why}"))
}

fn unreadable(error: &RawError) -> Failure {
    let (code, why) = match error {
        RawError::NotSealed { .. } => (
            verdict_code::NO_RAW_PARTITION,
            format!("{NO_RAW_PARTITION}: the extraction did not seal one"),
        ),
        RawError::Damaged { damage, .. } => match damage {
            Damage::Hash => (verdict_code::HASH_MISMATCH, damage.to_string()),
            Damage::Count { .. } => (verdict_code::COUNT_MISMATCH, damage.to_string()),
            Damage::NoPayload => {
                (verdict_code::NO_RAW_PARTITION, format!("{NO_RAW_PARTITION}: {damage}"))
            }
            Damage::Metadata(_) => (verdict_code::BAD_METADATA, damage.to_string()),
        },
        error => (verdict_code::RAW_UNREADABLE, error.in_words()),
    };
    rejected(code, &why)
}

/// Parsing many rows is CPU-bound and would block the async runtime.
async fn run_blocking(
    work: impl FnOnce() -> RowChecker + Send + 'static,
) -> Result<RowChecker, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|lost| {
        rejected(verdict_code::RAW_UNREADABLE, &format!("the task that checks rows failed: {lost}"))
    })
}
