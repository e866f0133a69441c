//! What operators do to runs.

use std::collections::HashMap;

use redrive_core::{RunId, RunState, RunStatus};
use redrive_store::{Error, JournalEntry, Operator, Result, RunAction, RunChange};
use tokio_postgres::{Row, types::ToSql};

use crate::{PostgresStore, batch::each, columns::read_rows, journal::JournalColumns, queries};

/// Locks runs, and changes and journals those whose state allows it.
pub(crate) async fn change_runs(
    store: &PostgresStore,
    action: RunAction,
    ids: &[RunId],
    by: &Operator,
) -> Result<Vec<RunChange>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let (doing, sql) = match action {
        RunAction::Retry => ("sending runs back", queries::RETRY_RUNS),
        RunAction::Cancel => ("cancelling runs", queries::CANCEL_RUNS),
    };
    let mut session = store.session(doing).await?;
    let locked = session.begin(queries::STATES_OF_RUNS, &[&each(ids, |id| id.0)]).await?;
    redrive_store::failpoint!("postgres.change.locked");
    let changes = action.changes(ids, states(&locked, doing)?);
    let done: Vec<(RunId, RunState)> = changes
        .iter()
        .filter_map(|(id, change)| match change {
            RunChange::Done(before) => Some((*id, *before)),
            RunChange::Refused(_) | RunChange::Unknown => None,
        })
        .collect();
    if !done.is_empty() {
        let told: Vec<JournalEntry> =
            each(&done, |(id, before)| action.journal_entry(*id, *before, by));
        let journal = JournalColumns::of(told.iter().map(Some));
        let id = each(&done, |(id, _)| id.0);
        let status = each(&done, |(_, before)| before.status().name());
        let waits = each(&done, |(_, before)| *before == RunState::WaitingForRetry);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&id, &status, &waits];
        values.extend(journal.values());
        let applied = session.query(sql, &values).await?.len();
        redrive_store::failpoint!("postgres.change.rows");
        // They are locked since their states were read. Without the commit, nothing is changed.
        if applied != done.len() {
            let problem =
                format!("{applied} of {} runs are in the state that was read", done.len());
            return Err(Error::misuse(doing, problem));
        }
    }
    session.commit().await?;
    Ok(changes.into_iter().map(|(_, change)| change).collect())
}

fn states(rows: &[Row], doing: &'static str) -> Result<HashMap<RunId, RunState>> {
    let states = read_rows(rows, doing, |row| {
        let id = RunId(row.get()?);
        let status = row.named("status", RunStatus::from_name)?;
        Ok((id, RunState::of(status, row.get()?)))
    })?;
    Ok(states.into_iter().collect())
}
