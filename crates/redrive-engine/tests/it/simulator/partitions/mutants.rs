//! The judges of partitions are judged: a store that breaks one rule must be found out.

use redrive_core::PartitionState;
use redrive_store::{
    AuditContext, ClaimedPartition, NamedPartition, PartitionAction, PartitionChange,
    PartitionClaim, PartitionFinish, PartitionVerdict, Result, Store, UnitKind, Written,
};

use super::world::live;
use crate::simulator::mutants::{Mutant, Rule, SEEDS};

impl Mutant {
    pub(crate) async fn claim_partitions(
        &self,
        store: &dyn Store,
        claim: &PartitionClaim,
    ) -> Result<Vec<ClaimedPartition>> {
        match self.rule {
            Rule::OneHolder if self.strikes() => self.execute(
                "UPDATE partition_work SET lease_owner = NULL, lease_until = NULL, run_id = NULL",
                [],
            ),
            Rule::PauseHolds if self.strikes() => self.execute(
                "UPDATE partition_work
                SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
                WHERE kind IS NOT NULL",
                [],
            ),
            _ => {}
        }
        store.claim_partitions(claim).await
    }

    pub(crate) async fn finish_partitions(
        &self,
        store: &dyn Store,
        finishes: &[PartitionFinish],
    ) -> Result<Vec<Written>> {
        let mut written = store.finish_partitions(finishes).await?;
        for (finish, written) in finishes.iter().zip(&mut written) {
            let good = matches!(finish.verdict, PartitionVerdict::Accepted { .. });
            let unit = finish.key.clone();
            let record = store.partitions_by_key(&[unit]).await?.remove(0).unwrap();
            let id = record.id.0;
            self.miscount(UnitKind::Partition, id);
            match (self.rule, *written) {
                (Rule::SuccessKept, Written::Applied) if !good => self.execute(
                    "UPDATE partition_state SET status = 'failed', error_message = 'demoted'
                    WHERE id = ?1 AND status = 'success'",
                    [id],
                ),
                (Rule::NewestWins, Written::Stale) if good => {
                    let run_id = finish.run_id.as_str();
                    self.execute(
                        "UPDATE partition_state SET current_run_id = ?2
                        WHERE id = ?1 AND current_run_id IS NOT NULL",
                        (id, run_id),
                    );
                    *written = Written::Applied;
                }
                (Rule::VerdictCounted, Written::Applied) if self.strikes() => self.execute(
                    "UPDATE partition_state SET attempt_count = attempt_count - 1 WHERE id = ?1",
                    [id],
                ),
                (Rule::VerdictInLedger, Written::Applied) if self.strikes() => self.execute(
                    "DELETE FROM attempts WHERE kind = 'partition' AND unit_id = ?1
                    AND attempt = ?2",
                    (id, record.attempt_count),
                ),
                _ => {}
            }
        }
        Ok(written)
    }

    pub(crate) async fn change_partitions(
        &self,
        store: &dyn Store,
        action: &PartitionAction,
        named: &[NamedPartition],
        order: &AuditContext,
    ) -> Result<Vec<PartitionChange>> {
        let mut named = named.to_vec();
        if self.rule == Rule::LookGuards {
            named.iter_mut().for_each(|named| named.expected = None);
        }
        let mut changes = store.change_partitions(action, &named, order).await?;
        let retries = matches!(action, PartitionAction::Retry { .. });
        if self.rule == Rule::RetriedOnce && retries {
            for change in &mut changes {
                if *change == PartitionChange::Already(PartitionState::Pending) {
                    *change = PartitionChange::Done(PartitionState::Failed);
                }
            }
        }
        if self.rule == Rule::WishJournalled && self.strikes() {
            self.execute("DELETE FROM journal WHERE action = ?1", [action.action()]);
        }
        Ok(changes)
    }
}

/// A store that breaks the rule is found out, and for what it does.
#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains = |seed: &u64| {
        let problems = live(*seed, Some(rule)).judge();
        problems.iter().any(|problem| problem.contains(complaint))
    };
    let found = (1..=4 * SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {} worlds, and nobody noticed", 4 * SEEDS);
}

// PAR-5
#[test]
fn a_store_that_demotes_a_success_is_found_out() {
    assert_found_out(Rule::SuccessKept, "its state is not that of its story");
}

// PAR-5
#[test]
fn a_store_that_lets_a_late_older_run_take_authority_is_found_out() {
    assert_found_out(Rule::NewestWins, "a stale verdict was accepted");
}

// DMN-2
#[test]
fn a_store_that_lets_two_daemons_both_retry_is_found_out() {
    assert_found_out(Rule::RetriedOnce, "the store saw it otherwise");
}

// DMN-2
#[test]
fn a_store_that_acts_on_what_a_daemon_saw_long_ago_is_found_out() {
    assert_found_out(Rule::LookGuards, "a daemon retried before its time");
}

// PAR-6
#[test]
fn a_store_that_does_not_count_an_attempt_is_found_out() {
    assert_found_out(Rule::VerdictCounted, "a verdict was not counted once");
}

// PAR-6
#[test]
fn a_store_that_forgets_a_verdict_in_the_ledger_is_found_out() {
    assert_found_out(Rule::VerdictInLedger, "the ledger does not tell its verdicts");
}

// PAR-8
#[test]
fn a_store_that_forgets_what_an_operator_did_is_found_out() {
    assert_found_out(Rule::WishJournalled, "the journal does not tell what was done to it");
}

// PAR-10
#[test]
fn a_store_that_gives_one_partition_to_two_workers_is_found_out() {
    assert_found_out(Rule::OneHolder, "claimed while somebody holds it");
}

// PAR-9
#[test]
fn a_store_that_gives_out_what_is_paused_is_found_out() {
    assert_found_out(Rule::PauseHolds, "claimed while it is paused");
}

// PAR-10
#[test]
fn a_store_that_does_not_tell_a_worker_which_partitions_it_holds_is_found_out() {
    assert_found_out(Rule::OwnLeasesFound, "was lost without any trouble");
}

// PAR-10
#[test]
fn a_store_that_acknowledges_a_renewal_of_a_partition_without_making_it_is_found_out() {
    assert_found_out(Rule::RenewalMade, "was lost without any trouble");
}

// CAU-5
#[test]
fn a_store_that_counts_a_failed_partition_by_its_cause_never_or_twice_is_found_out() {
    assert_found_out(Rule::CauseCounted, "(cause-counts)");
    assert_found_out(Rule::CauseCountedOnce, "(cause-counts)");
}
