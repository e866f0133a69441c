//! Those who do not extract: operators, daemons and consumers.

use std::sync::Arc;

use redrive_core::PartitionKey;
use redrive_engine::{
    Clock, Consumer, Control, Daemon, PartitionCommand, PartitionRules, PartitionSelection,
    RawSink, RunMode,
};
use redrive_store::{AuditContext, Lane, Operator, PartitionAction, Selection, Store};

use super::plan::{Plan, SourcePlan};
use crate::simulator::{
    chance::Chance,
    clock::SimClock,
    log::{Log, What},
};

/// What a daemon is called: the log tells by it who asked.
pub(crate) const DAEMON: &str = "daemon-";

/// One way to the store, with somebody at it.
#[derive(Clone)]
pub(crate) struct Operators {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) rules: PartitionRules,
    pub(crate) sink: RawSink,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) log: Arc<Log>,
    pub(crate) who: String,
}

impl Operators {
    fn control(&self) -> Control {
        Control::new(self.store.clone(), self.rules.clone(), self.sink.clone())
    }

    pub(crate) fn daemon(&self) -> Daemon {
        Daemon::new(self.control(), self.who.clone()).with_clock(self.clock.clone())
    }

    /// Does one thing that operators do. One who hears nothing leaves it at that.
    pub(crate) async fn meddle(self, plan: Arc<Plan>, mut chance: Chance) {
        let source = chance.pick(&plan.sources);
        let action = some_wish(&mut chance);
        let selection = self.some_selection(source, action, &mut chance);
        let filter = match &selection {
            PartitionSelection::Filter(filter) => Some(filter.to_json().to_string()),
            PartitionSelection::Grid(_) => None,
        };
        let by = Operator { actor: self.who.clone(), at: self.clock.now(), reason: None };
        let order = AuditContext { by, command: "state".to_owned(), filter, flags: Vec::new() };
        let mut command = PartitionCommand::new(action, order);
        if chance.one_in(2) {
            command = command.forced();
        }
        let mode = if chance.one_in(8) { RunMode::DryRun } else { RunMode::Real };
        let control = self.control();
        let mut sweep = control.sweep(&command, &selection, mode);
        while let Ok(Some(_)) = sweep.next().await {}
    }

    fn some_selection(
        &self,
        source: &SourcePlan,
        action: PartitionAction,
        chance: &mut Chance,
    ) -> PartitionSelection {
        if matches!(action, PartitionAction::Backfill { .. }) {
            return PartitionSelection::Grid(source.grid());
        }
        PartitionSelection::Filter(Box::new(source.some_filter(chance)))
    }

    /// Reads something that is said to be good, and is surprised by nothing.
    pub(crate) async fn consume(self, mut chance: Chance) -> Result<(), String> {
        let consumer = Consumer::new(self.store.clone(), self.sink.clone());
        let Ok(page) = consumer.page(&Selection::default(), None, 100).await else {
            return Ok(());
        };
        if page.is_empty() {
            return Ok(());
        }
        let found = chance.pick(&page);
        let problem =
            |what: String| Err(format!("reading {} of {}: {what}", found.run_id, found.key));
        let mut rows = match consumer.read_run(found).await {
            Ok(rows) => rows,
            Err(error) => return problem(error.to_string()),
        };
        let mut bytes = Vec::new();
        loop {
            match rows.next().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return problem(error.in_words()),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let own = format!("\"run_id\":\"{}\"", found.run_id);
        if let Some(line) = text.lines().find(|line| !line.contains(&own)) {
            return problem(format!("it holds {line}"));
        }
        if found.record_count != Some(text.lines().count() as u64) {
            return problem(format!("record_count is {:?}", found.record_count));
        }
        let (key, run_id): (PartitionKey, _) = (found.key.clone(), found.run_id.clone());
        self.log.add(&self.who, What::Consumed { key, run_id });
        Ok(())
    }
}

fn some_wish(chance: &mut Chance) -> PartitionAction {
    let lane = *chance.pick(&Lane::ALL);
    match chance.between(0, 11) {
        0..=1 => PartitionAction::Backfill { force_pending: false, lane },
        2 => PartitionAction::Backfill { force_pending: true, lane },
        3..=4 => PartitionAction::Retry { clear_terminal: false, lane },
        5 => PartitionAction::Retry { clear_terminal: true, lane },
        6..=7 => PartitionAction::Reprocess { lane },
        8 => PartitionAction::MarkTerminal,
        9 => PartitionAction::ClearTerminal,
        10 => PartitionAction::Pause,
        _ => PartitionAction::Resume,
    }
}
