//! Queues: counts, pauses, backlogs.

use crate::{
    PostgresStore,
    bound_query::bind,
    columns::{Micros, PostgresRow, read_records, read_rows},
    connection::BEGIN_FULL_SCAN,
    queries,
};
use jiff::Timestamp;
use redrive_core::{RunState, RunStatus};
use redrive_store::{
    Backlog, Categories, Operator, PausedQueue, QueueAction, QueueCount, QueueStats, ReadColumn,
    Result, RowReader,
};

pub(crate) async fn stats(store: &PostgresStore) -> Result<Vec<QueueStats>> {
    const DOING: &str = "counting runs";
    let count = bind!(queries::QUEUE_STATS);
    let mut session = store.session(DOING).await?;
    let results = session.transaction_with(BEGIN_FULL_SCAN, &[count]).await?;
    let rows = results.last().map(Vec::as_slice).unwrap_or_default();
    Ok(QueueStats::gather(read_rows(rows, DOING, read_count)?))
}

fn read_count(row: &mut PostgresRow<'_>) -> Result<QueueCount> {
    let queue = row.get()?;
    let status = row.optional_named("status", RunStatus::from_name)?;
    let waits: Option<bool> = row.get()?;
    let state = status.map(|status| RunState::of(status, waits == Some(true)));
    Ok(QueueCount {
        queue,
        runs: state.zip(row.optional_count("count")?),
        oldest_ready: row.optional_timestamp()?,
        next_due: row.optional_timestamp()?,
        paused_at: row.optional_timestamp()?,
    })
}

/// Pauses a queue. Returns false if the queue was paused already.
pub(crate) async fn pause(store: &PostgresStore, queue: &str, by: &Operator) -> Result<bool> {
    let action = QueueAction::Pause;
    let entry = action.journal_entry(queue, by);
    let pause = bind!(
        queries::PAUSE_QUEUE,
        queue => &queue,
        at => &Micros(by.at),
        actor => &by.actor,
        reason => &by.reason,
        action => &entry.action,
        details => &entry.details,
    );
    let rows = store.session(action.doing()).await?.query(pause).await?;
    Ok(!rows.is_empty())
}

/// Resumes a queue. Returns false if the queue was not paused.
pub(crate) async fn resume(store: &PostgresStore, queue: &str, by: &Operator) -> Result<bool> {
    let action = QueueAction::Resume;
    let entry = action.journal_entry(queue, by);
    let resume = bind!(
        queries::RESUME_QUEUE,
        queue => &queue,
        at => &Micros(by.at),
        actor => &by.actor,
        action => &entry.action,
        details => &entry.details,
    );
    let rows = store.session(action.doing()).await?.query(resume).await?;
    Ok(!rows.is_empty())
}

pub(crate) async fn paused(store: &PostgresStore) -> Result<Vec<PausedQueue>> {
    const DOING: &str = "listing paused queues";
    let rows = store.session(DOING).await?.query(bind!(queries::PAUSED_QUEUES)).await?;
    read_records(&rows, DOING)
}

pub(crate) async fn backlog(
    store: &PostgresStore,
    queue: &str,
    categories: &Categories,
) -> Result<Backlog> {
    const DOING: &str = "reading the backlog of a queue";
    let mut session = store.session(DOING).await?;
    let backlog = match categories {
        Categories::All => bind!(queries::BACKLOG_ANY, queue => &queue),
        Categories::Only(named) => {
            bind!(queries::BACKLOG_OF, queue => &queue, categories => named)
        }
    };
    let rows = session.query(backlog).await?;
    Ok(read_records(&rows, DOING)?.pop().unwrap_or_default())
}

pub(crate) async fn next_due(
    store: &PostgresStore,
    queue: &str,
    categories: &Categories,
) -> Result<Option<Timestamp>> {
    const DOING: &str = "reading the next due time";
    let named = match categories {
        Categories::All => None,
        Categories::Only(named) => Some(named),
    };
    let mut session = store.session(DOING).await?;
    let next = bind!(queries::NEXT_DUE, queue => &queue, categories => &named);
    let rows = session.query(next).await?;
    Ok(read_rows(&rows, DOING, |row| row.timestamp())?.pop())
}
