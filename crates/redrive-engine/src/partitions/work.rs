//! The partitions of one source, as work for the worker loop (PAR-2).
//!
//! An attempt extracts into the raw sink and validates the result. Only the verdict is written to the store: state, ledger
//! and journal in one transaction. An attempt that is killed before has changed nothing that anyone reads.

use std::{panic::AssertUnwindSafe, slice, sync::Arc};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use jiff::Timestamp;
use redrive_core::{Cause, Failure, PartitionKey, Unit, named};
use redrive_retry::{Stop, Stopper};
use redrive_store::{
    Backlog, ClaimedPartition, ExpiredLease, LeaseRef, Leased, PartitionClaim, PartitionFinish,
    PartitionVerdict, Result, UnitKind, UnitRow, WorkKind, WorkerId, Written,
};
use serde_json::Map;
use tokio::{sync::watch, time::Instant};

use crate::{
    gates::work_gates::{Start, WorkGates},
    handlers::handler::{Call, Outcome},
    logs::{CallLog, WorkLogs},
    partitions::{
        extractor::{ExtractError, RAW_FULL, RowWriter, described},
        fit_trials::MAX_TRIES_ALONE,
        lane_shares::LaneShares,
        raw::{Extracted, RawWriter},
        run_ids::RunIds,
        source::Source,
        validator::{ExtractionOutcome, ValidationOutcome, ValidationRequest, Validator},
    },
    traces::{TracedAttempt, Traces},
    worker::{
        failures::{lost_worker, panic_failure},
        reporter::PlaceCounts,
        unit_leases::{StoreLeases, UnitLeases, WorkContext},
        work::{Completion, Work, WorkerLimits},
    },
};

/// The outcome of an attempt at a partition.
pub(crate) enum PartitionAttempt {
    Validated(ValidationOutcome),
    /// The raw sink had no space left, which says nothing about the partition.
    SinkFull(Failure),
}

pub(crate) struct PartitionWork {
    source: Source,
    validator: Validator,
    context: WorkContext,
    leases: StoreLeases,
    run_ids: RunIds,
    shares: LaneShares,
    gates: WorkGates,
    logs: Arc<WorkLogs>,
    counts: PlaceCounts,
}

impl PartitionWork {
    pub(crate) fn new(source: Source, context: &WorkContext) -> Self {
        Self {
            validator: Validator::new(source.sink.clone(), source.rules.clone())
                .with_traces(context.traces.clone()),
            run_ids: RunIds::new(&context.worker, &source.name),
            shares: LaneShares::new(source.backfill_share),
            gates: context.gates(source.gates.clone()),
            logs: WorkLogs::new(source.limits.log, context),
            counts: PlaceCounts::new(UnitKind::Partition),
            source,
            context: context.clone(),
            leases: context.leases(Leased::Partition),
        }
    }

    /// Runs the extractor, and seals its rows if all of them were written. `None` if it was stopped.
    async fn extract(
        &self,
        unit: &ClaimedPartition,
        log: &CallLog,
        stop: Stop,
    ) -> Option<std::result::Result<(), ExtractError>> {
        let rows = match self.source.sink.begin(&unit.key, &unit.run_id).await {
            Ok(writer) => RowWriter::new(writer),
            Err(error) => return Some(Err(ExtractError::of_sink(&error))),
        };
        let mut call = call_of(unit, log.clone());
        self.context.traces.add_traceparent(&mut call);
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
        Some(match (answer, written) {
            (Ok(extracted), Ok(writer)) => self.seal(writer, extracted).await,
            (Ok(_), Err(error)) | (Err(_), Err(error @ ExtractError::SinkFull(_))) => Err(error),
            (Err(failure), written) => {
                self.discard(written).await;
                Err(ExtractError::Failed(failure))
            }
        })
    }

    fn log_of(&self, unit: &ClaimedPartition) -> CallLog {
        let row = UnitRow::new(UnitKind::Partition, unit.id.0);
        self.logs.of_attempt(row, unit.attempt, unit.lease)
    }

    async fn seal(
        &self,
        writer: RawWriter,
        extracted: Extracted,
    ) -> std::result::Result<(), ExtractError> {
        let schema_version = extracted.schema_version.or(self.source.schema_version.clone());
        let extracted_at = self.context.clock.now();
        let extracted = Extracted { extracted_at, schema_version, ..extracted };
        writer.seal(extracted).await.map(drop).map_err(|error| ExtractError::of_sink(&error))
    }

    /// Removes the written rows. Rows that cannot be removed are not sealed, so nobody reads them.
    async fn discard(&self, written: std::result::Result<RawWriter, ExtractError>) {
        let Ok(writer) = written else { return };
        if let Err(error) = writer.abort().await {
            let error = error.in_words();
            tracing::warn!(
                source = self.source.name,
                error,
                "cannot remove the unsealed raw data of a stopped or failed extraction"
            );
        }
    }

    /// Validates what a lost worker left.
    async fn validate_lost(
        &self,
        lost: ClaimedPartition,
        owner: &WorkerId,
    ) -> Option<PartitionFinish> {
        let unknown = ExtractionOutcome::Unknown(lost_worker(owner));
        // The reaper is dropped when it stops.
        let (_stopper, stop) = Stopper::new();
        let request = validation_request(&lost, CallLog::default());
        let validation = AssertUnwindSafe(self.validator.validate(&request, unknown, stop));
        let verdict = match validation.catch_unwind().await {
            Ok(ValidationOutcome::Verdict(verdict)) => verdict,
            Ok(ValidationOutcome::Stopped) => return None,
            Err(panic) => PartitionVerdict::Rejected { failure: panic_failure(panic) },
        };
        let now = self.context.clock.now();
        let started_at = lost.run_id.made_at().unwrap_or(now).min(now);
        Some(self.finish_of(&lost, verdict, owner, started_at, now))
    }

    fn finish_of(
        &self,
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
            gates: self.gates.passed(unit.key.customer_id()),
        }
    }
}

#[async_trait]
impl Work for PartitionWork {
    type Unit = ClaimedPartition;
    type Outcome = PartitionAttempt;
    type Finish = PartitionFinish;

    fn name(&self) -> &str {
        &self.source.name
    }

    fn limits(&self) -> WorkerLimits {
        let concurrency = self.context.fit_trials.concurrency(self.source.concurrency());
        WorkerLimits { concurrency, ..self.source.limits }
    }

    fn leases(&self) -> &dyn UnitLeases {
        &self.leases
    }

    async fn claim(&self, limit: u32, until: Timestamp) -> Result<Vec<ClaimedPartition>> {
        let now = self.context.clock.now();
        let claim = PartitionClaim {
            source: self.source.name.clone(),
            run_ids: self.run_ids.generate(limit, now),
            backfill: self.shares.of_backfill(),
            owner: self.context.worker.clone(),
            lease_until: until,
            gates: self.gates.rules(&*self.context.store, now).await?,
            now,
        };
        let claimed = self.context.store.claim_partitions(&claim).await?;
        let keys = claimed.iter().map(|claimed| claimed.key.customer_id());
        self.gates.note(&*self.context.store, keys).await;
        // How many the gates allowed is not known, so the debt is kept: it is one partition at most.
        let allowed = if self.gates.are_open() { limit } else { claimed.len() as u32 };
        self.shares.record_claim(allowed, claimed.iter().map(|claimed| claimed.request.lane));
        Ok(claimed)
    }

    fn start(&self, unit: &ClaimedPartition, claimed_at: Instant) -> Start {
        self.gates.start(&unit.pass, unit.key.customer_id(), claimed_at)
    }

    fn gate_changes(&self) -> Option<watch::Receiver<()>> {
        self.gates.changes()
    }

    fn claims_ahead(&self) -> bool {
        self.gates.let_all_through(self.context.clock.now())
    }

    fn lease(&self, unit: &ClaimedPartition) -> LeaseRef {
        unit.lease
    }

    async fn handle(&self, unit: &ClaimedPartition, stop: Stop) -> PartitionAttempt {
        log_start(unit);
        let writing = self.context.fit_trials.begin();
        let log = self.log_of(unit);
        let extraction = match self.extract(unit, &log, stop.clone()).await {
            Some(Err(ExtractError::SinkFull(failure))) => {
                let has_room = self.source.sink.check().await.is_ok();
                if !writing.filled_disk(&unit.key, has_room, self.source.concurrency()) {
                    return PartitionAttempt::SinkFull(failure);
                }
                ExtractionOutcome::Failed(does_not_fit(&failure))
            }
            None => return PartitionAttempt::Validated(ValidationOutcome::Stopped),
            Some(extracted) => {
                writing.ended(&unit.key);
                match extracted {
                    Ok(()) => ExtractionOutcome::Done,
                    Err(error) => ExtractionOutcome::Failed(error.into_failure()),
                }
            }
        };
        redrive_store::failpoint!("engine.partition.judging");
        let request = validation_request(unit, log);
        let validation = self.validator.validate(&request, extraction, stop).await;
        redrive_store::failpoint!("engine.partition.judged");
        PartitionAttempt::Validated(validation)
    }

    fn complete(
        &self,
        unit: &ClaimedPartition,
        attempt: PartitionAttempt,
        started_at: Timestamp,
        ended_at: Timestamp,
    ) -> Completion<PartitionFinish> {
        match attempt {
            PartitionAttempt::Validated(ValidationOutcome::Stopped) => Completion::Release,
            PartitionAttempt::Validated(ValidationOutcome::Verdict(verdict)) => {
                if let PartitionVerdict::Rejected { failure } = &verdict {
                    self.gates.failed(unit.key.customer_id(), failure);
                }
                let worker = &self.context.worker;
                Completion::Finish(self.finish_of(unit, verdict, worker, started_at, ended_at))
            }
            PartitionAttempt::SinkFull(failure) => {
                let (partition, error) = (&unit.key, failure.message().as_str());
                tracing::warn!(%partition, error, "the raw sink is full; the partition is released and retried later");
                Completion::Backpressure(RAW_FULL)
            }
        }
    }

    fn finish_lease(&self, finish: &PartitionFinish) -> LeaseRef {
        finish.lease
    }

    async fn finish(&self, finishes: &[PartitionFinish]) -> Result<Vec<Written>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        self.context.store.finish_partitions(finishes).await
    }

    async fn was_written(&self, finish: &PartitionFinish) -> Result<bool> {
        let found = self.context.store.partitions_by_key(slice::from_ref(&finish.key)).await?;
        match found.into_iter().flatten().next() {
            Some(partition) => self.context.has_attempt(&finish.ledger_row(partition.id)).await,
            None => Ok(false),
        }
    }

    fn log_finish(&self, finish: &PartitionFinish, written: Written) {
        log_end(finish, written);
    }

    fn logs(&self) -> Option<&Arc<WorkLogs>> {
        Some(&self.logs)
    }

    fn traces(&self) -> Option<&Traces> {
        Some(&self.context.traces)
    }

    fn attempt(&self, end: &PartitionFinish) -> Option<TracedAttempt> {
        Some(TracedAttempt {
            unit: Unit::Partition(end.key.clone()),
            place: self.source.name.clone(),
            details: vec![("source", self.source.name.clone())],
            // The span does not use the partition id.
            row: end.ledger_row(redrive_core::PartitionId(0)),
        })
    }

    /// Validation reads data and may call a handler of the user, so several run at once.
    async fn complete_lost(&self, expired: &[ExpiredLease]) -> Result<Vec<PartitionFinish>> {
        let leases: Vec<LeaseRef> = expired.iter().map(|expired| expired.lease).collect();
        let lost = self.context.store.claimed_partitions(&leases).await?;
        let ours = lost.into_iter().filter(|lost| lost.key.source() == self.source.name);
        let validations = ours.filter_map(|lost| {
            let expired = expired.iter().find(|expired| expired.lease == lost.lease)?;
            Some(self.validate_lost(lost, &expired.owner))
        });
        let validated = stream::iter(validations).buffer_unordered(self.source.concurrency());
        Ok(validated.filter_map(async |finish| finish).collect().await)
    }

    fn counts(&self) -> Option<&PlaceCounts> {
        Some(&self.counts)
    }

    fn count(&self, finish: &PartitionFinish) {
        self.counts.add(finish.attempt_end());
    }

    fn restarts(&self) -> u64 {
        self.source.restarts()
    }

    async fn backlog(&self) -> Result<Backlog> {
        self.context.store.partition_backlog(&self.source.name).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>> {
        let Backlog { next_due, ready, .. } = self.backlog().await?;
        Ok(self.gates.next_due(next_due, ready, self.context.clock.now()))
    }
}

impl From<Failure> for PartitionAttempt {
    fn from(failure: Failure) -> Self {
        Self::Validated(ValidationOutcome::Verdict(PartitionVerdict::Rejected { failure }))
    }
}

fn does_not_fit(full: &Failure) -> Failure {
    let message = format!(
        "the partition does not fit in the free space of the raw sink: {MAX_TRIES_ALONE} extractions that ran alone \
         filled it; {}",
        full.message()
    );
    Failure::named(RAW_FULL, Cause::Handler, &message)
}

fn validation_request(unit: &ClaimedPartition, log: CallLog) -> ValidationRequest {
    let (key, run_id, attempt) = (unit.key.clone(), unit.run_id.clone(), unit.attempt);
    ValidationRequest { key, run_id, attempt, log }
}

fn call_of(unit: &ClaimedPartition, log: CallLog) -> Call {
    Call {
        unit: Unit::Partition(unit.key.clone()),
        attempt: unit.attempt,
        run_id: Some(unit.run_id.to_string()),
        details: Map::from_iter(
            key_fields(&unit.key).map(|(name, value)| (name.to_owned(), value.into())),
        ),
        log,
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

fn log_start(unit: &ClaimedPartition) {
    let (partition, attempt, run_id) = (&unit.key, unit.attempt.0, unit.run_id.as_str());
    match unit.request.kind {
        WorkKind::First => tracing::debug!(%partition, attempt, run_id, "initial attempt"),
        WorkKind::Retry => tracing::info!(%partition, attempt, run_id, "retry"),
        WorkKind::Reprocess => tracing::info!(%partition, attempt, run_id, "reprocessing"),
    }
}

/// Logs a verdict after it is written.
fn log_end(end: &PartitionFinish, written: Written) {
    let (partition, run_id, epoch) = (&end.key, end.run_id.as_str(), end.lease.epoch.0);
    if written == Written::Stale {
        tracing::warn!(%partition, run_id, epoch, "the store refused a late verdict");
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
