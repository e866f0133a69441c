//! A dry run says what the real run does, whatever the partitions are and however they are asked for.

use redrive::{
    ChangeOutcome, ChangeRefusal, Clock, Control, DateRange, KeyGrid, Lane, PartitionAction,
    PartitionCommand, PartitionKey, PartitionOutcome, PartitionRecord, PartitionSelection,
    PartitionState, PartitionStatus, RunMode, Selection, SystemClock,
};

use crate::archive::{Archive, order};

/// Steps of a walk; each is a command on what the ones before left.
const STEPS: u32 = 120;

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % sides
    }

    fn heads(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn action(&mut self) -> PartitionAction {
        let lane = if self.heads() { Lane::Fresh } else { Lane::Backfill };
        match self.roll(7) {
            0 => PartitionAction::Retry { clear_terminal: self.heads(), lane },
            1 => PartitionAction::Reprocess { lane },
            2 => PartitionAction::Backfill { force_pending: self.heads(), lane },
            3 => PartitionAction::MarkTerminal,
            4 => PartitionAction::ClearTerminal,
            5 => PartitionAction::Pause,
            _ => PartitionAction::Resume,
        }
    }

    fn day(&mut self) -> redrive::LogicalDate {
        format!("2026-03-{:02}", 1 + self.roll(6)).parse().unwrap()
    }

    fn selection(&mut self, action: PartitionAction) -> PartitionSelection {
        let source = ["ads", "strict"][self.roll(2) as usize];
        let (a, b) = (self.day(), self.day());
        let (since, until) = (a.min(b), a.max(b));
        if action.makes_entries() {
            let customers = ["7", "8"].map(str::to_owned);
            let days = DateRange::new(since, until).unwrap();
            let grid = KeyGrid::new(source, &customers, &["daily".to_owned()], days);
            return PartitionSelection::Grid(grid.unwrap());
        }
        let some = |dice: &mut Self, text: &str| dice.heads().then(|| text.to_owned());
        PartitionSelection::Filter(Box::new(Selection {
            source: some(self, source),
            customer_id: some(self, "7"),
            query_name: some(self, "daily"),
            since: self.heads().then_some(since),
            until: self.heads().then_some(if self.heads() { until } else { since }),
            ..Selection::default()
        }))
    }
}

async fn swept(
    control: &Control,
    command: &PartitionCommand,
    selection: &PartitionSelection,
    mode: RunMode,
) -> Vec<PartitionOutcome> {
    let mut sweep = control.sweep(command, selection, mode);
    let mut outcomes = Vec::new();
    while let Some(page) = sweep.next().await.unwrap() {
        outcomes.extend(page);
    }
    outcomes
}

fn record<'a>(records: &'a [PartitionRecord], key: &PartitionKey) -> Option<&'a PartitionRecord> {
    records.iter().find(|record| &record.key == key)
}

// PAR-8, PAR-9
#[test]
fn a_dry_run_says_exactly_what_the_real_run_changes() {
    for archive in Archive::both() {
        let mut dice = Dice(7);
        let control = archive.control();
        let mut seen = std::collections::HashSet::new();
        for step in 0..STEPS {
            let action = dice.action();
            let mut command = PartitionCommand::new(action, order("test"));
            if dice.heads() {
                command = command.forced();
            }
            let selection = dice.selection(action);
            let before = archive.everything();
            let (dry, untouched, real, after) = archive.runtime.block_on(async {
                let dry = swept(&control, &command, &selection, RunMode::DryRun).await;
                let all = Selection::default();
                let untouched =
                    archive.store.partitions_page(&all, None, 1_000.into()).await.unwrap();
                let real = swept(&control, &command, &selection, RunMode::Real).await;
                let after = archive.store.partitions_page(&all, None, 1_000.into()).await.unwrap();
                (dry, untouched, real, after)
            });
            assert_eq!(untouched, before, "step {step}: a dry run changes nothing");
            // Nobody looks at what a plain backfill leaves to the store, so nobody counted its attempts.
            let fates = |outcomes: &[PartitionOutcome]| -> Vec<(PartitionKey, ChangeOutcome)> {
                outcomes.iter().map(|it| (it.key.clone(), it.change.clone())).collect()
            };
            assert_eq!(fates(&dry), fates(&real), "step {step}: {command:?} {selection:?}");
            let done: Vec<&PartitionKey> = real
                .iter()
                .filter(|outcome| matches!(outcome.change, ChangeOutcome::Done(_)))
                .map(|outcome| &outcome.key)
                .collect();
            for record_after in &after {
                let was = record(&before, &record_after.key);
                let changed = was != Some(record_after);
                assert_eq!(
                    changed,
                    done.contains(&&record_after.key),
                    "step {step}: {} {command:?}",
                    record_after.key
                );
                if let Some(was) = was {
                    assert_eq!(was.attempt_count, record_after.attempt_count);
                    assert_eq!(was.current_run_id, record_after.current_run_id);
                    assert_eq!(was.record_count, record_after.record_count);
                }
            }
            assert!(after.len() >= before.len());
            seen.extend(
                real.iter()
                    .map(|outcome| (action.action(), std::mem::discriminant(&outcome.change))),
            );
            for source in ["ads", "strict"] {
                let (good, raw) = (dice.heads(), dice.heads());
                archive.judge_some(source, good, raw);
            }
        }
        assert!(seen.len() > 12, "the walk met many fates: {}", seen.len());
        archive.run(&["state", "verify"]).ok();
    }
}

// PAR-8, DMN-2
#[test]
fn a_partition_that_changed_since_it_was_looked_at_is_left_alone() {
    for archive in Archive::both() {
        let key = archive.failed("ads/7/daily/2026-03-01", 1);
        let seen = archive.partition(&key).unwrap();
        // Somebody sends it back, and it fails once more.
        let retry = PartitionAction::Retry { clear_terminal: false, lane: Lane::Fresh };
        archive.done(retry, &key);
        archive.reject(&key, Clock::now(&SystemClock), true);
        let command = PartitionCommand::new(retry, order("daemon")).forced();
        let late = archive.control();
        let outcomes = late.change(&command, vec![seen], RunMode::Real);
        let outcomes = archive.runtime.block_on(outcomes).unwrap();
        let moved = ChangeOutcome::Refused(ChangeRefusal::Moved(PartitionState::Failed));
        assert_eq!(outcomes[0].change, moved, "its new wait has only begun");
        assert_eq!(archive.partition(&key).unwrap().attempt_count, 2);
        assert_eq!(archive.status(&key), PartitionStatus::Failed);
    }
}
