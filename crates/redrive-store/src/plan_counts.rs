//! Units of a plan that are alike, counted as they are written, so that a plan of a million units is shown without reading them.
//!
//! Units that ended are also counted by the time of their outcome. The periods get longer with the age of the plan, so that
//! their number stays small.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use redrive_core::PlanStatus;
use xxhash_rust::xxh3::xxh3_64;

use crate::{PlanOutcome, PlanRecord, PlanUnitRecord, PlanUnitWrite, PlannedUnit};

/// A period lasts at least this part of the time since the plan was started.
const PERIODS: i64 = 64;

/// Units that are alike in what a plan shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlanGroup {
    pub state: String,
    pub cause: Option<String>,
    /// Why they are not changed, or were not expected to be.
    pub refusal: Option<String>,
    pub outcome: Option<PlanOutcome>,
    pub new_cause: Option<String>,
    /// The second in which the period of their outcomes begins; none unless they were tried again and ended.
    pub ended_from: Option<i64>,
}

/// How many units a write adds to a group; below 0 if it takes some away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanCountChange {
    pub group: PlanGroup,
    pub units: i64,
}

impl PlanGroup {
    /// The key of the group. Reasons may be too long for an index.
    pub fn key(&self) -> i64 {
        let Self { state, cause, refusal, outcome, new_cause, ended_from } = self;
        let outcome = outcome.map(PlanOutcome::name);
        let parts = [Some(state.as_str()), cause.as_deref(), refusal.as_deref(), outcome];
        let mut text = ended_from.map_or_else(String::new, |from| from.to_string());
        for part in parts.into_iter().chain([new_cause.as_deref()]) {
            // Absent is not empty.
            text.push(if part.is_some() { '\u{1}' } else { '\u{2}' });
            text.push_str(part.unwrap_or_default());
        }
        xxh3_64(text.as_bytes()).cast_signed()
    }

    fn untouched(state: &str, cause: Option<&String>, refusal: Option<&String>) -> Self {
        Self {
            state: state.to_owned(),
            cause: cause.cloned(),
            refusal: refusal.cloned(),
            outcome: None,
            new_cause: None,
            ended_from: None,
        }
    }
}

/// What happens to the counts of a plan in one transaction.
#[derive(Debug, Default)]
struct Changes(BTreeMap<PlanGroup, i64>);

impl Changes {
    fn add(&mut self, group: PlanGroup, units: i64) {
        *self.0.entry(group).or_default() += units;
    }

    fn list(self) -> Vec<PlanCountChange> {
        let changes = self.0.into_iter().filter(|(_, units)| *units != 0);
        changes.map(|(group, units)| PlanCountChange { group, units }).collect()
    }
}

/// Units that were added to a list.
pub fn listed_counts<'a>(units: impl Iterator<Item = &'a PlannedUnit>) -> Vec<PlanCountChange> {
    let mut changes = Changes::default();
    for PlannedUnit { state, cause, refusal, .. } in units {
        changes.add(PlanGroup::untouched(state, cause.as_ref(), refusal.as_ref()), 1);
    }
    changes.list()
}

/// Units that the plan has not come to, by state and cause, and now must not change.
pub fn refused_counts<'a>(
    units: impl Iterator<Item = (&'a str, Option<&'a String>, &'a String)>,
) -> Vec<PlanCountChange> {
    let mut changes = Changes::default();
    for (state, cause, refusal) in units {
        changes.add(PlanGroup::untouched(state, cause, None), -1);
        changes.add(PlanGroup::untouched(state, cause, Some(refusal)), 1);
    }
    changes.list()
}

impl PlanRecord {
    /// The counts that change with the outcomes of units, which were read in the same transaction.
    pub fn count_changes(
        &self,
        units: &[PlanUnitRecord],
        writes: &[PlanUnitWrite],
        at: Timestamp,
    ) -> Vec<PlanCountChange> {
        let units: HashMap<i64, &PlanUnitRecord> =
            units.iter().map(|unit| (unit.unit_id, unit)).collect();
        let mut changes = Changes::default();
        for write in writes {
            let Some(unit) = units.get(&write.unit_id) else { continue };
            let refusal = unit.reason.as_ref().or(unit.refusal.as_ref());
            let before = PlanGroup {
                outcome: unit.outcome,
                ..PlanGroup::untouched(&unit.state, unit.cause.as_ref(), refusal)
            };
            let after = PlanGroup {
                refusal: write.reason.clone().or_else(|| unit.refusal.clone()),
                outcome: Some(write.outcome),
                new_cause: write.new_cause.clone(),
                ended_from: write.outcome.is_end().then(|| self.period(at)),
                ..before.clone()
            };
            changes.add(before, -1);
            changes.add(after, 1);
        }
        changes.list()
    }

    /// The second in which the period of a time begins.
    fn period(&self, at: Timestamp) -> i64 {
        let (at, started) = (at.as_second(), self.started_at.map_or(0, Timestamp::as_second));
        let age = at.saturating_sub(started).max(0);
        let length = u64::try_from(age / PERIODS + i64::from(age % PERIODS > 0)).unwrap_or(1);
        let length = i64::try_from(length.max(1).next_power_of_two()).unwrap_or(1);
        at - age % length
    }

    /// Whether a list gets its first units. Those of plans that were made before units were counted have no counts.
    pub fn begins_counts(&self) -> bool {
        self.status == PlanStatus::Draft && self.counts.total == 0
    }
}
