//! How long gates were closed, from the journal: time that does not count towards `max_age` (GAT-2).

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use redrive_core::{History, Policy};
use redrive_store::{GateRule, GateRules, JournalFilter, Result, Store, gate_name};

const PAGE: u32 = 100;

type Period = (Timestamp, Timestamp);

/// Notes in the histories of units, which come with their keys, for how long their gates were closed since their first attempts.
pub(crate) async fn note_closed_time<'a>(
    store: &dyn Store,
    rules: &GateRules,
    policy: &Policy,
    now: Timestamp,
    units: impl Iterator<Item = (&'a str, &'a mut History)>,
) {
    let rules: Vec<&GateRule> =
        rules.iter().filter(|rule| rule.settings.pauses_max_age()).collect();
    if policy.spec().max_age.is_none() || rules.is_empty() {
        return;
    }
    let mut known: HashMap<(&str, String), (Timestamp, Vec<Period>)> = HashMap::new();
    for (key, history) in units {
        let Some(first) = history.first_attempt_at else { continue };
        let mut periods = Vec::new();
        for rule in &rules {
            let name = gate_name(&rule.name, rule.key(key));
            let entry = known.entry((rule.name.as_str(), name.clone()));
            let known = entry.or_insert_with(|| (Timestamp::MAX, Vec::new()));
            if first < known.0 {
                match closed_periods(store, &name, first, now).await {
                    Ok(found) => *known = (first, found),
                    Err(error) => {
                        // A unit is not given up because of a time that is not known.
                        let error = &error as &dyn std::error::Error;
                        tracing::debug!(error, gate = name, "cannot read when the gate was closed");
                        *known = (first, vec![(first, Timestamp::MAX)]);
                    }
                }
            }
            periods.extend(known.1.iter().filter(|(_, until)| *until > first));
        }
        history.paused = covered(periods, first);
    }
}

/// When a gate was not open, from `since` to `now`, the newest period first.
async fn closed_periods(
    store: &dyn Store,
    gate: &str,
    since: Timestamp,
    now: Timestamp,
) -> Result<Vec<Period>> {
    let filter = JournalFilter { unit: Some(format!("gate:{gate}")), action: None };
    let (mut periods, mut until, mut before) = (Vec::new(), now, i64::MAX);
    loop {
        let page = store.newest_journal(&filter, before, PAGE).await?;
        let Some(oldest) = page.last() else { return Ok(periods) };
        before = oldest.id;
        for row in page {
            match row.entry.action.as_str() {
                "gate.closed" => periods.push((row.entry.at, until)),
                "gate.opened" => until = row.entry.at,
                _ => {}
            }
            if row.entry.at <= since {
                return Ok(periods);
            }
        }
    }
}

/// The time after `since` that periods cover, which may overlap.
fn covered(mut periods: Vec<Period>, since: Timestamp) -> Duration {
    periods.sort_unstable();
    let (mut sum, mut reached) = (Duration::ZERO, since);
    for (from, until) in periods {
        let length = until.duration_since(from.max(reached));
        sum = sum.saturating_add(Duration::try_from(length).unwrap_or_default());
        reached = reached.max(until);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    // GAT-2
    #[test]
    fn periods_that_overlap_count_once_and_only_after_the_first_attempt() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let check = |periods: &[(i64, i64)], expected| {
            let periods = periods.iter().map(|(from, until)| (at(*from), at(*until))).collect();
            assert_eq!(covered(periods, at(100)), Duration::from_secs(expected));
        };
        check(&[], 0);
        check(&[(0, 90)], 0);
        check(&[(0, 110)], 10);
        check(&[(150, 170), (100, 120)], 40);
        check(&[(100, 160), (110, 120), (150, 170)], 70);
        check(&[(120, 110)], 0);
    }
}
