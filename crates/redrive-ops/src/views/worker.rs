//! The views of workers, and of work that no worker serves.

use jiff::Timestamp;
use redrive_store::{UnitKind, WorkerPlace, WorkerRecord};
use serde::Serialize;

/// A process that works on units. Times are on the store's clock.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerView {
    /// The id under which the process holds units.
    pub worker: String,
    pub host: String,
    /// The process id on the host.
    pub process: u32,
    pub version: String,
    /// `present`, `draining` (it ends its units and claims no more) or `not_heard_from` (its lease has ended).
    pub state: &'static str,
    pub started_at: Timestamp,
    pub heard_at: Timestamp,
    /// Units that are handled, or whose result is being written.
    pub in_flight: u64,
    /// Units that are claimed and not started.
    pub claimed: u64,
    /// What the process serves.
    pub places: Vec<WorkerPlaceView>,
}

impl WorkerView {
    pub(crate) fn new(worker: &WorkerRecord, now: Timestamp) -> Self {
        let sum = |of: fn(&WorkerPlace) -> u32| worker.places.iter().map(of).map(u64::from).sum();
        Self {
            worker: worker.id.0.clone(),
            host: worker.host.clone(),
            process: worker.process,
            version: worker.version.clone(),
            state: match (worker.is_present(now), worker.draining) {
                (false, _) => "not_heard_from",
                (true, true) => "draining",
                (true, false) => "present",
            },
            started_at: worker.started_at,
            heard_at: worker.heard_at,
            in_flight: sum(|place| place.in_flight),
            claimed: sum(|place| place.claimed),
            places: worker.places.iter().map(WorkerPlaceView::from).collect(),
        }
    }

    /// The places that the process serves, in words.
    pub fn places_in_words(&self) -> String {
        let names = self.places.iter().map(WorkerPlaceView::name);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// A queue, a source or a stage that a process serves, and what the process holds of it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkerPlaceView {
    /// `queue`, `source` or `stage`.
    pub kind: &'static str,
    /// The name of the queue or the source; pipeline and stage such as `menu/translate`.
    pub place: String,
    /// Units at once.
    pub concurrency: u32,
    pub in_flight: u32,
    pub claimed: u32,
    /// How often a program that stays running was started again after a failure.
    pub restarts: u64,
}

impl WorkerPlaceView {
    /// Such as `queue:orders`.
    pub fn name(&self) -> String {
        format!("{}:{}", self.kind, self.place)
    }
}

impl From<&WorkerPlace> for WorkerPlaceView {
    fn from(place: &WorkerPlace) -> Self {
        Self {
            kind: place.kind.place(),
            place: place.place.clone(),
            concurrency: place.concurrency,
            in_flight: place.in_flight,
            claimed: place.claimed,
            restarts: place.restarts,
        }
    }
}

/// Units that wait and that no present worker serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnattendedView {
    /// `queue`, `source` or `pipeline`.
    pub kind: &'static str,
    pub name: String,
    pub units: u64,
    /// Such as `3 runs in queue "orders"`.
    pub what: String,
}

impl UnattendedView {
    pub(crate) fn new(kind: UnitKind, name: &str, units: u64, what: String) -> Self {
        let kind = if kind == UnitKind::Sample { "pipeline" } else { kind.place() };
        Self { kind, name: name.to_owned(), units, what }
    }
}
