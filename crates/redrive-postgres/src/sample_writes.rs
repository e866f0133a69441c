//! Writes to samples: lines of a source, finished attempts, reprocessed dead letters.
//!
//! Every transaction locks samples in the order of their ids, and their pipeline runs after them. Only appending
//! locks the run first: no other transaction sees the new samples yet.

use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use redrive_core::{
    Failure, Message, PipelineRunId, PlanId, SampleId, SampleOutcome, SampleStatus,
};
use redrive_store::{
    AttemptRecord, DataEdit, GateResults, JournalEntry, LeaseRef, NewSample, Operator,
    OutcomesByRun, PipelineRunRecord, PipelineWrite, ReadColumn, Result, RowReader, SampleChange,
    SampleColumns, SampleFinish, SampleRecord, SampleWritten, SourcePosition, UnitKind, reopened,
    reprocess_entry, source_death_entry,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind, columns},
    causes::FailureColumns,
    columns::{Micros, read_records, read_rows},
    gates::{self, settle},
    journal::JournalColumns,
    ledger::AttemptColumns,
    pipelines::{number, write_runs, write_runs_and},
    queries,
    session::Session,
};

/// Appends the samples that were read from a source. `None` if another worker has claimed the source since.
pub(crate) async fn append(
    store: &PostgresStore,
    feed: LeaseRef,
    samples: &[NewSample],
    position: &SourcePosition,
    at: Timestamp,
) -> Result<Option<PipelineRunRecord>> {
    const DOING: &str = "adding samples";
    let mut session = store.session(DOING).await?;
    let lock = bind!(queries::LOCK_PIPELINE_RUNS, ids => &vec![feed.id]);
    let rows = session.begin(lock).await?;
    let run: Option<PipelineRunRecord> = read_records(&rows, DOING)?.pop();
    let Some(run) = run.filter(|run| run.is_fed_by(feed)) else {
        session.commit().await?;
        return Ok(None);
    };
    redrive_store::failpoint!("postgres.append.locked");
    let samples = run.unread(samples, position);
    let deaths = insert(&mut session, run.id, samples, at, DOING).await?;
    redrive_store::failpoint!("postgres.append.rows");
    let actor = run.feed.as_ref().map_or("", |feed| feed.owner.0.as_str());
    let ends = each(&deaths, |(_, failure)| SampleOutcome::Dead(failure.class().name()));
    let added = u64::try_from(samples.len()).unwrap_or(u64::MAX);
    let mut write = PipelineWrite::after_reading(&run, added, position.done, &ends, at, actor);
    let died =
        deaths.iter().map(|(id, failure)| source_death_entry(run.id, *id, failure, at, actor));
    write.journal.splice(0..0, died);
    let dead = each(&deaths, |(id, failure)| AttemptRecord::dead_line(*id, failure, at, actor));
    let failures = FailureColumns::of(&dead);
    let record = bind!(queries::RECORD_CAUSES, in_ledger => &false, ..FailureColumns(failures));
    let move_source = bind!(
        queries::MOVE_SOURCE,
        id => &run.id.0,
        source_lines => &number(position.lines),
        source_bytes => &number(position.bytes),
        source_check => &position.check,
    );
    let mut steps = vec![move_source];
    steps.extend((!failures.is_empty()).then_some(record));
    Ok(write_runs(&mut session, &[(run.id, &write)], &steps).await?.pop())
}

/// Inserts samples and returns those that are dead letters at once, in their order.
async fn insert<'a>(
    session: &mut Session,
    run: PipelineRunId,
    samples: &'a [NewSample],
    at: Timestamp,
    doing: &'static str,
) -> Result<Vec<(SampleId, &'a Failure)>> {
    if samples.is_empty() {
        return Ok(Vec::new());
    }
    let failure = |sample: &'a NewSample| sample.data.as_ref().err();
    let status = |sample: &NewSample| match &sample.data {
        Ok(_) => SampleStatus::Pending.name(),
        Err(_) => SampleStatus::Dlq.name(),
    };
    let code = |sample| failure(sample).map(|failure| failure.code().to_string());
    let message = |sample| failure(sample).map(|failure| failure.message().as_str());
    let fingerprint = |sample| failure(sample).map(|failure| failure.fingerprint().to_string());
    let class = |sample| failure(sample).map(|failure| failure.class().name());
    let insert = bind!(
        queries::INSERT_SAMPLES,
        run_id => &run.0,
        line => &each(samples, |sample| number(sample.line)),
        line_hash => &each(samples, |sample| sample.hash),
        data => &each(samples, |sample| sample.data.as_deref().ok()),
        status => &each(samples, status),
        error_class => &each(samples, class),
        error_code => &each(samples, code),
        error_message => &each(samples, message),
        fingerprint => &each(samples, fingerprint),
        at => &Micros(at),
    );
    let rows = session.query(insert).await?;
    let dead =
        read_rows(&rows, doing, |row| Ok((SampleId(row.get()?), row.count::<u64>("line")?)))?;
    let dead: HashMap<u64, SampleId> = dead.into_iter().map(|(id, line)| (line, id)).collect();
    let death = |sample: &'a NewSample| Some((*dead.get(&sample.line)?, failure(sample)?));
    Ok(samples.iter().filter_map(death).collect())
}

/// Finishes attempts, and returns whether a pipeline run has ended, or gates may let more or fewer samples through than before.
pub(crate) async fn finish(
    store: &PostgresStore,
    finishes: &[SampleFinish],
) -> Result<(Vec<SampleWritten>, bool)> {
    // The first finish ends the lease, so a second one with the same lease is stale.
    let mut leases = HashSet::new();
    let firsts = finishes.iter().enumerate().filter(|(_, it)| leases.insert((it.id, it.epoch)));
    let mut grouped: Vec<_> = firsts.map(|it| (FinishGroup::of(it.1), it)).collect();
    // Samples that end are counted in their order, in one transaction.
    let ends = |group: &FinishGroup<'_>| matches!(group, FinishGroup::Pass { last: true, .. });
    if grouped.iter().any(|(group, (_, it))| !ends(group) && it.end().is_some()) {
        let passes = grouped.iter_mut().filter(|(group, _)| ends(group));
        passes.for_each(|(group, _)| *group = FinishGroup::Other);
    }
    grouped.sort_by(|(a, _), (b, _)| a.cmp(b));
    let (mut all, mut over) = (vec![SampleWritten::Stale; finishes.len()], false);
    for group in grouped.chunk_by(|(a, _), (b, _)| a == b) {
        let (written, ended) = finish_group(store, &each(group, |(_, (_, it))| *it)).await?;
        over |= ended;
        for ((_, (place, _)), written) in group.iter().zip(written) {
            all.get_mut(*place).into_iter().for_each(|it| *it = written);
        }
    }
    Ok((all, over))
}

/// Finishes that one statement writes, in the order of the groups: samples that their worker keeps follow those that
/// end, because those may stop the run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum FinishGroup<'a> {
    Other,
    Kept,
    /// See [`SampleFinish::passes_at_once`].
    Pass {
        stage: u32,
        last: bool,
        name: &'a str,
        config_hash: &'a str,
        worker: &'a str,
    },
}

impl<'a> FinishGroup<'a> {
    fn of(finish: &'a SampleFinish) -> Self {
        if finish.passes_at_once() {
            return Self::Pass {
                stage: finish.stage,
                last: finish.last_stage,
                name: &finish.stage_name,
                config_hash: &finish.stage_config_hash,
                worker: &finish.worker.0,
            };
        }
        if finish.keeper().is_some() { Self::Kept } else { Self::Other }
    }
}

/// Finishes attempts, then counts the ended samples in their pipeline runs.
async fn finish_group(
    store: &PostgresStore,
    finishes: &[&SampleFinish],
) -> Result<(Vec<SampleWritten>, bool)> {
    let keeping_runs = runs_of(finishes, |finish| finish.keeper().is_some());
    if let Some(first) = finishes.first().filter(|_| finishes.iter().all(|it| it.passes_at_once()))
    {
        let columns = PassColumns::of(finishes);
        let stage_place = i64::from(first.columns().stage);
        let write = bind!(
            queries::PASS_SAMPLES,
            ends => &first.last_stage,
            stage_place => &stage_place,
            stage => &first.stage_name,
            stage_config_hash => &first.stage_config_hash,
            worker => &first.worker.0,
            keeping_runs => &keeping_runs,
            ..PassColumns(columns)
        );
        return write_group(store, finishes, write, &[]).await;
    }
    let ledger = each(finishes, |finish| finish.ledger_row());
    let ledger_columns = AttemptColumns::of(&each(&ledger, |row| row));
    let columns = each(finishes, |finish| finish.columns());
    let columns = SampleArrays::of(finishes, &columns);
    let (places, entries) = journal_rows(finishes);
    let journal = JournalColumns::of(entries.iter().map(Some));
    let write = bind!(
        queries::FINISH_SAMPLES,
        finish_place => &places,
        keeping_runs => &keeping_runs,
        ..SampleArrays(columns),
        ..AttemptColumns(ledger_columns),
        ..JournalColumns(journal)
    );
    let failures = FailureColumns::of(&ledger);
    let record = bind!(queries::RECORD_CAUSES, in_ledger => &true, ..FailureColumns(failures));
    let record: &[BoundQuery<'_>] = if failures.is_empty() { &[] } else { &[record] };
    write_group(store, finishes, write, record).await
}

/// Writes samples, counts those that ended, and records the causes of failures last, in the exchange that commits:
/// everyone counts the same rows, and no answer is awaited while they are locked.
async fn write_group(
    store: &PostgresStore,
    finishes: &[&SampleFinish],
    write: BoundQuery<'_>,
    record: &[BoundQuery<'_>],
) -> Result<(Vec<SampleWritten>, bool)> {
    const DOING: &str = "finishing samples";
    let mut session = store.session(DOING).await?;
    let ending = runs_of(finishes, |finish| finish.end().is_some());
    let results = GateResults::of_samples(finishes.iter().copied());
    if ending.is_empty() && results.is_empty() {
        let rows = match record {
            [] => session.query(write).await?,
            record => session.transaction(&[&[write], record].concat()).await?.swap_remove(0),
        };
        return Ok((written(&rows, DOING, finishes.len())?, false));
    }
    let lock = bind!(queries::LOCK_PIPELINE_RUNS, ids => &ending);
    let read = session.begin_all(&[write, lock]).await?;
    redrive_store::failpoint!("postgres.finish_samples.rows");
    let rows_of = |place: usize| read.get(place).map(Vec::as_slice).unwrap_or_default();
    let written = written(rows_of(0), DOING, finishes.len())?;
    let mut ends = OutcomesByRun::default();
    let applied: Vec<&SampleFinish> = finishes
        .iter()
        .zip(&written)
        .filter(|(_, written)| written.is_applied())
        .map(|(finish, _)| *finish)
        .collect();
    applied.iter().for_each(|finish| ends.add(finish));
    let mut news = false;
    if let Some(first) = finishes.first()
        && !results.is_empty()
    {
        let leases = each(&applied, |finish| finish.lease());
        let gates = settle(&mut session, UnitKind::Sample, results, &leases, &first.worker).await?;
        gates::write(&mut session, &gates).await?;
        news = gates.changed || gates.freed;
    }
    let runs = read_runs(rows_of(1), DOING)?;
    let writes: Vec<(PipelineRunId, PipelineWrite)> = ends
        .into_runs()
        .filter_map(|(id, (ended, at, actor))| {
            let PipelineRunRecord { progress, rules, .. } = runs.get(&id)?;
            Some((id, PipelineWrite::after_ends(id, *progress, rules, &ended, at, &actor)))
        })
        .collect();
    write_runs(&mut session, &each(&writes, |(id, write)| (*id, write)), record).await?;
    Ok((written, news || writes.iter().any(|(_, write)| write.ended_at.is_some())))
}

/// Makes dead letters pending again and reopens their pipeline runs. With edits, one for each id, from the first stage.
pub(crate) async fn reprocess(
    store: &PostgresStore,
    ids: &[SampleId],
    edits: &[DataEdit],
    by: &Operator,
) -> Result<Vec<SampleChange>> {
    let mut session = store.session(REPROCESSING).await?;
    let lock = bind!(
        queries::LOCK_SAMPLES,
        with_data => &!edits.is_empty(),
        ids => &each(ids, |id| id.0),
    );
    let rows = session.begin(lock).await?;
    redrive_store::failpoint!("postgres.reprocess_samples.locked");
    let locked = read_records(&rows, REPROCESSING)?;
    let changes = reprocess_locked(&mut session, ids, edits, locked, by, None).await?;
    session.commit().await?;
    Ok(changes)
}

const REPROCESSING: &str = "reprocessing dead letters";

/// Reprocesses samples that the open transaction has locked.
pub(crate) async fn reprocess_locked(
    session: &mut Session,
    ids: &[SampleId],
    edits: &[DataEdit],
    locked: Vec<SampleRecord>,
    by: &Operator,
    plan: Option<PlanId>,
) -> Result<Vec<SampleChange>> {
    let mut found: HashMap<SampleId, SampleRecord> =
        locked.into_iter().map(|sample| (sample.id, sample)).collect();
    let (mut reprocessed, mut data, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    let mut reopens: BTreeMap<PipelineRunId, u64> = BTreeMap::new();
    let edits = edits.iter().map(Some).chain(std::iter::repeat(None));
    let change = |(id, edit): (&SampleId, Option<&DataEdit>)| {
        let Some(sample) = found.get_mut(id) else { return SampleChange::Unknown };
        let change = match edit {
            Some(edit) => SampleChange::of_reread(sample, edit),
            None => SampleChange::of_reprocess(sample),
        };
        if change == SampleChange::Done {
            reprocessed.push(id.0);
            data.extend(edit.map(|edit| edit.new.clone()));
            entries.extend(edit.map(|edit| edit.journal.clone()));
            entries.push(reprocess_entry(sample, by).naming(plan));
            *reopens.entry(sample.run).or_default() += 1;
            // A repetition in the batch finds the sample pending.
            sample.status = SampleStatus::Pending;
        }
        change
    };
    let changes: Vec<SampleChange> = ids.iter().zip(edits).map(change).collect();
    if reprocessed.is_empty() {
        return Ok(changes);
    }
    let runs: Vec<i64> = reopens.keys().map(|run| run.0).collect();
    let journal = JournalColumns::of(entries.iter().map(Some));
    let writes = [
        match data.is_empty() {
            true => bind!(queries::REPROCESS_SAMPLES, id => &reprocessed),
            false => bind!(queries::REREAD_SAMPLES, id => &reprocessed, data => &data),
        },
        bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal)),
        bind!(queries::LOCK_PIPELINE_RUNS, ids => &runs),
    ];
    let results = session.continue_all(&writes).await?;
    redrive_store::failpoint!("postgres.reprocess_samples.rows");
    let locked = results.last().map(Vec::as_slice).unwrap_or_default();
    let reopen = |(id, run): (PipelineRunId, PipelineRunRecord)| {
        let dead_letters = reopens.get(&id).copied().unwrap_or_default();
        (id, PipelineWrite::of_progress(reopened(run.progress, dead_letters)))
    };
    let writes: Vec<_> = read_runs(locked, REPROCESSING)?.into_iter().map(reopen).collect();
    write_runs_and(session, &each(&writes, |(id, write)| (*id, write)), &[], false).await?;
    Ok(changes)
}

fn read_runs(
    rows: &[Row],
    doing: &'static str,
) -> Result<BTreeMap<PipelineRunId, PipelineRunRecord>> {
    let runs: Vec<PipelineRunRecord> = read_records(rows, doing)?;
    Ok(runs.into_iter().map(|run| (run.id, run)).collect())
}

fn written(rows: &[Row], doing: &'static str, size: usize) -> Result<Vec<SampleWritten>> {
    let mut all = vec![SampleWritten::Stale; size];
    for (place, kept) in
        read_rows(rows, doing, |row| Ok((row.count::<usize>("place")?, row.get()?)))?
    {
        let written = place.checked_sub(1).and_then(|place| all.get_mut(place));
        let applied = if kept { SampleWritten::Kept } else { SampleWritten::Applied };
        written.into_iter().for_each(|written| *written = applied);
    }
    Ok(all)
}

/// The pipeline runs of some samples, in the order in which they are locked.
fn runs_of(finishes: &[&SampleFinish], of: impl Fn(&SampleFinish) -> bool) -> Vec<i64> {
    let some = finishes.iter().filter(|finish| of(finish));
    let mut runs: Vec<i64> = some.map(|finish| finish.run.0).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// The journal entries, each with the place of its finish.
fn journal_rows(finishes: &[&SampleFinish]) -> (Vec<i64>, Vec<JournalEntry>) {
    let rows = (1..).zip(finishes).flat_map(|(place, finish)| {
        finish.journal_rows().into_iter().map(move |entry| (place, entry))
    });
    rows.unzip()
}

columns! {
    /// Samples that a stage answered at their first attempt, as arrays.
    struct PassColumns<'a> {
        id: Vec<i64>,
        epoch: Vec<i64>,
        run_id: Vec<i64>,
        data: Vec<Option<&'a str>>,
        started_at: Vec<Micros>,
        ended_at: Vec<Micros>,
        keep_until: Vec<Option<Micros>>,
    }
}

impl<'a> PassColumns<'a> {
    fn of(finishes: &[&'a SampleFinish]) -> Self {
        Self {
            id: each(finishes, |finish| finish.id.0),
            epoch: each(finishes, |finish| finish.epoch.0),
            run_id: each(finishes, |finish| finish.run.0),
            data: each(finishes, |finish| finish.columns().data),
            started_at: each(finishes, |finish| Micros(finish.started_at)),
            ended_at: each(finishes, |finish| Micros(finish.ended_at)),
            keep_until: each(finishes, |finish| finish.keeper().map(|(_, until)| Micros(until))),
        }
    }
}

columns! {
    /// What finishes write to samples, as arrays.
    struct SampleArrays<'a> {
        id: Vec<i64>,
        epoch: Vec<i64>,
        status: Vec<&'static str>,
        stage_place: Vec<i64>,
        data: Vec<Option<&'a str>>,
        attempts: Vec<i64>,
        retry_count: Vec<i64>,
        deferrals: Vec<i64>,
        next_retry_at: Vec<Option<Micros>>,
        first_attempt_at: Vec<Option<Micros>>,
        last_attempt_at: Vec<Option<Micros>>,
        error_class: Vec<Option<&'a str>>,
        error_code: Vec<Option<&'a str>>,
        error_message: Vec<Option<&'a str>>,
        error_fingerprint: Vec<Option<&'a str>>,
        skip_reason: Vec<Option<&'a str>>,
        keep_until: Vec<Option<Micros>>,
    }
}

impl<'a> SampleArrays<'a> {
    fn of(finishes: &[&SampleFinish], columns: &'a [SampleColumns<'a>]) -> Self {
        Self {
            id: each(finishes, |finish| finish.id.0),
            epoch: each(finishes, |finish| finish.epoch.0),
            status: each(columns, |sample| sample.status.name()),
            stage_place: each(columns, |sample| i64::from(sample.stage)),
            data: each(columns, |sample| sample.data),
            attempts: each(columns, |sample| i64::from(sample.attempts)),
            retry_count: each(columns, |sample| i64::from(sample.retry_count)),
            deferrals: each(columns, |sample| i64::from(sample.deferrals)),
            next_retry_at: each(columns, |sample| sample.next_retry_at.map(Micros)),
            first_attempt_at: each(columns, |sample| sample.first_attempt_at.map(Micros)),
            last_attempt_at: each(columns, |sample| sample.last_attempt_at.map(Micros)),
            error_class: each(columns, |sample| sample.error_class),
            error_code: each(columns, |sample| sample.error_code.as_deref()),
            error_message: each(columns, |sample| sample.error_message),
            error_fingerprint: each(columns, |sample| sample.fingerprint.as_deref()),
            skip_reason: each(columns, |sample| sample.skip_reason.as_ref().map(Message::as_str)),
            keep_until: each(finishes, |finish| Some(Micros(finish.keeper()?.1))),
        }
    }
}
