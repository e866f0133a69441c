//! The processes that serve a store, and the attempts that they have counted.
//!
//! A process writes one row about itself, with the same lease as for its units, and renews the row at a third of that
//! lease. Views show a process whose lease has ended as not heard from. The counts of attempts since the last write are
//! in the same write, so neither costs anything for each unit.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    AttemptCount, AttemptCountFilter, FromRow, PeriodCount, Result, RowReader, UnitKind, WorkerId,
};

/// How long a process is shown after it was last heard from.
const WORKER_KEPT: SignedDuration = SignedDuration::from_hours(24);

/// Processes that were last heard from before are removed.
pub fn worker_kept_since(now: Timestamp) -> Timestamp {
    now.checked_sub(WORKER_KEPT).unwrap_or(Timestamp::MIN)
}

/// A process that works on units. Times are on the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRecord {
    pub id: WorkerId,
    pub host: String,
    pub process: u32,
    pub version: String,
    pub started_at: Timestamp,
    pub heard_at: Timestamp,
    /// The process counts as present until then.
    pub lease_until: Timestamp,
    /// Whether the process ends its units and claims no more.
    pub draining: bool,
    pub places: Vec<WorkerPlace>,
}

/// A queue, a source or a stage that a process serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPlace {
    /// The kind of its units.
    #[serde(with = "kind_name")]
    pub kind: UnitKind,
    /// The name of a queue or a source; pipeline and stage such as `menu/translate`.
    pub place: String,
    /// Attempts at once.
    pub concurrency: u32,
    pub in_flight: u32,
    /// Units that are claimed and not started.
    pub claimed: u32,
    /// How often a program that stays running was started again after a failure.
    pub restarts: u64,
}

mod kind_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use crate::UnitKind;

    pub(super) fn serialize<S: Serializer>(kind: &UnitKind, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(kind.name())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<UnitKind, D::Error> {
        let name = String::deserialize(from)?;
        UnitKind::from_name(&name).ok_or_else(|| D::Error::custom("no kind of unit"))
    }
}

impl WorkerRecord {
    /// Whether the process was heard from within its lease.
    pub fn is_present(&self, now: Timestamp) -> bool {
        self.lease_until > now
    }

    /// The places as JSON, for the store.
    pub fn places_json(&self) -> String {
        serde_json::to_string(&self.places).unwrap_or_else(|_| "[]".to_owned())
    }
}

impl FromRow for WorkerRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            id: WorkerId(row.get()?),
            host: row.get()?,
            process: row.count("process")?,
            version: row.get()?,
            started_at: row.timestamp()?,
            heard_at: row.timestamp()?,
            lease_until: row.timestamp()?,
            draining: row.get()?,
            places: row.named("places", |places| serde_json::from_str(places).ok())?,
        })
    }
}

/// What a process reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    Working(WorkerRecord),
    /// The process has stopped cleanly.
    Stopped(WorkerId),
    /// The process serves nothing that another process waits for, such as an upload by command.
    NoWorker,
}

#[async_trait]
pub trait Workers: Send + Sync {
    /// Writes or removes the row of a process and adds what it has counted, in one transaction. Removes what is too old:
    /// processes that were last heard from before [`worker_kept_since`], and counts before
    /// [`CountPeriod::kept_since`](crate::CountPeriod::kept_since). `at` is the wall clock.
    ///
    /// A report whose answer was lost may have been written: repeating it counts its attempts twice.
    async fn report(
        &self,
        presence: &Presence,
        counts: &[AttemptCount],
        at: Timestamp,
    ) -> Result<()>;

    /// All processes, those that started first come first.
    async fn workers(&self) -> Result<Vec<WorkerRecord>>;

    /// The attempts of a place by period and outcome, in this order, summed over the kinds.
    async fn attempt_counts(&self, filter: &AttemptCountFilter) -> Result<Vec<PeriodCount>>;
}
