//! Implements [`Samples`].

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    Message, PipelineRunId, PipelineStatus, PlanId, SampleId, SampleOutcome, SampleStatus,
};
use redrive_store::{
    AttemptRecord, ChosenSamples, ClaimedSample, DataEdit, DeadCause, GateResults, LeaseRef,
    MAX_KEYED, NewSample, Operator, OutcomesByRun, PageLimit, PipelineRunRecord, PipelineWrite,
    ReadColumn, Result, SampleChange, SampleClaim, SampleFinish, SampleLine, SampleRecord,
    SampleWritten, Samples, Selection, SelectionSql, SourcePosition, UnitKind, WorkerId, Written,
    reopened, reprocess_entry, source_death_entry,
};
use rusqlite::{CachedStatement, Connection, params, types::Value as SqlValue};

use crate::{
    SqliteLeaseClock, SqliteStore,
    causes::CauseCounts,
    columns::{json_ids, json_list, micros, read_records, read_rows},
    error::Doing,
    gates::{GateRequest, GatedClaim, settle},
    journal::insert_journal,
    ledger::LedgerRows,
    pipelines::{live_runs, one, write_run},
    queries,
    selected::SelectQuery,
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
        let (claim, clock) = (claim.clone(), self.clock.clone());
        let take = move |connection: &Connection| {
            Ok(match claim_behind_gates(connection, &claim, &clock)? {
                Some(claimed) => claimed,
                None => (claim_in_turn(connection, &claim, claim.limit)?, false),
            })
        };
        let (claimed, has_more) = self.write(take).await?;
        self.wakes.wake_if(has_more);
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
        filter: &Selection,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>> {
        let own = vec![after.0.into(), limit.rows.into(), limit.with_data.into()];
        let units = SelectionSql::SAMPLES.in_order(limit.order);
        let page = SelectQuery { units, ..query(queries::SAMPLES_PAGE, own) };
        self.select_page(READING, page, filter).await
    }

    async fn newest_dead_samples(
        &self,
        filter: &Selection,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let newest = query(queries::NEWEST_DEAD_SAMPLES, vec![limit.into()]);
        self.select(READING, newest, filter).await
    }

    async fn count_samples(&self, filter: &Selection) -> Result<u64> {
        let count = query(queries::COUNT_SAMPLES, Vec::new());
        let counts: Vec<u64> = self.select(READING, count, filter).await?;
        Ok(counts.into_iter().next().unwrap_or_default())
    }

    async fn dead_causes(&self, filter: &Selection, limit: u32) -> Result<Vec<DeadCause>> {
        let causes = query(queries::DEAD_CAUSES, vec![limit.into()]);
        self.select(READING, causes, filter).await
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
            read_records(connection, "reading lines", queries::SAMPLE_LINES, params)
        })
        .await
    }

    async fn reprocess_samples(
        &self,
        ids: &[SampleId],
        by: &Operator,
    ) -> Result<Vec<SampleChange>> {
        let (ids, by) = (ids.to_vec(), by.cleaned());
        let changes = self.write(move |connection| {
            let one = |id: &SampleId| reprocess(connection, *id, None, &by, None);
            ids.iter().map(one).collect::<Result<Vec<_>>>()
        });
        let changes = changes.await?;
        redrive_store::failpoint!("sqlite.reprocess_samples.committed");
        self.wakes.wake_if(changes.contains(&SampleChange::Done));
        Ok(changes)
    }

    async fn reread_samples(&self, edits: &[DataEdit], by: &Operator) -> Result<Vec<SampleChange>> {
        let (edits, by) = (edits.to_vec(), by.cleaned());
        let changes = self.write(move |connection| {
            let one =
                |edit: &DataEdit| reprocess(connection, SampleId(edit.id), Some(edit), &by, None);
            edits.iter().map(one).collect::<Result<Vec<_>>>()
        });
        let changes = changes.await?;
        self.wakes.wake_if(changes.contains(&SampleChange::Done));
        Ok(changes)
    }
}

fn query(sql: &'static str, own: Vec<SqlValue>) -> SelectQuery {
    SelectQuery { units: SelectionSql::SAMPLES, sql, own }
}

const READING: &str = "reading samples";
const ADDING: &str = "adding samples";
const CLAIMING: &str = "claiming samples";
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
    let (mut deaths, mut causes) = (Vec::new(), CauseCounts::default());
    for sample in samples {
        let sample_id = insert_sample(connection, id, sample, at)?;
        if let Err(failure) = &sample.data {
            insert_journal(connection, &source_death_entry(id, sample_id, failure, at, actor))?;
            causes.add(connection, &AttemptRecord::dead_line(sample_id, failure, at, actor))?;
            deaths.push(SampleOutcome::Dead(failure.class().name()));
        }
        redrive_store::failpoint!("sqlite.append.row");
    }
    causes.write(connection)?;
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
    let params = params![
        run.0,
        sample.line,
        sample.data.as_ref().ok(),
        status.name(),
        failure.map(|failure| failure.class().name()),
        failure.map(|failure| failure.code().to_string()),
        failure.map(|failure| failure.message().as_str()),
        failure.map(|failure| failure.fingerprint().to_string()),
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

/// Claims what the gates let through; `None` if all are open and without limits. Also returns whether there may be more to key.
fn claim_behind_gates(
    connection: &Connection,
    claim: &SampleClaim,
    clock: &SqliteLeaseClock,
) -> Result<Option<(Vec<ClaimedSample>, bool)>> {
    let SampleClaim { gates, owner, limit, now, .. } = claim;
    let asked = GateRequest { gates, kind: UnitKind::Sample, owner, limit: *limit, now: *now };
    let (is_keyed, mut has_more) = (claim.gate_key.is_some(), false);
    let present = || {
        if !is_keyed {
            return Ok(vec![String::new()]);
        }
        has_more = key_samples(connection, claim)?;
        present_keys(connection, claim)
    };
    let Some(gated) = asked.look(connection, clock(), present, |_| true)? else { return Ok(None) };
    let (chosen, mut claimed) = if is_keyed {
        take_of_keys(connection, claim, &gated)?
    } else {
        let limit = gated.most.first().map_or(0, |(_, most)| *most);
        (ChosenSamples::default(), claim_in_turn(connection, claim, limit)?)
    };
    let passes = asked.let_through(connection, clock(), gated, &chosen.units(&claimed))?;
    chosen.pass(&mut claimed, passes);
    Ok(Some((claimed, has_more)))
}

/// Notes the keys of some samples that have none, and makes due ones ready. Returns whether there may be more of them.
fn key_samples(connection: &Connection, claim: &SampleClaim) -> Result<bool> {
    let (mut unkeyed, mut left) = (Vec::new(), MAX_KEYED);
    for run in live_runs(connection, &claim.served)? {
        let params = params![run, claim.stage, micros(claim.now), left];
        let of_run: Vec<(SampleId, Option<String>)> =
            read_rows(connection, CLAIMING, queries::UNKEYED_SAMPLES, params, |row| {
                Ok((SampleId(row.get()?), row.get()?))
            })?;
        left = left.saturating_sub(u32::try_from(of_run.len()).unwrap_or(u32::MAX));
        unkeyed.extend(of_run);
        if left == 0 {
            break;
        }
    }
    let mut note = connection.prepare_cached(queries::KEY_SAMPLES).doing(CLAIMING)?;
    for (id, data) in unkeyed {
        let key = claim.key_of(&data.unwrap_or_default());
        note.execute(params![id.0, key]).doing(CLAIMING)?;
    }
    Ok(left == 0)
}

fn present_keys(connection: &Connection, claim: &SampleClaim) -> Result<Vec<String>> {
    let mut keys = BTreeSet::new();
    for run in live_runs(connection, &claim.served)? {
        let params = params![run, claim.stage];
        let of_run: Vec<String> =
            read_rows(connection, CLAIMING, queries::SAMPLE_KEYS, params, |row| row.get())?;
        keys.extend(of_run);
    }
    Ok(keys.into_iter().collect())
}

/// Claims the first samples of each key that the gates let through, of the oldest run first.
fn take_of_keys(
    connection: &Connection,
    claim: &SampleClaim,
    gated: &GatedClaim,
) -> Result<(ChosenSamples, Vec<ClaimedSample>)> {
    let keys: Vec<&str> = gated.most.iter().map(|(key, _)| key.as_str()).collect();
    let keys = json_list(&keys);
    let mut candidates = Vec::new();
    for run in live_runs(connection, &claim.served)? {
        let params = params![run, claim.stage, keys, gated.limit];
        let mut of_run: Vec<(SampleId, String)> =
            read_rows(connection, CLAIMING, queries::CLAIMABLE_SAMPLES, params, |row| {
                Ok((SampleId(row.get()?), row.get()?))
            })?;
        of_run.sort_unstable();
        candidates.extend(of_run);
    }
    let chosen = ChosenSamples::of(candidates, gated.limit, &gated.most);
    let ids = json_ids(chosen.ids.iter().copied());
    let own = params![ids, claim.owner.0, micros(claim.lease_until), micros(claim.now)];
    let mut claimed: Vec<ClaimedSample> =
        read_records(connection, CLAIMING, queries::CLAIM_SAMPLES_BY_ID, own)?;
    chosen.sort(&mut claimed);
    Ok((chosen, claimed))
}

/// By run, the oldest first; in each run, due retries before new samples.
fn claim_in_turn(
    connection: &Connection,
    claim: &SampleClaim,
    limit: u32,
) -> Result<Vec<ClaimedSample>> {
    const DOING: &str = CLAIMING;
    let (owner, until) = (claim.owner.0.as_str(), micros(claim.lease_until));
    let now = micros(claim.now);
    let mut claimed = Vec::new();
    for run in live_runs(connection, &claim.served)? {
        let left = |claimed: &[ClaimedSample]| {
            limit.saturating_sub(u32::try_from(claimed.len()).unwrap_or(u32::MAX))
        };
        let params = params![run, claim.stage, left(&claimed), owner, until, now];
        let mut due: Vec<ClaimedSample> =
            read_records(connection, DOING, queries::CLAIM_DUE_SAMPLES, params)?;
        due.sort_unstable_by_key(|sample| sample.id);
        claimed.append(&mut due);
        redrive_store::failpoint!("sqlite.claim_samples.row");
        let params = params![run, claim.stage, left(&claimed), owner, until, now];
        let mut new: Vec<ClaimedSample> =
            read_records(connection, DOING, queries::CLAIM_SAMPLES, params)?;
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
    finisher.ledger.finish()?;
    let applied = finishes.iter().zip(&written).filter(|(_, written)| written.is_applied());
    let applied = applied.map(|((finish, _), _)| finish.lease());
    let applied: Vec<LeaseRef> = applied.collect();
    if let Some((first, _)) = finishes.first() {
        let results = GateResults::of_samples(finishes.iter().map(|(finish, _)| finish));
        news |= settle(connection, UnitKind::Sample, results, &applied, &first.worker)?;
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

/// With an edit, from the first stage.
pub(crate) fn reprocess(
    connection: &Connection,
    id: SampleId,
    edit: Option<&DataEdit>,
    by: &Operator,
    plan: Option<PlanId>,
) -> Result<SampleChange> {
    const DOING: &str = "reprocessing dead letters";
    let Some(sample) = by_id(connection, &[id])?.pop() else { return Ok(SampleChange::Unknown) };
    let change = match edit {
        Some(edit) => SampleChange::of_reread(&sample, edit),
        None => SampleChange::of_reprocess(&sample),
    };
    if change != SampleChange::Done {
        return Ok(change);
    }
    if let Some(edit) = edit {
        let sql = queries::REREAD_SAMPLES;
        let params = params![id.0, edit.new];
        connection.prepare_cached(sql).doing(DOING)?.execute(params).doing(DOING)?;
        insert_journal(connection, &edit.journal)?;
    } else {
        let sql = queries::REPROCESS_SAMPLES;
        connection.prepare_cached(sql).doing(DOING)?.execute([id.0]).doing(DOING)?;
    }
    redrive_store::failpoint!("sqlite.reprocess_samples.row");
    insert_journal(connection, &reprocess_entry(&sample, by).naming(plan))?;
    if let Some(run) = one(connection, sample.run)? {
        let write = PipelineWrite::of_progress(reopened(run.progress, 1));
        write_run(connection, sample.run, &write)?;
    }
    Ok(change)
}

pub(crate) fn by_id(connection: &Connection, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
    let ids = json_ids(ids.iter().map(|id| id.0));
    read_records(connection, READING, queries::SAMPLES_BY_ID, [ids])
}
