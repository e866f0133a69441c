//! Partitions of one source, as work for the loop (PAR-2).
//!
//! An attempt is an extraction into the raw sink and the validator's verdict on what lies there. The
//! verdict is all that is ever written: state, ledger and journal in one transaction. Killed anywhere
//! before it, an attempt has changed nothing that anybody reads.

use std::{panic::AssertUnwindSafe, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use redrive_core::{Cause, Failure, PartitionKey, Unit, named};
use redrive_store::{
    Backlog, ClaimedPartition, ExpiredLease, LeaseRef, LeaseRelease, Leased, PartitionClaim,
    PartitionFinish, PartitionVerdict, Result, Store, WorkKind, WorkerId, Written,
};
use serde_json::Map;

use crate::{
    handlers::handler::{Call, Outcome},
    partitions::{
        extractor::{RowWriter, described},
        lane_shares::LaneShares,
        raw::{Extracted, RawWriter},
        run_ids::RunIds,
        source::Source,
        validator::{Extraction, Judged, Judgement, Validator},
    },
    traces::{TracedAttempt, Traces},
    worker::{
        failures::{RAW_FULL, is_for_want_of_room, panic_failure, refused_by_sink},
        work::{Ending, Work, WorkerLimits},
    },
};
use redrive_retry::{Clock, Stop, Stopper};

/// What came of an attempt.
pub(crate) enum Attempted {
    Judged(Judgement),
    /// The sink had no room for it, which says nothing about the partition.
    NoRoom(Failure),
}

/// Does the partitions of a source.
pub(crate) struct PartitionWork {
    source: Source,
    validator: Validator,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    worker: WorkerId,
    run_ids: RunIds,
    shares: LaneShares,
    traces: Traces,
}

impl PartitionWork {
    pub(crate) fn new(
        source: Source,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        worker: WorkerId,
        traces: Traces,
    ) -> Self {
        Self {
            validator: Validator::new(source.sink.clone(), source.rules.clone())
                .with_traces(traces.clone()),
            run_ids: RunIds::new(&worker, &source.name),
            shares: LaneShares::new(source.backfill_share),
            source,
            store,
            clock,
            worker,
            traces,
        }
    }

    /// Has the rows written, and seals them if all of them are. Nothing, if it was told to stop.
    async fn extract(&self, unit: &ClaimedPartition, stop: Stop) -> Option<Extraction> {
        let begun = self.source.sink.begin(&unit.key, &unit.run_id).await;
        let rows = match begun {
            Ok(writer) => RowWriter::new(writer),
            Err(error) => return Some(Extraction::Failed(refused_by_sink(&error))),
        };
        let mut call = call_of(unit);
        self.traces.add_traceparent(&mut call);
        let extraction = self.source.extractor.extract(&call, &rows, self.source.time_limit, stop);
        let outcome = AssertUnwindSafe(extraction).catch_unwind().await;
        redrive_store::failpoint!("engine.partition.extracted");
        let written = rows.end().await;
        let answer = match outcome {
            Ok(Outcome::Answered { value, .. }) => described(value),
            Ok(Outcome::Failed(failure)) => Err(failure),
            Ok(Outcome::Skipped(why)) => {
                let what = format!("a partition cannot be skipped: {why}");
                Err(Failure::named(named::BAD_REPLY, Cause::Handler, &what))
            }
            Ok(Outcome::Stopped) => {
                self.discard(written).await;
                return None;
            }
            Err(panic) => Err(panic_failure(panic)),
        };
        let sealed = match (answer, written) {
            (Ok(extracted), Ok(writer)) => self.seal(writer, extracted).await,
            (Ok(_), Err(failure)) => Err(failure),
            (Err(_), Err(failure)) if is_for_want_of_room(&failure) => Err(failure),
            (Err(failure), written) => {
                self.discard(written).await;
                Err(failure)
            }
        };
        Some(sealed.map_or_else(Extraction::Failed, |()| Extraction::Done))
    }

    async fn seal(
        &self,
        writer: RawWriter,
        extracted: Extracted,
    ) -> std::result::Result<(), Failure> {
        let schema_version = extracted.schema_version.or(self.source.schema_version.clone());
        let extracted = Extracted { extracted_at: self.clock.now(), schema_version, ..extracted };
        writer.seal(extracted).await.map(|_| ()).map_err(|error| refused_by_sink(&error))
    }

    /// Takes away what was written. What cannot be is not sealed, and so nobody reads it.
    async fn discard(&self, written: std::result::Result<RawWriter, Failure>) {
        let Ok(writer) = written else { return };
        if let Err(error) = writer.abort().await {
            let error = error.in_words();
            tracing::warn!(source = self.source.name, error, "an unsealed run is left behind");
        }
    }

    /// The validator's verdict on what a lost worker left; none if the unit is not ours to judge.
    async fn judge_lost(
        &self,
        lost: ClaimedPartition,
        owner: &WorkerId,
    ) -> Option<PartitionFinish> {
        let message = format!("no word from worker {owner} since its lease ended");
        let unknown = Extraction::Unknown(Failure::lost_worker(&message));
        // Whoever reaps is dropped when it is to stop.
        let (_stopper, stop) = Stopper::new();
        let judgement = self.validator.judge(&judged(&lost), unknown, stop).await;
        let Judgement::Verdict(verdict) = judgement else { return None };
        let now = self.clock.now();
        Some(finish_of(&lost, verdict, owner, now, now))
    }
}

#[async_trait]
impl Work for PartitionWork {
    type Unit = ClaimedPartition;
    type Outcome = Attempted;
    type End = PartitionFinish;

    fn name(&self) -> &str {
        &self.source.name
    }

    fn limits(&self) -> WorkerLimits {
        WorkerLimits { concurrency: self.source.concurrency(), ..self.source.limits }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn lease_now(&self) -> Timestamp {
        self.store.now()
    }

    fn lease_clock_can_be_set(&self) -> bool {
        self.store.clock_can_be_set()
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedPartition>> {
        let claim = PartitionClaim {
            source: self.source.name.clone(),
            run_ids: self.run_ids.make(limit, self.clock.now()),
            backfill: self.shares.backfill_of(limit),
            owner: self.worker.clone(),
            lease_until: until,
        };
        let claimed = self.store.claim_partitions(&claim).await?;
        self.shares.took(limit, claimed.iter().map(|claimed| claimed.request.lane));
        Ok(claimed)
    }

    fn lease(&self, unit: &ClaimedPartition) -> LeaseRef {
        unit.lease
    }

    async fn handle(&self, unit: &ClaimedPartition, stop: Stop) -> Attempted {
        log_start(unit);
        let extraction = match self.extract(unit, stop.clone()).await {
            Some(Extraction::Failed(failure)) if is_for_want_of_room(&failure) => {
                return Attempted::NoRoom(failure);
            }
            Some(extraction) => extraction,
            None => return Attempted::Judged(Judgement::Stopped),
        };
        redrive_store::failpoint!("engine.partition.judging");
        let judgement = self.validator.judge(&judged(unit), extraction, stop).await;
        redrive_store::failpoint!("engine.partition.judged");
        Attempted::Judged(judgement)
    }

    fn end(
        &self,
        unit: &ClaimedPartition,
        attempted: Attempted,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Ending<PartitionFinish> {
        match attempted {
            Attempted::Judged(Judgement::Stopped) => Ending::LeaseRelease,
            Attempted::Judged(Judgement::Verdict(verdict)) => {
                Ending::Finish(finish_of(unit, verdict, &self.worker, started_at, ended_at))
            }
            Attempted::NoRoom(failure) => {
                let (partition, error) = (&unit.key, failure.message().as_str());
                tracing::warn!(%partition, error, "the raw sink has no room; tried again when it has");
                Ending::Unable(RAW_FULL)
            }
        }
    }

    fn end_lease(&self, end: &PartitionFinish) -> LeaseRef {
        end.lease
    }

    async fn finish(&self, ends: &[PartitionFinish]) -> Result<Vec<Written>> {
        if ends.is_empty() { Ok(Vec::new()) } else { self.store.finish_partitions(ends).await }
    }

    fn written(&self, end: &PartitionFinish, written: Written) {
        log_end(end, written);
    }

    fn attempt(&self, end: &PartitionFinish) -> Option<TracedAttempt> {
        Some(TracedAttempt {
            unit: Unit::Partition(end.key.clone()),
            place: self.source.name.clone(),
            details: vec![("source", self.source.name.clone())],
            // Its row is not needed.
            row: end.ledger_row(redrive_core::PartitionId(0)),
        })
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.traces)
    }

    async fn renew(&self, leases: &[LeaseRef], until: Timestamp) -> Result<Vec<Written>> {
        self.store.renew_leases(Leased::Partition, leases, until).await
    }

    async fn release_leases(&self, leases: &[LeaseRef], why: &str) -> Result<Vec<Written>> {
        let back = |lease: &LeaseRef| LeaseRelease {
            lease: *lease,
            owner: self.worker.clone(),
            why: why.to_owned(),
        };
        let releases: Vec<LeaseRelease> = leases.iter().map(back).collect();
        self.store.release_leases(Leased::Partition, &releases, self.clock.now()).await
    }

    async fn expired(&self, by: Timestamp, after: i64, limit: u32) -> Result<Vec<ExpiredLease>> {
        self.store.expired_leases(Leased::Partition, by, after, limit).await
    }

    async fn next_lease_end(&self, after: Timestamp) -> Result<Option<Timestamp>> {
        self.store.next_lease_end(Leased::Partition, after).await
    }

    /// Judging reads data and may ask the user's handler, so several are judged at once.
    async fn lost(&self, expired: &[ExpiredLease]) -> Result<Vec<PartitionFinish>> {
        let leases: Vec<LeaseRef> = expired.iter().map(|expired| expired.lease).collect();
        let lost = self.store.claimed_partitions(&leases).await?;
        let ours = lost.into_iter().filter(|lost| lost.key.source() == self.source.name);
        let judging = ours.filter_map(|lost| {
            let expired = expired.iter().find(|expired| expired.lease == lost.lease)?;
            Some(self.judge_lost(lost, &expired.owner))
        });
        let judged = stream::iter(judging).buffer_unordered(self.source.concurrency());
        Ok(judged.filter_map(async |finish| finish).collect().await)
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.store.partition_backlog(&self.source.name).await
    }
}

impl From<Failure> for Attempted {
    fn from(failure: Failure) -> Self {
        Self::Judged(Judgement::Verdict(PartitionVerdict::Rejected { failure }))
    }
}

fn judged(unit: &ClaimedPartition) -> Judged {
    Judged { key: unit.key.clone(), run_id: unit.run_id.clone(), attempt: unit.attempt }
}

fn call_of(unit: &ClaimedPartition) -> Call {
    Call {
        unit: Unit::Partition(unit.key.clone()),
        attempt: unit.attempt,
        run_id: Some(unit.run_id.to_string()),
        details: Map::from_iter(
            key_fields(&unit.key).map(|(name, value)| (name.to_owned(), value.into())),
        ),
    }
}

fn key_fields(key: &PartitionKey) -> [(&'static str, String); 4] {
    [
        ("source", key.source().to_owned()),
        ("customer_id", key.customer_id().to_owned()),
        ("query_name", key.query_name().to_owned()),
        ("logical_date", key.logical_date().to_string()),
    ]
}

fn finish_of(
    unit: &ClaimedPartition,
    verdict: PartitionVerdict,
    worker: &WorkerId,
    started_at: Timestamp,
    ended_at: Timestamp,
) -> PartitionFinish {
    PartitionFinish {
        key: unit.key.clone(),
        lease: unit.lease,
        attempt: unit.attempt,
        run_id: unit.run_id.clone(),
        started_at,
        ended_at,
        worker: worker.clone(),
        verdict,
    }
}

fn log_start(unit: &ClaimedPartition) {
    let (partition, attempt, run_id) = (&unit.key, unit.attempt.0, unit.run_id.as_str());
    match unit.request.kind {
        WorkKind::First => tracing::debug!(%partition, attempt, run_id, "initial attempt"),
        WorkKind::Retry => tracing::info!(%partition, attempt, run_id, "retry"),
        WorkKind::Reprocess => tracing::info!(%partition, attempt, run_id, "reprocessing"),
    }
}

/// What the validator said, once that is written.
fn log_end(end: &PartitionFinish, written: Written) {
    let (partition, run_id, epoch) = (&end.key, end.run_id.as_str(), end.lease.epoch.0);
    if written == Written::Stale {
        tracing::warn!(%partition, run_id, epoch, "a late verdict was refused");
        return;
    }
    match &end.verdict {
        PartitionVerdict::Accepted { record_count, .. } => {
            tracing::debug!(%partition, run_id, record_count, "success");
        }
        PartitionVerdict::Rejected { failure } => {
            let (code, error) = (failure.code().to_string(), failure.message().as_str());
            tracing::warn!(%partition, run_id, code, error, "failed");
        }
    }
}
