//! Implements [`Runs`].

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{
    AttemptRecord, Backlog, Categories, ClaimRequest, ClaimedRun, DataEdit, GateResults, LeaseRef,
    LetThrough, NewRun, Operator, PageLimit, PausedQueue, QueueAction, QueueStats, ReadColumn,
    Result, RunAction, RunChange, RunFinish, RunRecord, Runs, Selection, SelectionSql,
    SubmittedRun, UnitKind, Written,
};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::{
    SqliteLeaseClock, SqliteStore,
    columns::{json_ids, micros, read_records, read_rows},
    error::Doing,
    gates::{self, GateRequest},
    journal::insert_journal,
    ledger::LedgerRows,
    operators::change_runs,
    queries, queues,
    selected::SelectQuery,
};

#[async_trait]
impl Runs for SqliteStore {
    async fn submit_runs(&self, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>> {
        let runs = runs.to_vec();
        let submitted: Vec<SubmittedRun> =
            self.write(move |connection| submit(connection, &runs, now)).await?;
        redrive_store::failpoint!("sqlite.submit.committed");
        let accepted = |run: &SubmittedRun| matches!(run, SubmittedRun::Accepted(_));
        self.wakes.wake_if(submitted.iter().any(accepted));
        Ok(submitted)
    }

    async fn claim_runs(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>> {
        let (request, clock) = (request.clone(), self.clock.clone());
        let claimed = self.write(move |connection| claim(connection, &request, &clock)).await?;
        redrive_store::failpoint!("sqlite.claim.committed");
        Ok(claimed)
    }

    async fn finish_runs(&self, finishes: &[RunFinish], now: Timestamp) -> Result<Vec<Written>> {
        // Built and dropped on this thread, because all callers share the writer's thread.
        let rows: Arc<[_]> =
            finishes.iter().map(|finish| (finish.clone(), finish.ledger_row())).collect();
        let written = rows.clone();
        let (written, wakes) =
            self.write(move |connection| finish(connection, &written, now)).await?;
        redrive_store::failpoint!("sqlite.finish.committed");
        self.wakes.wake_if(wakes);
        Ok(written)
    }

    async fn runs_by_id(&self, ids: &[RunId]) -> Result<Vec<RunRecord>> {
        let ids = json_ids(ids.iter().map(|id| id.0));
        self.read(move |connection| {
            read_records(connection, "reading runs", queries::RUNS_BY_ID, [&ids])
        })
        .await
    }

    async fn runs_page(
        &self,
        filter: &Selection,
        after: RunId,
        limit: PageLimit,
    ) -> Result<Vec<RunRecord>> {
        let own = vec![after.0.into(), limit.rows.into(), limit.with_data.into()];
        let units = SelectionSql::RUNS.in_order(limit.order);
        let page = SelectQuery { units, sql: queries::RUNS_PAGE, own };
        self.select_page("listing runs", page, filter).await
    }

    async fn retry_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        let (ids, by) = (ids.to_vec(), by.cleaned());
        let changes = self
            .write(move |connection| change_runs(connection, RunAction::Retry, &ids, &by))
            .await?;
        redrive_store::failpoint!("sqlite.retry.committed");
        self.wakes.wake_if(changes.iter().any(|change| matches!(change, RunChange::Done(_))));
        Ok(changes)
    }

    async fn edit_runs(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.edit_data(queries::EDIT_RUNS, edits).await
    }

    async fn cancel_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        let (ids, by) = (ids.to_vec(), by.cleaned());
        let changes = self
            .write(move |connection| change_runs(connection, RunAction::Cancel, &ids, &by))
            .await?;
        redrive_store::failpoint!("sqlite.cancel.committed");
        Ok(changes)
    }

    async fn queue_stats(&self) -> Result<Vec<QueueStats>> {
        let counted = Arc::clone(&self.counted);
        self.read(move |connection| {
            let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
            // A database in memory is read in the writer's transaction.
            let look = connection.is_autocommit().then(|| connection.unchecked_transaction());
            let _look = look.transpose().doing("counting runs")?;
            queues::stats(connection, &mut counted)
        })
        .await
    }

    async fn pause_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        QueueAction::Pause.check_name(queue)?;
        let (queue, by) = (queue.to_owned(), by.cleaned());
        let paused = self.write(move |connection| queues::pause(connection, &queue, &by)).await?;
        redrive_store::failpoint!("sqlite.pause.committed");
        Ok(paused)
    }

    async fn resume_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        QueueAction::Resume.check_name(queue)?;
        let (queue, by) = (queue.to_owned(), by.cleaned());
        let resumed = self.write(move |connection| queues::resume(connection, &queue, &by)).await?;
        redrive_store::failpoint!("sqlite.resume.committed");
        self.wakes.wake_if(resumed);
        Ok(resumed)
    }

    async fn paused_queues(&self) -> Result<Vec<PausedQueue>> {
        self.read(queues::paused).await
    }

    async fn backlog(&self, queue: &str, categories: &Categories) -> Result<Backlog> {
        let (queue, categories) = (queue.to_owned(), categories.clone());
        self.read(move |connection| queues::backlog(connection, &queue, &categories)).await
    }

    /// An index finds held runs, so the whole backlog is as cheap as the due time.
    async fn next_due(&self, queue: &str, categories: &Categories) -> Result<Option<Timestamp>> {
        self.backlog(queue, categories).await.map(|backlog| backlog.next_due)
    }
}

fn submit(connection: &Connection, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>> {
    const DOING: &str = "submitting runs";
    let mut insert = connection.prepare_cached(queries::INSERT_RUNS).doing(DOING)?;
    let mut submitted = Vec::with_capacity(runs.len());
    for run in runs {
        let due_at = run.due_at(now);
        let inserted = insert
            .execute(params![
                run.queue(),
                run.category(),
                run.payload(),
                micros(run.submitted_at()),
                run.not_before().map(micros),
                run.idempotency_key(),
                due_at.is_none(),
                due_at.map(micros),
            ])
            .doing(DOING)?;
        submitted.push(if inserted == 0 {
            refused(connection, run)?
        } else {
            redrive_store::failpoint!("sqlite.submit.row");
            SubmittedRun::Accepted(RunId(connection.last_insert_rowid()))
        });
    }
    Ok(submitted)
}

/// The result for a run whose idempotency key exists.
fn refused(connection: &Connection, run: &NewRun) -> Result<SubmittedRun> {
    const DOING: &str = "submitting runs";
    let mut find = connection.prepare_cached(queries::IDEMPOTENT_RUNS).doing(DOING)?;
    let (id, category, payload): (i64, String, String) = find
        .query_row(params![run.queue(), run.idempotency_key()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .doing(DOING)?;
    Ok(run.refused_by(RunId(id), &category, &payload))
}

fn claim(
    connection: &Connection,
    request: &ClaimRequest,
    clock: &SqliteLeaseClock,
) -> Result<Vec<ClaimedRun>> {
    const DOING: &str = "claiming runs";
    let promote = params![request.queue, micros(request.now)];
    connection
        .prepare_cached(queries::PROMOTE_DUE_RUNS)
        .doing(DOING)?
        .execute(promote)
        .doing(DOING)?;
    redrive_store::failpoint!("sqlite.claim.promoted");
    let (until, now) = (micros(request.lease_until), micros(request.now));
    let owner = &request.owner.0;
    let ClaimRequest { gates, owner: by, limit, .. } = request;
    let asked =
        GateRequest { gates, kind: UnitKind::Run, owner: by, limit: *limit, now: request.now };
    let present = || {
        read_rows(connection, DOING, queries::READY_CATEGORIES, [&request.queue], |row| row.get())
    };
    let is_wanted = |category: &String| request.categories.among(category);
    if let Some(gated) = asked.look(connection, clock(), present, is_wanted)? {
        let most =
            Value::from_iter(gated.most.iter().map(|(category, most)| json!([category, most])));
        let params = params![request.queue, gated.limit, owner, until, most.to_string(), now];
        let mut claimed = read_records(connection, DOING, queries::CLAIM_RUNS_OF, params)?;
        sort(&mut claimed);
        let units = claimed.iter();
        let units =
            units.map(|run| LetThrough { id: run.id.0, epoch: run.epoch.0, key: &run.category });
        let passes = asked.let_through(connection, clock(), gated, &units.collect::<Vec<_>>())?;
        for (run, pass) in claimed.iter_mut().zip(passes) {
            run.pass = pass;
        }
        return Ok(claimed);
    }
    let lone = lone_category(connection, request)?;
    let mut claimed: Vec<ClaimedRun> = match (lone, &request.categories) {
        (Some(category), _) => {
            let params = params![request.queue, request.limit, owner, until, category, now];
            read_records(connection, DOING, queries::CLAIM_RUNS_IN, params)?
        }
        (None, Categories::All) => {
            let params = params![request.queue, request.limit, owner, until, now];
            read_records(connection, DOING, queries::CLAIM_RUNS_ANY, params)?
        }
        (None, Categories::Only(categories)) => {
            let most = categories.iter().map(|category| json!([category, request.limit]));
            let most = Value::from_iter(most).to_string();
            let params = params![request.queue, request.limit, owner, until, most, now];
            read_records(connection, DOING, queries::CLAIM_RUNS_OF, params)?
        }
    };
    redrive_store::failpoint!("sqlite.claim.row");
    sort(&mut claimed);
    Ok(claimed)
}

/// RETURNING does not guarantee an order.
fn sort(claimed: &mut [ClaimedRun]) {
    claimed.sort_unstable_by_key(|run| (run.submitted_at, run.id));
}

/// The only category with ready runs, if there is just one. Merging categories has a cost per run,
/// which a single category can avoid.
fn lone_category(connection: &Connection, request: &ClaimRequest) -> Result<Option<String>> {
    const DOING: &str = "looking for categories";
    match &request.categories {
        Categories::Only(named) => match &named[..] {
            [one] => Ok(Some(one.clone())),
            _ => Ok(None),
        },
        Categories::All => {
            let ends: Option<(Option<String>, Option<String>)> =
                read_rows(connection, DOING, queries::LONE_CATEGORY, [&request.queue], |row| {
                    Ok((row.get()?, row.get()?))
                })?
                .pop();
            Ok(ends.and_then(|(first, last)| if first == last { first } else { None }))
        }
    }
}

/// Also returns whether a run waits for a retry, or a gate has changed.
fn finish(
    connection: &Connection,
    finishes: &[(RunFinish, AttemptRecord)],
    now: Timestamp,
) -> Result<(Vec<Written>, bool)> {
    const DOING: &str = "finishing runs";
    let mut update = connection.prepare_cached(queries::FINISH_RUNS).doing(DOING)?;
    let mut ledger = LedgerRows::new(connection)?;
    let (mut all, mut wakes) = (Vec::with_capacity(finishes.len()), false);
    let results = GateResults::of_runs(finishes.iter().map(|(finish, _)| finish));
    let mut gated = Vec::new();
    for (finish, attempt) in finishes {
        let columns = finish.columns(now);
        let changed = update
            .execute(params![
                finish.id.0,
                finish.epoch.0,
                columns.status.name(),
                finish.attempt.0,
                columns.retry_count,
                columns.deferrals,
                columns.next_retry_at.map(micros),
                micros(columns.first_attempt_at),
                columns.error_class,
                columns.error_message,
                columns.result,
                columns.ready,
                columns.due_at.map(micros),
                attempt.code,
                attempt.fingerprint,
                attempt.class.is_some().then(|| micros(attempt.ended_at)),
            ])
            .doing(DOING)?;
        let written = Written::from_changed(changed > 0);
        all.push(written);
        if written == Written::Applied {
            redrive_store::failpoint!("sqlite.finish.row");
            wakes |= finish.schedules_retry();
            if finish.gates.is_some() {
                gated.push(LeaseRef { id: finish.id.0, epoch: finish.epoch });
            }
            ledger.insert(attempt)?;
            redrive_store::failpoint!("sqlite.finish.ledger");
            for entry in finish.journal_rows() {
                insert_journal(connection, &entry)?;
                redrive_store::failpoint!("sqlite.finish.journal");
            }
        }
    }
    ledger.finish()?;
    if let Some((first, _)) = finishes.first() {
        wakes |= gates::settle(connection, UnitKind::Run, results, &gated, &first.worker)?;
    }
    Ok((all, wakes))
}
