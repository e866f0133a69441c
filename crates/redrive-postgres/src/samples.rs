//! Samples of pipelines: claim, finish, read.

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{bind, columns},
    columns::{Micros, PostgresRow, read_rows},
    operators::Edited,
    queries,
    sample_writes::{append, finish, reprocess},
};
use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Epoch, History, PipelineRunId, SampleId, SampleStatus};
use redrive_store::{
    ClaimedSample, DataEdit, DeadCause, LeaseRef, MAX_PAGE_BYTES, NewSample, Operator, PageLimit,
    PipelineRunRecord, Result, SampleChange, SampleClaim, SampleFilter, SampleFinish, SampleLine,
    SampleRecord, SampleWritten, Samples, Served, SourcePosition, WorkerId, Written,
    stage_or_source,
};

#[async_trait]
impl Samples for PostgresStore {
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>> {
        let run = append(self, feed, samples, position, at).await?;
        redrive_store::failpoint!("postgres.append.committed");
        self.notify_if(run.is_some()).await;
        Ok(run)
    }

    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>> {
        const DOING: &str = "claiming samples";
        let Served { pipeline, stages, run } = &claim.served;
        let take = bind!(
            queries::CLAIM_SAMPLES,
            pipeline => pipeline,
            stages => stages,
            run_id => &run.map(|run| run.0),
            stage => &i64::from(claim.stage),
            limit => &i64::from(claim.limit),
            owner => &claim.owner.0,
            lease_until => &Micros(claim.lease_until),
            now => &Micros(claim.now),
        );
        let rows = self.session(DOING).await?.query(take).await?;
        redrive_store::failpoint!("postgres.claim_samples.committed");
        let mut claimed = read_rows(&rows, DOING, |row| {
            let due: bool = row.get()?;
            Ok((due, read_claimed(row)?))
        })?;
        // RETURNING has no order.
        claimed.sort_unstable_by_key(|(due, sample)| (sample.run, !due, sample.id));
        Ok(claimed.into_iter().map(|(_, sample)| sample).collect())
    }

    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        let (written, over) = finish(self, finishes).await?;
        redrive_store::failpoint!("postgres.finish_samples.committed");
        let mut each = written.iter().zip(finishes);
        let leaves_work = each
            .any(|(written, finish)| *written == SampleWritten::Applied && finish.leaves_work());
        self.wake_if(leaves_work);
        self.notify_if(over).await;
        Ok(written)
    }

    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
        let ids = each(ids, |id| id.0);
        let mut session = self.session(READING).await?;
        let rows = session.query(bind!(queries::SAMPLES_BY_ID, ids => &ids)).await?;
        read_rows(&rows, READING, read_sample)
    }

    async fn samples_page(
        &self,
        filter: &SampleFilter,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>> {
        let (status, filter) = (filter.status, FilterValues::of(filter));
        let page = bind!(
            match status {
                Some(SampleStatus::Dlq) => queries::DEAD_SAMPLES_PAGE,
                _ => queries::SAMPLES_PAGE,
            },
            after => &after.0,
            limit => &i64::from(limit.rows),
            with_data => &limit.with_data,
            max_bytes => &(MAX_PAGE_BYTES as i64),
            ..FilterValues(filter)
        );
        let rows = self.session(READING).await?.query(page).await?;
        read_rows(&rows, READING, read_sample)
    }

    async fn newest_dead_samples(
        &self,
        filter: &SampleFilter,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let filter = FilterValues::of(filter);
        let page =
            bind!(queries::NEWEST_DEAD_SAMPLES, limit => &i64::from(limit), ..FilterValues(filter));
        let rows = self.session(READING).await?.query(page).await?;
        read_rows(&rows, READING, read_sample)
    }

    async fn count_samples(&self, filter: &SampleFilter) -> Result<u64> {
        let filter = FilterValues::of(filter);
        let count = bind!(queries::COUNT_SAMPLES, ..FilterValues(filter));
        let rows = self.session(READING).await?.query(count).await?;
        let counts = read_rows(&rows, READING, |row| row.count("count"))?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }

    async fn dead_causes(&self, filter: &SampleFilter, limit: u32) -> Result<Vec<DeadCause>> {
        let filter = FilterValues::of(filter);
        let causes =
            bind!(queries::DEAD_CAUSES, limit => &i64::from(limit), ..FilterValues(filter));
        let rows = self.session(READING).await?.query(causes).await?;
        read_rows(&rows, READING, read_cause)
    }

    async fn edit_samples(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.edit_data(Edited::Sample, edits).await
    }

    async fn sample_lines(
        &self,
        run: PipelineRunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SampleLine>> {
        const DOING: &str = "reading lines";
        let page = bind!(
            queries::SAMPLE_LINES,
            run_id => &run.0,
            after => &i64::try_from(after).unwrap_or(i64::MAX),
            limit => &i64::from(limit),
        );
        let rows = self.session(DOING).await?.query(page).await?;
        read_rows(&rows, DOING, |row| {
            Ok(SampleLine {
                id: SampleId(row.get()?),
                line: row.count("line")?,
                hash: row.get()?,
                status: row.named("status", SampleStatus::from_name)?,
                stage: row.count("stage")?,
            })
        })
    }

    async fn reprocess_samples(
        &self,
        ids: &[SampleId],
        by: &Operator,
    ) -> Result<Vec<SampleChange>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let changes = reprocess(self, ids, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.reprocess_samples.committed");
        self.notify_if(changes.contains(&SampleChange::Done)).await;
        Ok(changes)
    }
}

const READING: &str = "reading samples";

columns! {
    /// A sample filter; values that are not given match every sample.
    struct FilterValues<'a> {
        run_id: Option<i64>,
        pipeline: Option<&'a str>,
        status: Option<&'static str>,
        stage: Option<&'a str>,
        error: Option<&'a str>,
        code: Option<&'a str>,
        fingerprint: Option<&'a str>,
        failed_since: Option<Micros>,
        failed_until: Option<Micros>,
    }
}

impl<'a> FilterValues<'a> {
    fn of(filter: &'a SampleFilter) -> Self {
        let SampleFilter {
            pipeline,
            run,
            status,
            stage,
            error,
            code,
            cause,
            failed_since,
            failed_until,
        } = filter;
        Self {
            run_id: run.map(|run| run.0),
            pipeline: pipeline.as_deref(),
            status: status.map(SampleStatus::name),
            stage: stage.as_deref(),
            error: error.as_deref(),
            code: code.as_deref(),
            fingerprint: cause.as_deref(),
            failed_since: failed_since.map(Micros),
            failed_until: failed_until.map(Micros),
        }
    }
}

fn read_claimed(row: &mut PostgresRow<'_>) -> Result<ClaimedSample> {
    Ok(ClaimedSample {
        id: SampleId(row.get()?),
        run: PipelineRunId(row.get()?),
        data: row.get()?,
        attempt: AttemptNumber(row.count::<u32>("attempts")?.saturating_add(1)),
        epoch: Epoch(row.get()?),
        history: History {
            counted: row.count("retry_count")?,
            deferrals: row.count("deferrals")?,
            lost: 0,
            first_attempt_at: row.optional_timestamp()?,
        },
    })
}

fn read_cause(row: &mut PostgresRow<'_>) -> Result<DeadCause> {
    Ok(DeadCause {
        fingerprint: row.get()?,
        pipeline: row.get()?,
        stage_name: row.get()?,
        code: row.get()?,
        example: row.get()?,
        first: SampleId(row.get()?),
        count: row.count("count")?,
        last_attempt_at: row.optional_timestamp()?,
    })
}

pub(crate) fn read_sample(row: &mut PostgresRow<'_>) -> Result<SampleRecord> {
    let (id, run) = (SampleId(row.get()?), PipelineRunId(row.get()?));
    let (pipeline, line) = (row.get()?, row.count("line")?);
    let data: Option<String> = row.get()?;
    let status = row.named("status", SampleStatus::from_name)?;
    let stage = row.count("stage")?;
    let stage_name = stage_or_source(row.get()?, data.as_deref());
    Ok(SampleRecord {
        id,
        run,
        pipeline,
        line,
        data,
        status,
        stage,
        stage_name,
        attempts: row.count("attempts")?,
        attempts_at_reset: row.count("attempts_at_reset")?,
        retry_count: row.count("retry_count")?,
        deferrals: row.count("deferrals")?,
        next_retry_at: row.optional_timestamp()?,
        first_attempt_at: row.optional_timestamp()?,
        last_attempt_at: row.optional_timestamp()?,
        error_class: row.get()?,
        error_code: row.get()?,
        error_message: row.get()?,
        fingerprint: row.get()?,
        skip_reason: row.get()?,
        lease_owner: row.get::<Option<String>>()?.map(WorkerId),
        lease_epoch: Epoch(row.get()?),
        lease_until: row.optional_timestamp()?,
    })
}
