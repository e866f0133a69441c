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
    let locked =
        session.begin(bind!(queries::STATES_OF_RUNS, ids => &each(ids, |id| id.0))).await?;
    redrive_store::failpoint!("postgres.change.locked");
    let changes = action.changes(ids, read_records::<(RunId, RunState)>(&locked, doing)?);
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
        let change = bind!(
            match action {
                RunAction::Retry => queries::RETRY_RUNS,
                RunAction::Cancel => queries::CANCEL_RUNS,
            },
            id => &each(&done, |(id, _)| id.0),
            old_status => &each(&done, |(_, before)| before.status().name()),
            waits => &each(&done, |(_, before)| *before == RunState::WaitingForRetry),
            ..JournalColumns(journal)
        );
        let applied = session.query(change).await?.len();
        redrive_store::failpoint!("postgres.change.rows");
        // The runs are locked since their states were read, so this cannot happen. Returning without a commit
        // rolls back.
        if applied != done.len() {
            let problem =
                format!("{applied} of {} runs are in the state that was read", done.len());
            return Err(Error::misuse(doing, problem));
        }
    }
    session.commit().await?;
    Ok(changes.into_iter().map(|(_, change)| change).collect())
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
        let applied = self.session(DOING).await?.query(edit).await?;
        redrive_store::failpoint!("postgres.edit.committed");
        written(&applied, DOING, edits.len())
    }
}
