//! The judges are judged: a store that breaks one rule must be found out.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{AttemptNumber, Decision, Epoch, RunId, RunStatus};
use redrive_sqlite::Location;
use redrive_store::{
    AttemptLog, LeaseRef, LeaseRelease, Leased, NewRun, Result, RunCompletion, RunFinish, Store,
    SubmittedRun, UnitKind, Written,
};
use rusqlite::{Connection, Params};

use super::{verdict, world::live};

/// Seeds within which a broken rule must be found out.
pub(super) const SEEDS: u64 = 200;

/// A rule that a store may break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A result is accepted whatever its epoch, if only the run is being processed.
    EpochGuard,
    /// A result is accepted though its lease is over and nobody holds the run.
    StaleLease,
    /// A counted failure counts once.
    CountedOnce,
    /// An attempt has its row in the ledger.
    LedgerRow,
    /// A retry waits as long as was decided.
    FullWait,
    /// A hand-back that is acknowledged was done.
    HandBackDone,
    /// A hand-back has its row in the journal.
    HandBackJournalled,
    /// A worker that asks what it holds is told everything.
    OwnLeasesFound,
    /// A renewal that is acknowledged was made.
    RenewalMade,
    /// A submission that is acknowledged is stored.
    SubmissionKept,
    /// A partition that is good stays so when its reprocess fails.
    SuccessKept,
    /// A verdict of one who does not hold the partition any more changes nothing.
    NewestWins,
    /// A failed partition is retried once, whoever asks.
    RetriedOnce,
    /// A partition that has changed since it was looked at is left alone.
    LookGuards,
    /// Every verdict is counted.
    VerdictCounted,
    /// Every verdict has its row in the ledger.
    VerdictInLedger,
    /// Whatever the control plane does has its row in the journal.
    WishJournalled,
    /// A partition has one holder.
    OneHolder,
    /// What is paused is not given out.
    PauseHolds,
    /// An item that was acknowledged is not pending.
    AcknowledgedIsDone,
    /// Nothing but a rejection of an item is counted.
    RejectionsAloneCount,
    /// A rejection counts once.
    RejectionCountedOnce,
    /// Whoever counts is told the new count.
    CountAnswered,
    /// Giving an item up has its row in the journal.
    GiveUpJournalled,
    /// Sending an item has its row in the ledger.
    SendingInLedger,
    /// A group is held by one at a time.
    GroupHeldOnce,
    /// What fails for good is a dead letter.
    DeadLetterKept,
    /// A sample that ended is counted once by its run.
    EndCountedOnce,
    /// A sample goes on to its next stage with a row in the ledger.
    AdvanceInLedger,
    /// Nothing is claimed of a run that was stopped.
    StoppedRunLeftAlone,
    /// Nothing is kept of a run that was stopped.
    NothingKeptOfStoppedRun,
    /// A sample that stays with its worker is held there under a new epoch.
    KeptUnderNewEpoch,
    /// A failed attempt is counted by its cause.
    CauseCounted,
    /// A failed attempt is counted once by its cause.
    CauseCountedOnce,
    /// A plan changes each unit at most once.
    UnitChangedOnce,
    /// A plan changes no unit that it does not list.
    FrozenListKept,
    /// A plan changes no unit that has changed since.
    FrozenStateGuards,
    /// A plan changes as many units as its pace allows.
    PaceKept,
    /// A plan waits for its canary.
    CanaryAwaited,
    /// A plan stops if its canary fails.
    CanaryJudged,
    /// A paused plan changes nothing.
    PausedPlanWaits,
    /// An undo leaves units alone that have started.
    StartedIsKept,
    /// A claim takes nothing behind a closed gate.
    GateKept,
    /// A refusal closes the gate.
    RefusalCloses,
    /// A unit that is let through counts until its lease ends.
    PermitKept,
    /// It does not count any longer.
    PermitEnds,
    /// A claim takes what is behind open gates.
    OpenServed,
    /// A unit behind a gate with a rate has a start time.
    RateKept,
    /// A claim says under which epoch of a gate a unit was let through.
    PermitTold,
    /// A log that is acknowledged is stored.
    LogKept,
    /// A log is that of its own attempt.
    LogOfItsAttempt,
}

impl Rule {
    /// Whether breaking it takes statements that the store would never make.
    pub(crate) fn needs_file(self) -> bool {
        matches!(
            self,
            Self::StaleLease
                | Self::LedgerRow
                | Self::HandBackJournalled
                | Self::SuccessKept
                | Self::NewestWins
                | Self::VerdictCounted
                | Self::VerdictInLedger
                | Self::WishJournalled
                | Self::OneHolder
                | Self::PauseHolds
                | Self::EndCountedOnce
                | Self::AdvanceInLedger
                | Self::StoppedRunLeftAlone
                | Self::NothingKeptOfStoppedRun
                | Self::KeptUnderNewEpoch
                | Self::CauseCounted
                | Self::CauseCountedOnce
                | Self::UnitChangedOnce
                | Self::FrozenListKept
                | Self::FrozenStateGuards
                | Self::PausedPlanWaits
                | Self::StartedIsKept
                | Self::PermitKept
                | Self::PermitEnds
        )
    }
}

/// What breaks a rule, now and then.
pub(crate) struct Mutant {
    pub(super) rule: Rule,
    file: Option<PathBuf>,
    calls: AtomicU64,
}

impl Mutant {
    pub(crate) fn new(rule: Rule, location: &Location) -> Self {
        let file = match location {
            Location::File(path) => Some(path.clone()),
            Location::Memory => None,
        };
        Self { rule, file, calls: AtomicU64::new(0) }
    }

    /// Gets what guards the tables out of the way.
    pub(crate) fn prepare(&self) {
        if let Some(file) = &self.file {
            connection(file)
                .execute_batch("DROP TRIGGER attempts_no_delete; DROP TRIGGER journal_no_delete;")
                .unwrap();
        }
    }

    /// Whether it is this rule's turn to be broken.
    pub(super) fn breaks(&self, rule: Rule) -> bool {
        self.rule == rule && self.strikes()
    }

    /// Every third time, a hundred times: a store that takes leases away for ever lets no world come to its end.
    pub(super) fn strikes(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        call % 3 == 2 && call < 300
    }

    pub(crate) async fn write_logs(&self, store: &dyn Store, logs: &[AttemptLog]) -> Result<()> {
        if self.breaks(Rule::LogKept) {
            return Ok(());
        }
        let mut logs = logs.to_vec();
        if let [first, second, ..] = &mut logs[..]
            && self.breaks(Rule::LogOfItsAttempt)
        {
            std::mem::swap(&mut first.text, &mut second.text);
        }
        store.write_logs(&logs).await
    }

    pub(crate) async fn renew_leases(
        &self,
        store: &dyn Store,
        kind: Leased,
        leases: &[LeaseRef],
        until: Timestamp,
    ) -> Result<Vec<Written>> {
        match (self.rule, kind) {
            // A group is held for a few leases at most, so none is renewed. A lease never gets shorter.
            (Rule::RenewalMade, Leased::Group) => {
                store.renew_leases(kind, leases, Timestamp::UNIX_EPOCH).await
            }
            (Rule::RenewalMade, _) if self.strikes() => Ok(vec![Written::Applied; leases.len()]),
            _ => store.renew_leases(kind, leases, until).await,
        }
    }

    pub(super) fn execute(&self, sql: &str, values: impl Params) {
        let file = self.file.as_deref().unwrap();
        connection(file).execute(sql, values).unwrap();
    }

    /// Gets the counts of the hours wrong in which a unit was the last to fail.
    pub(super) fn miscount(&self, kind: UnitKind, id: i64) {
        let of_unit = "WHERE kind = ?1 AND unit_id = ?2";
        let change = match self.rule {
            Rule::CauseCounted => "DELETE FROM cause_hours",
            Rule::CauseCountedOnce => "UPDATE cause_hours SET attempts = attempts + 1",
            _ => return,
        };
        if self.strikes() {
            self.execute(&format!("{change} {of_unit}"), (kind.name(), id));
        }
    }

    /// Removes the permits of all units, so that further ones are let through.
    pub(super) fn forget_permits(&self) {
        if self.breaks(Rule::PermitKept) {
            self.execute("DELETE FROM gate_permits", ());
        }
    }

    pub(crate) async fn submit_runs(
        &self,
        store: &dyn Store,
        runs: &[NewRun],
        now: Timestamp,
    ) -> Result<Vec<SubmittedRun>> {
        if self.breaks(Rule::SubmissionKept) {
            let made_up = |n: usize| SubmittedRun::Accepted(RunId(1_000_000 + n as i64));
            return Ok((0..runs.len()).map(made_up).collect());
        }
        store.submit_runs(runs, now).await
    }

    pub(crate) async fn finish_runs(
        &self,
        store: &dyn Store,
        finishes: &[RunFinish],
        now: Timestamp,
    ) -> Result<Vec<Written>> {
        let mut changed = finishes.to_vec();
        for finish in &mut changed {
            match self.rule {
                Rule::EpochGuard => self.take_current_epoch(store, finish).await?,
                Rule::StaleLease => self.revive(store, finish).await?,
                Rule::CountedOnce if self.strikes() => finish.history.counted += 1,
                Rule::FullWait if self.strikes() => shorten(finish),
                Rule::RefusalCloses if self.strikes() => finish.gates = None,
                _ => {}
            }
        }
        let keeps_permits = self.breaks(Rule::PermitEnds);
        if keeps_permits {
            self.execute("DROP VIEW live_permits", ());
            self.execute("CREATE VIEW live_permits AS SELECT * FROM gate_permits", ());
            self.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM gate_permits", ());
        }
        let written = store.finish_runs(&changed, now).await?;
        if keeps_permits {
            self.execute("INSERT OR IGNORE INTO gate_permits SELECT * FROM kept", ());
            self.execute("DROP TABLE kept", ());
        }
        changed.iter().for_each(|finish| self.miscount(UnitKind::Run, finish.id.0));
        if self.breaks(Rule::LedgerRow) {
            for finish in &changed {
                let sql = "DELETE FROM attempts WHERE unit_id = ?1 AND attempt = ?2";
                self.execute(sql, (finish.id.0, finish.attempt.0));
            }
        }
        Ok(written)
    }

    async fn take_current_epoch(&self, store: &dyn Store, finish: &mut RunFinish) -> Result<()> {
        let run = store.runs_by_id(&[finish.id]).await?.remove(0);
        if run.status == RunStatus::Processing {
            finish.epoch = run.lease_epoch;
            finish.attempt = AttemptNumber(run.attempts + 1);
        }
        Ok(())
    }

    /// Makes as if the run had been held all the time.
    async fn revive(&self, store: &dyn Store, finish: &mut RunFinish) -> Result<()> {
        let run = store.runs_by_id(&[finish.id]).await?.remove(0);
        if run.status != RunStatus::Processing {
            let sql = "UPDATE runs SET status = 'processing', ready = 0, due_at = NULL,
                next_retry_at = NULL, lease_owner = 'mutant', lease_until = 0, lease_epoch = ?2
                WHERE id = ?1";
            let Epoch(epoch) = run.lease_epoch;
            self.execute(sql, (finish.id.0, epoch));
            finish.epoch = run.lease_epoch;
            finish.attempt = AttemptNumber(run.attempts + 1);
        }
        Ok(())
    }

    pub(crate) async fn release_leases(
        &self,
        store: &dyn Store,
        kind: Leased,
        releases: &[LeaseRelease],
        at: Timestamp,
    ) -> Result<Vec<Written>> {
        if self.rule == Rule::HandBackDone {
            return Ok(vec![Written::Applied; releases.len()]);
        }
        let written = store.release_leases(kind, releases, at).await?;
        if self.rule == Rule::HandBackJournalled {
            for back in releases {
                let sql = "DELETE FROM journal WHERE action = 'run.handback'
                    AND unit = 'run:' || ?1 AND details ->> 'epoch' = ?2";
                self.execute(sql, (back.lease.id, back.lease.epoch.0));
            }
        }
        Ok(written)
    }
}

fn connection(file: &Path) -> Connection {
    Connection::open(file).unwrap()
}

fn shorten(finish: &mut RunFinish) {
    if let RunCompletion::Failed { decision: Decision::RetryAt { at, delay, .. }, .. } =
        &mut finish.completion
    {
        *at -= SignedDuration::try_from(*delay / 2).unwrap();
    }
}

/// A store that breaks the rule is found out, and for what it does.
#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains = |seed: &u64| {
        let problems = verdict::judge(&live(*seed, Some(rule)));
        problems.iter().any(|problem| problem.contains(complaint))
    };
    let found = (1..=SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
}

#[test]
fn a_store_that_drops_the_epoch_guard_is_found_out() {
    assert_found_out(Rule::EpochGuard, "a stale write was accepted");
}

#[test]
fn a_store_that_finishes_a_stale_lease_is_found_out() {
    assert_found_out(Rule::StaleLease, "a stale write was accepted");
}

#[test]
fn a_store_that_counts_an_attempt_twice_is_found_out() {
    assert_found_out(Rule::CountedOnce, "(retry-count)");
}

#[test]
fn a_store_that_forgets_a_ledger_row_is_found_out() {
    assert_found_out(Rule::LedgerRow, "(ledger-numbers)");
}

#[test]
fn a_store_that_shortens_a_wait_is_found_out() {
    assert_found_out(Rule::FullWait, "claimed before");
}

#[test]
fn a_store_that_loses_a_hand_back_is_found_out() {
    assert_found_out(Rule::HandBackDone, "and the journal has");
}

#[test]
fn a_store_that_hands_back_without_a_journal_row_is_found_out() {
    assert_found_out(Rule::HandBackJournalled, "and the journal has");
}

#[test]
fn a_store_that_does_not_tell_a_worker_what_it_holds_is_found_out() {
    assert_found_out(Rule::OwnLeasesFound, "was lost without any trouble");
}

#[test]
fn a_store_that_acknowledges_a_renewal_without_making_it_is_found_out() {
    assert_found_out(Rule::RenewalMade, "was lost without any trouble");
}

#[test]
fn a_store_that_loses_an_acknowledged_submission_is_found_out() {
    assert_found_out(Rule::SubmissionKept, "and is lost");
}

// LOG-3
#[test]
fn a_store_that_loses_an_acknowledged_log_is_found_out() {
    assert_found_out(Rule::LogKept, "and its log is lost");
}

// LOG-2
#[test]
fn a_store_that_mixes_up_two_logs_is_found_out() {
    assert_found_out(Rule::LogOfItsAttempt, "has lines of others");
}

// CAU-5
#[test]
fn a_store_that_does_not_count_a_failed_run_by_its_cause_is_found_out() {
    assert_found_out(Rule::CauseCounted, "(cause-counts)");
}

// CAU-5
#[test]
fn a_store_that_counts_a_failed_run_twice_by_its_cause_is_found_out() {
    assert_found_out(Rule::CauseCountedOnce, "(cause-counts)");
}
