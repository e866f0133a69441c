//! The store as one worker or client reaches it: through a gate and through the weather, with
//! everything written down as the store itself saw it.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{AttemptNumber, Cause, ItemStatus, RunId};
use redrive_store::{
    Activity, AttemptLog, AttemptLogs, AttemptRecord, Backlog, Categories, CauseChange,
    CauseFilter, CauseMiscount, CauseRecord, Causes, ClaimRequest, ClaimedRun, DataEdit,
    ExpiredLease, Figures, Journal, JournalEntry, JournalFilter, JournalRecord, LagCount, LeaseRef,
    LeaseRelease, Leased, Leases, Ledger, LedgerPlace, LoggedAttempt, NewRun, Operator, PageLimit,
    PausedQueue, QueueStats, ReaderPlace, Result, RunAction, RunChange, RunCompletion, RunFinish,
    RunRecord, Runs, SchemaStatus, Selection, Store, SubmittedRun, UnitKind, UnitRow, WorkerId,
    Written,
};
use tokio::sync::watch;

use super::{
    bells::Bells,
    chance::Chance,
    gate::Gate,
    gate_sightings,
    log::{Held, Log, What},
    mutants::{Mutant, Rule},
    weather::{Fault, Weather, full, unavailable},
};

/// The way to the store.
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) who: String,
    pub(crate) gate: Arc<Gate>,
    pub(crate) weather: Arc<Weather>,
    pub(crate) chance: Mutex<Chance>,
    pub(crate) log: Arc<Log>,
    pub(crate) mutant: Option<Arc<Mutant>>,
    pub(crate) bells: Arc<Bells>,
    /// Hears no notification, and must look by itself.
    pub(crate) deaf: bool,
}

impl FaultyStore {
    /// Makes a call, or part of it, or none. What the store does is written down in the same breath:
    /// nobody else moves between.
    pub(super) async fn call<T>(
        &self,
        call: &'static str,
        inner: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.gate.pass().await;
        let fault = {
            let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
            self.weather.fault(call, &mut chance)
        };
        if fault != Fault::None {
            let everybodys = self.weather.now().everybodys;
            self.log.add(&self.who, What::Fault { call, fault, everybodys });
        }
        match fault {
            Fault::Unavailable => return Err(unavailable(call)),
            Fault::Full => return Err(full(call)),
            Fault::SlowThere(time) => {
                tokio::time::sleep(time).await;
                self.gate.pass().await;
            }
            Fault::None | Fault::AnswerLost | Fault::SlowBack(_) => {}
        }
        let answer = tokio::task::unconstrained(inner).await;
        if let Fault::SlowBack(time) = fault {
            tokio::time::sleep(time).await;
        }
        self.gate.pass().await;
        if fault == Fault::AnswerLost { Err(unavailable(call)) } else { answer }
    }

    pub(super) fn note(&self, what: What) {
        self.log.add(&self.who, what);
    }

    fn note_changes(&self, action: RunAction, ids: &[RunId], changes: &[RunChange]) {
        for (id, change) in ids.iter().zip(changes) {
            self.note(What::Asked { action, run: id.0, change: *change });
        }
    }
}

#[async_trait]
impl Runs for FaultyStore {
    async fn submit_runs(&self, runs: &[NewRun], now: Timestamp) -> Result<Vec<SubmittedRun>> {
        self.call("submit_runs", async {
            for run in runs {
                self.note(What::Looked { queue: run.queue().to_owned(), now });
            }
            match &self.mutant {
                Some(mutant) => mutant.submit_runs(&*self.inner, runs, now).await,
                None => self.inner.submit_runs(runs, now).await,
            }
        })
        .await
    }

    async fn claim_runs(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRun>> {
        self.call("claim_runs", async {
            let claimed = if request.gates.is_empty() {
                self.inner.claim_runs(request).await?
            } else {
                let (claimed, seen) =
                    gate_sightings::claim(&*self.inner, request, self.mutant.as_deref()).await?;
                seen.into_iter().for_each(|seen| self.note(What::AtGate(Box::new(seen))));
                claimed
            };
            if let Some(mutant) = &self.mutant {
                mutant.forget_permits();
            }
            self.note(What::Looked { queue: request.queue.clone(), now: request.now });
            for run in &claimed {
                self.note(What::Claimed {
                    run: run.id.0,
                    epoch: run.epoch.0,
                    attempt: run.attempt.0,
                    until: request.lease_until,
                });
            }
            Ok(claimed)
        })
        .await
    }

    async fn finish_runs(&self, finishes: &[RunFinish], now: Timestamp) -> Result<Vec<Written>> {
        self.call("finish_runs", async {
            let written = match &self.mutant {
                Some(mutant) => mutant.finish_runs(&*self.inner, finishes, now).await?,
                None => self.inner.finish_runs(finishes, now).await?,
            };
            for seen in gate_sightings::finished(&*self.inner, finishes, &written).await? {
                self.note(What::AtGate(Box::new(seen)));
            }
            for (finish, written) in finishes.iter().zip(&written) {
                self.note(What::Finished {
                    run: finish.id.0,
                    epoch: finish.epoch.0,
                    attempt: finish.attempt.0,
                    lost: is_lost(finish),
                    now,
                    written: *written,
                });
            }
            Ok(written)
        })
        .await
    }

    async fn runs_by_id(&self, ids: &[RunId]) -> Result<Vec<RunRecord>> {
        self.call("runs_by_id", self.inner.runs_by_id(ids)).await
    }

    async fn runs_page(
        &self,
        filter: &Selection,
        after: RunId,
        limit: PageLimit,
    ) -> Result<Vec<RunRecord>> {
        self.call("runs_page", self.inner.runs_page(filter, after, limit)).await
    }

    async fn retry_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        self.call("retry_runs", async {
            let changes = self.inner.retry_runs(ids, by).await?;
            self.note_changes(RunAction::Retry, ids, &changes);
            Ok(changes)
        })
        .await
    }

    async fn edit_runs(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.call("edit_runs", self.inner.edit_runs(edits)).await
    }

    async fn cancel_runs(&self, ids: &[RunId], by: &Operator) -> Result<Vec<RunChange>> {
        self.call("cancel_runs", async {
            let changes = self.inner.cancel_runs(ids, by).await?;
            self.note_changes(RunAction::Cancel, ids, &changes);
            Ok(changes)
        })
        .await
    }

    async fn queue_stats(&self) -> Result<Vec<QueueStats>> {
        self.call("queue_stats", self.inner.queue_stats()).await
    }

    async fn pause_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        self.call("pause_queue", async {
            let changed = self.inner.pause_queue(queue, by).await?;
            self.note(What::Queue { queue: queue.to_owned(), paused: true });
            Ok(changed)
        })
        .await
    }

    async fn resume_queue(&self, queue: &str, by: &Operator) -> Result<bool> {
        self.call("resume_queue", async {
            let changed = self.inner.resume_queue(queue, by).await?;
            self.note(What::Queue { queue: queue.to_owned(), paused: false });
            Ok(changed)
        })
        .await
    }

    async fn paused_queues(&self) -> Result<Vec<PausedQueue>> {
        self.call("paused_queues", self.inner.paused_queues()).await
    }

    async fn next_due(&self, queue: &str, categories: &Categories) -> Result<Option<Timestamp>> {
        self.call("next_due", self.inner.next_due(queue, categories)).await
    }

    async fn backlog(&self, queue: &str, categories: &Categories) -> Result<Backlog> {
        self.call("outlook", self.inner.backlog(queue, categories)).await
    }
}

#[async_trait]
impl Leases for FaultyStore {
    async fn renew_leases(
        &self,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>> {
        self.call("renew_leases", async {
            let written = match &self.mutant {
                Some(mutant) => mutant.renew_leases(&*self.inner, kind, leases, until).await?,
                None => self.inner.renew_leases(kind, leases, until).await?,
            };
            for (lease, written) in leases.iter().zip(&written) {
                let lease = Held { kind, id: lease.id, epoch: lease.epoch.0 };
                self.note(What::Renewed { lease, until, written: *written });
            }
            Ok(written)
        })
        .await
    }

    async fn expired_leases(
        &self,
        kind: Leased,
        now: Timestamp,
        owner: Option<&WorkerId>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ExpiredLease>> {
        self.call("expired_leases", async {
            match &self.mutant {
                Some(mutant) if owner.is_some() && mutant.rule == Rule::OwnLeasesFound => {
                    Ok(Vec::new())
                }
                _ => self.inner.expired_leases(kind, now, owner, after, limit).await,
            }
        })
        .await
    }

    async fn next_lease_end(&self, kind: Leased, now: Timestamp) -> Result<Option<Timestamp>> {
        self.call("next_lease_end", self.inner.next_lease_end(kind, now)).await
    }

    async fn release_leases(
        &self,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>> {
        self.call("hand_back", async {
            let written = match &self.mutant {
                Some(mutant) => mutant.release_leases(&*self.inner, kind, releases, at).await?,
                None => self.inner.release_leases(kind, releases, at).await?,
            };
            for (back, written) in releases.iter().zip(&written) {
                let lease = Held { kind, id: back.lease.id, epoch: back.lease.epoch.0 };
                self.note(What::HandedBack { lease, written: *written });
            }
            Ok(written)
        })
        .await
    }
}

#[async_trait]
impl Ledger for FaultyStore {
    async fn append_attempts(&self, attempts: &[AttemptRecord]) -> Result<()> {
        self.call("append_attempts", self.inner.append_attempts(attempts)).await
    }

    async fn attempts_of(
        &self,
        unit: &UnitRow,
        after: AttemptNumber,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        self.call("attempts_of", self.inner.attempts_of(unit, after, limit)).await
    }

    async fn ledger_page(
        &self,
        kind: UnitKind,
        after: &LedgerPlace,
        limit: u32,
    ) -> Result<Vec<AttemptRecord>> {
        self.call("ledger_page", self.inner.ledger_page(kind, after, limit)).await
    }
}

#[async_trait]
impl AttemptLogs for FaultyStore {
    async fn write_logs(&self, logs: &[AttemptLog]) -> Result<()> {
        self.call("write_logs", async {
            match &self.mutant {
                Some(mutant) => mutant.write_logs(&*self.inner, logs).await,
                None => self.inner.write_logs(logs).await,
            }
        })
        .await
    }

    async fn log_of(&self, unit: &UnitRow, attempt: AttemptNumber) -> Result<Option<AttemptLog>> {
        self.call("log_of", self.inner.log_of(unit, attempt)).await
    }

    async fn logged_attempts(&self, unit: &UnitRow, limit: u32) -> Result<Vec<LoggedAttempt>> {
        self.call("logged_attempts", self.inner.logged_attempts(unit, limit)).await
    }
}

#[async_trait]
impl Journal for FaultyStore {
    async fn append_journal(&self, entries: &[JournalEntry]) -> Result<Vec<bool>> {
        self.call("append_journal", self.inner.append_journal(entries)).await
    }

    async fn journal_page(
        &self,
        filter: &JournalFilter,
        after: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        self.call("journal_page", self.inner.journal_page(filter, after, limit)).await
    }

    async fn journal_reader(&self, name: &str, now: Timestamp) -> Result<ReaderPlace> {
        self.call("journal_reader", self.inner.journal_reader(name, now)).await
    }

    async fn move_journal_reader(
        &self,
        name: &str,
        from: &ReaderPlace,
        to: &ReaderPlace,
    ) -> Result<Written> {
        self.call("move_journal_reader", self.inner.move_journal_reader(name, from, to)).await
    }
}

#[async_trait]
impl Figures for FaultyStore {
    async fn change_token(&self) -> Result<u64> {
        self.call("pulse", self.inner.change_token()).await
    }

    async fn activity(&self, after: i64, most: u32) -> Result<Activity> {
        self.call("activity", self.inner.activity(after, most)).await
    }

    async fn lags(&self, after: i64, end: i64) -> Result<Vec<LagCount>> {
        self.call("lags", self.inner.lags(after, end)).await
    }

    async fn newest_journal(
        &self,
        filter: &JournalFilter,
        before: i64,
        limit: u32,
    ) -> Result<Vec<JournalRecord>> {
        self.call("newest_journal", self.inner.newest_journal(filter, before, limit)).await
    }

    async fn items_by_status(&self) -> Result<Vec<(ItemStatus, u64)>> {
        self.call("items_by_status", self.inner.items_by_status()).await
    }
}

#[async_trait]
impl Causes for FaultyStore {
    async fn causes(&self, filter: &CauseFilter) -> Result<Vec<CauseRecord>> {
        self.call("causes", self.inner.causes(filter)).await
    }

    async fn miscounted_causes(
        &self,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<CauseMiscount>> {
        self.call("miscounted_causes", self.inner.miscounted_causes(since, limit)).await
    }

    async fn prune_cause_hours(&self, before: Timestamp, by: &Operator) -> Result<u64> {
        self.call("prune_cause_hours", self.inner.prune_cause_hours(before, by)).await
    }

    async fn change_cause(
        &self,
        fingerprint: &str,
        change: &CauseChange,
        by: &Operator,
    ) -> Result<Written> {
        self.call("change_cause", self.inner.change_cause(fingerprint, change, by)).await
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.bells.hang(self.deaf)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn ping(&self) -> Result<()> {
        self.call("ping", self.inner.ping()).await
    }

    async fn schema(&self) -> Result<SchemaStatus> {
        self.call("schema", self.inner.schema()).await
    }

    async fn durability_doubts(&self) -> Result<Vec<String>> {
        self.inner.durability_doubts().await
    }

    async fn integrity_problems(&self) -> Result<Vec<String>> {
        self.call("integrity_problems", self.inner.integrity_problems()).await
    }
}

fn is_lost(finish: &RunFinish) -> bool {
    match &finish.completion {
        RunCompletion::Failed { failure, .. } => failure.cause() == Cause::LostWorker,
        RunCompletion::Judged { .. } => false,
    }
}
