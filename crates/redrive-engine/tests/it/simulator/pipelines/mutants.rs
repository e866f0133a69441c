//! The judges are judged: a store that breaks a rule about samples must be found out.

use redrive_core::{Decision, PipelineStatus};
use redrive_store::{
    ClaimedSample, PageLimit, Result, SampleClaim, SampleCompletion, SampleFinish, SampleWritten,
    Selection, Store, UnitKind,
};

use super::{
    super::mutants::{Mutant, Rule},
    verdict::judge,
    world::live,
};

/// Seeds within which a broken rule must be found out.
const SEEDS: u64 = 200;

impl Mutant {
    pub(crate) async fn claim_samples(
        &self,
        store: &dyn Store,
        claim: &SampleClaim,
    ) -> Result<Vec<ClaimedSample>> {
        if self.rule != Rule::StoppedRunLeftAlone {
            return store.claim_samples(claim).await;
        }
        self.as_if_running(store, store.claim_samples(claim)).await
    }

    /// Has runs look as if nobody had stopped them.
    async fn as_if_running<T>(
        &self,
        store: &dyn Store,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let status = Some(PipelineStatus::Cancelled);
        let filter = Selection { state: status.map(Into::into), ..Selection::default() };
        let newest = redrive_core::PipelineRunId(i64::MAX);
        let stopped =
            store.pipeline_runs_page(&filter, newest, PageLimit::from(10).newest_first()).await?;
        for run in &stopped {
            let sql = "UPDATE pipeline_runs SET status = 'running', ended_at = NULL WHERE id = ?1";
            self.execute(sql, [run.id.0]);
        }
        let answer = call.await;
        for run in &stopped {
            let sql = "UPDATE pipeline_runs SET status = 'cancelled', ended_at = ?2 WHERE id = ?1";
            self.execute(sql, [run.id.0, run.ended_at.unwrap().as_microsecond()]);
        }
        answer
    }

    pub(crate) async fn finish_samples(
        &self,
        store: &dyn Store,
        finishes: &[SampleFinish],
    ) -> Result<Vec<SampleWritten>> {
        let mut changed = finishes.to_vec();
        if self.rule == Rule::DeadLetterKept {
            changed.iter_mut().for_each(bury);
        }
        let finishing = store.finish_samples(&changed);
        let written = match self.rule {
            Rule::NothingKeptOfStoppedRun => self.as_if_running(store, finishing).await?,
            _ => finishing.await?,
        };
        let applied = finishes.iter().zip(&written).filter(|(_, written)| written.is_applied());
        for (finish, written) in applied {
            self.miscount(UnitKind::Sample, finish.id.0);
            match self.rule {
                Rule::KeptUnderNewEpoch if *written == SampleWritten::Kept => {
                    let sql = "UPDATE samples SET lease_epoch = lease_epoch - 1 WHERE id = ?1";
                    self.execute(sql, [finish.id.0]);
                }
                Rule::EndCountedOnce if finish.end().is_some() && self.strikes() => {
                    let sql =
                        "UPDATE pipeline_runs SET total = total + 1, succeeded = succeeded + 1
                        WHERE id = ?1";
                    self.execute(sql, [finish.run.0]);
                }
                Rule::AdvanceInLedger if finish.leaves_work() && self.strikes() => {
                    let sql = "DELETE FROM attempts WHERE unit_id = ?1 AND attempt = ?2";
                    self.execute(sql, [finish.id.0, finish.attempt.0.into()]);
                }
                _ => {}
            }
        }
        Ok(written)
    }
}

/// Makes a dead letter look as if its stage had passed it over.
fn bury(finish: &mut SampleFinish) {
    if let SampleCompletion::Failed { decision: Decision::GiveUp { .. }, .. } = &finish.completion {
        finish.completion = SampleCompletion::Skipped("no loss".to_owned());
    }
}

/// A store that breaks the rule is found out, and for what it does.
#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains = |seed: &u64| {
        judge(&live(*seed, Some(rule))).iter().any(|problem| problem.contains(complaint))
    };
    let found = (1..=SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
}

// PIP-3
#[test]
fn a_store_that_drops_a_dead_letter_is_found_out() {
    assert_found_out(Rule::DeadLetterKept, "was not executed so");
}

// PIP-5
#[test]
fn a_store_that_counts_an_ended_sample_twice_is_found_out() {
    assert_found_out(Rule::EndCountedOnce, "(counts)");
}

// PIP-4
#[test]
fn a_store_that_forgets_the_ledger_row_of_a_sample_is_found_out() {
    assert_found_out(Rule::AdvanceInLedger, "(story)");
}

// PIP-6
#[test]
fn a_store_that_gives_out_samples_of_a_stopped_run_is_found_out() {
    assert_found_out(Rule::StoppedRunLeftAlone, "claimed of a run that was stopped");
}

// PIP-6
#[test]
fn a_store_that_lets_samples_of_a_stopped_run_be_kept_is_found_out() {
    assert_found_out(Rule::NothingKeptOfStoppedRun, "kept of a run that was stopped");
}

// PIP-1
#[test]
fn a_store_that_keeps_a_sample_under_its_old_epoch_is_found_out() {
    assert_found_out(Rule::KeptUnderNewEpoch, "is lower than the number of claims");
}

// PIP-1
#[test]
fn a_store_that_acknowledges_a_renewal_of_a_sample_without_making_it_is_found_out() {
    assert_found_out(Rule::RenewalMade, "was lost without any trouble");
}

// PIP-1
#[test]
fn a_store_that_does_not_tell_a_worker_which_samples_it_holds_is_found_out() {
    assert_found_out(Rule::OwnLeasesFound, "was lost without any trouble");
}

// CAU-5
#[test]
fn a_store_that_counts_a_failed_sample_by_its_cause_never_or_twice_is_found_out() {
    assert_found_out(Rule::CauseCounted, "(cause-counts)");
    assert_found_out(Rule::CauseCountedOnce, "(cause-counts)");
}
