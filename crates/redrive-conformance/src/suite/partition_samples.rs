//! Fixtures for partitions.

use jiff::{SignedDuration, Timestamp};
use redrive_core::{
    AttemptNumber, Cause, Failure, PartitionKey, PartitionRunId, PartitionState, Unit,
};

use super::{Fixture, samples::at};
use redrive_store::{
    AttemptRecord, AuditContext, BackfillShare, ClaimedPartition, GateRules, JournalEntry,
    JournalFilter, Lane, LeaseRef, NamedPartition, Operator, PartitionAction, PartitionChange,
    PartitionClaim, PartitionFinish, PartitionRecord, PartitionVerdict, UnitKind, UnitRow,
    WorkerId, Written,
};

pub(super) const BACKFILL: PartitionAction =
    PartitionAction::Backfill { force_pending: false, lane: Lane::Backfill };
pub(super) const FRESH: PartitionAction =
    PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
pub(super) const FORCE: PartitionAction =
    PartitionAction::Backfill { force_pending: true, lane: Lane::Backfill };
pub(super) const RETRY: PartitionAction =
    PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh };
pub(super) const RETRY_CLEARED: PartitionAction =
    PartitionAction::Retry { clear_terminal: true, lane: Lane::Fresh };
pub(super) const REPROCESS: PartitionAction = PartitionAction::Reprocess { lane: Lane::Backfill };

/// A partition of source `ads`.
pub(super) fn key(customer: &str, day: &str) -> PartitionKey {
    PartitionKey::new("ads", customer, "daily", day.parse().expect("a day")).expect("a key")
}

/// A day's partition, by the day of March 2026.
pub(super) fn day(day: u32) -> PartitionKey {
    key("7", &format!("2026-03-{day:02}"))
}

pub(super) fn run_id(name: &str) -> PartitionRunId {
    name.parse().expect("a run id")
}

/// A claim of up to `limit` partitions of `ads`, `backfill` of them for backfill, held for a minute.
/// The runs are named after the time.
pub(super) fn claim_of(limit: u32, backfill: u32, now: Timestamp) -> PartitionClaim {
    let run = |n| run_id(&format!("r{}-{n}", now.as_second()));
    PartitionClaim {
        source: "ads".to_owned(),
        run_ids: (0..limit).map(run).collect(),
        backfill: BackfillShare { share: 0.0, owed: f64::from(backfill) },
        owner: WorkerId("w1".to_owned()),
        lease_until: now + SignedDuration::from_secs(60),
        gates: GateRules::default(),
        now,
    }
}

pub(super) fn order(now: Timestamp) -> AuditContext {
    AuditContext {
        by: Operator { actor: "ada".to_owned(), at: now, reason: Some("looks wrong".to_owned()) },
        command: "state test".to_owned(),
        filter: None,
        flags: Vec::new(),
    }
}

pub(super) fn accepted(record_count: u64) -> PartitionVerdict {
    PartitionVerdict::Accepted { record_count, schema_version: Some("2".to_owned()) }
}

pub(super) fn rejected(message: &str) -> PartitionVerdict {
    let failure = Failure::named("too_few_rows", Cause::Validator, message);
    PartitionVerdict::Rejected { failure }
}

/// The verdict on an attempt that took a second.
pub(super) fn verdict(
    claimed: &ClaimedPartition,
    ended_at: Timestamp,
    verdict: PartitionVerdict,
) -> PartitionFinish {
    PartitionFinish {
        gates: None,
        key: claimed.key.clone(),
        lease: claimed.lease,
        attempt: claimed.attempt,
        run_id: claimed.run_id.clone(),
        started_at: ended_at - SignedDuration::from_secs(1),
        ended_at,
        worker: WorkerId("w1".to_owned()),
        verdict,
    }
}

pub(super) fn done(before: PartitionState) -> PartitionChange {
    PartitionChange::Done(before)
}

impl Fixture {
    /// Wishes something of partitions, however they are.
    pub(super) async fn change_all(
        &self,
        action: PartitionAction,
        keys: &[PartitionKey],
        now: Timestamp,
    ) -> Vec<PartitionChange> {
        let named: Vec<NamedPartition> = keys.iter().cloned().map(Into::into).collect();
        self.store.change_partitions(&action, &named, &order(now)).await.expect("answered")
    }

    pub(super) async fn change_one(
        &self,
        action: PartitionAction,
        key: &PartitionKey,
        now: Timestamp,
    ) -> PartitionChange {
        self.change_all(action, std::slice::from_ref(key), now).await[0]
    }

    /// Makes entries, which must not be there.
    pub(super) async fn ask_for(&self, keys: &[PartitionKey], now: Timestamp) {
        let changes = self.change_all(FRESH, keys, now).await;
        assert!(
            changes.iter().all(|change| *change == done(PartitionState::Absent)),
            "{changes:?}"
        );
    }

    pub(super) async fn claim_partitions(&self, claim: &PartitionClaim) -> Vec<ClaimedPartition> {
        self.store.claim_partitions(claim).await.expect("claimed")
    }

    /// The one partition that a claim takes.
    pub(super) async fn take(&self, now: Timestamp) -> ClaimedPartition {
        let mut claimed = self.claim_partitions(&claim_of(1, 0, now)).await;
        claimed.pop().expect("a partition to claim")
    }

    /// Writes a verdict, which must be applied.
    pub(super) async fn judge(
        &self,
        claimed: &ClaimedPartition,
        now: Timestamp,
        judged: PartitionVerdict,
    ) {
        assert_eq!(self.judging(claimed, now, judged).await, Written::Applied);
    }

    pub(super) async fn judging(
        &self,
        claimed: &ClaimedPartition,
        now: Timestamp,
        judged: PartitionVerdict,
    ) -> Written {
        let finish = verdict(claimed, now, judged);
        self.store.finish_partitions(&[finish]).await.expect("answered")[0]
    }

    /// A partition in a state, with attempts at 11 and, where it was reprocessed, nothing more.
    pub(super) async fn partition_in(&self, state: PartitionState, key: &PartitionKey) {
        if state == PartitionState::Absent {
            return;
        }
        self.ask_for(std::slice::from_ref(key), at(10)).await;
        let judged = match state {
            PartitionState::Absent | PartitionState::Pending => return,
            PartitionState::Success | PartitionState::Reprocessing => accepted(3),
            PartitionState::Failed | PartitionState::Terminal => rejected("no rows"),
        };
        let claimed = self.take(at(10)).await;
        assert_eq!(&claimed.key, key, "nothing else is asked for");
        self.judge(&claimed, at(11), judged).await;
        let further = match state {
            PartitionState::Reprocessing => REPROCESS,
            PartitionState::Terminal => PartitionAction::MarkTerminal,
            _ => return,
        };
        assert!(matches!(self.change_one(further, key, at(12)).await, PartitionChange::Done(_)));
    }

    pub(super) async fn partition(&self, key: &PartitionKey) -> PartitionRecord {
        self.entry(key).await.expect("there is an entry")
    }

    pub(super) async fn entry(&self, key: &PartitionKey) -> Option<PartitionRecord> {
        let keys = std::slice::from_ref(key);
        self.store.partitions_by_key(keys).await.expect("read").pop().expect("one answer per key")
    }

    pub(super) async fn partition_state(&self, key: &PartitionKey) -> PartitionState {
        self.entry(key).await.map_or(PartitionState::Absent, |record| record.state())
    }

    pub(super) async fn partition_attempts(&self, key: &PartitionKey) -> Vec<AttemptRecord> {
        let Some(record) = self.entry(key).await else { return Vec::new() };
        let unit = UnitRow::new(UnitKind::Partition, record.id.0);
        self.store.attempts_of(&unit, AttemptNumber(0), 1_000).await.expect("read")
    }

    /// What the journal says of a partition.
    pub(super) async fn told_of(&self, key: &PartitionKey) -> Vec<JournalEntry> {
        let unit = Some(Unit::Partition(key.clone()).to_string());
        let filter = JournalFilter { unit, action: None };
        let page = self.store.journal_page(&filter, 0, 1_000).await.expect("read");
        page.into_iter().map(|record| record.entry).collect()
    }

    pub(super) async fn actions_on(&self, key: &PartitionKey) -> Vec<String> {
        self.told_of(key).await.into_iter().map(|entry| entry.action).collect()
    }
}

/// The same lease, one epoch later.
pub(super) fn later(lease: LeaseRef) -> LeaseRef {
    LeaseRef { epoch: redrive_core::Epoch(lease.epoch.0 + 1), ..lease }
}
