//! Implements [`Samples`].

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Epoch, Fingerprint, History, Message, PipelineRunId, PipelineStatus, SampleId,
    SampleOutcome, SampleStatus,
};
use redrive_store::{
    AttemptRecord, ClaimedSample, DataEdit, DeadCause, LeaseRef, NewSample, Operator,
    OutcomesByRun, PageLimit, PipelineRunRecord, PipelineWrite, Result, SampleChange, SampleClaim,
    SampleFilter, SampleFinish, SampleLine, SampleRecord, SampleWritten, Samples, SourcePosition,
    WorkerId, Written, reopened, reprocess_entry, source_death_entry, stage_or_source,
};
use rusqlite::{CachedStatement, Connection, params, params_from_iter, types::Value as SqlValue};

use crate::{
    SqliteStore,
    columns::{SqliteRow, json_ids, micros, read_page, read_rows},
    error::Doing,
    journal::insert_journal,
    ledger::LedgerRows,
    pipelines::{live_runs, one, write_run},
    queries,
};

#[async_trait]
impl Samples for SqliteStore {
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>> {
        let (samples, position) = (samples.to_vec(), position.clone());
        let run =
            self.write(move |connection| append(connection, feed, &samples, &position, at)).await?;
        redrive_store::failpoint!("sqlite.append.committed");
        self.wakes.wake_if(run.is_some());
        Ok(run)
    }

    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>> {
        let request = claim.clone();
        let claimed = self.write(move |connection| claim_in_turn(connection, &request)).await?;
        redrive_store::failpoint!("sqlite.claim_samples.committed");
        Ok(claimed)
    }

    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>> {
        // Built on this thread, because all callers share the writer's thread.
        let rows: Vec<_> =
            finishes.iter().map(|finish| (finish.clone(), finish.ledger_row())).collect();
        let (written, news) = self.write(move |connection| finish(connection, &rows)).await?;
        redrive_store::failpoint!("sqlite.finish_samples.committed");
        self.wakes.wake_if(news);
        Ok(written)
    }

    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
        let ids = ids.to_vec();
        self.read(move |connection| by_id(connection, &ids)).await
    }

    async fn samples_page(
        &self,
        filter: &SampleFilter,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>> {
        let sql = match filter.status {
            Some(SampleStatus::Dlq) => queries::DEAD_SAMPLES_PAGE,
            _ => queries::SAMPLES_PAGE,
        };
        let mut params = filter_params(filter);
        params.extend([after.0.into(), limit.rows.into(), limit.with_data.into()]);
        self.read(move |connection| {
            read_page(connection, READING, sql, params_from_iter(&params), read_sample)
        })
        .await
    }

    async fn newest_dead_samples(
        &self,
        filter: &SampleFilter,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let mut params = filter_params(filter);
        params.push(limit.into());
        self.read(move |connection| {
            let params = params_from_iter(&params);
            read_rows(connection, READING, queries::NEWEST_DEAD_SAMPLES, params, read_sample)
        })
        .await
    }

    async fn count_samples(&self, filter: &SampleFilter) -> Result<u64> {
        let params = filter_params(filter);
        self.read(move |connection| {
            let params = params_from_iter(&params);
            let counts =
                read_rows(connection, READING, queries::COUNT_SAMPLES, params, |row| row.get())?;
            Ok(counts.into_iter().next().unwrap_or_default())
        })
        .await
    }

    async fn dead_causes(&self, filter: &SampleFilter, limit: u32) -> Result<Vec<DeadCause>> {
        let mut params = filter_params(filter);
        params.push(limit.into());
        self.read(move |connection| {
            let params = params_from_iter(&params);
            read_rows(connection, READING, queries::DEAD_CAUSES, params, read_cause)
        })
        .await
    }

    async fn edit_samples(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.edit_data(queries::EDIT_SAMPLES, edits).await
    }

    async fn sample_lines(
        &self,
        run: PipelineRunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SampleLine>> {
        self.read(move |connection| {
            let params = params![run.0, after, limit];
            read_rows(connection, "reading lines", queries::SAMPLE_LINES, params, |row| {
                Ok(SampleLine {
                    id: SampleId(row.get()?),
                    line: row.get()?,
                    hash: row.get()?,
                    status: row.named("status", SampleStatus::from_name)?,
                    stage: row.get()?,
                })
            })
        })
        .await
    }

    async fn reprocess_samples(
        &self,
        ids: &[SampleId],
        by: &Operator,
    ) -> Result<Vec<SampleChange>> {
        let (ids, by) = (ids.to_vec(), by.cleaned());
        let changes = self.write(move |connection| reprocess(connection, &ids, &by)).await?;
        redrive_store::failpoint!("sqlite.reprocess_samples.committed");
        self.wakes.wake_if(changes.contains(&SampleChange::Done));
        Ok(changes)
    }
}

/// The parameters ?1 to ?9 of a sample filter.
fn filter_params(filter: &SampleFilter) -> Vec<SqlValue> {
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
    } = filter.clone();
    vec![
        run.map(|run| run.0).into(),
        pipeline.into(),
        status.map(|status| status.name().to_owned()).into(),
        stage.into(),
        error.into(),
        code.into(),
        cause.into(),
        failed_since.map(micros).into(),
        failed_until.map(micros).into(),
    ]
}

const READING: &str = "reading samples";
const ADDING: &str = "adding samples";
const FINISHING: &str = "finishing samples";

fn append(
    connection: &Connection,
    feed: LeaseRef,
    samples: &[NewSample],
    position: &SourcePosition,
    at: Timestamp,
) -> Result<Option<PipelineRunRecord>> {
    let id = PipelineRunId(feed.id);
    let Some(run) = one(connection, id)?.filter(|run| run.is_fed_by(feed)) else { return Ok(None) };
    let samples = run.unread(samples, position);
    let SourcePosition { lines, bytes, check, .. } = position;
    connection
        .prepare_cached(queries::MOVE_SOURCE)
        .doing(ADDING)?
        .execute(params![id.0, lines, bytes, check.as_deref()])
        .doing(ADDING)?;
    redrive_store::failpoint!("sqlite.append.position");
    let actor = run.feed.as_ref().map_or("", |feed| feed.owner.0.as_str());
    let mut deaths = Vec::new();
    for sample in samples {
        let sample_id = insert_sample(connection, id, sample, at)?;
        if let Err(failure) = &sample.data {
            insert_journal(connection, &source_death_entry(id, sample_id, failure, at, actor))?;
            deaths.push(SampleOutcome::Dead(failure.class().name()));
        }
        redrive_store::failpoint!("sqlite.append.row");
    }
    let added = u64::try_from(samples.len()).unwrap_or(u64::MAX);
    let write = PipelineWrite::after_reading(&run, added, position.done, &deaths, at, actor);
    write_run(connection, id, &write)?;
    one(connection, id)
}

fn insert_sample(
    connection: &Connection,
    run: PipelineRunId,
    sample: &NewSample,
    at: Timestamp,
) -> Result<SampleId> {
    let failure = sample.data.as_ref().err();
    let status = if failure.is_some() { SampleStatus::Dlq } else { SampleStatus::Pending };
    let code = failure.map(|failure| failure.code().to_string());
    let message = failure.map(|failure| failure.message().as_str());
    let fingerprint = code
        .as_deref()
        .zip(message)
        .map(|(code, message)| Fingerprint::of(code, message).to_string());
    let params = params![
        run.0,
        sample.line,
        sample.data.as_ref().ok(),
        status.name(),
        failure.map(|failure| failure.class().name()),
        code,
        message,
        fingerprint,
        failure.map(|_| micros(at)),
        sample.hash,
    ];
    connection
        .prepare_cached(queries::INSERT_SAMPLES)
        .doing(ADDING)?
        .insert(params)
        .doing(ADDING)
        .map(SampleId)
}

/// By run, the oldest first; in each run, due retries before new samples.
fn claim_in_turn(connection: &Connection, claim: &SampleClaim) -> Result<Vec<ClaimedSample>> {
    const DOING: &str = "claiming samples";
    let (owner, until) = (claim.owner.0.as_str(), micros(claim.lease_until));
    let now = micros(claim.now);
    let mut claimed = Vec::new();
    for run in live_runs(connection, &claim.served)? {
        let left = |claimed: &[ClaimedSample]| {
            claim.limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX))
        };
        let params = params![run, claim.stage, left(&claimed), owner, until, now];
        let sql = queries::CLAIM_DUE_SAMPLES;
        let mut due = read_rows(connection, DOING, sql, params, read_claimed)?;
        due.sort_unstable_by_key(|sample| sample.id);
        claimed.append(&mut due);
        redrive_store::failpoint!("sqlite.claim_samples.row");
        let params = params![run, claim.stage, left(&claimed), owner, until, now];
        let mut new = read_rows(connection, DOING, queries::CLAIM_SAMPLES, params, read_claimed)?;
        new.sort_unstable_by_key(|sample| sample.id);
        claimed.append(&mut new);
        if left(&claimed) == 0 {
            break;
        }
    }
    Ok(claimed)
}

/// Also returns whether there is something new to claim.
fn finish(
    connection: &Connection,
    finishes: &[(SampleFinish, AttemptRecord)],
) -> Result<(Vec<SampleWritten>, bool)> {
    let mut finisher = SampleFinisher::new(connection)?;
    let mut written = vec![SampleWritten::Stale; finishes.len()];
    let (mut ends, mut news) = (OutcomesByRun::default(), false);
    for ((finish, attempt), written) in finishes.iter().zip(&mut written) {
        if finish.keeper().is_none() {
            *written = finisher.finish(finish, attempt, None)?;
            news |= written.is_applied() && finish.leaves_work();
            if written.is_applied() {
                ends.add(finish);
            }
        }
    }
    for (id, (ended, at, actor)) in ends.into_runs() {
        let Some(run) = one(connection, id)? else { continue };
        let write = PipelineWrite::after_ends(id, run.progress, &run.rules, &ended, at, &actor);
        news |= write.ended_at.is_some();
        write_run(connection, id, &write)?;
    }
    // At this point it is known whether the other finishes stopped the run.
    for ((finish, attempt), written) in finishes.iter().zip(&mut written) {
        if let Some(keeper) = finish.keeper() {
            let keeper = finisher.goes_on(finish.run)?.then_some(keeper);
            *written = finisher.finish(finish, attempt, keeper)?;
            news |= *written == SampleWritten::Applied;
        }
    }
    Ok((written, news))
}

struct SampleFinisher<'a> {
    connection: &'a Connection,
    update: CachedStatement<'a>,
    ledger: LedgerRows<'a>,
    /// Whether a run is running, for the runs that were looked up.
    going_on: HashMap<PipelineRunId, bool>,
}

impl<'a> SampleFinisher<'a> {
    fn new(connection: &'a Connection) -> Result<Self> {
        let update = connection.prepare_cached(queries::FINISH_SAMPLES).doing(FINISHING)?;
        let ledger = LedgerRows::new(connection)?;
        Ok(Self { connection, update, ledger, going_on: HashMap::new() })
    }

    fn finish(
        &mut self,
        finish: &SampleFinish,
        attempt: &AttemptRecord,
        keeper: Option<(&WorkerId, Timestamp)>,
    ) -> Result<SampleWritten> {
        let columns = finish.columns();
        let changed = self
            .update
            .execute(params![
                finish.id.0,
                finish.epoch.0,
                columns.status.name(),
                columns.stage,
                columns.data,
                columns.attempts,
                columns.retry_count,
                columns.deferrals,
                columns.next_retry_at.map(micros),
                columns.first_attempt_at.map(micros),
                columns.last_attempt_at.map(micros),
                columns.error_class,
                columns.error_code,
                columns.error_message,
                columns.fingerprint,
                columns.skip_reason.as_ref().map(Message::as_str),
                keeper.map(|(worker, _)| worker.0.as_str()),
                keeper.map(|(_, until)| micros(until)),
                micros(finish.ended_at),
            ])
            .doing(FINISHING)?;
        if changed == 0 {
            return Ok(SampleWritten::Stale);
        }
        redrive_store::failpoint!("sqlite.finish_samples.row");
        self.ledger.insert(attempt)?;
        redrive_store::failpoint!("sqlite.finish_samples.ledger");
        for entry in finish.journal_rows() {
            insert_journal(self.connection, &entry)?;
            redrive_store::failpoint!("sqlite.finish_samples.journal");
        }
        Ok(if keeper.is_some() { SampleWritten::Kept } else { SampleWritten::Applied })
    }

    /// A sample of a stopped run is not kept.
    fn goes_on(&mut self, id: PipelineRunId) -> Result<bool> {
        if let Some(known) = self.going_on.get(&id) {
            return Ok(*known);
        }
        let run = one(self.connection, id)?;
        let goes_on = run.is_some_and(|run| run.progress.status == PipelineStatus::Running);
        self.going_on.insert(id, goes_on);
        Ok(goes_on)
    }
}

fn reprocess(
    connection: &Connection,
    ids: &[SampleId],
    by: &Operator,
) -> Result<Vec<SampleChange>> {
    const DOING: &str = "reprocessing dead letters";
    let mut changes = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(sample) = by_id(connection, &[*id])?.pop() else {
            changes.push(SampleChange::Unknown);
            continue;
        };
        let change = SampleChange::of_reprocess(&sample);
        changes.push(change);
        if change != SampleChange::Done {
            continue;
        }
        let sql = queries::REPROCESS_SAMPLES;
        connection.prepare_cached(sql).doing(DOING)?.execute([id.0]).doing(DOING)?;
        redrive_store::failpoint!("sqlite.reprocess_samples.row");
        insert_journal(connection, &reprocess_entry(&sample, by))?;
        if let Some(run) = one(connection, sample.run)? {
            let write = PipelineWrite::of_progress(reopened(run.progress, 1));
            write_run(connection, sample.run, &write)?;
        }
    }
    Ok(changes)
}

pub(crate) fn by_id(connection: &Connection, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
    let ids = json_ids(ids.iter().map(|id| id.0));
    read_rows(connection, READING, queries::SAMPLES_BY_ID, [ids], read_sample)
}

fn read_claimed(row: &mut SqliteRow<'_>) -> Result<ClaimedSample> {
    Ok(ClaimedSample {
        id: SampleId(row.get()?),
        run: PipelineRunId(row.get()?),
        data: row.get()?,
        attempt: AttemptNumber(row.get::<u32>()?.saturating_add(1)),
        epoch: Epoch(row.get()?),
        history: History {
            counted: row.get()?,
            deferrals: row.get()?,
            lost: 0,
            first_attempt_at: row.optional_timestamp()?,
        },
    })
}

fn read_cause(row: &mut SqliteRow<'_>) -> Result<DeadCause> {
    Ok(DeadCause {
        fingerprint: row.get()?,
        pipeline: row.get()?,
        stage_name: row.get()?,
        code: row.get()?,
        example: row.get()?,
        first: SampleId(row.get()?),
        count: row.get()?,
        last_attempt_at: row.optional_timestamp()?,
    })
}

pub(crate) fn read_sample(row: &mut SqliteRow<'_>) -> Result<SampleRecord> {
    let (id, run) = (SampleId(row.get()?), PipelineRunId(row.get()?));
    let (pipeline, line) = (row.get()?, row.get()?);
    let data: Option<String> = row.get()?;
    let status = row.named("status", SampleStatus::from_name)?;
    let stage = row.get()?;
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
        attempts: row.get()?,
        attempts_at_reset: row.get()?,
        retry_count: row.get()?,
        deferrals: row.get()?,
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
