//! Applies operator actions to runs, and edits data.

use redrive_core::{PlanId, RunId, RunState};
use redrive_store::{DataEdit, Error, Operator, Result, RunAction, RunChange, Written};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_ids, read_records},
    error::Doing,
    journal::insert_journal,
    queries,
};

/// Reads the states of runs, and changes and journals those whose state allows the action.
pub(crate) fn change_runs(
    connection: &Connection,
    action: RunAction,
    ids: &[RunId],
    by: &Operator,
) -> Result<Vec<RunChange>> {
    const DOING: &str = "reading the states of runs";
    let named = [json_ids(ids.iter().map(|id| id.0))];
    let states: Vec<_> = read_records(connection, DOING, queries::STATES_OF_RUNS, named)?;
    change_runs_in(connection, action, ids, states, by, None)
}

/// Changes and journals runs whose states were read in the same transaction.
pub(crate) fn change_runs_in(
    connection: &Connection,
    action: RunAction,
    ids: &[RunId],
    states: Vec<(RunId, RunState)>,
    by: &Operator,
    plan: Option<PlanId>,
) -> Result<Vec<RunChange>> {
    let changes = action.changes(ids, states);
    for (id, change) in &changes {
        if let RunChange::Done(before) = change {
            change_run(connection, action, *id, *before)?;
            redrive_store::failpoint!("sqlite.change.row");
            insert_journal(connection, &action.journal_entry(*id, *before, by).naming(plan))?;
            redrive_store::failpoint!("sqlite.change.journal");
        }
    }
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

fn change_run(
    connection: &Connection,
    action: RunAction,
    id: RunId,
    before: RunState,
) -> Result<()> {
    let (doing, sql) = match action {
        RunAction::Retry => ("sending runs back", queries::RETRY_RUNS),
        RunAction::Cancel => ("cancelling runs", queries::CANCEL_RUNS),
    };
    let waits = before == RunState::WaitingForRetry;
    let changed = connection
        .prepare_cached(sql)
        .doing(doing)?
        .execute(params![id.0, before.status().name(), waits])
        .doing(doing)?;
    if changed == 1 {
        return Ok(());
    }
    // No other transaction has written since the state was read.
    Err(Error::misuse(doing, format!("run {id} is not in the state in which it was read")))
}

impl SqliteStore {
    /// Replaces the data of units, each with its journal entry, by a statement that compares the old data.
    pub(crate) async fn edit_data(
        &self,
        sql: &'static str,
        edits: &[DataEdit],
    ) -> Result<Vec<Written>> {
        const DOING: &str = "editing data";
        let edits = edits.to_vec();
        let edit = move |connection: &Connection| {
            let mut statement = connection.prepare_cached(sql).doing(DOING)?;
            let one = |edit: &DataEdit| {
                let changed =
                    statement.execute(params![edit.id, edit.old, edit.new]).doing(DOING)?;
                if changed > 0 {
                    redrive_store::failpoint!("sqlite.edit.row");
                    insert_journal(connection, &edit.journal)?;
                }
                Ok(Written::from_changed(changed > 0))
            };
            edits.iter().map(one).collect()
        };
        let written = self.write(edit).await?;
        redrive_store::failpoint!("sqlite.edit.committed");
        Ok(written)
    }
}
