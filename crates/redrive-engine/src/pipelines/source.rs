//! Where samples come from.

use async_trait::async_trait;
use redrive_core::{Failure, PipelineRunId};
use redrive_store::SourcePosition;

use super::SampleWriter;
use crate::Stop;

/// The code of a source that is not what it was.
pub const SOURCE_CHANGED: &str = "source_changed";

/// A reading of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCall {
    /// The pipeline.
    pub pipeline: String,
    /// The run that its samples are for.
    pub run: PipelineRunId,
    /// How far it was read before.
    pub position: SourcePosition,
}

/// How a reading ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceEnd {
    /// All of the source was read.
    Done,
    /// The reader was told to stop.
    Stopped,
    /// Nobody wants the rest: the run was stopped, or someone else reads the source.
    Unwanted,
    /// The source cannot be read any further.
    Failed(Failure),
}

/// Where samples come from.
///
/// A source hands its bytes to a [`SampleWriter`], from where an earlier reading got to, and stops when the
/// feed says so. The feed waits while too many samples are unfinished.
#[async_trait]
pub trait SampleSource: Send + Sync {
    /// What it is, for people.
    fn describe(&self) -> String;

    /// Hands on what comes after the position of a call.
    async fn read(&self, call: &SourceCall, writer: &mut SampleWriter, stop: Stop) -> SourceEnd;

    /// Whether it can be read on from a position, as far as that can be told without reading on.
    async fn check(&self, _position: &SourcePosition) -> Result<(), Failure> {
        Ok(())
    }
}
