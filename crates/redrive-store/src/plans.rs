//! Plans: bulk actions that are previewed, paced, watched and undone.
//!
//! A plan has a frozen list of units. Its executor holds the plan under a lease and changes units in steps: one transaction
//! takes the next units, changes those that are still as they were when the list was frozen, and writes down what became
//! of each. So a plan changes a unit at most once, and any process can go on after a kill.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{
    Epoch, IllegalTransition, InvalidPlanSettings, MAX_PLAN_STEP, PlanBatch, PlanCounts, PlanEvent,
    PlanId, PlanSettings, PlanStatus, PlanTiming,
};
use serde_json::{Value, json};

use crate::{
    FromRow, JournalEntry, LeaseRef, Operator, PlanAction, PlanOutcome, PlanOutcomeCount, PlanUnit,
    PlanUnitCount, PlanUnitRecord, PlanUnitWrite, PlannedUnit, Result, RowReader, UnitKind,
    WorkerId, Written,
    plan_settings::{settings_from_json, settings_to_json},
};

/// A plan to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPlan {
    pub action: PlanAction,
    /// The selection of its units, as JSON, for people.
    pub selection: String,
    /// How it is applied, unless its application says otherwise.
    pub settings: PlanSettings,
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
        // The reason to change units is none to return them.
        let made = self.reason.as_ref().filter(|_| self.status != PlanStatus::Undone);
        let reason = self.ordered_reason.as_ref().or(made).cloned();
        Operator { actor, at, reason }
    }

    /// The reason that was given last.
    pub fn given_reason(&self) -> Option<&str> {
        self.ordered_reason.as_deref().or(self.reason.as_deref())
    }

    /// Carries out an operator's order, and returns its journal entry, or why not.
    pub fn order(
        &mut self,
        order: &PlanOrder,
        by: &Operator,
    ) -> std::result::Result<JournalEntry, PlanChange> {
        let before = self.status;
        let is_undo = *order == PlanOrder::Undo;
        if before.apply(order.event()).is_err() || (is_undo && self.started_at.is_none()) {
            return Err(PlanChange::Refused(before));
        }
        match order {
            PlanOrder::Apply(_) if self.frozen_at.is_none() => return Err(PlanChange::NotFrozen),
            PlanOrder::Apply(settings) => {
                let checked = self.action.check_settings(settings, self.counts.total);
                checked.map_err(PlanChange::Invalid)?;
            }
            // An undo of a plan that has not ended also stops it.
            PlanOrder::Undo if self.ended_at.is_some() && self.counts.pending == 0 => {
                return Err(PlanChange::NothingToReturn(before));
            }
            PlanOrder::Undo | PlanOrder::Pause | PlanOrder::Resume | PlanOrder::Abort => {}
        }
        self.move_on(order.event(), by.at).map_err(|_| PlanChange::Refused(before))?;
        let stopped = |word: &str| {
            let reason = by.reason.as_deref().map(|reason| format!(": {reason}"));
            Some(format!("{word} by {}{}", by.actor, reason.unwrap_or_default()))
        };
        match order {
            PlanOrder::Apply(settings) => {
                self.settings = *settings;
                self.started_at = Some(by.at);
                self.reason = self.reason.take().or_else(|| by.reason.clone());
            }
            // The pace starts slowly again.
            PlanOrder::Resume => (self.timing.ramp_from, self.stop_reason) = (None, None),
            PlanOrder::Abort => self.stop_reason = stopped("aborted"),
            PlanOrder::Pause => self.stop_reason = stopped("paused"),
            PlanOrder::Undo => {
                self.undo_unit = (self.counts.pending > 0).then_some(0);
                self.stop_reason = self.stop_reason.take().filter(|_| before != PlanStatus::Paused);
            }
        }
        if !matches!(order, PlanOrder::Pause | PlanOrder::Abort) {
            self.ordered_by = Some(by.actor.clone());
            let before = self.ordered_reason.take().filter(|_| !is_undo);
            self.ordered_reason = by.reason.clone().or(before);
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

    /// Whether a step may be made: the plan runs, and no other step was made since this one was decided.
    pub fn expects(&self, batch: &PlanBatch) -> bool {
        self.status == PlanStatus::Running && self.counts.position() == batch.position
    }

    /// Counts what a step did to its units. `now` is on the store's clock, as late as possible before the commit.
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

    /// Counts units that are removed from the list of a draft. An incomplete list cannot be applied.
    pub fn count_discarded(&mut self, units: u64) {
        self.counts.total = self.counts.total.saturating_sub(units);
        self.frozen_at = None;
    }

    /// Whether a prune may remove the plan: it has ended before a time, and no unit is watched; or it is a draft from before whose
    /// list was never completed.
    pub fn is_prunable(&self, before: Timestamp) -> bool {
        if self.status == PlanStatus::Draft {
            return self.frozen_at.is_none() && self.created_at < before;
        }
        let ended =
            matches!(self.status, PlanStatus::Done | PlanStatus::Aborted | PlanStatus::Undone);
        ended && self.counts.pending == 0 && self.ended_at.is_some_and(|at| at < before)
    }

    /// Counts units that a prune removes.
    pub fn count_pruned(&mut self, units: &[PlanUnitRecord]) {
        let take = |count: &mut u64| *count = count.saturating_sub(1);
        for unit in units {
            take(&mut self.counts.total);
            match unit.outcome {
                None => continue,
                Some(PlanOutcome::Skipped) => {
                    take(&mut self.counts.skipped);
                    continue;
                }
                Some(PlanOutcome::Pending) => take(&mut self.counts.pending),
                Some(PlanOutcome::Recovered) => take(&mut self.counts.recovered),
                Some(PlanOutcome::SameCause) => take(&mut self.counts.same_cause),
                Some(PlanOutcome::OtherCause) => take(&mut self.counts.other_cause),
                Some(PlanOutcome::Superseded) => take(&mut self.superseded),
                Some(PlanOutcome::Undone) => take(&mut self.undone),
                Some(PlanOutcome::Applied) => {}
            }
            take(&mut self.counts.changed);
        }
    }

    /// The journal entry before the first unit of a plan is pruned.
    pub fn prune_entry(&self, prune: &str, by: &Operator) -> JournalEntry {
        let entry = self.entry("prune", &json!({ "prune": prune }), by.at, &by.actor);
        JournalEntry { dedupe_key: Some(format!("{prune}:plan:{}", self.id)), ..entry }
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

    /// The entry of a draft that is removed.
    pub fn discarded(&self, by: &Operator) -> JournalEntry {
        self.entry("discard", &json!({ "reason": by.reason }), by.at, &by.actor)
    }

    fn entry(&self, word: &str, details: &Value, at: Timestamp, actor: &str) -> JournalEntry {
        plan_entry(self.id, word, details, at, actor)
    }
}

impl NewPlan {
    /// The settings as they are stored.
    pub fn settings_json(&self) -> String {
        settings_to_json(&self.settings).to_string()
    }

    pub fn journal_entry(&self, id: PlanId) -> JournalEntry {
        let details = json!({
            "plan": id.0,
            "action": self.action.name(),
            "options": self.action.options(),
            "reason": self.by.reason,
        });
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanChange {
    /// The order was carried out; the plan had this status before.
    Done(PlanStatus),
    /// The status does not allow the order; nothing changed.
    Refused(PlanStatus),
    /// The list of units is not complete; nothing changed.
    NotFrozen,
    /// The plan cannot be applied like this; nothing changed.
    Invalid(InvalidPlanSettings),
    /// An undo of a plan that has ended and has no pending units; the status stays.
    NothingToReturn(PlanStatus),
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
    /// Plans that the owner cannot execute.
    pub except: Vec<PlanId>,
    pub limit: u32,
}

/// The pages of units that a step reads. Units that are skipped cost no place in the batch, so a step reads on, up to
/// [`MAX_PLAN_STEP`] units; the pages grow, so that a slow pace does not read many units to change one. Of partitions a step
/// takes only as many as the batch has, because more than the store knows is checked for those.
#[derive(Debug)]
pub struct StepPages {
    changes: u32,
    looks: u32,
    page: u32,
}

impl StepPages {
    pub fn new(batch: &PlanBatch, kind: UnitKind) -> Self {
        let page = batch.units.min(MAX_PLAN_STEP);
        let looks = if kind == UnitKind::Partition { page } else { MAX_PLAN_STEP };
        Self { changes: page, looks, page }
    }

    /// The units to read next, and the most of them to change; `None` if the step is complete.
    pub fn next(&self) -> Option<(u32, usize)> {
        (self.page > 0).then_some((self.page, self.changes as usize))
    }

    pub fn took(&mut self, read: usize, writes: &[PlanUnitWrite]) {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let changed = writes.iter().filter(|write| write.is_changed()).count();
        self.changes = self.changes.saturating_sub(count(changed));
        self.looks = self.looks.saturating_sub(count(read));
        let more = self.changes > 0 && count(read) == self.page;
        self.page = if more { (self.page * 2).min(self.looks) } else { 0 };
    }
}

#[async_trait]
pub trait Plans: Send + Sync {
    /// Creates a draft without units. Journal action `plan.create`.
    async fn create_plan(&self, plan: &NewPlan) -> Result<PlanId>;

    /// Adds units to a draft; a unit that it has already stays as it is. Stale if the list is complete.
    async fn add_plan_units(&self, id: PlanId, units: &[PlannedUnit]) -> Result<Written>;

    /// Completes the list of units of a draft.
    async fn freeze_plan(&self, id: PlanId, at: Timestamp) -> Result<Written>;

    /// Removes up to `limit` units of a draft, and the draft once it has none. Returns whether units are left. A draft of which
    /// units were removed cannot be applied. Journal action `plan.discard`.
    async fn discard_plan(&self, id: PlanId, limit: u32, by: &Operator) -> Result<bool>;

    /// Plans by id; unknown ids are omitted.
    async fn plans_by_id(&self, ids: &[PlanId]) -> Result<Vec<PlanRecord>>;

    /// A page of plans with ids below `before`, the newest first, without those whose action this version does not know.
    async fn plans_page(&self, before: PlanId, limit: u32) -> Result<Vec<PlanRecord>>;

    /// Plans that run or are paused, the newest first, without those whose action this version does not know.
    async fn live_plans(&self, limit: u32) -> Result<Vec<PlanRecord>>;

    /// A page of the units of a plan with ids above `after`, by id: all, or those with an outcome.
    async fn plan_units_page(
        &self,
        id: PlanId,
        outcome: Option<PlanOutcome>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlanUnitRecord>>;

    /// The units of a plan, counted by frozen state, cause, outcome and why they are not changed, the most units first. Reads
    /// counts that are kept with every write, or all units of a plan that was made before migration 0019.
    async fn plan_unit_counts(&self, id: PlanId) -> Result<Vec<PlanUnitCount>>;

    /// The same from the units themselves: reads all.
    async fn count_plan_units(&self, id: PlanId) -> Result<Vec<PlanUnitCount>>;

    /// The units of a plan that ended after they were tried again, counted by outcome in about `periods` periods of the same
    /// length, from the first outcome to the last. Empty for plans that were made before migration 0019.
    async fn plan_outcomes(&self, id: PlanId, periods: u32) -> Result<Vec<PlanOutcomeCount>>;

    /// Units of a kind by id, as they are now and without their data; unknown ids are omitted.
    async fn units_by_id(&self, kind: UnitKind, ids: &[i64]) -> Result<Vec<PlanUnit>>;

    /// Notes why the plan must not change some units that it has not come to: what the store does not know. Stale if the
    /// lease is lost.
    async fn refuse_plan_units(
        &self,
        lease: LeaseRef,
        refusals: &[(i64, String)],
    ) -> Result<Written>;

    /// Carries out an operator's order, with a journal entry.
    async fn change_plan(&self, id: PlanId, order: &PlanOrder, by: &Operator)
    -> Result<PlanChange>;

    /// Claims plans that have work and no executor, or one whose lease has ended; the oldest first. Plans whose action this
    /// version does not know are left to newer ones.
    async fn claim_plans(&self, claim: &PlanClaim) -> Result<Vec<PlanRecord>>;

    /// Extends the lease, and returns the plan as it is. `None`, as in the methods below, if the lease is lost.
    async fn renew_plan(&self, lease: LeaseRef, until: Timestamp) -> Result<Option<PlanRecord>>;

    async fn release_plan(&self, lease: LeaseRef) -> Result<Written>;

    /// Takes the next units of a running plan, changes those that are as they were frozen, and notes the outcomes, in one
    /// transaction. Each changed unit has the journal entry of an operator's action, which names the plan. Changes nothing
    /// if another step was made since the batch was decided.
    async fn step_plan(
        &self,
        lease: LeaseRef,
        batch: &PlanBatch,
        at: Timestamp,
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
