//! Polls the journal and submits events.
//!
//! With several writers an entry may become visible after one with a higher id. So recent entries are read again
//! for a while, until no transaction can still add one before them. Events that were submitted already are
//! recognised by their idempotency key.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use redrive_core::{PartitionKey, PipelineRunId, RunId, Unit};
use redrive_store::{
    JournalFilter, JournalRecord, NewRun, PartitionRecord, PipelineRunRecord, Result, RunRecord,
    Store, SubmittedRun,
};
use serde_json::Value;

use super::{Notifier, RESERVED_QUEUES, cloud_event::CloudEvent};
use redrive_retry::{Clock, Stop};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Recent entries are read again after this many polls.
const POLLS_PER_CATCH_UP: u64 = 60;

const JOURNAL_PAGE: u32 = 500;

/// Small, because each run may have a large payload.
const RUNS_PER_LOOKUP: usize = 50;

pub(crate) struct NotifierLoop {
    pub(crate) notifier: Notifier,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl NotifierLoop {
    /// Registers a new notifier at the end of the journal: only later entries make events.
    pub(crate) async fn begin(&self) {
        let registered =
            self.store.journal_reader(&self.notifier.queue.name, self.store.now()).await;
        if let Err(error) = registered {
            self.warn(&error);
        }
    }

    /// Runs until the stop.
    pub(crate) async fn run(self, mut stop: Stop) {
        tokio::select! {
            () = stop.stopped() => {}
            () = self.poll() => {}
        }
    }

    async fn poll(&self) {
        let mut read_to = None;
        for poll in 0_u64.. {
            let read = match read_to {
                Some(place) if poll % POLLS_PER_CATCH_UP != 0 => self.read_from(place).await,
                _ => self.catch_up().await,
            };
            read_to = match read {
                Ok(place) => Some(place),
                Err(error) => {
                    self.warn(&error);
                    None
                }
            };
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Reads to the end of the journal once.
    pub(crate) async fn read_all(&self) {
        if let Err(error) = self.catch_up().await {
            self.warn(&error);
        }
    }

    fn warn(&self, error: &redrive_store::Error) {
        let error = error as &dyn std::error::Error;
        tracing::warn!(
            notifier = self.notifier.name,
            error,
            "cannot read the journal for notifications"
        );
    }

    /// Reads from the last position before which no entry can appear any more, saves the new position, and returns
    /// the end.
    async fn catch_up(&self) -> Result<i64> {
        let (store, name) = (&self.store, self.notifier.queue.name.as_str());
        let place = store.journal_reader(name, store.now()).await?;
        let started = store.now();
        let end = self.read_from(place.settled).await?;
        if let Some(next) = place.moved(end, started) {
            // A stale write means that another process has read as far.
            let _ = store.move_journal_reader(name, &place, &next).await?;
        }
        Ok(end)
    }

    /// Submits the events of all entries after an id; returns the last id.
    async fn read_from(&self, mut place: i64) -> Result<i64> {
        loop {
            let page =
                self.store.journal_page(&JournalFilter::default(), place, JOURNAL_PAGE).await?;
            let Some(last) = page.last() else { return Ok(place) };
            place = last.id;
            let events = self.events(&page).await?;
            self.submit(&events).await?;
        }
    }

    async fn events(&self, page: &[JournalRecord]) -> Result<Vec<CloudEvent>> {
        let wanted = self.notifier.events;
        let mut events = Vec::new();
        if wanted.giveups {
            let runs = self.given_up_runs(page).await?;
            let partitions = self.given_up_partitions(page).await?;
            events.extend(page.iter().filter_map(|record| giveup(record, &runs, &partitions)));
        }
        let returned = |record: &&JournalRecord| record.entry.action == "cause.return";
        let returns = page.iter().filter(|_| wanted.cause_returns).filter(returned);
        events.extend(returns.map(CloudEvent::of_cause));
        let of_gate = |record: &&JournalRecord| record.entry.action.starts_with("gate.");
        let gates = page.iter().filter(|_| wanted.gates).filter(of_gate);
        events.extend(gates.map(CloudEvent::of_gate));
        let aborted = |record: &&JournalRecord| record.entry.action == "pipeline.abort";
        let aborts: Vec<_> = page.iter().filter(|_| wanted.aborts).filter(aborted).collect();
        let mut deaths: BTreeMap<PipelineRunId, Timestamp> = BTreeMap::new();
        for record in page.iter().filter(|record| record.entry.action == "sample.dead") {
            if let Some(run) = pipeline_run(&record.entry.details) {
                deaths.insert(run, record.entry.at);
            }
        }
        let deaths = wanted.dead_letters.map(|every| (every, deaths));
        let of_abort = |record: &JournalRecord| pipeline_run(record.entry.filter.as_deref()?);
        let mut named: BTreeSet<PipelineRunId> =
            aborts.iter().filter_map(|it| of_abort(it)).collect();
        named.extend(deaths.iter().flat_map(|(_, deaths)| deaths.keys()));
        let runs = self.pipeline_runs(named).await?;
        for record in aborts {
            let run = of_abort(record).and_then(|id| runs.get(&id));
            events.extend(run.map(|run| CloudEvent::of_abort(record, run)));
        }
        if let Some((every, deaths)) = deaths {
            for (id, at) in deaths {
                let run = runs.get(&id);
                events.extend(run.and_then(|run| CloudEvent::of_dead_letters(run, every, at)));
            }
        }
        Ok(events)
    }

    async fn given_up_runs(&self, page: &[JournalRecord]) -> Result<BTreeMap<RunId, RunRecord>> {
        let given_up = page.iter().filter(|record| record.entry.action == "run.giveup");
        let ids: Vec<RunId> = given_up
            .filter_map(|record| match unit_of(record)? {
                Unit::Run(id) => Some(id),
                Unit::Partition(_) | Unit::Item(_) | Unit::Sample { .. } => None,
            })
            .collect();
        let mut runs = BTreeMap::new();
        for ids in ids.chunks(RUNS_PER_LOOKUP) {
            for mut run in self.store.runs_by_id(ids).await? {
                // Not part of the event; dropped to save memory.
                (run.payload, run.result) = (String::new(), None);
                runs.insert(run.id, run);
            }
        }
        Ok(runs)
    }

    /// By unit.
    async fn given_up_partitions(
        &self,
        page: &[JournalRecord],
    ) -> Result<HashMap<String, PartitionRecord>> {
        let given_up = page.iter().filter(|record| record.entry.action == "partition.giveup");
        let keys: Vec<PartitionKey> = given_up
            .filter_map(|record| match unit_of(record)? {
                Unit::Partition(key) => Some(key),
                Unit::Run(_) | Unit::Item(_) | Unit::Sample { .. } => None,
            })
            .collect();
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let found = self.store.partitions_by_key(&keys).await?.into_iter().flatten();
        let by_unit = |partition: PartitionRecord| {
            (Unit::Partition(partition.key.clone()).to_string(), partition)
        };
        Ok(found.map(by_unit).collect())
    }

    async fn pipeline_runs(
        &self,
        ids: BTreeSet<PipelineRunId>,
    ) -> Result<BTreeMap<PipelineRunId, PipelineRunRecord>> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<_> = ids.into_iter().collect();
        let runs = self.store.pipeline_runs_by_id(&ids).await?;
        Ok(runs.into_iter().map(|run| (run.id, run)).collect())
    }

    /// Submits events as runs. An event that was submitted before is ignored, even if its data has changed since.
    async fn submit(&self, events: &[CloudEvent]) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let (notifier, now) = (&self.notifier, self.clock.now());
        let run = |event: &CloudEvent| {
            NewRun::new(&notifier.queue.name, &event.to_json(&notifier.source), now)?
                .with_idempotency_key(&event.id)
        };
        let runs: std::result::Result<Vec<NewRun>, _> = events.iter().map(run).collect();
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) => {
                tracing::error!(notifier = notifier.name, %error, "cannot submit events: an event is no valid run");
                return Ok(());
            }
        };
        let submitted = self.store.submit_runs(&runs, now).await?;
        for (event, submitted) in events.iter().zip(submitted) {
            if let SubmittedRun::Accepted(run) = submitted {
                let CloudEvent { kind, subject, .. } = event;
                tracing::info!(
                    notifier = notifier.name,
                    event = kind,
                    subject,
                    run = run.0,
                    "submitted a notification"
                );
            }
        }
        Ok(())
    }
}

fn giveup(
    record: &JournalRecord,
    runs: &BTreeMap<RunId, RunRecord>,
    partitions: &HashMap<String, PartitionRecord>,
) -> Option<CloudEvent> {
    let unit = unit_of(record)?;
    match (record.entry.action.as_str(), &unit) {
        ("run.giveup", Unit::Run(id)) => runs
            .get(id)
            .filter(|run| !run.queue.starts_with(RESERVED_QUEUES))
            .map(|run| CloudEvent::of_run(record, run)),
        ("partition.giveup", Unit::Partition(key)) => {
            Some(CloudEvent::of_partition(record, key, partitions.get(&unit.to_string())))
        }
        ("upload.giveup", Unit::Item(_)) => Some(CloudEvent::of_item(record, &unit)),
        _ => None,
    }
}

fn unit_of(record: &JournalRecord) -> Option<Unit> {
    record.entry.unit.as_deref()?.parse().ok()
}

fn pipeline_run(json: &str) -> Option<PipelineRunId> {
    let value: Value = serde_json::from_str(json).ok()?;
    value.get("pipeline_run").and_then(Value::as_i64).map(PipelineRunId)
}
