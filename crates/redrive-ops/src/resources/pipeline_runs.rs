//! Runs of pipelines. They are started, resumed and cancelled one by one, so they have no actions here.

use redrive_core::PipelineRunId;
use redrive_store::{PageLimit, PageOrder, Result, Selection, SelectionTerm as Term, StateFilter};

use super::{Column, ColumnKind as Kind, Page, Resource, column::text, state};
use crate::{Ops, views::PipelineRunView, words::percent};

impl Resource for PipelineRunView {
    type Id = PipelineRunId;

    const NOUN: &'static str = "pipeline run";
    const COLUMNS: &'static [Column<Self>] = &[
        Column::new("id", Kind::Id, |run| run.id.to_string()),
        Column::new("pipeline", Kind::Text, |run| run.pipeline.clone()),
        Column::new("status", Kind::State, |run| run.status.name().to_owned()),
        Column::new("total", Kind::Number, |run| {
            let more = if run.source_done { "" } else { "+" };
            format!("{}{more}", run.total)
        }),
        Column::new("succeeded", Kind::Number, |run| run.succeeded.to_string()),
        Column::new("skipped", Kind::Number, |run| run.skipped.to_string()),
        Column::new("dlq", Kind::Number, |run| run.dlq.to_string()),
        Column::new("pending", Kind::Number, |run| run.pending.to_string()),
        Column::new("success rate", Kind::Number, |run| {
            run.success_rate.map(percent).unwrap_or_default()
        }),
        Column::new("started", Kind::Time, |run| run.started_at.to_string()),
        Column::new("stopped because", Kind::Message, |run| text(&run.stop_reason)),
    ];
    const TERMS: &'static [Term] = &[Term::Pipeline];
    const STATES: &'static [(&'static str, StateFilter)] = &[
        ("running", state("running")),
        ("completed", state("completed")),
        ("partial_success", state("partial_success")),
        ("failed", state("failed")),
        ("aborted", state("aborted")),
        ("cancelled", state("cancelled")),
    ];

    const ORDER: PageOrder = PageOrder::Descending;

    fn id(&self) -> PipelineRunId {
        self.id
    }

    async fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&PipelineRunId>,
        limit: PageLimit,
    ) -> Result<Page<Self>> {
        let after = after.copied().unwrap_or(PipelineRunId(limit.order.start()));
        let rows = ops.store().pipeline_runs_page(selection, after, limit).await?;
        let has_more = rows.len() >= limit.rows as usize;
        Ok(Page { rows: rows.iter().map(Self::from).collect(), has_more })
    }

    async fn by_id(ops: &Ops, ids: &[PipelineRunId]) -> Result<Vec<Self>> {
        Ok(ops.store().pipeline_runs_by_id(ids).await?.iter().map(Self::from).collect())
    }
}
