//! Runs: submit, claim, finish, read.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Cause, RunId};
use redrive_store::{
    Backlog, Categories, ClaimGates, ClaimRequest, ClaimedRun, DataEdit, Error, FromRow,
    GateResultWrites, GateResults, LetThrough, MAX_PAGE_BYTES, NewRun, Operator, PageLimit,
    PausedQueue, QueueAction, QueueStats, ReadColumn, Result, RowReader, RunAction, RunChange,
    RunFinish, RunRecord, Runs, Selection, SelectionSql, StateSql, SubmittedRun, UnitKind, Written,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::{FirstOccurrences, each},
    bound_query::{bind, columns},
    causes::FailureColumns,
    claim_cursor::ClaimPosition,
    columns::{Micros, PostgresRow, read_records, read_rows},
    gates::{self, GateRequest},
    journal::JournalColumns,
    operators::{Edited, change_runs},
    queries, queues,
    run_passes::{PassColumns, is_pass},
    session::Session,
    submit::submit,
};

/// Due runs that one query promotes. If there are more, further queries follow; each commits by itself.
const MAX_PROMOTED: i64 = 10_000;

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
        let nothing = matches!(&request.categories, Categories::Only(named) if named.is_empty());
        if nothing || request.limit == 0 {
            return Ok(Vec::new());
        }
        let mut session = self.session(CLAIMING).await?;
        if !ClaimGates::limits_open_keys(&request.gates)
            && let Some(claimed) = self.claim_as_open(&mut session, request).await?
        {
            return Ok(claimed);
        }
        let claimed = claim_behind_gates(self, &mut session, request).await?;
        redrive_store::failpoint!("postgres.claim.gated");
        Ok(claimed)
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
        let rows = self.session(DOING).await?.select(page, &RUNS, filter).await?;
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

impl PostgresStore {
    /// Claims without a look at the keys of the gates, if all of them are open.
    async fn claim_as_open(
        &self,
        session: &mut Session,
        request: &ClaimRequest,
    ) -> Result<Option<Vec<ClaimedRun>>> {
        let mut active = self.claim_cursors.start_claim(request);
        let look = active.look_from_page;
        let Some(result) = claim(session, request, active.from, look, ClaimDepth::Shares).await?
        else {
            return Ok(None);
        };
        result.pages.inspect(|pages| active.saw_pages(*pages));
        let ClaimResult { mut promoted, runs: mut claimed, mut oldest, .. } = result;
        redrive_store::failpoint!("postgres.claim.committed");
        while promoted >= MAX_PROMOTED {
            promoted = promote(session, request).await?;
            self.claim_cursors.runs_became_ready_anywhere();
            if promoted < MAX_PROMOTED && claimed.len() < request.limit as usize {
                claimed.extend(claim_rest(session, request, claimed.len()).await?);
            }
        }
        if claimed.is_empty() {
            // Older runs may be ready, and other claims may have locked the oldest of every category while more
            // are behind them.
            active.restart();
            let look = active.look_from_page;
            let Some(further) =
                claim(session, request, active.from, look, ClaimDepth::Limit).await?
            else {
                return Ok(None);
            };
            further.pages.inspect(|pages| active.saw_pages(*pages));
            (claimed, oldest) = (further.runs, further.oldest);
        }
        active.finish(&claimed, oldest, request.limit);
        Ok(Some(claimed))
    }
}

/// Claims what the gates of the runs let through. Reads the index of ready runs from the start: a cursor knows nothing of
/// runs that were kept back.
async fn claim_behind_gates(
    store: &PostgresStore,
    session: &mut Session,
    request: &ClaimRequest,
) -> Result<Vec<ClaimedRun>> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    let present = bind!(queries::READY_CATEGORIES, queue => &request.queue);
    let ClaimRequest { gates, owner, limit, now, .. } = request;
    let asked = GateRequest { gates, kind: UnitKind::Run, owner, limit: *limit, now: *now };
    let is_wanted = |category: &String| request.categories.among(category);
    let rows = asked.begin(store, session, &[promote]).await?.unwrap_or_default();
    let present = session.query(present).await?;
    let present = read_rows(&present, CLAIMING, |row| row.get())?;
    let claim = asked.look(store, session, rows, present, is_wanted).await?;
    let request = ClaimRequest { limit: claim.limit, ..request.clone() };
    let values = ClaimValues::of(&request, ClaimPosition::START, ClaimDepth::Shares);
    let query = bind!(
        queries::CLAIM_RUNS_OF,
        categories => &each(&claim.most, |(category, _)| category),
        most => &each(&claim.most, |(_, most)| i64::from(*most)),
        ..ClaimValues(values)
    );
    let mut runs = claimed_runs(&session.query(query).await?)?.0;
    let units =
        each(&runs, |run| LetThrough { id: run.id.0, epoch: run.epoch.0, key: &run.category });
    let passes = asked.commit(store, session, claim, &units).await?;
    for (run, pass) in runs.iter_mut().zip(passes) {
        run.pass = pass;
    }
    Ok(runs)
}

const CLAIMING: &str = "claiming runs";

/// How many runs a claim locks in each of several categories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimDepth {
    /// The category's share of the oldest runs.
    Shares,
    /// The limit of the claim.
    Limit,
}

/// Promotes further due runs and returns their number.
async fn promote(session: &mut Session, request: &ClaimRequest) -> Result<i64> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    count(&session.query(promote).await?)
}

/// Claims as many runs as a request has left.
async fn claim_rest(
    session: &mut Session,
    request: &ClaimRequest,
    taken: usize,
) -> Result<Vec<ClaimedRun>> {
    let taken = u32::try_from(taken).unwrap_or(u32::MAX);
    let rest = ClaimRequest { limit: request.limit.saturating_sub(taken), ..request.clone() };
    let claimed = claim(session, &rest, ClaimPosition::START, None, ClaimDepth::Shares).await?;
    Ok(claimed.map(|claimed| claimed.runs).unwrap_or_default())
}

fn count(rows: &[Row]) -> Result<i64> {
    let counts: Vec<i64> = read_rows(rows, CLAIMING, |row| row.get())?;
    Ok(counts.into_iter().sum())
}

struct ClaimResult {
    promoted: i64,
    runs: Vec<ClaimedRun>,
    /// The oldest ready run, whether this claim took it or another one has locked it.
    oldest: Option<RunId>,
    /// Of the table of ready runs, if the claim has looked.
    pages: Option<i64>,
}

columns! {
    struct ClaimValues<'a> {
        queue: &'a str,
        limit: i64,
        owner: &'a str,
        lease_until: Micros,
        claimed_at: Micros,
        to_the_limit: bool,
        from_submitted_at: Micros,
        from_id: i64,
    }
}

impl<'a> ClaimValues<'a> {
    fn of(request: &'a ClaimRequest, from: ClaimPosition, depth: ClaimDepth) -> Self {
        Self {
            queue: &request.queue,
            limit: i64::from(request.limit),
            owner: &request.owner.0,
            lease_until: Micros(request.lease_until),
            claimed_at: Micros(request.now),
            to_the_limit: depth == ClaimDepth::Limit,
            from_submitted_at: Micros(from.submitted_at),
            from_id: from.id.0,
        }
    }
}

/// Promotes, looks for older runs and claims in one round trip, or in two if there are gates. `None` if one of these is not
/// open.
async fn claim(
    session: &mut Session,
    request: &ClaimRequest,
    from: ClaimPosition,
    look_from_page: Option<i64>,
    depth: ClaimDepth,
) -> Result<Option<ClaimResult>> {
    let promote = bind!(
        queries::PROMOTE_DUE_RUNS,
        queue => &request.queue,
        now => &Micros(request.now),
        limit => &MAX_PROMOTED,
    );
    let values = ClaimValues::of(request, from, depth);
    let most = vec![i64::from(request.limit); request.categories.named().len()];
    let claim = match &request.categories {
        Categories::All => bind!(queries::CLAIM_RUNS_ANY, ..ClaimValues(values)),
        Categories::Only(categories) => {
            bind!(queries::CLAIM_RUNS_OF, categories => categories, most => &most, ..ClaimValues(values))
        }
    };
    let named = match &request.categories {
        Categories::All => None,
        Categories::Only(categories) => Some(categories),
    };
    let look = bind!(
        queries::LOOK_FOR_OLDER_RUNS,
        from_page => &look_from_page,
        queue => &request.queue,
        categories => &named,
        from_submitted_at => &Micros(from.submitted_at),
        from_id => &from.id.0,
    );
    let mut queries = vec![promote];
    queries.extend(look_from_page.map(|_| look));
    let (begun, claimed) = if request.gates.is_empty() {
        queries.push(claim);
        let mut answers = session.transaction(&queries).await?;
        let claimed = answers.pop();
        (answers, claimed)
    } else {
        let names = gates::names(&request.gates);
        let share = bind!(queries::SHARE_GATES, name => &names);
        let shut = bind!(queries::SHUT_GATE_KEYS, name => &names);
        queries.extend([share, shut]);
        let mut begun = session.begin_all(&queries).await?;
        if begun.pop().is_some_and(|shut| !shut.is_empty()) {
            session.commit().await?;
            return Ok(None);
        }
        (begun, session.commit_all(&[claim]).await?.pop())
    };
    let (runs, oldest) = claimed_runs(&claimed.unwrap_or_default())?;
    let mut begun = begun.into_iter();
    let promoted = count(&begun.next().unwrap_or_default())?;
    let looked = begun.next().filter(|_| look_from_page.is_some()).unwrap_or_default();
    let pages: Vec<i64> = read_rows(&looked, CLAIMING, |row| row.get())?;
    Ok(Some(ClaimResult { promoted, runs, oldest, pages: pages.into_iter().next() }))
}

/// Also returns the oldest ready run.
fn claimed_runs(rows: &[Row]) -> Result<(Vec<ClaimedRun>, Option<RunId>)> {
    let mut oldest = None;
    let mut runs = Vec::with_capacity(rows.len());
    for row in rows {
        let row = &mut PostgresRow::new(row, CLAIMING);
        runs.push(ClaimedRun::from_row(row)?);
        let first: Option<i64> = row.get()?;
        oldest = first.map(RunId);
    }
    // RETURNING has no order.
    runs.sort_unstable_by_key(|run| (run.submitted_at, run.id));
    Ok((runs, oldest))
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
