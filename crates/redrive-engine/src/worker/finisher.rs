//! Writes results and releases in batches.
//!
//! While batches are being written the next one gathers: a quiet queue writes at once, a busy one in large batches. Two
//! batches are written at a time; with one, the database idles between its answer and the next request. A batch that
//! fails because the store is unavailable is kept and written again, however long that takes: a restart of the database
//! loses neither a result nor a release. If the lease ended meanwhile and another worker has the unit, the store refuses
//! the write. A batch that the store refuses as a whole is split, so that one bad row blocks no other result.

use std::{collections::BTreeMap, sync::Arc};

use redrive_retry::monotonic;
use redrive_store::{AttemptLog, AttemptOutcome, LeaseRef, Result, Written};
use tokio::sync::{Mutex, mpsc};

use crate::worker::{
    held_leases::HeldLeases, release::release, store_retry::StoreRetry, work::Work,
    write_times::WriteTimes,
};

/// The most results or releases in one batch.
const MAX_BATCH: usize = 1_000;

/// What the finisher writes about a held unit.
pub(crate) enum HeldUpdate<F> {
    Finish(F),
    /// With the reason for the journal.
    Release(LeaseRef, &'static str),
}

pub(crate) struct Finisher<W> {
    pub(crate) work: Arc<W>,
    pub(crate) held: Arc<HeldLeases>,
    pub(crate) write_times: Arc<WriteTimes>,
}

impl<W: Work> Finisher<W> {
    /// Writes updates until their channel is closed and empty.
    pub(crate) async fn run(self, updates: mpsc::UnboundedReceiver<HeldUpdate<W::Finish>>) {
        let updates = Mutex::new(updates);
        tokio::join!(self.write_in_turn(&updates), self.write_in_turn(&updates));
    }

    /// Waits for its turn to take a batch, and writes it while the other writer waits for the next one.
    async fn write_in_turn(&self, updates: &Mutex<mpsc::UnboundedReceiver<HeldUpdate<W::Finish>>>) {
        let mut batch = Vec::new();
        while updates.lock().await.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let mut finishes = Vec::with_capacity(batch.len());
            let mut releases: BTreeMap<&str, Vec<LeaseRef>> = BTreeMap::new();
            for update in batch.drain(..) {
                match update {
                    HeldUpdate::Finish(finish) => finishes.push(finish),
                    HeldUpdate::Release(lease, why) => releases.entry(why).or_default().push(lease),
                }
            }
            if !finishes.is_empty() {
                self.finish(finishes).await;
            }
            for (why, leases) in releases {
                release(&*self.work, &self.held, leases, why).await;
            }
        }
    }

    async fn finish(&self, batch: Vec<W::Finish>) {
        let Self { work, held, write_times } = self;
        let mut retry =
            StoreRetry::new(work.name(), "results", batch.len()).within(work.limits().lease);
        let mut repeated = false;
        let logs = ended_logs(&**work, &batch);
        let written = loop {
            let started = monotonic();
            let answer = match write_logs(&**work, &logs).await {
                Ok(()) => work.finish(&batch).await,
                Err(error) => Err(error),
            };
            write_times.add(started.elapsed());
            match answer {
                Err(error) if error.is_transient() => retry.wait_after(&error).await,
                answer => break answer,
            }
            repeated = true;
        };
        match written {
            Ok(mut written) => {
                redrive_store::failpoint!("engine.finish.written");
                for (finish, written) in batch.iter().zip(&mut written) {
                    // If the store cannot tell, the result counts as refused, as the store said.
                    if repeated
                        && *written == Written::Stale
                        && work.was_written(finish).await.unwrap_or(false)
                    {
                        *written = Written::Applied;
                    }
                    report_finish(&**work, finish, *written);
                }
                let leases = || batch.iter().map(|finish| work.finish_lease(finish));
                work.logs().inspect(|logs| logs.forget(leases()));
                held.remove(leases());
            }
            Err(refusal) => self.finish_one_by_one(batch, &refusal).await,
        }
    }

    /// Writes the results of a refused batch one by one. A result that is refused again is dropped; its unit is retried
    /// when its lease ends, like that of a lost worker.
    async fn finish_one_by_one(&self, batch: Vec<W::Finish>, refusal: &redrive_store::Error) {
        if let [finish] = &batch[..] {
            let lease = self.work.finish_lease(finish);
            tracing::error!(
                work = self.work.name(),
                id = lease.id,
                error = refusal as &dyn std::error::Error,
                "the store refused a result; its unit is retried when its lease ends"
            );
            self.held.refuse(lease);
            return;
        }
        for finish in batch {
            Box::pin(self.finish(vec![finish])).await;
        }
    }
}

/// What is to be kept of the logs of a batch.
fn ended_logs<W: Work>(work: &W, batch: &[W::Finish]) -> Vec<AttemptLog> {
    let Some(logs) = work.logs() else { return Vec::new() };
    let succeeded = |finish| {
        let outcome = work.attempt(finish).map(|attempt| attempt.row.outcome);
        matches!(outcome, Some(AttemptOutcome::Success | AttemptOutcome::Skipped))
    };
    logs.ended(batch, |finish| work.finish_lease(finish), succeeded)
}

/// Writes logs before the results, so that an attempt in the ledger has its log. A log that the store refuses for good holds up
/// no result.
async fn write_logs<W: Work>(work: &W, logs: &[AttemptLog]) -> Result<()> {
    let Some(writer) = work.logs() else { return Ok(()) };
    match writer.write(logs).await {
        Err(refusal) if !refusal.is_transient() => {
            let error = &refusal as &dyn std::error::Error;
            tracing::error!(work = work.name(), error, "the store refused the logs of attempts");
            Ok(())
        }
        written => written,
    }
}

/// Logs a written result, and counts and traces it if its row is in the ledger. The worker that ran the attempt calls this, or a
/// reaper on behalf of a lost worker.
pub(crate) fn report_finish<W: Work>(work: &W, finish: &W::Finish, written: Written) {
    work.log_finish(finish, written);
    if written == Written::Applied {
        work.count(finish);
        if let Some(traces) = work.traces() {
            traces.record(|| work.attempt(finish));
        }
    }
}
