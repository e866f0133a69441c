//! Sample pipelines: a source, stages with a policy each, dead letters and a failure budget (PIP).
//!
//! [`Pipeline`] is what is declared. A run of it is worked on by the one worker loop: [`StageWork`] for
//! each stage, so that every stage has its own slots and what waits holds none, and [`SourceReader`] for its
//! [source](SampleSource), which a [`SampleWriter`] cuts into samples and stores together with how far it has
//! been read. [`PipelineControl`] is what operators do.

mod control;
mod loops;
mod next_stage;
pub(crate) mod page_size;
mod pages;
mod pipeline;
mod sample_writer;
mod source;
mod source_reader;
mod stage;
mod stage_work;

mod command_source;
mod iterator_source;
mod jsonl_source;

pub(crate) use self::loops::PipelineLoops;
pub use self::{
    command_source::CommandSource,
    control::{PipelineControl, ReprocessCounts, ResumeError},
    iterator_source::IteratorSource,
    jsonl_source::JsonlSource,
    pages::SamplePages,
    pipeline::{DEFAULT_READ_AHEAD, Pipeline},
    sample_writer::{BAD_LINE, SampleWriter, TOO_LARGE},
    source::{SOURCE_CHANGED, SampleSource, SourceCall, SourceEnd},
    stage::{IntoSample, Stage, StageAnswer, config_hash, stage_fn},
};
use self::{source_reader::SourceReader, stage_work::StageWork};
