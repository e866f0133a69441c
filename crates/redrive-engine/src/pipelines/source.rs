//! The interface of a source of samples.

use std::path::Path;

use async_trait::async_trait;
use redrive_core::{Failure, PipelineRunId};
use redrive_store::SourcePosition;

use super::SampleWriter;
use crate::Stop;

/// The code of a source whose lines differ from those that were read before.
pub const SOURCE_CHANGED: &str = "source_changed";

/// One call of [`SampleSource::read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCall {
    pub pipeline: String,
    pub run: PipelineRunId,
    /// How far earlier calls read the source.
    pub position: SourcePosition,
}

/// How a call of [`SampleSource::read`] ended.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceEnd {
    /// The whole source was read.
    Done,
    /// The worker stops. Another call reads the rest.
    Stopped,
    /// The rest is not needed: the run has stopped, or another worker reads the source.
    Unwanted,
    /// The source cannot be read further. The pipeline run is aborted.
    Failed(Failure),
}

/// A source of samples.
///
/// A source pushes its bytes to a [`SampleWriter`], starting where an earlier call ended, and stops when the
/// writer says so. The writer waits while too many samples are unfinished.
#[async_trait]
pub trait SampleSource: Send + Sync {
    /// A description for operators, such as the path of a file.
    fn describe(&self) -> String;

    /// The file that the source reads; `None` if it is not a file of lines.
    fn file(&self) -> Option<&Path> {
        None
    }

    /// Pushes everything after the position of the call to the writer. Lines up to the position are skipped
    /// with [`SampleWriter::skip`], so that the hash of the source is complete.
    async fn read(&self, call: &SourceCall, writer: &mut SampleWriter, stop: Stop) -> SourceEnd;

    /// Checks that the source can be read from a position, before a run is resumed.
    async fn check(&self, _position: &SourcePosition) -> Result<(), Failure> {
        Ok(())
    }
}
