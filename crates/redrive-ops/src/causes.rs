//! Causes: what failures of all kinds have in common.

use jiff::Timestamp;
use redrive_core::{PartitionId, PlanId, Unit};
use redrive_store::{
    CauseChange, CauseFilter, CauseRecord, JournalFilter, JournalRecord, MAX_CAUSES, MAX_PAGE,
    Operator, Result, Selection, StateFilter, UnitKind, Written, cause_unit, plan_unit_name,
};
use serde_json::Value;

use crate::{
    Ops,
    views::{CauseView, JournalView, last_day},
    words::json,
};

/// The newest plans, among which those of a cause are looked for.
const PLANS: u32 = 100;

/// Partitions among which terminal ones are looked for.
const TERMINAL_ROWS: u32 = 1_000;

impl Ops {
    /// Causes since a time, by default of the last day. A search looks for a text in messages and codes, in upper or
    /// lower case, among the first [`MAX_CAUSES`] causes.
    pub async fn causes(
        &self,
        kind: Option<UnitKind>,
        since: Option<Timestamp>,
        search: Option<&str>,
        limit: u32,
    ) -> Result<Vec<CauseView>> {
        let day = last_day(self.now());
        let since = since.unwrap_or(day);
        let hours_since = since.min(day);
        let rows = if search.is_some() { MAX_CAUSES } else { limit };
        let filter = CauseFilter { kind, fingerprint: None, since, hours_since, limit: rows };
        let mut causes = self.store().causes(&filter).await?;
        if let Some(text) = search.map(str::to_lowercase) {
            let has_text = |part: &str| part.to_lowercase().contains(&text);
            causes.retain(|cause| has_text(&cause.message) || has_text(&cause.code));
            causes.truncate(limit as usize);
        }
        self.views_of(causes, since).await
    }

    /// A cause with all that is known of it, and its journal, which names plans that were made for it.
    pub async fn cause(&self, fingerprint: &str) -> Result<Option<CauseView>> {
        let Some(cause) = self.one_cause(fingerprint).await? else { return Ok(None) };
        let filter = JournalFilter { unit: Some(cause_unit(fingerprint)), action: None };
        let mut entries = self.store().journal_page(&filter, 0, MAX_PAGE).await?;
        entries.extend(self.plans_made_for(fingerprint).await?);
        entries.sort_unstable_by_key(|record| record.id);
        let journal = Some(entries.into_iter().map(JournalView::from).collect());
        Ok(Some(CauseView { journal, ..cause }))
    }

    /// The journal entries of plans that were made for a cause, of the newest plans.
    async fn plans_made_for(&self, fingerprint: &str) -> Result<Vec<JournalRecord>> {
        let mut entries = Vec::new();
        for plan in self.store().plans_page(PlanId(i64::MAX), PLANS).await? {
            if json(&plan.selection).get("cause").and_then(Value::as_str) == Some(fingerprint) {
                let unit = Some(plan_unit_name(plan.id));
                let filter = JournalFilter { unit, action: Some("plan.create".to_owned()) };
                entries.extend(self.store().journal_page(&filter, 0, 1).await?);
            }
        }
        Ok(entries)
    }

    async fn one_cause(&self, fingerprint: &str) -> Result<Option<CauseView>> {
        let fingerprint = Some(fingerprint.to_owned());
        let since = Timestamp::UNIX_EPOCH;
        let filter = CauseFilter { kind: None, fingerprint, since, hours_since: since, limit: 1 };
        let found = self.store().causes(&filter).await?;
        Ok(self.views_of(found, since).await?.pop())
    }

    /// Whether failed partitions of a cause are terminal. If there are very many, some may be.
    pub async fn may_have_terminal(&self, fingerprint: &str) -> Result<bool> {
        let state = Some(StateFilter { status: "failed", waiting: Some(false) });
        let cause = Some(fingerprint.to_owned());
        let selection = Selection { cause, state, ..Selection::default() };
        let page = self.store().partitions_page(&selection, None, TERMINAL_ROWS.into()).await?;
        let (rules, now) = (self.partitions().rules(), self.now());
        let is_full = page.len() >= TERMINAL_ROWS as usize;
        Ok(is_full || page.iter().any(|partition| rules.selects(&selection, partition, now)))
    }

    /// Writes down what an operator knows of a cause, unless all of it is there already. False if no failure ever had
    /// the cause.
    pub async fn change_cause(
        &self,
        fingerprint: &str,
        change: CauseChange,
        by: &Operator,
    ) -> Result<bool> {
        let Some(cause) = self.one_cause(fingerprint).await? else { return Ok(false) };
        match change.unless_known(cause.note.as_deref(), cause.ticket.as_deref()) {
            None => Ok(true),
            Some(change) => {
                let written = self.store().change_cause(fingerprint, &change, by).await?;
                Ok(written == Written::Applied)
            }
        }
    }

    async fn views_of(&self, causes: Vec<CauseRecord>, since: Timestamp) -> Result<Vec<CauseView>> {
        let mut views = Vec::new();
        for cause in causes {
            let example = self.example(&cause).await?;
            views.push(CauseView::new(cause, example, since, self.now()));
        }
        Ok(views)
    }

    /// The counts store the row id of a partition; operators know the key.
    async fn example(&self, cause: &CauseRecord) -> Result<Option<String>> {
        let Some(last) = cause.hours.iter().max_by_key(|hour| hour.last_at) else {
            return Ok(None);
        };
        let id = last.unit_id;
        if last.kind == UnitKind::Partition {
            let before = PartitionId(id.saturating_sub(1));
            let found = self.store().partitions_by_id(before, 1).await?.pop();
            if let Some(found) = found.filter(|found| found.id.0 == id) {
                return Ok(Some(Unit::Partition(found.key).to_string()));
            }
        }
        Ok(Some(format!("{}:{id}", last.kind.name())))
    }
}
