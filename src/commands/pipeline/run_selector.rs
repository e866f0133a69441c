//! The run that a command is about.

use clap::Args;
use redrive::{PipelineRunId, PipelineRunRecord};

use super::parse_id;
use crate::{exit::CommandError, open_store::OpenStore};

/// A run by its id, or the newest.
#[derive(Debug, Args)]
pub(super) struct PipelineRunSelector {
    /// The run [default: the newest]
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with = "pipeline")]
    id: Option<PipelineRunId>,

    /// The newest run of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
}

impl PipelineRunSelector {
    /// Finds it.
    pub(super) async fn find(self, ops: &OpenStore) -> Result<PipelineRunRecord, CommandError> {
        match self.id {
            Some(id) => ops.pipeline_run(id).await,
            None => ops.newest_run(self.pipeline).await,
        }
    }
}
