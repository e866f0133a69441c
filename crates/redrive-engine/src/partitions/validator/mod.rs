//! The validator: the only one who says that a partition is good or bad (PAR-4).
//!
//! It believes nobody. What an extractor wrote is read again from the sink, to its end, and compared with
//! what was sealed; every row is looked at; then whoever the user appointed has the last word. An
//! extraction that failed is judged as well, so that every attempt ends in a verdict. Raw data is only
//! ever read.

mod codes;
mod rows;
mod schema;

use std::{sync::Arc, time::Duration};

use redrive_core::{
    AttemptNumber, Cause, Failure, PartitionKey, PartitionRunId, Unit, defuse_terminal_mark, named,
};
use redrive_store::{PartitionVerdict, Verdict};
use serde_json::{Map, Value};

use crate::{
    Call, Damage, Handler, Outcome, RawError, RawMetadata, RawSink, Stop, traces::Traces,
    worker::engine::DEFAULT_TIME_LIMIT,
};

pub use codes::verdict_code;
pub use rows::MAX_ROW_BYTES;
pub use schema::{InvalidSchema, RowSchema};

use rows::Rows;

/// Rows of which so many bytes, at most, are looked at where they are read: handing them to another
/// thread would take longer.
const SHORT_BYTES: usize = 8 * 1024;

/// What a source asks of its partitions, beyond what holds for all.
#[derive(Clone, Default)]
pub struct Rules {
    /// The fewest rows.
    pub min_rows: Option<u64>,
    /// The most rows.
    pub max_rows: Option<u64>,
    /// What every row must fit.
    pub schema: Option<Arc<RowSchema>>,
    /// Who has the last word.
    pub judge: Option<Judge>,
}

/// A handler that judges partitions.
///
/// Its call is that of the partition, with `source`, `customer_id`, `query_name`, `logical_date` and, for
/// the raw partition at hand, `raw_payload` and `raw_metadata` (paths, or URLs in an object store),
/// `record_count` and `schema_version`. An answer accepts; an error, or a verdict other than `passed`,
/// rejects.
#[derive(Clone)]
pub struct Judge {
    /// The handler.
    pub handler: Arc<dyn Handler>,
    /// How long it may take.
    pub time_limit: Duration,
}

/// The attempt to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The partition.
    pub key: PartitionKey,
    /// The raw partition that the attempt was to write.
    pub run_id: PartitionRunId,
    /// The number that its row in the ledger will have.
    pub attempt: AttemptNumber,
}

/// How the extraction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extraction {
    /// It says that it sealed a raw partition.
    Done,
    /// It failed, and sealed nothing.
    Failed(Failure),
    /// Nobody knows: its worker was lost. What it sealed counts; if it sealed nothing, this is why.
    Unknown(Failure),
}

/// What came of judging.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// A verdict.
    Verdict(PartitionVerdict),
    /// None: the user's handler was told to stop.
    Stopped,
}

/// Judges the partitions of a source.
#[derive(Clone)]
pub struct Validator {
    sink: RawSink,
    rules: Rules,
    traces: Traces,
}

impl Judge {
    /// A judge with the usual time limit.
    pub fn new(handler: Arc<dyn Handler>) -> Self {
        Self { handler, time_limit: DEFAULT_TIME_LIMIT }
    }
}

impl Validator {
    /// A validator of what is in a sink.
    pub fn new(sink: RawSink, rules: Rules) -> Self {
        Self { sink, rules, traces: Traces::default() }
    }

    /// Tells the judge which span its attempt will have.
    pub(crate) fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Judges an attempt.
    pub async fn judge(&self, judged: &Judged, extraction: Extraction, stop: Stop) -> Judgement {
        let verdict = match extraction {
            Extraction::Failed(failure) => Err(no_raw_partition(&failure)),
            Extraction::Done => self.look(judged, None).await,
            Extraction::Unknown(failure) => self.look(judged, Some(&failure)).await,
        };
        let verdict = match (verdict, &self.rules.judge) {
            (Ok(metadata), Some(judge)) => match self.ask(judge, judged, &metadata, stop).await {
                Some(answer) => answer.map(|()| metadata),
                None => return Judgement::Stopped,
            },
            (verdict, _) => verdict,
        };
        Judgement::Verdict(match verdict {
            Ok(RawMetadata { record_count, schema_version, .. }) => {
                PartitionVerdict::Accepted { record_count, schema_version }
            }
            Err(failure) => {
                let message = defuse_terminal_mark(failure.message().as_str()).into_owned();
                PartitionVerdict::Rejected { failure: failure.retold(None, &message) }
            }
        })
    }

    /// Looks at what is in the sink, by the rules that need no handler.
    async fn look(&self, judged: &Judged, lost: Option<&Failure>) -> Result<RawMetadata, Failure> {
        let Judged { key, run_id, .. } = judged;
        let mut reader = match (self.sink.read(key, run_id).await, lost) {
            (Err(RawError::NotSealed { .. }), Some(lost)) => return Err(no_raw_partition(lost)),
            (reader, _) => reader.map_err(|error| unreadable(&error))?,
        };
        let mut rows = Rows::new(self.rules.schema.clone());
        while let Some(chunk) = reader.next().await.map_err(|error| unreadable(&error))? {
            if rows.unfinished() + chunk.len() <= SHORT_BYTES {
                rows.take(&chunk);
                continue;
            }
            rows = off_the_runtime(move || {
                rows.take(&chunk);
                rows
            })
            .await?;
        }
        self.count_and_fit(reader.metadata(), &rows)?;
        Ok(reader.metadata().clone())
    }

    fn count_and_fit(&self, metadata: &RawMetadata, rows: &Rows) -> Result<(), Failure> {
        let count = metadata.record_count;
        if let Some(bad) = rows.bad() {
            return Err(rejected(verdict_code::BAD_ROW, bad));
        }
        if let Some(min) = self.rules.min_rows.filter(|min| count < *min) {
            let why = format!("{count} rows, at least {min} are asked for");
            return Err(rejected(verdict_code::TOO_FEW_ROWS, &why));
        }
        if let Some(max) = self.rules.max_rows.filter(|max| count > *max) {
            let why = format!("{count} rows, at most {max} are allowed");
            return Err(rejected(verdict_code::TOO_MANY_ROWS, &why));
        }
        match rows.misfit() {
            Some(misfit) => {
                let why = format!("does not fit the schema: {misfit}");
                Err(rejected(verdict_code::SCHEMA, &why))
            }
            None => Ok(()),
        }
    }

    /// Asks the user's handler. No answer means that it was told to stop.
    async fn ask(
        &self,
        judge: &Judge,
        judged: &Judged,
        metadata: &RawMetadata,
        stop: Stop,
    ) -> Option<Result<(), Failure>> {
        let call = self.call(judged, metadata);
        let verdict = match judge.handler.handle(&call, judge.time_limit, stop).await {
            Outcome::Stopped => return None,
            Outcome::Answered { verdict, value } => match verdict {
                None | Some(Verdict::Passed) => Ok(()),
                Some(Verdict::NeedsReview) => Err(judged_as("needs_review", value)),
                Some(Verdict::Failed) => Err(judged_as("failed", value)),
            },
            Outcome::Skipped(why) => {
                let why = format!("a partition cannot be skipped: {why}");
                Err(rejected(named::BAD_REPLY, &why))
            }
            Outcome::Failed(failure) => {
                // A time limit or a program that cannot start says more than who was asked.
                let by_handler = failure.cause() == Cause::Handler;
                let message = failure.message().as_str().to_owned();
                Err(failure.retold(by_handler.then_some(Cause::Validator), &message))
            }
        };
        Some(verdict)
    }

    fn call(&self, judged: &Judged, metadata: &RawMetadata) -> Call {
        let Judged { key, run_id, attempt } = judged;
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
        };
        self.traces.add_traceparent(&mut call);
        call
    }
}

fn rejected(code: &'static str, why: &str) -> Failure {
    Failure::named(code, Cause::Validator, why)
}

/// The handler's own words for why, where it has some.
fn judged_as(verdict: &str, value: Option<Value>) -> Failure {
    let why = value.filter(|value| !value.is_null());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    rejected(verdict_code::REJECTED, &format!("the handler's verdict is {verdict}{why}"))
}

/// What an extractor failed with, in the words of the verdict. Class, code and cause stay.
fn no_raw_partition(failure: &Failure) -> Failure {
    let why = match failure.message().as_str() {
        "" => failure.code().to_string(),
        why => why.to_owned(),
    };
    failure.clone().retold(None, &format!("no raw partition: {why}"))
}

fn unreadable(error: &RawError) -> Failure {
    let (code, why) = match error {
        RawError::NotSealed { .. } => (
            verdict_code::NO_RAW_PARTITION,
            "no raw partition: the extraction sealed none".to_owned(),
        ),
        RawError::Damaged { damage, .. } => match damage {
            Damage::Hash => (verdict_code::HASH_MISMATCH, damage.to_string()),
            Damage::Count { .. } => (verdict_code::COUNT_MISMATCH, damage.to_string()),
            Damage::NoPayload => {
                (verdict_code::NO_RAW_PARTITION, format!("no raw partition: {damage}"))
            }
            Damage::Metadata(_) => (verdict_code::BAD_METADATA, damage.to_string()),
        },
        error => (verdict_code::RAW_UNREADABLE, error.in_words()),
    };
    rejected(code, &why)
}

/// Reading rows is work for the processor, and other work is waiting.
async fn off_the_runtime(work: impl FnOnce() -> Rows + Send + 'static) -> Result<Rows, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|lost| {
        rejected(verdict_code::RAW_UNREADABLE, &format!("the rows could not be looked at: {lost}"))
    })
}
