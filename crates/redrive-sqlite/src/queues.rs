//! Statistics, backlog and pauses of queues.

use redrive_store::{
    Backlog, Categories, Operator, PausedQueue, QueueAction, QueueCount, QueueStats, Result,
};
use rusqlite::{Connection, params};

use crate::{
    columns::{json_list, micros, read_records},
    error::Doing,
    journal::insert_journal,
    queries,
    run_counts::RunCounts,
};

/// Statistics of every queue, from the earlier counts and the changes since.
pub(crate) fn stats(connection: &Connection, counted: &mut RunCounts) -> Result<Vec<QueueStats>> {
    let paused = paused(connection)?.into_iter().map(|paused| QueueCount {
        queue: paused.queue,
        runs: None,
        oldest_ready: None,
        next_due: None,
        paused_at: Some(paused.by.at),
    });
    Ok(QueueStats::gather(counted.look(connection)?.into_iter().chain(paused)))
}

/// Returns `false` if the queue was paused already.
pub(crate) fn pause(connection: &Connection, queue: &str, by: &Operator) -> Result<bool> {
    let params = params![queue, micros(by.at), by.actor, by.reason];
    change(connection, QueueAction::Pause, queries::PAUSE_QUEUE, params, queue, by)
}

/// Returns `false` if the queue was not paused.
pub(crate) fn resume(connection: &Connection, queue: &str, by: &Operator) -> Result<bool> {
    change(connection, QueueAction::Resume, queries::RESUME_QUEUE, params![queue], queue, by)
}

fn change(
    connection: &Connection,
    action: QueueAction,
    sql: &str,
    params: impl rusqlite::Params,
    queue: &str,
    by: &Operator,
) -> Result<bool> {
    let doing = action.doing();
    let changed = connection.prepare_cached(sql).doing(doing)?.execute(params).doing(doing)?;
    if changed > 0 {
        redrive_store::failpoint!("sqlite.queue.row");
        insert_journal(connection, &action.journal_entry(queue, by))?;
        redrive_store::failpoint!("sqlite.queue.journal");
    }
    Ok(changed > 0)
}

pub(crate) fn paused(connection: &Connection) -> Result<Vec<PausedQueue>> {
    read_records(connection, "listing paused queues", queries::PAUSED_QUEUES, [])
}

pub(crate) fn backlog(
    connection: &Connection,
    queue: &str,
    categories: &Categories,
) -> Result<Backlog> {
    const DOING: &str = "looking at what a queue has to do";
    let mut rows = match categories {
        Categories::All => read_records(connection, DOING, queries::BACKLOG_ANY, [queue])?,
        Categories::Only(named) => {
            let params = params![queue, json_list(named)];
            read_records(connection, DOING, queries::BACKLOG_OF, params)?
        }
    };
    Ok(rows.pop().unwrap_or_default())
}
