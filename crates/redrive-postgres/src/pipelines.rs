//! Pipeline runs and their sources.
//!
//! Every transaction that changes pipeline runs locks their rows in the order of their ids, after any samples. A
//! batch of ended samples locks them last, so other transactions wait only for that write.

use crate::{
    PostgresStore,
    batch::{FirstOccurrences, each},
    bound_query::{BoundQuery, bind},
    columns::{Micros, read_records, read_rows},
    journal::JournalColumns,
    queries,
    session::Session,
};
use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::PipelineRunId;
use redrive_store::{
    Backlog, Error, FromRow, JournalEntry, LeaseRef, NewPipelineRun, Operator, PageLimit,
    PipelineAction, PipelineChange, PipelineRunRecord, PipelineWrite, Pipelines, ReadColumn,
    Result, RowReader, Selection, SelectionSql, Served, SourceClaim, SourceFinish, SourcePosition,
    StageCount, StageStats, Written, rules_to_json, start_entry,
};

#[async_trait]
impl Pipelines for PostgresStore {
    async fn start_pipeline_run(
        &self,
        run: &NewPipelineRun,
        by: &Operator,
    ) -> Result<PipelineRunId> {
        run.check()?;
        let id = start(self, run, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.pipeline_start.committed");
        self.notify_if(true).await;
        Ok(id)
    }

    async fn pipeline_runs_by_id(&self, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>> {
        by_id(&mut self.session(READING).await?, ids).await
    }

    async fn pipeline_runs_page(
        &self,
        filter: &Selection,
        after: PipelineRunId,
        limit: PageLimit,
    ) -> Result<Vec<PipelineRunRecord>> {
        let page = bind!(
            queries::PIPELINE_RUNS_PAGE,
            after => &after.0,
            limit => &i64::from(limit.rows),
        );
        let mut session = self.session(READING).await?;
        let units = SelectionSql::PIPELINE_RUNS.in_order(limit.order);
        let rows = session.select(page, &units, filter).await?;
        read_records(&rows, READING)
    }

    async fn change_pipeline_run(
        &self,
        id: PipelineRunId,
        action: &PipelineAction,
        by: &Operator,
    ) -> Result<PipelineChange> {
        let change = change(self, id, action, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.pipeline_change.committed");
        self.notify_if(matches!(change, PipelineChange::Done(_))).await;
        Ok(change)
    }

    async fn move_source(
        &self,
        id: PipelineRunId,
        position: &SourcePosition,
        journal: &JournalEntry,
    ) -> Result<Written> {
        const DOING: &str = "moving a source";
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let journal = JournalColumns::of([Some(journal)]);
        let reposition = bind!(
            queries::REPOSITION_SOURCE,
            id => &id.0,
            source_lines => &number(position.lines),
            source_bytes => &number(position.bytes),
            source_check => &position.check,
            now => &Micros(redrive_store::Store::now(self)),
            ..JournalColumns(journal)
        );
        let moved = self.session(DOING).await?.query(reposition).await?;
        redrive_store::failpoint!("postgres.move_source.committed");
        Ok(Written::from_changed(!moved.is_empty()))
    }

    async fn claim_feeds(&self, claim: &SourceClaim) -> Result<Vec<(LeaseRef, PipelineRunRecord)>> {
        const DOING: &str = "claiming sources";
        let Served { pipeline, stages, run } = &claim.served;
        let take = bind!(
            queries::CLAIM_FEEDS,
            pipeline => pipeline,
            stages => stages,
            run_id => &run.map(|run| run.0),
            limit => &i64::from(claim.limit),
            owner => &claim.owner.0,
            lease_until => &Micros(claim.lease_until),
        );
        let rows = self.session(DOING).await?.query(take).await?;
        redrive_store::failpoint!("postgres.claim_feed.committed");
        let mut runs: Vec<PipelineRunRecord> = read_records(&rows, DOING)?;
        // RETURNING has no order.
        runs.sort_unstable_by_key(|run| run.id);
        let lease = |run: &PipelineRunRecord| LeaseRef { id: run.id.0, epoch: run.feed_epoch };
        Ok(runs.into_iter().map(|run| (lease(&run), run)).collect())
    }

    async fn finish_feeds(&self, finishes: &[SourceFinish]) -> Result<Vec<Written>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        let written = finish(self, finishes).await?;
        redrive_store::failpoint!("postgres.finish_feed.committed");
        self.notify_if(written.contains(&Written::Applied)).await;
        Ok(written)
    }

    async fn stage_counts(&self, id: PipelineRunId) -> Result<Vec<StageCount>> {
        const DOING: &str = "counting samples";
        let mut session = self.session(DOING).await?;
        let Some(run) = by_id(&mut session, &[id]).await?.pop() else { return Ok(Vec::new()) };
        let rows = session.query(bind!(queries::STAGE_COUNTS, run_id => &id.0)).await?;
        Ok(StageCount::gather(run.stages.len(), read_records(&rows, DOING)?))
    }

    async fn stage_stats(&self, id: PipelineRunId) -> Result<Vec<StageStats>> {
        const DOING: &str = "reading the ledger";
        let mut session = self.session(DOING).await?;
        let Some(run) = by_id(&mut session, &[id]).await?.pop() else { return Ok(Vec::new()) };
        let rows = session.query(bind!(queries::STAGE_EXECUTIONS, run_id => &id.0)).await?;
        let executions = read_records(&rows, DOING)?;
        let rows = session.query(bind!(queries::STAGE_OUTCOMES, run_id => &id.0)).await?;
        Ok(StageStats::gather(&run.stages, executions, read_records(&rows, DOING)?))
    }

    async fn pipeline_backlog(&self, served: &Served) -> Result<Backlog> {
        let Served { pipeline, stages, run } = served;
        let backlog = bind!(
            queries::PIPELINE_BACKLOG,
            pipeline => pipeline,
            stages => stages,
            run_id => &run.map(|run| run.0),
        );
        let rows = self.session(READING).await?.query(backlog).await?;
        Ok(read_records(&rows, READING)?.pop().unwrap_or_default())
    }

    async fn next_sample_due(&self, served: &Served, stage: u32) -> Result<Option<Timestamp>> {
        let Served { pipeline, stages, run } = served;
        let next = bind!(
            queries::NEXT_SAMPLE_DUE,
            pipeline => pipeline,
            stages => stages,
            run_id => &run.map(|run| run.0),
            stage => &i64::from(stage),
        );
        let rows = self.session(READING).await?.query(next).await?;
        let due = read_rows(&rows, READING, |row| row.optional_timestamp())?;
        Ok(due.into_iter().flatten().next())
    }
}

const READING: &str = "reading pipeline runs";

async fn start(
    store: &PostgresStore,
    run: &NewPipelineRun,
    by: &Operator,
) -> Result<PipelineRunId> {
    const DOING: &str = "starting a pipeline run";
    let NewPipelineRun { pipeline, stages, rules, read_ahead, source } = run;
    let mut session = store.session(DOING).await?;
    let insert = bind!(
        queries::INSERT_PIPELINE_RUNS,
        pipeline => pipeline,
        stages => stages,
        rules => &rules_to_json(rules),
        read_ahead => &i64::from(*read_ahead),
        source => source,
        started_at => &Micros(by.at),
        started_by => &by.actor,
    );
    let rows = session.begin(insert).await?;
    redrive_store::failpoint!("postgres.pipeline_start.row");
    let ids = read_rows(&rows, DOING, |row| row.get().map(PipelineRunId))?;
    let Some(id) = ids.into_iter().next() else {
        return Err(Error::misuse(DOING, "the server returned no id for the run"));
    };
    let entry = start_entry(id, pipeline, by);
    let journal = JournalColumns::of([Some(&entry)]);
    session.commit_all(&[bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))]).await?;
    Ok(id)
}

async fn change(
    store: &PostgresStore,
    id: PipelineRunId,
    action: &PipelineAction,
    by: &Operator,
) -> Result<PipelineChange> {
    const DOING: &str = "changing a pipeline run";
    let mut session = store.session(DOING).await?;
    let lock = bind!(queries::LOCK_PIPELINE_RUNS, ids => &vec![id.0]);
    let rows = session.begin(lock).await?;
    let run: Option<PipelineRunRecord> = read_records(&rows, DOING)?.pop();
    redrive_store::failpoint!("postgres.pipeline_change.locked");
    let before = run.as_ref().map(|run| run.progress.status);
    let write = run.as_ref().and_then(|run| action.write(run, by));
    let rules = run.as_ref().map(|run| rules_to_json(action.rules(run)));
    let set_rules = bind!(queries::SET_PIPELINE_RULES, id => &id.0, rules => &rules);
    match &write {
        Some(write) => drop(write_runs(&mut session, &[(id, write)], &[set_rules]).await?),
        None => session.commit().await?,
    }
    Ok(match before {
        None => PipelineChange::Unknown,
        Some(before) if write.is_none() => PipelineChange::Refused(before),
        Some(before) => PipelineChange::Done(before),
    })
}

async fn finish(store: &PostgresStore, finishes: &[SourceFinish]) -> Result<Vec<Written>> {
    const DOING: &str = "ending the reading of sources";
    // The first finish ends the lease, so a second one with the same lease is stale.
    let batch = FirstOccurrences::of(finishes, |finish| finish.lease);
    let ids = each(&batch.rows, |finish| finish.lease.id);
    let epochs = each(&batch.rows, |finish| finish.lease.epoch.0);
    let mut session = store.session(DOING).await?;
    let finish = bind!(queries::FINISH_FEEDS, id => &ids, epoch => &epochs);
    let rows = session.begin(finish).await?;
    redrive_store::failpoint!("postgres.finish_feed.row");
    let writes = read_rows(&rows, DOING, |row| {
        let place: usize = row.count("place")?;
        let run = PipelineRunRecord::from_row(row)?;
        let finish = place.checked_sub(1).and_then(|place| batch.rows.get(place));
        Ok(finish.and_then(|SourceFinish { failure, at, worker, .. }| {
            let (before, failure) = (run.progress, failure.as_ref()?);
            let actor = &worker.0;
            let write = PipelineWrite::after_source_failure(run.id, before, failure, *at, actor);
            Some((run.id, write))
        }))
    })?;
    let writes: Vec<_> = writes.into_iter().flatten().collect();
    write_runs(&mut session, &each(&writes, |(id, write)| (*id, write)), &[]).await?;
    batch.written(&rows, DOING)
}

async fn by_id(session: &mut Session, ids: &[PipelineRunId]) -> Result<Vec<PipelineRunRecord>> {
    let read = bind!(queries::PIPELINE_RUNS_BY_ID, ids => &each(ids, |id| id.0));
    let rows = session.query(read).await?;
    read_records(&rows, READING)
}

/// Writes the progress of locked runs with their journal entries, runs some more queries and commits. Returns
/// the runs.
pub(crate) async fn write_runs(
    session: &mut Session,
    writes: &[(PipelineRunId, &PipelineWrite)],
    more: &[BoundQuery<'_>],
) -> Result<Vec<PipelineRunRecord>> {
    write_runs_and(session, writes, more, true).await
}

/// Like [`write_runs`], and commits only if asked to.
pub(crate) async fn write_runs_and(
    session: &mut Session,
    writes: &[(PipelineRunId, &PipelineWrite)],
    more: &[BoundQuery<'_>],
    commits: bool,
) -> Result<Vec<PipelineRunRecord>> {
    if writes.is_empty() && commits {
        return session.commit_all(more).await.map(|_| Vec::new());
    }
    let progress = each(writes, |(_, write)| write.progress);
    let update = bind!(
        queries::WRITE_PIPELINE_RUNS,
        id => &each(writes, |(id, _)| id.0),
        status => &each(&progress, |progress| progress.status.name()),
        total => &each(&progress, |progress| number(progress.counts.total)),
        succeeded => &each(&progress, |progress| number(progress.counts.succeeded)),
        skipped => &each(&progress, |progress| number(progress.counts.skipped)),
        dlq => &each(&progress, |progress| number(progress.counts.dlq)),
        source_done => &each(&progress, |progress| progress.counts.source_done),
        budget_processed => &each(&progress, |progress| number(progress.budget.processed)),
        budget_failed => &each(&progress, |progress| number(progress.budget.failed)),
        ended_at => &each(writes, |(_, write)| write.ended_at.map(Micros)),
        stop_reason => &each(writes, |(_, write)| write.stop_reason.as_deref()),
    );
    let entries: Vec<&JournalEntry> = writes.iter().flat_map(|(_, write)| &write.journal).collect();
    let journal = JournalColumns::of(entries.iter().copied().map(Some));
    let insert = bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal));
    let mut all = more.to_vec();
    all.extend((!entries.is_empty()).then_some(insert));
    all.push(update);
    let written =
        if commits { session.commit_all(&all).await? } else { session.continue_all(&all).await? };
    let written = written.into_iter().next_back().unwrap_or_default();
    read_records(&written, "writing pipeline runs")
}

pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
