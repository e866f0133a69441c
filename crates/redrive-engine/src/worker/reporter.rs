//! Tells the store which process this is, what it serves and holds, and how many attempts it has finished.
//!
//! One write for the whole process at a third of its shortest lease, and every two seconds while it finishes attempts:
//! neither a loop nor a unit writes anything for this. A process that is killed loses the counts since its last write;
//! what became of its units is in the ledger.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use redrive_retry::{Stop, monotonic};
use redrive_store::{
    AttemptEnd, MinuteCounts, Presence, UnitKind, WorkerPlace, WorkerRecord, attempt_counts,
};

use crate::worker::{
    held_leases::HeldLeases, lease_clock::later, unit_leases::WorkContext, work::Work,
};

/// The lease of a process that serves nothing.
const LEASE: Duration = Duration::from_secs(60);

/// How soon charts have what a process has finished.
const COUNTED_EVERY: Duration = Duration::from_secs(2);

/// The attempts of one loop since the last report.
#[derive(Debug)]
pub struct PlaceCounts {
    kind: UnitKind,
    minutes: Mutex<MinuteCounts>,
}

impl PlaceCounts {
    pub(crate) fn new(kind: UnitKind) -> Self {
        Self { kind, minutes: Mutex::default() }
    }

    pub(crate) fn add(&self, end: AttemptEnd) {
        self.change(|minutes| minutes.add(end));
    }

    fn is_empty(&self) -> bool {
        self.change(|minutes| minutes.is_empty())
    }

    fn take(&self) -> MinuteCounts {
        self.change(std::mem::take)
    }

    fn restore(&self, earlier: MinuteCounts) {
        self.change(|minutes| minutes.restore(earlier));
    }

    /// A panic leaves the counts consistent: every change is one addition.
    fn change<T>(&self, change: impl FnOnce(&mut MinuteCounts) -> T) -> T {
        change(&mut self.minutes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A loop as its process reports it.
trait ReportedLoop: Send + Sync {
    fn place(&self) -> Option<WorkerPlace>;

    fn name(&self) -> &str;

    fn lease(&self) -> Duration;

    fn counts(&self) -> Option<&PlaceCounts>;
}

impl<W: Work> ReportedLoop for (Arc<W>, Arc<HeldLeases>) {
    fn place(&self) -> Option<WorkerPlace> {
        let (work, held) = self;
        let (in_flight, claimed) = held.occupancy();
        Some(WorkerPlace {
            kind: work.counts()?.kind,
            place: work.name().to_owned(),
            concurrency: work.limits().concurrency.try_into().unwrap_or(u32::MAX),
            in_flight,
            claimed,
            restarts: work.restarts(),
        })
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn lease(&self) -> Duration {
        self.0.limits().lease
    }

    fn counts(&self) -> Option<&PlaceCounts> {
        self.0.counts()
    }
}

/// Reports the loops of a process.
pub(crate) struct WorkerReporter {
    context: WorkContext,
    loops: Vec<Box<dyn ReportedLoop>>,
}

impl WorkerReporter {
    pub(crate) fn new(context: &WorkContext) -> Self {
        Self { context: context.clone(), loops: Vec::new() }
    }

    pub(crate) fn add<W: Work>(&mut self, work: Arc<W>, held: Arc<HeldLeases>) {
        self.loops.push(Box::new((work, held)));
    }

    /// Reports until the loops have ended, then removes the row of the process. `stop` tells the loops to end.
    pub(crate) async fn run(self, mut stop: Stop, mut ended: Stop) {
        let lease = self.loops.iter().map(|it| it.lease()).min().unwrap_or(LEASE);
        let started_at = self.context.store.now();
        let mut draining = false;
        loop {
            let now = self.context.store.now();
            let worker = self.record(started_at, now, later(now, lease), draining);
            self.report(Presence::Working(worker), lease / 3).await;
            tokio::select! {
                biased;
                () = ended.stopped() => break,
                () = stop.stopped(), if !draining => draining = true,
                () = self.report_due(lease / 3) => {}
            }
        }
        self.report(Presence::Stopped(self.context.worker.clone()), lease / 3).await;
    }

    /// Waits for the time of the next report, or until attempts are to be counted.
    async fn report_due(&self, at_most: Duration) {
        let reported = monotonic();
        while reported.elapsed() < at_most {
            tokio::time::sleep(COUNTED_EVERY.min(at_most)).await;
            if self.loops.iter().filter_map(|it| it.counts()).any(|counts| !counts.is_empty()) {
                return;
            }
        }
    }

    fn record(
        &self,
        started_at: Timestamp,
        heard_at: Timestamp,
        lease_until: Timestamp,
        draining: bool,
    ) -> WorkerRecord {
        WorkerRecord {
            id: self.context.worker.clone(),
            host: host(),
            process: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            heard_at,
            lease_until,
            draining,
            places: self.loops.iter().filter_map(|it| it.place()).collect(),
        }
    }

    /// Writes a report. What cannot be written is counted with the next report.
    async fn report(&self, presence: Presence, within: Duration) {
        let counted = self.loops.iter().map(|it| it.counts().map(PlaceCounts::take));
        let counted: Vec<Option<MinuteCounts>> = counted.collect();
        let places =
            self.loops.iter().zip(&counted).filter_map(|(one, counted)| {
                Some((one.counts()?.kind, one.name(), counted.as_ref()?))
            });
        let counts = attempt_counts(places);
        let report = self.context.store.report(&presence, &counts, self.context.clock.now());
        let cause: Box<dyn std::error::Error + Send + Sync> =
            match tokio::time::timeout(within, report).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.into(),
                Err(error) => error.into(),
            };
        tracing::debug!(error = &*cause as &dyn std::error::Error, "cannot report this worker");
        for (one, counted) in self.loops.iter().zip(counted) {
            if let Some((counts, counted)) = one.counts().zip(counted) {
                counts.restore(counted);
            }
        }
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
