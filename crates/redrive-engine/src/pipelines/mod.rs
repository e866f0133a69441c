//! Sample pipelines: a source, stages with a policy each, dead letters and a failure budget (PIP).
//!
//! [`Pipeline`] is the declaration. Each stage of a pipeline run is served by its own worker loop ([`StageWork`]),
//! so every stage has its own slots and a sample that waits for a retry holds none. [`SourceReader`] reads the
//! [source](SampleSource) into a [`SampleWriter`], which stores samples together with the position in the source.
//! Operators use [`PipelineControl`].
//!
//! - `pipeline`, `stage`: the declaration
//! - `source`: the interface of a source
//! - `jsonl_source`, `command_source`, `iterator_source`: files, programs and Rust iterators as sources
//! - `patched_source`: compares a file that has changed with what was read of it
//! - `sample_writer`: splits a source into samples and stores them
//! - `source_reader`, `stage_work`: sources and stages as work for the worker loop
//! - `next_stage`: keeps a sample with its worker for the next stage
//! - `loops`: starts the worker loops of a pipeline
//! - `control`: what operators do to pipeline runs and dead letters
//! - `pages`, `page_size`: read samples of any size page by page

mod pipeline;
mod stage;

mod source;

mod command_source;
mod iterator_source;
mod jsonl_source;

mod patched_source;
mod sample_writer;

mod source_reader;
mod stage_work;

mod next_stage;

mod loops;

mod control;

pub(crate) mod page_size;
mod pages;

pub(crate) use self::loops::PipelineLoops;
pub use self::{
    command_source::CommandSource,
    control::{PipelineControl, ReprocessCounts, ResumeError},
    iterator_source::IteratorSource,
    jsonl_source::JsonlSource,
    pages::SamplePages,
    patched_source::{ChangedLine, PatchError, PatchedSource},
    pipeline::{DEFAULT_READ_AHEAD, Pipeline},
    sample_writer::{BAD_LINE, SampleWriter, TOO_LARGE},
    source::{SOURCE_CHANGED, SampleSource, SourceCall, SourceEnd},
    stage::{IntoSample, Stage, StageAnswer, config_hash, stage_fn},
};
use self::{source_reader::SourceReader, stage_work::StageWork};
