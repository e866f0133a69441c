//! Submitting runs: inserts the new runs of a batch and finds the runs that have the keys of the others.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::RunId;
use redrive_store::{Error, NewRun, ReadColumn, Result, SubmittedRun};
use tokio_postgres::{Row, types::Type};

use crate::{
    batch::each,
    bound_query::{bind, columns},
    columns::{Micros, PostgresRow, read_rows},
    queries,
    session::Session,
};

pub(crate) const DOING: &str = "submitting runs";

/// Queue and idempotency key.
pub(crate) type RunKey<'a> = (&'a str, &'a str);

/// Inserts a batch with one query. If keys are taken, a second query in the same transaction reads the runs that
/// have them. The insert has waited for concurrent submitters, so the second query sees their runs.
pub(crate) async fn submit(
    session: &mut Session,
    runs: &[NewRun],
    now: Timestamp,
) -> Result<Vec<SubmittedRun>> {
    let (columns, now) = (NewRunColumns::of(runs), Micros(now));
    if runs.iter().all(|run| run.idempotency_key().is_none()) {
        let insert = bind!(queries::INSERT_KEYLESS_RUNS, now => &now, ..NewRunColumns(columns));
        let inserted = session.query(insert).await?;
        let mut ids = read_rows(&inserted, DOING, |row| row.get().map(RunId))?;
        ids.sort_unstable();
        return Ok(ids.into_iter().map(SubmittedRun::Accepted).collect());
    }
    let keys = each(runs, NewRun::idempotency_key);
    let insert = bind!(
        queries::INSERT_RUNS,
        now => &now,
        idempotency_key => &keys,
        ..NewRunColumns(columns)
    );
    let inserted = session.begin(insert).await?;
    redrive_store::failpoint!("postgres.submit.rows");
    let accepted = accepted(runs, &inserted)?;
    let found = match refused_keys(runs, &accepted) {
        (queues, _) if queues.is_empty() => Vec::new(),
        (queues, keys) => {
            let read = bind!(queries::IDEMPOTENT_RUNS, queue => &queues, idempotency_key => &keys);
            let found = session.query(read).await?;
            redrive_store::failpoint!("postgres.submit.compared");
            found
        }
    };
    let answers = answers(runs, &accepted, &existing_runs(&found)?)?;
    session.commit().await?;
    Ok(answers)
}

columns! {
    /// New runs as arrays, without their idempotency keys.
    pub(crate) struct NewRunColumns<'a> {
        queue: Vec<&'a str>,
        category: Vec<&'a str>,
        payload: Vec<&'a str>,
        submitted_at: Vec<Micros>,
        not_before: Vec<Option<Micros>>,
    }
}

impl<'a> NewRunColumns<'a> {
    /// The types of the columns, in the order of [`Self::NAMES`].
    pub(crate) const TYPES: [Type; 5] = [
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
    ];

    pub(crate) fn of(runs: &'a [NewRun]) -> Self {
        Self {
            queue: each(runs, NewRun::queue),
            category: each(runs, NewRun::category),
            payload: each(runs, NewRun::payload),
            submitted_at: each(runs, |run| Micros(run.submitted_at())),
            not_before: each(runs, |run| run.not_before().map(Micros)),
        }
    }
}

/// Queues and idempotency keys of the runs that were not inserted.
pub(crate) fn refused_keys<'a>(
    runs: &'a [NewRun],
    accepted: &[Option<RunId>],
) -> (Vec<&'a str>, Vec<&'a str>) {
    let refused = runs.iter().zip(accepted).filter(|(_, id)| id.is_none());
    refused.filter_map(|(run, _)| key_of(run)).unzip()
}

fn key_of(run: &NewRun) -> Option<RunKey<'_>> {
    run.idempotency_key().map(|key| (run.queue(), key))
}

/// The ids of the inserted runs. Ids grow in the order of the batch, so walking both side by side finds the id
/// of each run.
pub(crate) fn accepted(runs: &[NewRun], inserted: &[Row]) -> Result<Vec<Option<RunId>>> {
    let mut rows = Vec::with_capacity(inserted.len());
    for row in inserted {
        let row = &mut PostgresRow::new(row, DOING);
        let id = RunId(row.get()?);
        let (queue, key): (Option<&str>, Option<&str>) = (row.get()?, row.get()?);
        rows.push((id, queue.zip(key)));
    }
    rows.sort_unstable_by_key(|(id, _)| *id);
    let mut rows = rows.into_iter().peekable();
    Ok(each(runs, |run| {
        let next = rows.next_if(|(_, key)| *key == key_of(run));
        next.map(|(id, _)| id)
    }))
}

/// A run that has the key of a submitted one.
pub(crate) struct ExistingRun<'a> {
    id: RunId,
    category: &'a str,
    payload: &'a str,
}

pub(crate) fn existing_runs(found: &[Row]) -> Result<HashMap<RunKey<'_>, ExistingRun<'_>>> {
    let mut existing_runs = HashMap::with_capacity(found.len());
    for row in found {
        let row = &mut PostgresRow::new(row, DOING);
        let id = RunId(row.get()?);
        let key = (row.get()?, row.get()?);
        let (category, payload) = (row.get()?, row.get()?);
        let run = ExistingRun { id, category, payload };
        existing_runs.insert(key, run);
    }
    Ok(existing_runs)
}

pub(crate) fn answers(
    runs: &[NewRun],
    accepted: &[Option<RunId>],
    existing_runs: &HashMap<RunKey<'_>, ExistingRun<'_>>,
) -> Result<Vec<SubmittedRun>> {
    let answer = |(run, id): (&NewRun, &Option<RunId>)| {
        let other = key_of(run).and_then(|key| existing_runs.get(&key));
        match (id, other) {
            (Some(id), _) => Ok(SubmittedRun::Accepted(*id)),
            (None, Some(other)) => Ok(run.refused_by(other.id, other.category, other.payload)),
            // Nothing was written; the caller may submit again.
            (None, None) => Err(Error::Unavailable {
                doing: DOING.to_owned(),
                source: "a run was removed while another was submitted under its key".into(),
            }),
        }
    };
    runs.iter().zip(accepted).map(answer).collect()
}
