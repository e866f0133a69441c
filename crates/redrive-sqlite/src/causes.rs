//! Implements [`Causes`], and counts failures by cause.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    AttemptRecord, CauseChange, CauseFilter, CauseMark, CauseMiscount, CauseRecord, Causes,
    Operator, Result, SOURCE_STAGE, UnitKind, Written, cause_hours_pruned, cause_records,
    cause_returned, hour_of,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_list, micros, read_records},
    error::Doing,
    journal::insert_journal,
    queries,
};

const READING: &str = "reading causes";
const COUNTING: &str = "counting failures by cause";
const COMPARING: &str = "comparing the counts of causes with the ledger";
const CHANGING: &str = "changing a cause";
const PRUNING: &str = "pruning the counts of causes";

#[async_trait]
impl Causes for SqliteStore {
    async fn causes(&self, filter: &CauseFilter) -> Result<Vec<CauseRecord>> {
        let CauseFilter { kind, fingerprint, since, hours_since, limit } = filter.clone();
        let [since, hours_since] = [since, hours_since].map(|at| micros(hour_of(at)));
        self.read(move |connection| {
            let own = params![since, kind.map(UnitKind::name), fingerprint, limit];
            let rows: Vec<(CauseRecord, _)> =
                read_records(connection, READING, queries::CAUSES, own)?;
            let mut named: Vec<String> =
                rows.iter().map(|(cause, _)| cause.fingerprint.clone()).collect();
            named.dedup();
            let own = params![hours_since, kind.map(UnitKind::name), json_list(&named)];
            let hours = read_records(connection, READING, queries::CAUSE_HOURS, own)?;
            Ok(cause_records(rows, hours))
        })
        .await
    }

    async fn miscounted_causes(
        &self,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<CauseMiscount>> {
        let since = since.map(micros);
        self.read(move |connection| {
            let own = params![since, SOURCE_STAGE, limit];
            read_records(connection, COMPARING, queries::MISCOUNTED_CAUSES, own)
        })
        .await
    }

    async fn prune_cause_hours(&self, before: Timestamp, by: &Operator) -> Result<u64> {
        let by = by.clone();
        self.write(move |connection| {
            let own = params![micros(hour_of(before))];
            let mut delete =
                connection.prepare_cached(queries::PRUNE_CAUSE_HOURS).doing(PRUNING)?;
            let rows = delete.execute(own).doing(PRUNING)? as u64;
            if rows > 0 {
                insert_journal(connection, &cause_hours_pruned(before, rows, &by))?;
            }
            Ok(rows)
        })
        .await
    }

    async fn change_cause(
        &self,
        fingerprint: &str,
        change: &CauseChange,
        by: &Operator,
    ) -> Result<Written> {
        let (fingerprint, change, by) = (fingerprint.to_owned(), change.clone(), by.cleaned());
        self.write(move |connection| {
            let mark = change.mark().flatten().map(CauseMark::name);
            let own = params![
                fingerprint,
                change.mark().is_some(),
                mark,
                mark.map(|_| micros(by.at)),
                mark.map(|_| &by.actor),
                change.note(),
                change.ticket(),
            ];
            let mut update = connection.prepare_cached(queries::CHANGE_CAUSE).doing(CHANGING)?;
            if update.execute(own).doing(CHANGING)? == 0 {
                return Ok(Written::Stale);
            }
            redrive_store::failpoint!("sqlite.causes.changed");
            insert_journal(connection, &change.journal_entry(&fingerprint, &by))?;
            Ok(Written::Applied)
        })
        .await
    }
}

/// The failures of a batch, by what `cause_hours` has a row for.
#[derive(Debug, Default)]
pub(crate) struct CauseCounts(BTreeMap<CauseKey, CauseCount>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CauseKey {
    hour: i64,
    fingerprint: String,
    kind: &'static str,
    place: String,
}

#[derive(Debug)]
struct CauseCount {
    attempts: u32,
    /// The attempts that ended first and last, and the one that started last.
    first: AttemptRecord,
    last: AttemptRecord,
    latest: AttemptRecord,
}

impl CauseCounts {
    pub(crate) fn add(&mut self, connection: &Connection, attempt: &AttemptRecord) -> Result<()> {
        let Some(fingerprint) = &attempt.fingerprint else { return Ok(()) };
        let (kind, unit) = (attempt.unit.kind.name(), &attempt.unit);
        let mut place = connection.prepare_cached(queries::PLACE_OF_UNIT).doing(COUNTING)?;
        let place: Option<String> = place
            .query_row(params![kind, unit.id, unit.stage], |row| row.get(0))
            .doing(COUNTING)?;
        let key = CauseKey {
            hour: micros(hour_of(attempt.ended_at)),
            fingerprint: fingerprint.clone(),
            kind,
            place: place.unwrap_or_default(),
        };
        if attempt.unit.kind == UnitKind::Partition {
            let AttemptRecord { class, code, ended_at, .. } = attempt;
            let own = params![unit.id, class, code, fingerprint, micros(*ended_at)];
            let mut put =
                connection.prepare_cached(queries::PUT_PARTITION_FAILURE).doing(COUNTING)?;
            put.execute(own).doing(COUNTING)?;
        }
        let count = self.0.entry(key);
        let count = count.or_insert_with(|| CauseCount {
            attempts: 0,
            first: attempt.clone(),
            last: attempt.clone(),
            latest: attempt.clone(),
        });
        count.attempts += 1;
        if attempt.ended_at < count.first.ended_at {
            count.first = attempt.clone();
        }
        if attempt.ended_at > count.last.ended_at {
            count.last = attempt.clone();
        }
        if attempt.started_at > count.latest.started_at {
            count.latest = attempt.clone();
        }
        Ok(())
    }

    pub(crate) fn write(self, connection: &Connection) -> Result<()> {
        for (CauseKey { hour, fingerprint, kind, place }, count) in self.0 {
            let CauseCount { attempts, first, last, latest } = count;
            let last_at = micros(last.ended_at);
            let own = params![hour, fingerprint, kind, place, attempts, last_at, last.unit.id];
            let mut count = connection.prepare_cached(queries::COUNT_CAUSE).doing(COUNTING)?;
            count.execute(own).doing(COUNTING)?;
            let first_at = micros(first.ended_at);
            let own = params![fingerprint, first.class, first.code, first.message, first_at];
            let mut insert = connection.prepare_cached(queries::INSERT_CAUSE).doing(COUNTING)?;
            if insert.execute(own).doing(COUNTING)? == 0 {
                report_return(connection, &fingerprint, &latest)?;
            }
            redrive_store::failpoint!("sqlite.causes.counted");
        }
        Ok(())
    }
}

/// Reports a cause that was marked as fixed before the attempt began.
fn report_return(connection: &Connection, fingerprint: &str, latest: &AttemptRecord) -> Result<()> {
    let own = params![fingerprint, micros(latest.started_at), micros(latest.ended_at)];
    let mut update = connection.prepare_cached(queries::RETURN_CAUSE).doing(COUNTING)?;
    if update.execute(own).doing(COUNTING)? > 0 {
        insert_journal(connection, &cause_returned(fingerprint, latest))?;
    }
    Ok(())
}
