//! The engine: runs, watches and checks the work in a store.
//!
//! The engine holds an `Arc<dyn Store>` and does not know the database. The clock and randomness are injected. One folder
//! per concept, in reading order:
//!
//! - `worker`: the loop that claims, handles, decides and finishes, for every kind of work; [`Engine`] starts it
//! - `handlers`: the code that runs an attempt: Rust functions, programs, HTTP requests
//! - `logs`: what handlers log during attempts
//! - `runs`, `partitions`, `uploads`, `pipelines`: the four kinds of work
//! - `plans`: bulk actions that are previewed, paced, watched and undone
//! - `checks`: reads a whole store and reports every unit that breaks an invariant
//! - `notify`, `prune`, `traces`: notifications, removal of old units, OpenTelemetry spans
//! - [`nearest`]: suggestions for misspelled names, beside the checks

mod worker;

mod handlers;

mod logs;

mod gates;

mod runs;

mod partitions;

mod uploads;

mod pipelines;

mod plans;

mod checks;

mod notify;

mod prune;

pub mod traces;

pub use checks::checker;
pub use checks::nearest;
pub use checks::raw_checks::{verify_partitions, verify_sample};
pub use handlers::exec::{ExecHandler, ExecSpec};
pub use handlers::handler::{Call, Handler, Outcome, handler_fn};
#[cfg(feature = "http")]
pub use handlers::http::{
    BodyTemplate, DEFAULT_CONNECT_TIMEOUT, HeaderSource, HttpExtractor, HttpHandler, HttpSpec,
    InvalidHttp, InvalidTemplate, MAX_BODY_BYTES, MAX_PAGES, Paging, ServiceConventions,
};
pub use handlers::json_pointer::{InvalidPointer, JsonPointer};
pub use handlers::program::{DEFAULT_GRACE, InvalidProgram, program_problem};
pub use handlers::reply;
pub use handlers::stream::{StreamHandler, StreamSpec};
pub use logs::{CallLog, LogLimits, MAX_LOG_BYTES};
pub use notify::{Notifier, NotifyEvents, RESERVED_QUEUES};
pub use partitions::consumer::{ConsumeError, Consumer, ReadablePartition, Unreadable};
pub use partitions::control::{
    ChangeOutcome, ChangeRefusal, Control, KeyGrid, PartitionCommand, PartitionOutcome,
    PartitionRules, PartitionSelection, RunMode, Sweep,
};
pub use partitions::extractor::{Extractor, RowWriter, extractor_fn};
pub use partitions::raw::{
    Damage, Extracted, ObjectService, RawError, RawLocation, RawMetadata, RawReader, RawSink,
    RawWriter,
};
pub use partitions::retry_daemon::{DEFAULT_INTERVAL, Daemon, DaemonTick};
pub use partitions::schedules::calendar::DailyCalendar;
pub use partitions::schedules::gaps::{Gap, gaps};
pub use partitions::schedules::scheduler::DaySchedule;
pub use partitions::source::{DEFAULT_BACKFILL_SHARE, Source};
pub use partitions::validator::{
    ExtractionOutcome, InvalidSchema, MAX_ROW_BYTES, RowSchema, ValidationHandler,
    ValidationOutcome, ValidationRequest, ValidationRules, Validator, verdict_code,
};
pub use pipelines::{
    BAD_LINE, ChangedLine, CommandSource, DEFAULT_READ_AHEAD, IntoSample, IteratorSource,
    JsonlSource, PatchError, PatchedSource, Pipeline, PipelineControl, ReprocessCounts,
    ResumeError, SOURCE_CHANGED, SamplePages, SampleSource, SampleWriter, SourceCall, SourceEnd,
    Stage, StageAnswer, TOO_LARGE, config_hash, stage_fn,
};
pub use plans::{
    JudgedUnit, PLAN_LEASE, PlanExecutor, PlanPages, PlanRun, PlanVerdict, freeze_plan,
    plan_waits_for, plan_waits_for_check,
};
pub use prune::{ExportedFile, Prunable, Prune, PruneError, PruneReport};
pub use redrive_retry::{
    AnyError, ByItself, Classify, Clock, Ended, Explained, GaveUp, NoRandomness, Retry, RetryEvent,
    RetryRules, RetryState, SteadyClock, Stop, Stopper, SystemClock, When, random_u64, retry,
};
pub use runs::queue::Queue;
pub use uploads::{
    Chunks, Content, ContentError, DEFAULT_IN_CALL_RETRIES, EarlyItems, FolderContent, GiveupFile,
    GiveupFileError, GroupBusy, GroupLease, GroupSending, GroupSent, GroupStart, GroupUpload,
    ItemOutcome, ItemReport, KeptContent, NewContent, RetrySettings, RetryingUploader, SendRefusal,
    UploadError, UploadEvent, UploadObserver, UploadOutcome, UploadReport, UploadRequest, Uploader,
    is_content_at_fault, reference_content, sha256_of,
};
#[cfg(feature = "http")]
pub use uploads::{HttpUpload, HttpUploader, UploadPlan, build_uploader};
pub use worker::engine::{DEFAULT_TIME_LIMIT, Engine, random_worker_id};
pub use worker::handoff::Handoff;
pub use worker::unit_leases::UnitLeases;
pub use worker::work::{Completion, Work, WorkerLimits};
pub use worker::worker_loop::{Until, run_worker};
pub use worker::write_times::WriteTimes;
