//! Redrive retries work that fails: partitions of extracted data, runs in a queue, items of an upload
//! and samples in a pipeline. All of them share one policy type, one classification of failures, one
//! decision and one ledger.
//!
//! [`decide`] makes the decision. It is a pure function: time, unit and jitter are arguments.
//!
//! ```
//! use std::time::Duration;
//! use redrive::{
//!     Decision, Failure, GiveUpReason, History, JitterKey, JitterSeed, Policy, PolicySpec, decide,
//! };
//!
//! let policy = Policy::new(PolicySpec {
//!     max_attempts: Some(3),
//!     base: Duration::from_secs(2),
//!     jitter: redrive::Jitter::None,
//!     ..PolicySpec::default()
//! })?;
//! let unit = "run:7".parse()?;
//! let jitter = JitterKey::new(JitterSeed::default(), &unit);
//! let busy = Failure::http(503, None, "busy");
//! let now = "2026-01-01T00:00:00Z".parse()?;
//!
//! let mut history = History::default();
//! let mut waits = Vec::new();
//! let reason = loop {
//!     let decision = decide(&policy, &history, &busy, now, jitter);
//!     history = history.after(&busy, &decision);
//!     match decision {
//!         Decision::RetryAt { delay, .. } => waits.push(delay.as_secs()),
//!         Decision::GiveUp { reason } => break reason,
//!     }
//! };
//! assert_eq!(waits, [2, 4]);
//! assert_eq!(reason, GiveUpReason::AttemptsExhausted);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`retry`] applies a policy to any async operation, without a store. [`AsFailure`] or
//! [`when`](Retry::when) classifies its errors. An operation that succeeds at once costs a few
//! nanoseconds.
//!
//! ```
//! use std::{cell::Cell, time::Duration};
//! use redrive::{Class, Ended, GiveUpReason, Policy, PolicySpec, retry};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let policy = Policy::new(PolicySpec { base: Duration::from_millis(5), ..PolicySpec::default() })?;
//! let calls = Cell::new(0);
//! let answer = || async {
//!     calls.set(calls.get() + 1);
//!     if calls.get() < 3 { Err("still starting") } else { Ok(42) }
//! };
//! assert_eq!(retry(&policy, answer).any_error().await, Ok(42));
//! assert_eq!(calls.get(), 3);
//!
//! let gave_up = retry(&policy, || async { Err::<(), _>("no such thing") })
//!     .when(|error| if error.contains("no such") { Class::Final } else { Class::Retryable })
//!     .unit("thing 7")                                  // the jitter of this unit is fixed
//!     .on_retry(|event| eprintln!("{}; again in {:?}", event.error, event.delay))
//!     .explained()                                      // returns the last error and the reason
//!     .await
//!     .unwrap_err();
//! assert_eq!(gave_up.ended, Ended::GaveUp(GiveUpReason::Final));
//! assert_eq!((gave_up.error, gave_up.attempts), ("no such thing", 1));
//! # Ok(())
//! # }) }
//! ```
//!
//! With the feature `tower`, `redrive::tower::retry` is a layer for services.
//!
//! The [`Engine`] claims runs from a store, calls their handlers, decides about every failure, and
//! finishes the runs. A handler is an async function, a program for each call ([`ExecHandler`]),
//! long-lived programs ([`StreamHandler`]), a request ([`HttpHandler`]), or a type that implements
//! [`Handler`].
//!
//! ```
//! use redrive::{
//!     Call, Clock, Engine, Failure, NewRun, Outcome, PolicySpec, Queue, Stopper, SubmittedRun,
//!     SystemClock, Until, handler_fn, serde_json::json,
//! };
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let store = redrive::open("sqlite::memory:").await?;
//!
//! // Fails at the first attempt, then doubles a number.
//! let double = handler_fn(|call: Call| async move {
//!     if call.attempt.0 == 1 {
//!         return Outcome::Failed(Failure::http(503, None, "still starting"));
//!     }
//!     let number = call.details["payload"]["number"].as_i64().unwrap_or_default();
//!     Outcome::Answered { value: Some(json!(number * 2)), verdict: None }
//! });
//! let soon = PolicySpec { base: std::time::Duration::from_millis(5), ..PolicySpec::default() };
//! let queue = Queue::new("double", double).with_policy(redrive::Policy::new(soon)?);
//! let engine = Engine::new(store.clone()).with_queue(queue);
//!
//! let run = NewRun::new("double", &json!({ "number": 21 }), SystemClock.now())?;
//! let submitted = engine.submit(&[run]).await?;
//! let SubmittedRun::Accepted(id) = submitted[0] else { panic!("it is new") };
//!
//! let (_stopper, stop) = Stopper::new();
//! engine.run(stop, Until::Drained).await?;
//!
//! let run = &store.runs_by_id(&[id]).await?[0];
//! assert_eq!((run.status.name(), run.attempts), ("passed", 2));
//! assert_eq!(run.result.as_deref(), Some("42"));
//! # Ok(())
//! # }) }
//! ```
//!
//! A [`Consumer`] reads partitions that passed validation, and no others:
//!
//! ```
//! use redrive::{ConsumeError, Consumer, RawSink, Unreadable};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let store = redrive::open("sqlite::memory:").await?;
//! let consumer = Consumer::new(store, RawSink::folder("raw"));
//!
//! let unknown = consumer.read(&"ads/7/daily/2026-01-31".parse()?).await;
//! assert!(matches!(unknown, Err(ConsumeError::NotReadable { why: Unreadable::Missing, .. })));
//! # Ok(())
//! # }) }
//! ```
//!
//! [`Control`] implements the commands of `redrive state`. The [`Daemon`] retries failed partitions.
//!
//! An [`Uploader`] sends the items of a group and reports which were acknowledged and which rejected. A
//! [`RetryingUploader`] wraps an uploader and sends rejected items again, within limits.
//! `redrive uploads run` uses the [`HttpUploader`].
//!
//! [`postgres`] submits runs inside the program's own transaction.
//!
//! With the feature `otel`, `redrive::traces::start` exports every attempt as an OpenTelemetry span.
//!
//! [`config`] reads `redrive.toml`.

#[cfg(feature = "config")]
pub mod config;
#[cfg(all(feature = "config", feature = "server"))]
mod declarations;
#[cfg(feature = "config")]
mod named_files;
#[cfg(feature = "config")]
mod named_variables;
#[cfg(feature = "config")]
mod raw_sinks;
#[cfg(feature = "engine")]
mod store_url;
#[cfg(feature = "engine")]
mod stores;
#[cfg(feature = "config")]
mod wiring;

#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "tower")]
pub mod tower;

/// The traits and records behind [`Store`].
#[cfg(feature = "engine")]
pub mod store {
    pub use redrive_store::*;
}

/// Views of a store and the actions of operators, behind the API and the dashboard.
#[cfg(feature = "server")]
pub mod ops {
    pub use redrive_ops::*;
}

/// The HTTP API and the dashboard.
#[cfg(feature = "server")]
pub mod server {
    pub use redrive_server::*;
}

#[cfg(feature = "http")]
pub use http;
pub use jiff;
#[cfg(feature = "engine")]
pub use serde_json;

#[cfg(all(feature = "config", feature = "server"))]
pub use declarations::{build_declarations, declared_policies, place_policy};
#[cfg(feature = "config")]
pub use named_files::{FileProblem, file_problems};
#[cfg(feature = "config")]
pub use named_variables::{MissingVariable, missing_variables};
#[cfg(feature = "config")]
pub use raw_sinks::{SchemaFileError, build_validation_rules, open_raw_sink};
pub use redrive_core::*;
#[cfg(feature = "engine")]
use redrive_engine::nearest;
#[cfg(feature = "engine")]
pub use redrive_engine::traces;
#[cfg(feature = "http")]
pub use redrive_engine::{
    BodyTemplate, HeaderSource, HttpExtractor, HttpHandler, HttpSpec, HttpUpload, HttpUploader,
    InvalidHttp, InvalidTemplate, Paging, ServiceConventions, UploadPlan, build_uploader,
};
#[cfg(feature = "engine")]
pub use redrive_engine::{
    Call, ChangeOutcome, ChangeRefusal, CommandSource, ConsumeError, Consumer, Content,
    ContentError, Control, Daemon, DaemonTick, DailyCalendar, Damage, DaySchedule, EarlyItems,
    Engine, ExecHandler, ExecSpec, ExportedFile, Extracted, ExtractionOutcome, Extractor,
    FolderContent, Gap, GiveupFile, GroupBusy, GroupLease, GroupSending, GroupSent, GroupStart,
    GroupUpload, Handler, IntoSample, InvalidPointer, InvalidProgram, InvalidSchema, ItemOutcome,
    ItemReport, IteratorSource, JsonPointer, JsonlSource, KeptContent, KeyGrid, NewContent,
    Notifier, NotifyEvents, ObjectService, Outcome, PartitionCommand, PartitionOutcome,
    PartitionRules, PartitionSelection, Pipeline, PipelineControl, Prunable, Prune, PruneError,
    PruneReport, Queue, RawError, RawLocation, RawMetadata, RawReader, RawSink, RawWriter,
    ReadablePartition, ReprocessCounts, ResumeError, RetrySettings, RetryingUploader, RowSchema,
    RowWriter, RunMode, SamplePages, SampleSource, SampleWriter, SendRefusal, Source, SourceCall,
    SourceEnd, Stage, StageAnswer, StreamHandler, StreamSpec, Sweep, Unreadable, Until,
    UploadError, UploadEvent, UploadObserver, UploadOutcome, UploadReport, UploadRequest, Uploader,
    ValidationHandler, ValidationOutcome, ValidationRequest, ValidationRules, Validator,
    WorkerLimits, config_hash, extractor_fn, gaps, handler_fn, random_worker_id, reference_content,
    stage_fn, verdict_code, verify_partitions,
};
pub use redrive_retry::{
    Clock, Ended, Explained, GaveUp, Retry, RetryEvent, SteadyClock, Stop, Stopper, SystemClock,
    retry,
};
#[cfg(feature = "engine")]
pub use redrive_store::{
    AuditContext, Categories, DeadCause, DeclaredGate, GateDeclarations, GatePlace, GateRule,
    InvalidRun, ItemGroup, ItemRecord, Lane, NewItem, NewPipelineRun, NewRun, Operator,
    PartitionAction, PartitionRecord, PipelineAction, PipelineChange, PipelineRunRecord,
    PruneFilter, PrunedSamples, RunChange, RunRecord, SampleChange, SampleRecord, Selection,
    SourcePosition, StageCount, StageStats, Store, SubmittedRun, Verdict,
};
#[cfg(feature = "engine")]
pub use store_url::{InvalidStoreUrl, PostgresUrl, StoreUrl};
#[cfg(feature = "engine")]
pub use stores::{OpenError, SynchronousMode, migrator, open, open_migrated_store, open_store};
#[cfg(feature = "config")]
pub use wiring::{
    BuildError, build_calendar, build_notifier, build_partition_rules, build_pipeline, build_queue,
    build_source, build_upload, declared_gates,
};
