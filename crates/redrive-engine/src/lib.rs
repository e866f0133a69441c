//! What runs, watches and checks the work in a store.
//!
//! The engine holds an `Arc<dyn Store>` and never knows which database that is. Time and chance enter
//! here, each in one file, and are handed down from here as arguments.
//!
//! The [`Engine`] serves queues, sources and pipelines: one worker loop for each, fed by [`Work`], so that every kind of work
//! is claimed, handled, decided about and finished by the same code.
//!
//! [`retry`] decides about any async operation of a program by the same policies, without a store.
//!
//! [`Control`] does to partitions what operators wish, the [`Daemon`] sends failed ones back when their
//! time has come, a [`Consumer`] reads the good ones.
//!
//! The [`checker`] reads a whole store and reports every unit that breaks an invariant. `redrive
//! doctor` runs it on a real store.

mod chance;
mod clock;

pub mod checker;

mod stop;

mod course;
mod retry;

mod handler;

pub mod reply;

mod program;

mod exec;
mod stream;

mod http;

mod raw;

mod validator;

mod calendar;
mod gaps;

mod control;

mod consumer;
mod daemon;

mod extractor;

mod handover;
mod work;

mod appetite;
mod claim;
mod finisher;
mod held;
mod lease_clock;
mod mishap;
mod pause;
mod reaper;
mod renewer;
mod settled;
mod worker;
mod write_times;

mod run_work;

mod source;

mod lane_shares;
mod run_ids;

mod partition_work;
mod scheduler;

mod page_size;

mod pipelines;

mod notify;

mod prune;

#[cfg(feature = "otel")]
pub mod traces;

mod engine;

mod uploads;

mod item_checks;
mod item_invariants;
mod ledger_reader;
mod partition_checks;
mod partition_invariants;
mod pipeline_checks;
mod pipeline_invariants;
mod raw_checks;
mod run_invariants;
mod sample_checks;
mod sample_invariants;
mod unit_checks;

pub use calendar::DailyCalendar;
pub use chance::{NoChance, random_worker_id};
pub use clock::{Clock, SteadyClock, SystemClock};
pub use consumer::{ConsumeError, Consumer, ReadablePartition};
pub use control::{
    ChangeTally, Control, Fate, KeyGrid, PartitionCommand, PartitionOutcome, PartitionRules,
    PartitionSelection, Refusal, RunMode, Sweep,
};
pub use course::{Course, Rules};
pub use daemon::{DEFAULT_INTERVAL, Daemon, Tick};
pub use engine::{DEFAULT_TIME_LIMIT, Engine};
pub use exec::{ExecHandler, ExecSpec};
pub use extractor::{Extractor, RowWriter, extractor_fn};
pub use gaps::{Gap, gaps};
pub use handler::{Call, Handler, Outcome, handler_fn};
pub use handover::Handover;
pub use http::{
    BodyTemplate, DEFAULT_CONNECT_TIMEOUT, HeaderSource, HttpExtractor, HttpHandler, HttpSpec,
    InvalidHttp, InvalidPointer, InvalidTemplate, JsonPointer, MAX_BODY_BYTES, MAX_PAGES, Paging,
};
pub use notify::{Notifier, RESERVED_QUEUES, Told};
pub use pipelines::{
    BAD_LINE, CommandSource, DEFAULT_READ_AHEAD, FeedEnd, IntoSample, IteratorSource, JsonlSource,
    LineFeed, NotResumed, Pipeline, PipelineControl, Reprocessed, SOURCE_CHANGED, SamplePages,
    SampleSource, SourceCall, Stage, StageAnswer, TOO_LARGE, config_hash, stage_fn,
};
pub use program::{DEFAULT_GRACE, InvalidProgram};
pub use prune::{ExportedFile, Prunable, Prune, PruneError, PruneReport};
pub use raw::{
    Damage, Extracted, ObjectService, RawError, RawLocation, RawMetadata, RawReader, RawSink,
    RawWriter,
};
pub use raw_checks::verify_partitions;
pub use retry::{
    AnyError, ByItself, Classify, Ended, Explained, GaveUp, Retry, RetryEvent, When, retry,
};
pub use run_work::Queue;
pub use scheduler::DaySchedule;
pub use source::{DEFAULT_BACKFILL_SHARE, Source};
pub use stop::{Stop, Stopper};
pub use stream::{StreamHandler, StreamSpec};
pub use uploads::{
    Chunks, Content, ContentError, FolderContent, GiveupFile, GiveupFileError, GroupBegun,
    GroupBusy, GroupLease, GroupSending, GroupSent, GroupUpload, HttpUpload, HttpUploader,
    ItemOutcome, ItemReport, KeptContent, NewContent, RetrySettings, RetryingUploader, UploadError,
    UploadEvent, UploadObserver, UploadOutcome, UploadPlan, UploadReport, UploadRequest, Uploader,
    build_uploader, reference_content, sha256_of,
};
pub use validator::{
    Extraction, InvalidSchema, Judge, Judged, Judgement, MAX_ROW_BYTES, RowSchema,
    Rules as ValidationRules, Validator, verdict_code,
};
pub use work::{Ending, Pace, Work};
pub use worker::{Until, run_worker};
pub use write_times::write_times;
