//! Implements [`Pipelines`].

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::PipelineRunId;
use redrive_store::{
    Backlog, JournalEntry, LeaseRef, NewPipelineRun, Operator, PageLimit, PipelineAction,
    PipelineChange, PipelineRunRecord, PipelineWrite, Pipelines, ReadColumn, Result, RowReader,
    Selection, SelectionSql, Served, SourceClaim, SourceFinish, SourcePosition, StageCount,
    StageStats, Written, rules_to_json, start_entry,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_ids, json_list, micros, read_records, read_rows},
    error::Doing,
    journal::insert_journal,
    queries,
    selected::SelectQuery,
};

#[async_trait]
impl Pipelines for SqliteStore {
    async fn start_pipeline_run(
        &self,
        run: &NewPipelineRun,
        by: &Operator,
    ) -> Result<PipelineRunId> {
        run.check()?;
        let (run, by) = (run.clone(), by.cleaned());
        let id = self.write(move |connection| start(connection, &run, &by)).await?;
        redrive_store::failpoint!("sqlite.pipeline_start.committed");
        self.wakes.wake_if(true);
        Ok(id)
    }

    async fn pipeline_runs_by_id(&self, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>> {
        let ids = json_ids(ids.iter().map(|id| id.0));
        self.read(move |connection| by_id(connection, &ids)).await
    }

    async fn pipeline_runs_page(
        &self,
        filter: &Selection,
        after: PipelineRunId,
        limit: PageLimit,
    ) -> Result<Vec<PipelineRunRecord>> {
        let own = vec![after.0.into(), limit.rows.into()];
        let units = SelectionSql::PIPELINE_RUNS.in_order(limit.order);
        let sql = queries::PIPELINE_RUNS_PAGE;
        self.select(READING, SelectQuery { units, sql, own }, filter).await
    }

    async fn change_pipeline_run(
        &self,
        id: PipelineRunId,
        action: &PipelineAction,
        by: &Operator,
    ) -> Result<PipelineChange> {
        let (action, by) = (action.clone(), by.cleaned());
        let change = self.write(move |connection| change(connection, id, &action, &by)).await?;
        redrive_store::failpoint!("sqlite.pipeline_change.committed");
        self.wakes.wake_if(matches!(change, PipelineChange::Done(_)));
        Ok(change)
    }

    async fn move_source(
        &self,
        id: PipelineRunId,
        position: &SourcePosition,
        journal: &JournalEntry,
    ) -> Result<Written> {
        const DOING: &str = "moving a source";
        let (position, journal, now) =
            (position.clone(), journal.clone(), micros(redrive_store::Store::now(self)));
        let write = self.write(move |connection| {
            let params = params![id.0, position.lines, position.bytes, position.check, now];
            let sql = queries::REPOSITION_SOURCE;
            let moved =
                connection.prepare_cached(sql).doing(DOING)?.execute(params).doing(DOING)?;
            if moved > 0 {
                redrive_store::failpoint!("sqlite.move_source.row");
                insert_journal(connection, &journal)?;
            }
            Ok(Written::from_changed(moved > 0))
        });
        let written = write.await?;
        redrive_store::failpoint!("sqlite.move_source.committed");
        Ok(written)
    }

    async fn claim_feeds(&self, claim: &SourceClaim) -> Result<Vec<(LeaseRef, PipelineRunRecord)>> {
        let claim = claim.clone();
        let runs: Vec<PipelineRunRecord> = self
            .write(move |connection| {
                let live = live_runs(connection, &claim.served)?;
                let (owner, until) = (&claim.owner.0, micros(claim.lease_until));
                let params = params![json_ids(live), claim.limit, owner, until];
                read_records(connection, "claiming sources", queries::CLAIM_FEEDS, params)
            })
            .await?;
        redrive_store::failpoint!("sqlite.claim_feed.committed");
        let lease = |run: &PipelineRunRecord| LeaseRef { id: run.id.0, epoch: run.feed_epoch };
        Ok(runs.into_iter().map(|run| (lease(&run), run)).collect())
    }

    async fn finish_feeds(&self, finishes: &[SourceFinish]) -> Result<Vec<Written>> {
        let finishes = finishes.to_vec();
        let written: Vec<Written> = self
            .write(move |connection| {
                finishes.iter().map(|finish| finish_feed(connection, finish)).collect()
            })
            .await?;
        redrive_store::failpoint!("sqlite.finish_feed.committed");
        self.wakes.wake_if(written.contains(&Written::Applied));
        Ok(written)
    }

    async fn stage_counts(&self, id: PipelineRunId) -> Result<Vec<StageCount>> {
        self.read(move |connection| stage_counts(connection, id)).await
    }

    async fn stage_stats(&self, id: PipelineRunId) -> Result<Vec<StageStats>> {
        self.read(move |connection| stage_stats(connection, id)).await
    }

    async fn pipeline_backlog(&self, served: &Served) -> Result<Backlog> {
        let served = served.clone();
        self.read(move |connection| {
            let live = json_ids(live_runs(connection, &served)?);
            let mut rows = read_records(connection, READING, queries::PIPELINE_BACKLOG, [live])?;
            Ok(rows.pop().unwrap_or_default())
        })
        .await
    }

    async fn next_sample_due(&self, served: &Served, stage: u32) -> Result<Option<Timestamp>> {
        let served = served.clone();
        self.read(move |connection| {
            let live = json_ids(live_runs(connection, &served)?);
            let params = params![live, stage];
            let due = read_rows(connection, READING, queries::NEXT_SAMPLE_DUE, params, |row| {
                row.optional_timestamp()
            })?;
            Ok(due.into_iter().flatten().next())
        })
        .await
    }
}

const READING: &str = "reading pipeline runs";
const WRITING: &str = "writing pipeline runs";

fn start(connection: &Connection, run: &NewPipelineRun, by: &Operator) -> Result<PipelineRunId> {
    let params = params![
        run.pipeline,
        json_list(&run.stages),
        rules_to_json(&run.rules),
        run.read_ahead,
        run.source,
        micros(by.at),
        by.actor,
    ];
    let id: i64 = connection
        .prepare_cached(queries::INSERT_PIPELINE_RUNS)
        .doing(WRITING)?
        .query_row(params, |row| row.get(0))
        .doing(WRITING)?;
    redrive_store::failpoint!("sqlite.pipeline_start.row");
    insert_journal(connection, &start_entry(PipelineRunId(id), &run.pipeline, by))?;
    Ok(PipelineRunId(id))
}

fn change(
    connection: &Connection,
    id: PipelineRunId,
    action: &PipelineAction,
    by: &Operator,
) -> Result<PipelineChange> {
    let Some(run) = one(connection, id)? else { return Ok(PipelineChange::Unknown) };
    let before = run.progress.status;
    let Some(write) = action.write(&run, by) else { return Ok(PipelineChange::Refused(before)) };
    let rules = rules_to_json(action.rules(&run));
    connection
        .prepare_cached(queries::SET_PIPELINE_RULES)
        .doing(WRITING)?
        .execute(params![id.0, rules])
        .doing(WRITING)?;
    write_run(connection, id, &write)?;
    Ok(PipelineChange::Done(before))
}

fn finish_feed(connection: &Connection, finish: &SourceFinish) -> Result<Written> {
    let SourceFinish { lease, failure, at, worker } = finish;
    let changed = connection
        .prepare_cached(queries::FINISH_FEEDS)
        .doing(WRITING)?
        .execute(params![lease.id, lease.epoch.0])
        .doing(WRITING)?;
    if changed == 0 {
        return Ok(Written::Stale);
    }
    redrive_store::failpoint!("sqlite.finish_feed.row");
    let id = PipelineRunId(lease.id);
    if let (Some(failure), Some(run)) = (failure, one(connection, id)?) {
        let before = run.progress;
        let write = PipelineWrite::after_source_failure(id, before, failure, *at, &worker.0);
        write_run(connection, id, &write)?;
    }
    Ok(Written::Applied)
}

/// The ids of the runs that a worker serves.
pub(crate) fn live_runs(connection: &Connection, served: &Served) -> Result<Vec<i64>> {
    let only = served.run.map(|run| run.0);
    let params = params![served.pipeline, json_list(&served.stages), only];
    read_rows(connection, READING, queries::LIVE_PIPELINE_RUNS, params, |row| row.get())
}

pub(crate) fn one(connection: &Connection, id: PipelineRunId) -> Result<Option<PipelineRunRecord>> {
    Ok(by_id(connection, &json_ids([id.0]))?.pop())
}

fn by_id(connection: &Connection, ids: &str) -> Result<Vec<PipelineRunRecord>> {
    read_records(connection, READING, queries::PIPELINE_RUNS_BY_ID, [ids])
}

/// Writes the progress of a run and its journal entries.
pub(crate) fn write_run(
    connection: &Connection,
    id: PipelineRunId,
    write: &PipelineWrite,
) -> Result<()> {
    let progress = &write.progress;
    connection
        .prepare_cached(queries::WRITE_PIPELINE_RUNS)
        .doing(WRITING)?
        .execute(params![
            id.0,
            progress.status.name(),
            progress.counts.total,
            progress.counts.succeeded,
            progress.counts.skipped,
            progress.counts.dlq,
            progress.counts.source_done,
            progress.budget.processed,
            progress.budget.failed,
            write.ended_at.map(micros),
            write.stop_reason,
        ])
        .doing(WRITING)?;
    redrive_store::failpoint!("sqlite.pipeline.row");
    for entry in &write.journal {
        insert_journal(connection, entry)?;
        redrive_store::failpoint!("sqlite.pipeline.journal");
    }
    Ok(())
}

fn stage_counts(connection: &Connection, id: PipelineRunId) -> Result<Vec<StageCount>> {
    let Some(run) = one(connection, id)? else { return Ok(Vec::new()) };
    let counts = read_records(connection, READING, queries::STAGE_COUNTS, [id.0])?;
    Ok(StageCount::gather(run.stages.len(), counts))
}

fn stage_stats(connection: &Connection, id: PipelineRunId) -> Result<Vec<StageStats>> {
    let Some(run) = one(connection, id)? else { return Ok(Vec::new()) };
    let executions = read_records(connection, READING, queries::STAGE_EXECUTIONS, [id.0])?;
    let outcomes = read_records(connection, READING, queries::STAGE_OUTCOMES, [id.0])?;
    Ok(StageStats::gather(&run.stages, executions, outcomes))
}
