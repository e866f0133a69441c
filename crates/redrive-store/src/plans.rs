//! Plans: bulk actions that are previewed, paced, watched and undone.
//!
//! A plan has a frozen list of units. Its executor holds the plan under a lease and changes units in steps: one transaction
//! takes the next units, changes those that are still as they were when the list was frozen, and writes down what became
//! of each. So a plan changes a unit at most once, and any process can go on after a kill.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    Epoch, IllegalTransition, PlanBatch, PlanCounts, PlanEvent, PlanId, PlanSettings, PlanStatus,
    PlanTiming,
};
use serde_json::{Value, json};

use crate::{
    FromRow, JournalEntry, LeaseRef, Operator, PlanAction, PlanOutcome, PlanUnitCount,
    PlanUnitRecord, PlanUnitWrite, PlannedUnit, Result, RowReader, WorkerId, Written,
    plan_settings::{settings_from_json, settings_to_json},
};

/// A plan to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    pub action: PlanAction,
    /// The selection of its units, as JSON, for people.
    pub selection: String,
    pub by: Operator,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlanRecord {
    pub id: PlanId,
    pub action: PlanAction,
    /// JSON.
    pub selection: String,
    pub settings: PlanSettings,
    pub status: PlanStatus,
    pub created_at: Timestamp,
    pub created_by: String,
    pub reason: Option<String>,
    /// Who applied, resumed or undid the plan last. Units are changed in their name.
    pub ordered_by: Option<String>,
    pub ordered_reason: Option<String>,
    /// When the list of units was complete.
    pub frozen_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Why the plan was aborted.
    pub stop_reason: Option<String>,
    pub counts: PlanCounts,
    /// Changed units that others changed again before they ended.
    pub superseded: u64,
    pub undone: u64,
    /// The last unit that was changed or skipped; units are taken by id.
    pub last_unit: i64,
    /// How far an undo has come; `None` if there is none, or it is finished.
    pub undo_unit: Option<i64>,
    /// On the store's clock.
    pub timing: PlanTiming,
    pub lease_owner: Option<WorkerId>,
    pub lease_epoch: Epoch,
    /// The end of the lease, on the store's clock.
    pub lease_until: Option<Timestamp>,
}

impl FromRow for PlanRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let id = PlanId(row.get()?);
        let (action, options): (String, Value) = (row.get()?, row.named("options", parse_json)?);
        let action = PlanAction::from_stored(&action, &options)
            .ok_or_else(|| crate::Error::bad_value(row.doing(), "action", action))?;
        Ok(Self {
            id,
            action,
            selection: row.get()?,
            settings: row.named("settings", settings_from_json)?,
            status: row.named("status", PlanStatus::from_name)?,
            created_at: row.timestamp()?,
            created_by: row.get()?,
            reason: row.get()?,
            ordered_by: row.get()?,
            ordered_reason: row.get()?,
            frozen_at: row.optional_timestamp()?,
            started_at: row.optional_timestamp()?,
            ended_at: row.optional_timestamp()?,
            stop_reason: row.get()?,
            counts: PlanCounts {
                total: row.count("total")?,
                changed: row.count("changed")?,
                skipped: row.count("skipped")?,
                pending: row.count("pending")?,
                recovered: row.count("recovered")?,
                same_cause: row.count("same_cause")?,
                other_cause: row.count("other_cause")?,
            },
            superseded: row.count("superseded")?,
            undone: row.count("undone")?,
            last_unit: row.get()?,
            undo_unit: row.get()?,
            timing: PlanTiming {
                ramp_from: row.optional_timestamp()?,
                next_at: row.optional_timestamp()?,
            },
            lease_owner: WorkerId::read_optional(row)?,
            lease_epoch: Epoch(row.get()?),
            lease_until: row.optional_timestamp()?,
        })
    }
}

fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

impl PlanRecord {
    pub fn lease(&self) -> LeaseRef {
        LeaseRef { id: self.id.0, epoch: self.lease_epoch }
    }

    pub fn is_held_under(&self, lease: LeaseRef) -> bool {
        self.lease_owner.is_some() && self.lease() == lease
    }

    /// Whether an executor has something to do: units to change, to return or to watch. The index on plans has the same
    /// condition.
    pub fn has_work(&self) -> bool {
        self.status == PlanStatus::Running || self.counts.pending > 0
    }

    /// The settings as they are stored.
    pub fn settings_json(&self) -> String {
        settings_to_json(&self.settings).to_string()
    }

    /// In whose name units are changed.
    pub fn operator(&self, at: Timestamp) -> Operator {
        let actor = self.ordered_by.as_ref().unwrap_or(&self.created_by).clone();
        let reason = self.ordered_reason.clone().or_else(|| self.reason.clone());
        Operator { actor, at, reason }
    }

    /// Carries out an operator's order, and returns its journal entry.
    pub fn order(
        &mut self,
        order: &PlanOrder,
        by: &Operator,
    ) -> std::result::Result<JournalEntry, IllegalTransition> {
        let before = self.status;
        if *order == PlanOrder::Undo && self.started_at.is_none() {
            return Err(self.illegal(PlanEvent::Undo));
        }
        self.move_on(order.event(), by.at)?;
        match order {
            PlanOrder::Apply(settings) => {
                self.settings = *settings;
                self.started_at = Some(by.at);
            }
            // The pace starts slowly again.
            PlanOrder::Resume => self.timing.ramp_from = None,
            PlanOrder::Abort => {
                let reason = by.reason.as_deref().map(|reason| format!(": {reason}"));
                let reason = reason.unwrap_or_default();
                self.stop_reason = Some(format!("aborted by {}{reason}", by.actor));
            }
            PlanOrder::Undo => self.undo_unit = (self.counts.pending > 0).then_some(0),
            PlanOrder::Pause => {}
        }
        if !matches!(order, PlanOrder::Pause | PlanOrder::Abort) {
            self.ordered_by = Some(by.actor.clone());
            self.ordered_reason = by.reason.clone();
        }
        let details = json!({
            "before": before.name(),
            "settings": matches!(order, PlanOrder::Apply(_)).then(|| self.settings.to_string()),
            "reason": by.reason,
        });
        Ok(self.entry(order.event().name(), &details, by.at, &by.actor))
    }

    /// Ends the plan, and returns the journal entry.
    pub fn end(
        &mut self,
        end: &PlanEnd,
        at: Timestamp,
        worker: &str,
    ) -> std::result::Result<JournalEntry, IllegalTransition> {
        let (event, word) = match end {
            PlanEnd::Complete => (PlanEvent::Complete, "done"),
            PlanEnd::Abort(_) => (PlanEvent::Abort, "abort"),
        };
        // An operator may have paused it meanwhile.
        if self.status != PlanStatus::Running {
            return Err(self.illegal(event));
        }
        self.move_on(event, at)?;
        if let PlanEnd::Abort(why) = end {
            self.stop_reason = Some(why.clone());
        }
        let PlanCounts { total, changed, skipped, recovered, same_cause, other_cause, .. } =
            self.counts;
        let details = json!({
            "why": self.stop_reason,
            "total": total,
            "changed": changed,
            "skipped": skipped,
            "recovered": recovered,
            "same_cause": same_cause,
            "other_cause": other_cause,
        });
        Ok(self.entry(word, &details, at, worker))
    }

    /// Counts what a step did to its units.
    pub fn count_step(&mut self, writes: &[PlanUnitWrite], batch: &PlanBatch, now: Timestamp) {
        let skipped = writes.iter().filter(|write| write.outcome == PlanOutcome::Skipped).count();
        let changed = writes.len() - skipped;
        self.counts.changed += changed as u64;
        self.counts.skipped += skipped as u64;
        self.counts.pending +=
            writes.iter().filter(|write| write.outcome == PlanOutcome::Pending).count() as u64;
        self.last_unit = writes.iter().map(|write| write.unit_id).max().unwrap_or(self.last_unit);
        let changed = u32::try_from(changed).unwrap_or(u32::MAX);
        self.timing.next_at = Some(batch.next_at(changed, now));
        self.timing.ramp_from = batch.ramp_from;
    }

    /// Counts units that were pending and are no longer.
    pub fn count_outcomes(&mut self, writes: &[PlanUnitWrite]) {
        for write in writes {
            self.counts.pending = self.counts.pending.saturating_sub(1);
            *match write.outcome {
                PlanOutcome::Recovered => &mut self.counts.recovered,
                PlanOutcome::SameCause => &mut self.counts.same_cause,
                PlanOutcome::OtherCause => &mut self.counts.other_cause,
                PlanOutcome::Undone => &mut self.undone,
                PlanOutcome::Superseded
                | PlanOutcome::Applied
                | PlanOutcome::Pending
                | PlanOutcome::Skipped => &mut self.superseded,
            } += 1;
        }
        if self.counts.pending == 0 {
            self.undo_unit = None;
        }
    }

    fn illegal(&self, event: PlanEvent) -> IllegalTransition {
        IllegalTransition { kind: "plan", state: self.status.name(), event: event.name() }
    }

    fn move_on(
        &mut self,
        event: PlanEvent,
        at: Timestamp,
    ) -> std::result::Result<(), IllegalTransition> {
        self.status = self.status.apply(event)?;
        let live = matches!(self.status, PlanStatus::Running | PlanStatus::Paused);
        self.ended_at = (!live).then_some(at);
        Ok(())
    }

    fn entry(&self, word: &str, details: &Value, at: Timestamp, actor: &str) -> JournalEntry {
        plan_entry(self.id, word, details, at, actor)
    }
}

impl NewPlan {
    pub fn journal_entry(&self, id: PlanId) -> JournalEntry {
        let details = json!({ "action": self.action.name(), "reason": self.by.reason });
        let entry = plan_entry(id, "create", &details, self.by.at, &self.by.actor);
        JournalEntry { filter: Some(self.selection.clone()), ..entry }
    }
}

/// A plan in the journal.
pub fn plan_unit_name(id: PlanId) -> String {
    format!("plan:{id}")
}

fn plan_entry(id: PlanId, word: &str, details: &Value, at: Timestamp, actor: &str) -> JournalEntry {
    JournalEntry {
        at,
        actor: actor.to_owned(),
        action: format!("plan.{word}"),
        unit: Some(plan_unit_name(id)),
        filter: None,
        details: details.to_string(),
        dedupe_key: None,
    }
}

/// What an operator does to a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PlanOrder {
    Apply(PlanSettings),
    Pause,
    Resume,
    Abort,
    Undo,
}

impl PlanOrder {
    pub fn event(&self) -> PlanEvent {
        match self {
            Self::Apply(_) => PlanEvent::Apply,
            Self::Pause => PlanEvent::Pause,
            Self::Resume => PlanEvent::Resume,
            Self::Abort => PlanEvent::Abort,
            Self::Undo => PlanEvent::Undo,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanChange {
    /// The order was carried out; the plan had this status before.
    Done(PlanStatus),
    /// The status does not allow the order; nothing changed.
    Refused(PlanStatus),
    /// The list of units is not complete; nothing changed.
    NotFrozen,
    Unknown,
}

/// How the executor ends a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanEnd {
    Complete,
    Abort(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanClaim {
    pub owner: WorkerId,
    /// The end of the leases, on the store's clock.
    pub lease_until: Timestamp,
    /// The store's clock.
    pub now: Timestamp,
    /// This plan alone.
    pub only: Option<PlanId>,
    pub limit: u32,
}

/// The time of a step: on the wall clock for the journal, and on the store's clock for the pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanTime {
    pub at: Timestamp,
    pub now: Timestamp,
}

#[async_trait]
pub trait Plans: Send + Sync {
    /// Creates a draft without units. Journal action `plan.create`.
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId>;

    /// Adds units to a draft; a unit that it has already stays as it is. Stale if the list is complete.
    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written>;

    /// Completes the list of units of a draft.
    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written>;

    /// Removes up to `limit` units of a draft, and the draft once it has none. Returns whether units are left.
    async fn discard_plan(&self, id: PlanId, limit: u32) -> Result<bool>;

    /// Plans by id; unknown ids are omitted.
    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>>;

    /// A page of plans with ids below `before`, the newest first.
    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>>;

    /// A page of the units of a plan with ids above `after`, by id: all, or those with an outcome.
    async fn plan_units_page(
        &self,
        id: PlanId,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitRecord>>;

    /// The units of a plan, counted by frozen state, cause, prediction and outcome. Reads all units.
    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>>;

    /// Carries out an operator's order, with a journal entry.
    async fn change_plan(&self, id: PlanId, order: &PlanOrder, by: &Operator)
    -> Result<PlanChange>;

    /// Claims plans that have work and no executor, or one whose lease has ended; the oldest first.
    async fn claim_plans(&self, claim: &PlanClaim) -> Result<Vec<PlanRecord>>;

    /// Extends the lease, and returns the plan as it is. `None`, as in the methods below, if the lease is lost.
    async fn renew_plan(&self, lease: LeaseRef, until: Timestamp) -> Result<Option<PlanRecord>>;

    async fn release_plan(&self, lease: LeaseRef) -> Result<Written>;

    /// Takes the next units of a running plan, changes those that are as they were frozen, and notes the outcomes, in one
    /// transaction. Each changed unit has the journal entry of an operator's action, which names the plan.
    async fn step_plan(
        &self,
        lease: LeaseRef,
        batch: &PlanBatch,
        time: PlanTime,
    ) -> Result<Option<PlanRecord>>;

    /// Looks at pending units with ids above `after`, and notes the outcomes of those that have ended. Also returns the id
    /// to go on after, or `None` at the end.
    async fn settle_plan(
        &self,
        lease: LeaseRef,
        after: i64,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<(PlanRecord, Option<i64>)>>;

    /// Returns the next pending units of an undone plan to the state in which the plan found them, if no worker and no
    /// operator has touched them since.
    async fn undo_plan(
        &self,
        lease: LeaseRef,
        limit: u32,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>>;

    /// Completes or aborts a running plan. Changes nothing if it is not running.
    async fn end_plan(
        &self,
        lease: LeaseRef,
        end: &PlanEnd,
        at: Timestamp,
    ) -> Result<Option<PlanRecord>>;
}
