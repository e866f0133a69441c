//! Actions of operators on runs, and edits of data.

use std::collections::HashSet;

use redrive_core::{PlanId, RunId, RunState};
use redrive_store::{
    DataEdit, Error, JournalEntry, Operator, ReadColumn, Result, RunAction, RunChange, Written,
};

use crate::{
    PostgresStore,
    batch::{each, written},
    bound_query::bind,
    columns::{read_records, read_rows},
    journal::JournalColumns,
    queries,
    session::Session,
};

/// Locks runs, and changes and journals those whose state allows the action.
pub(crate) async fn change_runs(
    store: &PostgresStore,
    action: RunAction,
    ids: &[RunId],
    by: &Operator,
) -> Result<Vec<RunChange>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut session = store.session(doing(action)).await?;
    lock_runs(&mut session, &each(ids, |id| id.0)).await?;
    redrive_store::failpoint!("postgres.change.locked");
    let numbers = each(ids, |id| id.0);
    let states = session.query(bind!(queries::STATES_OF_RUNS, ids => &numbers)).await?;
    let states = read_records(&states, doing(action))?;
    let changes = change_locked_runs(&mut session, action, ids, states, by, None).await?;
    session.commit().await?;
    Ok(changes)
}

fn doing(action: RunAction) -> &'static str {
    match action {
        RunAction::Retry => "retrying runs",
        RunAction::Cancel => "cancelling runs",
    }
}

/// Changes and journals those of the locked runs whose state allows the action, in the open transaction. The states were
/// read since the runs are locked.
pub(crate) async fn change_locked_runs(
    session: &mut Session,
    action: RunAction,
    ids: &[RunId],
    states: Vec<(RunId, RunState)>,
    by: &Operator,
    plan: Option<PlanId>,
) -> Result<Vec<RunChange>> {
    let (doing, changes) = (doing(action), action.changes(ids, states));
    let done: Vec<(RunId, RunState)> = changes
        .iter()
        .filter_map(|(id, change)| match change {
            RunChange::Done(before) => Some((*id, *before)),
            RunChange::Refused(_) | RunChange::Unknown => None,
        })
        .collect();
    if !done.is_empty() {
        let entries: Vec<JournalEntry> =
            each(&done, |(id, before)| action.journal_entry(*id, *before, by).naming(plan));
        let journal = JournalColumns::of(entries.iter().map(Some));
        let id = each(&done, |(id, _)| id.0);
        let held = each(&done, |(_, before)| *before == RunState::Processing);
        let change = match action {
            RunAction::Retry => bind!(queries::RETRY_RUNS, id => &id, ..JournalColumns(journal)),
            RunAction::Cancel => {
                bind!(queries::CANCEL_RUNS, id => &id, held => &held, ..JournalColumns(journal))
            }
        };
        let applied = session.query(change).await?.len();
        redrive_store::failpoint!("postgres.change.rows");
        // The runs are locked, so this cannot happen. Returning without a commit rolls back.
        if applied != done.len() {
            let problem = format!("{applied} of {} runs were changed", done.len());
            return Err(Error::misuse(doing, problem));
        }
    }
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

/// Locks runs, wherever they are, in the open transaction or a new one: no claim takes them and no worker finishes them.
/// A worker may return a run from its claim after the waiting and the ready ones were locked, so what was not found is
/// looked for again, until it has ended.
pub(crate) async fn lock_runs(session: &mut Session, ids: &[i64]) -> Result<()> {
    const DOING: &str = "locking runs";
    let mut unlocked = ids.to_vec();
    loop {
        let locks = [
            bind!(queries::LOCK_RUNS, ids => &unlocked),
            bind!(queries::LOCK_DUE_RUNS, ids => &unlocked),
            bind!(queries::LOCK_READY_RUNS, ids => &unlocked),
            bind!(queries::LOCK_RUN_CLAIMS, ids => &unlocked),
        ];
        let locked = if session.is_in_transaction() {
            session.continue_all(&locks).await?
        } else {
            session.begin_all(&locks).await?
        };
        let mut found = HashSet::new();
        for rows in locked.iter().skip(1) {
            let ids: Vec<i64> = read_rows(rows, DOING, |row| row.get())?;
            found.extend(ids);
        }
        unlocked.retain(|id| !found.contains(id));
        if unlocked.is_empty() {
            return Ok(());
        }
        let moving = session.query(bind!(queries::MOVING_RUNS, ids => &unlocked)).await?;
        unlocked = read_rows(&moving, DOING, |row| row.get())?;
        if unlocked.is_empty() {
            return Ok(());
        }
    }
}

/// What an edit changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edited {
    Run,
    Sample,
}

impl PostgresStore {
    /// Replaces the data of units, each with its journal entry, by a query that compares the old data.
    pub(crate) async fn edit_data(
        &self,
        edited: Edited,
        edits: &[DataEdit],
    ) -> Result<Vec<Written>> {
        const DOING: &str = "editing data";
        if edits.is_empty() {
            return Ok(Vec::new());
        }
        let journal = JournalColumns::of(edits.iter().map(|edit| Some(&edit.journal)));
        let edit = bind!(
            match edited {
                Edited::Run => queries::EDIT_RUNS,
                Edited::Sample => queries::EDIT_SAMPLES,
            },
            id => &each(edits, |edit| edit.id),
            old_data => &each(edits, |edit| edit.old.as_deref()),
            new_data => &each(edits, |edit| edit.new.as_str()),
            ..JournalColumns(journal)
        );
        let ids = each(edits, |edit| edit.id);
        let mut session = self.session(DOING).await?;
        let applied = match edited {
            Edited::Run => {
                lock_runs(&mut session, &ids).await?;
                session.commit_all(&[edit]).await?.pop().unwrap_or_default()
            }
            Edited::Sample => session.query(edit).await?,
        };
        redrive_store::failpoint!("postgres.edit.committed");
        written(&applied, DOING, edits.len())
    }
}
