//! Causes: what failures of all kinds have in common.
//!
//! A batch of finished attempts counts its failures by cause, hour, kind and place, once for the batch. So the history
//! of a cause is read without the ledger, and no cost grows with finished units.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::{
    AttemptRecord, FromRow, JournalEntry, MAX_NOTE_CHARS, MAX_TICKET_CHARS, Operator, Result,
    RowReader, TextTooLong, UnitKind, Written, operator_text,
};

/// A cause with the units that it stops and its failed attempts since a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseRecord {
    pub fingerprint: String,
    pub class: String,
    pub code: String,
    /// The message of the first failure.
    pub message: String,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub mark: Option<CauseMark>,
    pub note: Option<String>,
    pub ticket: Option<String>,
    pub marked_at: Option<Timestamp>,
    pub marked_by: Option<String>,
    /// When the cause came back after it was marked as fixed.
    pub returned_at: Option<Timestamp>,
    /// Every kind that has units or attempts of this cause.
    pub kinds: Vec<CauseKind>,
    /// By hour, kind and place: those of the period, and the newest one.
    pub hours: Vec<CauseHour>,
}

/// A row of a cause, with a kind if the cause has units or attempts.
impl FromRow for (CauseRecord, Option<CauseKind>) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let cause = CauseRecord {
            fingerprint: row.get()?,
            class: row.get()?,
            code: row.get()?,
            message: row.get()?,
            first_at: row.timestamp()?,
            last_at: row.timestamp()?,
            mark: row.optional_named("mark", CauseMark::from_name)?,
            note: row.get()?,
            ticket: row.get()?,
            marked_at: row.optional_timestamp()?,
            marked_by: row.get()?,
            returned_at: row.optional_timestamp()?,
            kinds: Vec::new(),
            hours: Vec::new(),
        };
        let kind = row.optional_named("kind", UnitKind::from_name)?;
        let (stuck, waiting) = (row.count("stuck")?, row.count("waiting")?);
        let attempts = row.count("attempts")?;
        Ok((cause, kind.map(|kind| CauseKind { kind, stuck, waiting, attempts })))
    }
}

/// Units of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CauseKindView))]
pub struct CauseKind {
    /// `partition`, `run`, `item` or `sample`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: UnitKind,
    /// Units that were given up, and failed partitions: their policy, not the store, knows whether they are retried.
    pub stuck: u64,
    /// Units that wait for a retry.
    pub waiting: u64,
    /// Failed attempts in the period.
    pub attempts: u64,
}

/// Failed attempts of one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseHour {
    pub hour: Timestamp,
    pub kind: UnitKind,
    /// A queue, a source, an upload, or a pipeline with a stage.
    pub place: String,
    pub attempts: u64,
    pub last_at: Timestamp,
    /// The unit of the last failure.
    pub unit_id: i64,
}

/// An hour with the fingerprint of its cause.
impl FromRow for (String, CauseHour) {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let fingerprint = row.get()?;
        let hour = CauseHour {
            hour: row.timestamp()?,
            kind: row.named("kind", UnitKind::from_name)?,
            place: row.get()?,
            attempts: row.count("attempts")?,
            last_at: row.timestamp()?,
            unit_id: row.get()?,
        };
        Ok((fingerprint, hour))
    }
}

/// An hour whose count of a cause is not the number of failed attempts in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseMiscount {
    pub fingerprint: String,
    pub hour: Timestamp,
    pub kind: UnitKind,
    /// In all places together.
    pub counted: u64,
    pub in_ledger: u64,
}

impl FromRow for CauseMiscount {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            fingerprint: row.get()?,
            hour: row.timestamp()?,
            kind: row.named("kind", UnitKind::from_name)?,
            counted: row.count("counted")?,
            in_ledger: row.count("in_ledger")?,
        })
    }
}

/// What an operator knows about a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum CauseMark {
    Known,
    /// It should not come back. If it does, this is reported.
    Fixed,
}

impl CauseMark {
    pub const ALL: [Self; 2] = [Self::Known, Self::Fixed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Fixed => "fixed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.name() == name)
    }
}

/// The most causes of one list.
pub const MAX_CAUSES: u32 = 1_000;

/// What to change of a cause; `None` keeps what is there, and an empty text or mark removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseChange {
    mark: Option<Option<CauseMark>>,
    note: Option<String>,
    ticket: Option<String>,
}

/// Why a change of a cause is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCauseChange {
    #[error("nothing is to be changed: give a mark, a note or a ticket")]
    Empty,
    #[error(transparent)]
    TooLong(#[from] TextTooLong),
}

impl CauseChange {
    /// Trims and cleans the texts.
    pub fn new(
        mark: Option<Option<CauseMark>>,
        note: Option<&str>,
        ticket: Option<&str>,
    ) -> std::result::Result<Self, InvalidCauseChange> {
        let note = note.map(|note| operator_text("note", note, MAX_NOTE_CHARS)).transpose()?;
        let ticket =
            ticket.map(|ticket| operator_text("ticket", ticket, MAX_TICKET_CHARS)).transpose()?;
        if mark.is_none() && note.is_none() && ticket.is_none() {
            return Err(InvalidCauseChange::Empty);
        }
        Ok(Self { mark, note, ticket })
    }

    /// Leaves out texts that are there already. `None` if nothing is left to change.
    pub fn unless_known(self, note: Option<&str>, ticket: Option<&str>) -> Option<Self> {
        let differs = |new: &String, old: Option<&str>| new.as_str() != old.unwrap_or_default();
        let note = self.note.filter(|new| differs(new, note));
        let ticket = self.ticket.filter(|new| differs(new, ticket));
        let is_some = self.mark.is_some() || note.is_some() || ticket.is_some();
        is_some.then_some(Self { mark: self.mark, note, ticket })
    }

    pub fn mark(&self) -> Option<Option<CauseMark>> {
        self.mark
    }

    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub fn ticket(&self) -> Option<&str> {
        self.ticket.as_deref()
    }

    /// `cause.mark`, or `cause.note` if there is no mark.
    pub fn journal_entry(&self, fingerprint: &str, by: &Operator) -> JournalEntry {
        let details = json!({
            "cause": fingerprint,
            "mark": self.mark.map(|mark| mark.map_or("none", CauseMark::name)),
            "note": self.note,
            "ticket": self.ticket,
            "reason": by.reason,
        });
        JournalEntry {
            at: by.at,
            actor: by.actor.clone(),
            action: if self.mark.is_some() { "cause.mark" } else { "cause.note" }.to_owned(),
            unit: Some(cause_unit(fingerprint)),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }
    }
}

/// Which causes to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseFilter {
    pub kind: Option<UnitKind>,
    pub fingerprint: Option<String>,
    /// The start of the period in which attempts are counted, rounded down to an hour.
    pub since: Timestamp,
    /// The start of the hours of each cause.
    pub hours_since: Timestamp,
    pub limit: u32,
}

#[async_trait]
pub trait Causes: Send + Sync {
    /// Causes with stuck or waiting units, or with attempts in the period: the most stuck units first, then the most
    /// waiting ones, then the most attempts.
    async fn causes(&self, filter: &CauseFilter) -> Result<Vec<CauseRecord>>;

    /// Compares the counts with the ledger in one snapshot, and returns up to `limit` hours that differ, by hour,
    /// cause and kind. `since` is the start of an hour; earlier ones may have been pruned. Attempts at the
    /// stage [`SOURCE_STAGE`](crate::SOURCE_STAGE) are left out: lines of a source that are no samples are counted there,
    /// and are not in the ledger.
    async fn miscounted_causes(
        &self,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<CauseMiscount>>;

    /// Removes the counts of hours that ended before a time, except the newest hour of each cause. The causes stay.
    /// If any were removed, the journal gets [`cause_hours_pruned`] in the same transaction.
    async fn prune_cause_hours(&self, before: Timestamp, by: &Operator) -> Result<u64>;

    /// Writes down what an operator knows, with a journal entry. Stale if no failure ever had the cause.
    async fn change_cause(
        &self,
        fingerprint: &str,
        change: &CauseChange,
        by: &Operator,
    ) -> Result<Written>;
}

/// A cause in the journal.
pub fn cause_unit(fingerprint: &str) -> String {
    format!("cause:{fingerprint}")
}

/// The hour in which a failure is counted.
pub fn hour_of(at: Timestamp) -> Timestamp {
    let hours = at.as_second().div_euclid(3_600);
    Timestamp::from_second(hours * 3_600).unwrap_or(at)
}

/// Reports that a cause came back after it was marked as fixed.
pub fn cause_returned(fingerprint: &str, attempt: &AttemptRecord) -> JournalEntry {
    let details = json!({
        "cause": fingerprint,
        "kind": attempt.unit.kind.name(),
        "id": attempt.unit.id,
        "message": attempt.message,
    });
    JournalEntry {
        at: attempt.ended_at,
        actor: attempt.worker.clone(),
        action: "cause.return".to_owned(),
        unit: Some(cause_unit(fingerprint)),
        filter: None,
        details: details.to_string(),
        dedupe_key: None,
    }
}

/// The journal entry about removed counts. Without it, nobody could tell pruned counts from lost ones.
pub fn cause_hours_pruned(before: Timestamp, rows: u64, by: &Operator) -> JournalEntry {
    let by = by.cleaned();
    JournalEntry {
        at: by.at,
        actor: by.actor,
        action: "prune.causes".to_owned(),
        unit: None,
        filter: Some(json!({ "before": before.to_string() }).to_string()),
        details: json!({ "counts": rows, "reason": by.reason }).to_string(),
        dedupe_key: None,
    }
}

/// Builds records from rows of causes, each with a kind if it has units or attempts, and rows of hours.
pub fn cause_records(
    rows: Vec<(CauseRecord, Option<CauseKind>)>,
    hours: Vec<(String, CauseHour)>,
) -> Vec<CauseRecord> {
    let mut by_cause: BTreeMap<String, Vec<CauseHour>> = BTreeMap::new();
    for (fingerprint, hour) in hours {
        by_cause.entry(fingerprint).or_default().push(hour);
    }
    let mut causes: Vec<CauseRecord> = Vec::new();
    for (cause, kind) in rows {
        match causes.last_mut() {
            Some(last) if last.fingerprint == cause.fingerprint => last.kinds.extend(kind),
            _ => {
                let hours = by_cause.remove(&cause.fingerprint).unwrap_or_default();
                causes.push(CauseRecord { kinds: kind.into_iter().collect(), hours, ..cause });
            }
        }
    }
    causes
}
