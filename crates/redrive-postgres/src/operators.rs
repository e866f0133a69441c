//! Actions of operators on runs, and edits of data.

use redrive_core::{RunId, RunState};
use redrive_store::{
    DataEdit, Error, JournalEntry, Operator, Result, RunAction, RunChange, Written,
};

use crate::{
    PostgresStore,
    batch::{each, written},
    bound_query::bind,
    columns::read_records,
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
    let doing = match action {
        RunAction::Retry => "retrying runs",
        RunAction::Cancel => "cancelling runs",
    };
    let mut session = store.session(doing).await?;
    let numbers = each(ids, |id| id.0);
    begin_with_locks(&mut session, &numbers).await?;
    redrive_store::failpoint!("postgres.change.locked");
    let states = session.query(bind!(queries::STATES_OF_RUNS, ids => &numbers)).await?;
    let changes = action.changes(ids, read_records::<(RunId, RunState)>(&states, doing)?);
    let done: Vec<(RunId, RunState)> = changes
        .iter()
        .filter_map(|(id, change)| match change {
            RunChange::Done(before) => Some((*id, *before)),
            RunChange::Refused(_) | RunChange::Unknown => None,
        })
        .collect();
    if !done.is_empty() {
        let entries: Vec<JournalEntry> =
            each(&done, |(id, before)| action.journal_entry(*id, *before, by));
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
    session.commit().await?;
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

/// Begins a transaction that locks runs, wherever they are: no claim takes them and no worker finishes them.
async fn begin_with_locks(session: &mut Session, ids: &Vec<i64>) -> Result<()> {
    let locks = [
        bind!(queries::LOCK_RUNS, ids => ids),
        bind!(queries::LOCK_DUE_RUNS, ids => ids),
        bind!(queries::LOCK_READY_RUNS, ids => ids),
        bind!(queries::LOCK_RUN_CLAIMS, ids => ids),
    ];
    session.begin_all(&locks).await.map(drop)
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
                begin_with_locks(&mut session, &ids).await?;
                session.commit_all(&[edit]).await?.pop().unwrap_or_default()
            }
            Edited::Sample => session.query(edit).await?,
        };
        redrive_store::failpoint!("postgres.edit.committed");
        written(&applied, DOING, edits.len())
    }
}
