//! Rules of items that a store may break, and that it is found out.

use jiff::SignedDuration;
use redrive_core::{ItemEvent, ItemId, ItemStatus};
use redrive_store::{
    ClaimedGroup, GroupClaim, ItemGroup, ItemMove, ItemRecord, Result, Selection, Store, UnitKind,
    Written,
};

use super::{
    mutants::{Mutant, Rule, SEEDS},
    uploads::live,
};

impl Mutant {
    /// What was acknowledged is still handed out.
    pub(crate) async fn pending_items(
        &self,
        store: &dyn Store,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>> {
        let mut items = store.pending_items(group, after, limit).await?;
        if self.breaks(Rule::AcknowledgedIsDone) {
            let status = Some(ItemStatus::Uploaded);
            let filter = Selection { state: status.map(Into::into), ..Selection::default() };
            items.extend(store.items_page(&filter, after, limit.into()).await?);
        }
        Ok(items)
    }

    pub(crate) async fn increment_upload_attempts(
        &self,
        store: &dyn Store,
        id: ItemId,
    ) -> Result<Option<u32>> {
        let mut count = store.increment_upload_attempts(id).await?;
        if self.breaks(Rule::RejectionCountedOnce) {
            count = store.increment_upload_attempts(id).await?;
        }
        // One too few leads to one attempt too many.
        let hidden = u32::from(self.breaks(Rule::CountAnswered));
        Ok(count.map(|count| count - hidden))
    }

    pub(crate) async fn move_items(
        &self,
        store: &dyn Store,
        moves: &[ItemMove],
    ) -> Result<Vec<Written>> {
        let mut changed = moves.to_vec();
        for step in &mut changed {
            if self.breaks(Rule::GiveUpJournalled) {
                step.journal = None;
            }
            if step.attempt.is_some() && self.breaks(Rule::SendingInLedger) {
                step.attempt = None;
            }
        }
        for step in moves {
            if step.event == ItemEvent::Acknowledge && self.breaks(Rule::RejectionsAloneCount) {
                store.increment_upload_attempts(step.id).await?;
            }
        }
        let written = store.move_items(&changed).await?;
        moves.iter().for_each(|step| self.miscount(UnitKind::Item, step.id.0));
        Ok(written)
    }

    /// Every lease looks as if it had ended.
    pub(crate) async fn claim_group(
        &self,
        store: &dyn Store,
        claim: &GroupClaim,
    ) -> Result<ClaimedGroup> {
        let mut claim = claim.clone();
        if self.breaks(Rule::GroupHeldOnce) {
            claim.now += SignedDuration::from_hours(1);
        }
        store.claim_group(&claim).await
    }
}

/// A store that breaks the rule is found out, and for what it does.
#[track_caller]
fn assert_found_out(rule: Rule, complaint: &str) {
    let complains =
        |seed: &u64| live(*seed, Some(rule)).iter().any(|problem| problem.contains(complaint));
    let found = (1..=SEEDS).find(complains);
    assert!(found.is_some(), "{rule:?} was broken in {SEEDS} worlds, and nobody noticed");
}

#[test]
fn a_store_that_hands_out_what_was_acknowledged_is_found_out() {
    assert_found_out(Rule::AcknowledgedIsDone, "nobody sends what it knows to be acknowledged");
}

#[test]
fn a_store_that_counts_an_acknowledged_item_again_is_found_out() {
    assert_found_out(Rule::RejectionsAloneCount, "(retry-count)");
    assert_found_out(Rule::RejectionsAloneCount, "nothing is counted that was not rejected");
}

#[test]
fn a_store_that_counts_a_rejection_twice_is_found_out() {
    assert_found_out(Rule::RejectionCountedOnce, "(retry-count)");
}

#[test]
fn a_store_whose_answer_leads_to_an_attempt_too_many_is_found_out() {
    assert_found_out(Rule::CountAnswered, "nobody sends what it has counted to the end");
}

#[test]
fn a_store_that_gives_up_without_a_journal_row_is_found_out() {
    assert_found_out(Rule::GiveUpJournalled, "(give-up-recorded)");
    assert_found_out(Rule::GiveUpJournalled, "it is given up once, and told once");
}

#[test]
fn a_store_that_forgets_the_ledger_row_of_a_sending_is_found_out() {
    assert_found_out(Rule::SendingInLedger, "(story)");
}

#[test]
fn a_store_that_lets_two_hold_a_group_is_found_out() {
    assert_found_out(Rule::GroupHeldOnce, "two held the group at once");
}

#[test]
fn a_store_that_acknowledges_a_renewal_of_a_group_without_making_it_is_found_out() {
    assert_found_out(Rule::RenewalMade, "lost the group without any trouble");
}

// CAU-5
#[test]
fn a_store_that_counts_a_rejected_item_by_its_cause_never_or_twice_is_found_out() {
    assert_found_out(Rule::CauseCounted, "(cause-counts)");
    assert_found_out(Rule::CauseCountedOnce, "(cause-counts)");
}
