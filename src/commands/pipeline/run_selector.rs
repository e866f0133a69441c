//! Flags that select a pipeline run.

use clap::Args;
use redrive::{PipelineRunId, PipelineRunRecord};

use redrive_ops::{Resource, views::PipelineRunView};

use crate::{exit::CommandError, open_store::OpenStore};

#[derive(Debug, Args)]
pub(super) struct PipelineRunSelector {
    /// The id of the run [default: the newest run]
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = PipelineRunView::parse_id,
          conflicts_with = "pipeline")]
    id: Option<PipelineRunId>,

    /// The newest run of this pipeline
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
}

impl PipelineRunSelector {
    pub(super) async fn find(self, ops: &OpenStore) -> Result<PipelineRunRecord, CommandError> {
        match self.id {
            Some(id) => ops.pipeline_run(id).await,
            None => ops.newest_run(self.pipeline).await,
        }
    }
}
