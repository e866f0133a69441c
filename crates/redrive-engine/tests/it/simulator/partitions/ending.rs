//! What is left of a world of partitions, and whether it fits its story.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hasher,
};

use redrive_core::{PartitionKey, PartitionState, PartitionStatus, TerminalReason, Unit};
use redrive_engine::{PartitionRules, RawSink};
use redrive_store::{
    AttemptOutcome, AttemptRecord, JournalFilter, JournalRecord, Leased, LedgerPlace, MAX_PAGE,
    PartitionRecord, Selection, Store, UnitKind,
};

use super::{
    plan::Plan,
    story::{Story, Told},
};
use crate::simulator::{
    leases::lost_without_trouble,
    log::{Event, Log},
};

/// A world that has lived.
pub(crate) struct Lived {
    rules: PartitionRules,
    pub(crate) events: Vec<Event>,
    partitions: Vec<PartitionRecord>,
    /// By partition.
    attempts: BTreeMap<i64, Vec<AttemptRecord>>,
    journal: Vec<JournalRecord>,
    /// What was found wrong on the way.
    problems: Vec<String>,
}

impl Lived {
    /// Reads everything that is stored. No world fills a page.
    pub(crate) async fn new(
        plan: &Plan,
        log: &Log,
        store: &dyn Store,
        sink: &RawSink,
        mut problems: Vec<String>,
    ) -> Self {
        let all = Selection::default();
        let partitions = store.partitions_page(&all, None, MAX_PAGE.into()).await.unwrap();
        let start = LedgerPlace::start();
        let ledger = store.ledger_page(UnitKind::Partition, &start, MAX_PAGE).await.unwrap();
        let journal = store.journal_page(&JournalFilter::default(), 0, MAX_PAGE).await.unwrap();
        for count in [ledger.len(), journal.len()] {
            assert!(count < MAX_PAGE as usize, "{count} rows may not be all");
        }
        let mut attempts: BTreeMap<i64, Vec<AttemptRecord>> = BTreeMap::new();
        for attempt in ledger {
            attempts.entry(attempt.unit.id).or_default().push(attempt);
        }
        // Every run that was ever sealed is as it was sealed, whoever has authority.
        for key in partitions.iter().map(|partition| &partition.key) {
            for run in sink.runs(key).await.unwrap() {
                let verified = sink.verify(key, &run).await;
                problems.extend(verified.err().map(|error| error.in_words()));
            }
        }
        let (rules, events) = (plan.rules(), log.events());
        Self { rules, events, partitions, attempts, journal, problems }
    }

    /// Everything that is wrong with it; nothing, if all is well.
    pub(crate) fn judge(&self) -> Vec<String> {
        let story = Story::of(&self.events, &self.rules);
        let mut problems = self.problems.clone();
        problems.extend(story.problems.iter().cloned());
        problems.extend(lost_without_trouble(Leased::Partition, &self.events));
        let there: BTreeSet<&PartitionKey> =
            self.partitions.iter().map(|partition| &partition.key).collect();
        for (key, told) in &story.told {
            if told.state != PartitionState::Absent && !there.contains(key) {
                problems.push(format!("{key} is gone"));
            }
        }
        for partition in &self.partitions {
            let told = story.told.get(&partition.key).cloned().unwrap_or_default();
            problems.extend(self.compare(partition, &told));
        }
        problems
    }

    /// One number for everything that happened and everything that is stored.
    pub(crate) fn trace(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        for event in &self.events {
            hasher.write(format!("{event:?}").as_bytes());
        }
        let stored = (&self.partitions, &self.attempts, &self.journal);
        hasher.write(format!("{stored:?}").as_bytes());
        hasher.finish()
    }

    fn compare(&self, partition: &PartitionRecord, told: &Told) -> Vec<String> {
        let unit = Unit::Partition(partition.key.clone()).to_string();
        let ledger = self.attempts.get(&partition.id.0).map_or(&[][..], Vec::as_slice);
        let rows: Vec<(Option<&str>, bool)> = ledger
            .iter()
            .map(|row| (row.run_id.as_deref(), row.outcome == AttemptOutcome::Success))
            .collect();
        let verdicts: Vec<(Option<&str>, bool)> =
            told.verdicts.iter().map(|(run, good)| (Some(run.as_str()), *good)).collect();
        let now = self.events.last().unwrap().wall;
        let ended = match partition.status {
            PartitionStatus::Pending => false,
            PartitionStatus::Success => true,
            PartitionStatus::Failed => {
                let forecast = self.rules.forecast(partition, now);
                matches!(forecast, Some(redrive_core::RetryForecast::Terminal { .. }))
            }
        };
        let marked = |message: &str| message.contains("[terminal]");
        let mark = partition.error_message.as_deref().is_some_and(marked);
        let rules = [
            (partition.state() == told.state, "its state is not that of its story"),
            (partition.current_run_id == told.current, "its current run is not that of its story"),
            (partition.attempt_count as usize == verdicts.len(), "a verdict was not counted once"),
            (rows == verdicts, "the ledger does not tell its verdicts"),
            (partition.paused().is_some() == told.paused, "its pause is not that of its story"),
            (partition.work.is_none(), "something is left to do"),
            (ended, "it never came to its end"),
            (mark == (told.state == PartitionState::Terminal), "the mark is not an operator's"),
            (self.wishes_are_told(&unit, told), "the journal does not tell what was done to it"),
            (self.give_ups_are_told(&unit, partition), "its giving up is not told once"),
        ];
        let broken = rules.into_iter().filter(|(holds, _)| !holds);
        broken.map(|(_, rule)| format!("{unit}: {rule}: {partition:?} {told:?}")).collect()
    }

    fn wishes_are_told(&self, unit: &str, told: &Told) -> bool {
        let mut journal: BTreeMap<&str, usize> = BTreeMap::new();
        for action in self.actions_of(unit) {
            let of_workers = ["partition.handback", "partition.lease_lost", "partition.giveup"];
            if !of_workers.contains(&action) {
                *journal.entry(action).or_default() += 1;
            }
        }
        journal == told.actions
    }

    fn give_ups_are_told(&self, unit: &str, partition: &PartitionRecord) -> bool {
        let now = self.events.last().unwrap().wall;
        let forecast = self.rules.forecast(partition, now);
        let by_policy = matches!(
            forecast,
            Some(redrive_core::RetryForecast::Terminal { reason: TerminalReason::Policy(_) })
        );
        let key = format!("giveup:{unit}:{}", partition.attempt_count);
        let told = self.journal.iter().filter(|row| row.entry.dedupe_key.as_ref() == Some(&key));
        let told = told.count();
        // One that was given up may have been brought back by an operator, or marked.
        if by_policy { told == 1 } else { told <= 1 }
    }

    fn actions_of<'a>(&'a self, unit: &'a str) -> impl Iterator<Item = &'a str> {
        let of_unit = |row: &&JournalRecord| row.entry.unit.as_deref() == Some(unit);
        self.journal.iter().filter(of_unit).map(|row| row.entry.action.as_str())
    }
}
