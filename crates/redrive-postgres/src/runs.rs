//! Runs: submit, claim, finish, read.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Cause, RunId};
use redrive_store::{
    Backlog, Categories, ClaimRequest, ClaimedRun, DataEdit, Error, GateResultWrites, GateResults,
    MAX_PAGE_BYTES, NewRun, Operator, PageLimit, PausedQueue, QueueAction, QueueStats, ReadColumn,
    Result, RowReader, RunAction, RunChange, RunFinish, RunRecord, Runs, Selection, SelectionSql,
    StateSql, SubmittedRun, UnitKind, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::{FirstOccurrences, each},
    bound_query::bind,
    causes::FailureColumns,
    claim_cursor::ClaimPosition,
    columns::{Micros, PostgresRow, read_records, read_rows},
    gates,
    journal::JournalColumns,
    operators::{Edited, change_runs},
    queries, queues, run_claims,
    run_passes::{PassColumns, is_pass},
    session::Session,
    submit::submit,
};

#[async_trait]
impl Runs for PostgresStore {
    async fn submit_runs(&self, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>> {
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = self.session("submitting runs").await?;
        let submitted = submit(&mut session, runs, now).await?;
        drop(session);
        redrive_store::failpoint!("postgres.submit.committed");
        let accepted = |(run, submitted): (&NewRun, &SubmittedRun)| match submitted {
            SubmittedRun::Accepted(id) => Some(ClaimPosition::new(run.submitted_at(), *id)),
            SubmittedRun::Duplicate(_) | SubmittedRun::Conflict(_) => None,
        };
        let oldest = runs.iter().zip(&submitted).filter_map(accepted).min();
        if let Some(oldest) = oldest {
            self.claim_cursors.runs_became_ready(oldest);
        }
        self.notify_if(oldest.is_some()).await;
        Ok(submitted)
    }

    async fn claim_runs(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>> {
        run_claims::claim_runs(self, request).await
    }

    async fn finish_runs(&self, finishes: &[RunFinish], now: Timestamp) -> Result<Vec<Written>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = self.session("finishing runs").await?;
        let (written, oldest, gates) = finish(&mut session, finishes, now).await?;
        drop(session);
        if let Some(oldest) = oldest {
            self.claim_cursors.runs_became_ready(oldest);
        }
        redrive_store::failpoint!("postgres.finish.committed");
        if gates.changed {
            self.claim_cursors.runs_became_ready_anywhere();
        }
        self.notify_if(gates.changed || gates.freed).await;
        let mut each = written.iter().zip(finishes);
        let schedules_retry =
            each.any(|(written, finish)| *written == Written::Applied && finish.schedules_retry());
        self.wake_if(schedules_retry);
        Ok(written)
    }

    async fn runs_by_id(&self, ids: &[RunId]) -> Result<Vec<RunRecord>> {
        const DOING: &str = "reading runs";
        let ids = each(ids, |id| id.0);
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::RUNS_BY_ID, ids => &ids)).await?;
        read_records(&rows, DOING)
    }

    async fn runs_page(
        &self,
        filter: &Selection,
        after: RunId,
        limit: PageLimit,
    ) -> Result<Vec<RunRecord>> {
        const DOING: &str = "listing runs";
        let unfailed = ["discovered", "passed"];
        if filter.is_about_failures()
            && filter.state.is_some_and(|state| unfailed.contains(&state.status))
        {
            return Ok(Vec::new());
        }
        let page = bind!(
            queries::RUNS_PAGE,
            after => &after.0,
            limit => &i64::from(limit.rows),
            with_data => &limit.with_data,
            max_bytes => &(MAX_PAGE_BYTES as i64),
        );
        let rows =
            self.session(DOING).await?.select(page, &RUNS.in_order(limit.order), filter).await?;
        read_records(&rows, DOING)
    }

    async fn retry_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        let changes = change_runs(self, RunAction::Retry, ids, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.retry.committed");
        self.claim_cursors.runs_became_ready_anywhere();
        self.notify_if(changes.iter().any(|change| matches!(change, RunChange::Done(_)))).await;
        Ok(changes)
    }

    async fn edit_runs(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.edit_data(Edited::Run, edits).await
    }

    async fn cancel_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        let changes = change_runs(self, RunAction::Cancel, ids, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.cancel.committed");
        Ok(changes)
    }

    async fn queue_stats(&self) -> Result<Vec<QueueStats>> {
        queues::stats(self).await
    }

    async fn pause_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        QueueAction::Pause.check_name(queue)?;
        let paused = queues::pause(self, queue, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.pause.committed");
        Ok(paused)
    }

    async fn resume_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        QueueAction::Resume.check_name(queue)?;
        let resumed = queues::resume(self, queue, &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.resume.committed");
        self.notify_if(resumed).await;
        Ok(resumed)
    }

    async fn paused_queues(&self) -> Result<Vec<PausedQueue>> {
        queues::paused(self).await
    }

    async fn backlog(&self, queue: &str, categories: &Categories) -> Result<Backlog> {
        queues::backlog(self, queue, categories).await
    }

    async fn next_due(&self, queue: &str, categories: &Categories) -> Result<Option<Timestamp>> {
        queues::next_due(self, queue, categories).await
    }
}

/// Returns the results, the position of the oldest run that is ready again, and what the gates became. Failures are counted,
/// and gates told of them, in a second exchange of the transaction, when the first has told which were written, and where.
async fn finish(
    session: &mut Session,
    finishes: &[RunFinish],
    now: Timestamp,
) -> Result<(Vec<Written>, Option<ClaimPosition>, GateResultWrites)> {
    const DOING: &str = "finishing runs";
    // The first finish ends the lease, so a second one with the same lease is stale.
    let batch = FirstOccurrences::of(finishes, |finish| (finish.id, finish.epoch));
    let placed = (1_i64..).zip(batch.rows.iter().copied());
    let (passes, others): (Vec<_>, Vec<_>) = placed.partition(|(_, finish)| is_pass(finish));
    let passes = PassColumns::of(&batch.rows, passes, now);
    let columns = each(&others, |(_, finish)| finish.columns(now));
    let ledger = each(&others, |(_, finish)| finish.ledger_row());
    let mut places: Vec<i64> = Vec::new();
    let mut entries = Vec::new();
    for (place, finish) in &others {
        for entry in finish.journal_rows() {
            places.push(*place);
            entries.push(entry);
        }
    }
    let journal = JournalColumns::of(entries.iter().map(Some));
    let write = bind!(
        queries::FINISH_RUNS,
        place => &each(&others, |(place, _)| *place),
        id => &each(&others, |(_, finish)| finish.id.0),
        epoch => &each(&others, |(_, finish)| finish.epoch.0),
        status => &each(&columns, |run| run.status.name()),
        attempt => &each(&ledger, |row| i64::from(row.attempt.0)),
        retry_count => &each(&columns, |run| i64::from(run.retry_count)),
        deferrals => &each(&columns, |run| i64::from(run.deferrals)),
        next_retry_at => &each(&columns, |run| run.next_retry_at.map(Micros)),
        first_attempt_at => &each(&columns, |run| Micros(run.first_attempt_at)),
        error_class => &each(&columns, |run| run.error_class),
        error_message => &each(&columns, |run| run.error_message),
        result => &each(&columns, |run| run.result),
        ready => &each(&columns, |run| run.ready),
        due_at => &each(&columns, |run| run.due_at.map(Micros)),
        counted => &each(&ledger, |row| row.counted),
        started_at => &each(&ledger, |row| Micros(row.started_at)),
        ended_at => &each(&ledger, |row| Micros(row.ended_at)),
        outcome => &each(&ledger, |row| row.outcome.name()),
        class => &each(&ledger, |row| row.class.as_deref()),
        code => &each(&ledger, |row| row.code.as_deref()),
        message => &each(&ledger, |row| row.message.as_deref()),
        fingerprint => &each(&ledger, |row| row.fingerprint.as_deref()),
        cause => &each(&ledger, |row| row.cause.map(Cause::name)),
        delay_us => &each(&ledger, |row| row.delay_us()),
        worker => &each(&ledger, |row| row.worker.as_str()),
        asked_us => &each(&ledger, |row| row.asked_us()),
        finish_place => &places,
        ..PassColumns(passes),
        ..JournalColumns(journal)
    );
    let has_failures = ledger.iter().any(|row| row.fingerprint.is_some());
    let mut results = GateResults::of_runs(batch.rows.iter().copied());
    let (gates, keys): (Vec<&str>, Vec<&str>) = results.names().unzip();
    let has_permits = bind!(
        queries::HAS_PERMITS,
        kind => &UnitKind::Run.name(),
        unit_id => &each(&batch.rows, |finish| finish.id.0),
    );
    let unsettled = bind!(queries::UNSETTLED_GATE_KEYS, gate => &gates, key => &keys);
    let (rows, has_permits, unsettled) = if !results.is_empty() {
        let mut answers = session.begin_all(&[write, has_permits, unsettled]).await?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        (next(), next(), next())
    } else if has_failures {
        (session.begin(write).await?, Vec::new(), Vec::new())
    } else {
        (session.query(write).await?, Vec::new(), Vec::new())
    };
    let (mut applied, mut states) = (Vec::new(), Vec::new());
    let mut read = |rows: &[Row]| {
        for (places, state) in read_rows(rows, DOING, |row| read_written(row, &others))? {
            applied.extend(places);
            states.extend(state);
        }
        Ok::<_, Error>(applied.len())
    };
    if read(&rows)? < batch.rows.len() {
        // A renewal that the query waited for has moved runs to a claim that the query could not see.
        read(&session.query(write).await?)?;
    }
    let mut writes = GateResultWrites::default();
    if let Some(first) = batch.rows.first()
        && !results.is_empty()
    {
        let written: Vec<&RunFinish> = applied.iter().filter_map(|at| batch.at(*at)).collect();
        let ids: HashSet<i64> = written.iter().map(|finish| finish.id.0).collect();
        results.retain(|id| ids.contains(&id));
        let has_permits: Vec<bool> = read_rows(&has_permits, DOING, |row| row.get())?;
        if has_permits.contains(&true) {
            let end = bind!(
                queries::END_GATE_PERMITS,
                kind => &UnitKind::Run.name(),
                unit_id => &each(&written, |finish| finish.id.0),
                lease_epoch => &each(&written, |finish| finish.epoch.0),
            );
            results.add_permits(read_records(&session.query(end).await?, DOING)?);
        }
        let unsettled = gates::read_unsettled(&unsettled)?;
        writes = gates::record(session, &results, unsettled, &first.worker).await?;
    }
    if session.is_in_transaction() {
        let attempts = states.iter().filter_map(|it| Some((ledger.get(it.at)?, it.queue.as_str())));
        let failures = FailureColumns::at(attempts);
        let record = bind!(queries::RECORD_CAUSES, in_ledger => &false, ..FailureColumns(failures));
        let record = [record];
        gates::commit(session, &writes, if has_failures { &record } else { &[] }).await?;
    }
    let ready = states.iter().filter_map(|it| {
        let (_, finish) = others.get(it.at)?;
        Some(ClaimPosition::new(it.ready_since?, finish.id))
    });
    Ok((batch.written_at(&applied), ready.min(), writes))
}

/// A run that did not pass, by its place among those of the batch.
struct WrittenState {
    at: usize,
    ready_since: Option<Timestamp>,
    queue: String,
}

/// The places of a row that applied, and the state that it has written.
fn read_written(
    row: &mut PostgresRow<'_>,
    others: &[(i64, &RunFinish)],
) -> Result<(Vec<i64>, Option<WrittenState>)> {
    let places: Vec<i64> = row.get()?;
    let ready_since = row.optional_timestamp()?;
    let queue: Option<String> = row.get()?;
    let at = places.first().map(|place| others.binary_search_by_key(place, |(place, _)| *place));
    let at = at.and_then(|at| at.ok());
    let state = at.zip(queue).map(|(at, queue)| WrittenState { at, ready_since, queue });
    Ok((places, state))
}

/// Runs that are ready, due or held are known by the tables of these, and those that failed or ended otherwise than by a
/// pass by their states. A run that is in none of these tables has passed.
const RUNS: SelectionSql = SelectionSql::RUNS.stored_in(
    "redrive.runs",
    "redrive.run_states AS runs",
    &[
        StateSql {
            status: "discovered",
            condition: "true",
            rows: Some(
                "(SELECT queue, category, id FROM redrive.ready_runs WHERE fresh
                 UNION ALL SELECT queue, category, id FROM redrive.due_runs WHERE fresh) AS runs",
            ),
        },
        StateSql {
            status: "processing",
            condition: "true",
            rows: Some(
                "(SELECT run.queue, run.category, run.id, state.status, state.next_retry_at, state.error_class,
                    state.error_code, state.error_message, state.fingerprint, state.last_failure_at
                 FROM redrive.run_claims AS claim
                 CROSS JOIN LATERAL unnest(claim.run_ids) AS held (id)
                 CROSS JOIN LATERAL (SELECT * FROM redrive.runs WHERE runs.id = held.id LIMIT 1) AS run
                 LEFT JOIN LATERAL (
                    SELECT * FROM redrive.run_states WHERE run_states.id = held.id LIMIT 1
                 ) AS state ON true) AS runs",
            ),
        },
        StateSql {
            status: "passed",
            condition: "NOT EXISTS (SELECT FROM redrive.run_states AS state
                    WHERE state.id = runs.id AND state.status NOT IN ('passed', 'discovered'))
                AND NOT EXISTS (SELECT FROM redrive.ready_runs AS ready
                    WHERE ready.queue = runs.queue AND ready.category = runs.category
                        AND ready.submitted_at = runs.submitted_at AND ready.id = runs.id)
                AND NOT EXISTS (SELECT FROM redrive.due_runs AS due
                    WHERE due.queue = runs.queue AND due.due_at = runs.not_before AND due.id = runs.id)
                AND NOT EXISTS (SELECT FROM redrive.run_claims AS claim
                    WHERE runs.id BETWEEN claim.first_run AND claim.last_run
                        AND runs.id = ANY (claim.run_ids))",
            rows: Some("redrive.runs"),
        },
        StateSql {
            status: "error",
            condition: "status = 'error'
                AND NOT EXISTS (SELECT FROM redrive.run_claims AS claim
                    WHERE runs.id BETWEEN claim.first_run AND claim.last_run
                        AND runs.id = ANY (claim.run_ids))",
            rows: None,
        },
    ],
);
