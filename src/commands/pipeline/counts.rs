//! Where the samples of a run are, stage by stage.

use redrive::{PipelineRunRecord, StageCount};
use redrive_store::{Result, Store};
use serde::Serialize;

use crate::output::{Column, Row};

/// Where the samples of a run are.
pub(super) struct StageCounts {
    /// One row for each stage.
    pub(super) rows: Vec<StageCountRow>,
}

/// Where the samples are, at one stage.
#[derive(Debug, Clone, Serialize)]
pub(super) struct StageCountRow {
    pub(super) stage: String,
    pub(super) done: u64,
    pub(super) ready: u64,
    pub(super) in_flight: u64,
    pub(super) retrying: u64,
    pub(super) skipped: u64,
    pub(super) dlq: u64,
}

impl StageCounts {
    /// Reads them.
    pub(super) async fn read(run: &PipelineRunRecord, store: &dyn Store) -> Result<Self> {
        let counts = store.stage_counts(run.id).await?;
        let done = StageCount::done(run.progress.tally.total, &counts);
        let rows = run.stages.iter().zip(&counts).zip(done);
        let row = |((stage, count), done): ((&String, &StageCount), u64)| StageCountRow {
            stage: stage.clone(),
            done,
            ready: count.ready,
            in_flight: count.running,
            retrying: count.retrying,
            skipped: count.skipped,
            dlq: count.dlq,
        };
        Ok(Self { rows: rows.map(row).collect() })
    }

    /// How many samples are held by workers.
    pub(super) fn in_flight(&self) -> u64 {
        self.rows.iter().map(|row| row.in_flight).sum()
    }

    /// How many samples wait for a retry.
    pub(super) fn retrying(&self) -> u64 {
        self.rows.iter().map(|row| row.retrying).sum()
    }
}

impl Row for StageCountRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::number("done"),
        Column::number("ready"),
        Column::number("in flight"),
        Column::number("retrying"),
        Column::number("skipped"),
        Column::number("dead"),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = [self.done, self.ready, self.in_flight, self.retrying, self.skipped, self.dlq];
        let counts = counts.iter().map(u64::to_string);
        std::iter::once(self.stage.clone()).chain(counts).collect()
    }
}
