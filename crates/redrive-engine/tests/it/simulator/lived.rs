//! What is left of a world: what happened, and what is stored.

use std::{collections::BTreeMap, sync::Arc};

use redrive_core::RunId;
use redrive_store::{
    AttemptRecord, JournalFilter, JournalRecord, LedgerPlace, MAX_PAGE, RunRecord, Selection,
    Store, UnitKind,
};

use super::{
    attempt_logs::{self, AttemptLogTexts},
    clock::SimClock,
    log::{Event, Log},
    plan::Plan,
    script::Script,
};

/// A world that has lived.
pub(crate) struct Lived {
    pub(crate) plan: Plan,
    pub(crate) script: Script,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) events: Vec<Event>,
    pub(crate) runs: Vec<RunRecord>,
    /// By run.
    pub(crate) attempts: BTreeMap<i64, Vec<AttemptRecord>>,
    pub(crate) journal: Vec<JournalRecord>,
    pub(crate) logs: AttemptLogTexts,
    /// What was found wrong on the way.
    pub(crate) problems: Vec<String>,
}

impl Lived {
    /// Reads everything that is stored. No world fills a page.
    pub(crate) async fn new(
        plan: Plan,
        script: Script,
        clock: Arc<SimClock>,
        log: &Log,
        store: &dyn Store,
        problems: Vec<String>,
    ) -> Self {
        let all = Selection::default();
        let runs = store.runs_page(&all, RunId(0), MAX_PAGE.into()).await.unwrap();
        let start = LedgerPlace::start();
        let ledger = store.ledger_page(UnitKind::Run, &start, MAX_PAGE).await.unwrap();
        let journal = store.journal_page(&JournalFilter::default(), 0, MAX_PAGE).await.unwrap();
        for count in [runs.len(), ledger.len(), journal.len()] {
            assert!(count < MAX_PAGE as usize, "{count} rows may not be all");
        }
        let mut attempts: BTreeMap<i64, Vec<AttemptRecord>> = BTreeMap::new();
        for attempt in ledger {
            attempts.entry(attempt.unit.id).or_default().push(attempt);
        }
        let logs = attempt_logs::read(&attempts, store).await;
        Self { plan, script, clock, events: log.events(), runs, attempts, journal, logs, problems }
    }
}
