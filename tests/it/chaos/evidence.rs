//! What is known afterwards: from the handlers, from the store, and from whoever received items.

use std::collections::BTreeMap;

use redrive::{
    Cause, ItemId, PipelineRunId, RunId, SampleId, Selection, Store, Unit,
    jiff::Timestamp,
    serde_json::Value,
    store::{AttemptOutcome, AttemptRecord, JournalFilter, LedgerPlace, PageLimit, UnitKind},
};

use super::site::{Receipt, ServerSetup};

const PAGE: u32 = 1_000;

/// One execution of a unit, as it can be told from every other. What was handed back is tried again
/// under its number; a partition's run is begun once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Execution {
    pub(super) unit: String,
    /// The run of a partition; the number of the attempt for every other kind.
    pub(super) which: String,
}

/// What a handler wrote down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    Begin,
    Ok,
    Fail,
}

/// A row of the ledger.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) execution: Execution,
    pub(super) kind: UnitKind,
    pub(super) outcome: AttemptOutcome,
    pub(super) cause: Option<Cause>,
    /// How the failure was classified.
    pub(super) class: Option<String>,
    pub(super) worker: String,
    pub(super) started_at: Timestamp,
    pub(super) ended_at: Timestamp,
}

impl Attempt {
    pub(super) fn is_lost(&self) -> bool {
        self.cause == Some(Cause::LostWorker)
    }

    pub(super) fn is_done(&self) -> bool {
        matches!(self.outcome, AttemptOutcome::Success | AttemptOutcome::Skipped)
    }
}

/// An entry of the journal about a unit.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) unit: String,
    pub(super) action: String,
    /// The run of a partition it is about.
    pub(super) run_id: Option<String>,
}

/// A unit as it ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) unit: String,
    pub(super) status: String,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// In the order in which it was written.
    pub(super) notes: Vec<(Noted, Execution)>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) journal: Vec<Told>,
    /// Runs by queue and key. All have one.
    pub(super) runs: Vec<((String, String), Ended)>,
    pub(super) partitions: Vec<Ended>,
    /// Items by group and name, with the key under which they are sent.
    pub(super) items: Vec<((String, String), Ended)>,
    /// Runs of the pipeline, with what became of their samples: succeeded, skipped, dead, in all.
    pub(super) mills: Vec<(i64, String, [u64; 4])>,
    /// What each of them has to show, line by line.
    pub(super) outputs: BTreeMap<i64, Vec<String>>,
    pub(super) receipts: Vec<Receipt>,
}

/// Gathers it from a site at which nothing happens any more.
pub(super) fn gather(site: &ServerSetup) -> Evidence {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut evidence = runtime.block_on(async {
        let store = redrive::open(&site.own_store()).await.unwrap();
        read_store(&*store).await
    });
    evidence.notes = site.folder.read("ledger").lines().map(note).collect();
    evidence.receipts = site.receipts();
    let mills: Vec<i64> = evidence.mills.iter().map(|(id, ..)| *id).collect();
    for id in mills {
        // A run that never came to its end says so beside its output.
        let output = site.ask(&["pipeline", "output", &id.to_string()]).stdout;
        evidence.outputs.insert(id, output.lines().map(str::to_owned).collect());
    }
    evidence
}

fn note(line: &str) -> (Noted, Execution) {
    let [what, unit, number, run] = line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("a handler wrote {line:?}")
    };
    let noted = match what {
        "begin" => Noted::Begin,
        "ok" => Noted::Ok,
        "fail" => Noted::Fail,
        _ => panic!("a handler wrote {line:?}"),
    };
    let which = if run == "-" { number } else { run };
    (noted, Execution { unit: unit.to_owned(), which: which.to_owned() })
}

async fn read_store(store: &dyn Store) -> Evidence {
    let mut evidence = Evidence::default();
    let mut partitions = BTreeMap::new();
    let mut after = None;
    loop {
        let page = store.partitions_page(&Selection::default(), after.as_ref(), PAGE.into()).await;
        let page = page.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.key.clone());
        for partition in page {
            let unit = Unit::Partition(partition.key.clone()).to_string();
            partitions.insert(partition.id.0, unit.clone());
            evidence.partitions.push(Ended { unit, status: partition.status.name().to_owned() });
        }
    }
    let mut after = RunId(0);
    loop {
        let page = store.runs_page(&Selection::default(), after, PAGE.into()).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.id;
        for run in page {
            let key = (run.queue, run.idempotency_key.unwrap());
            let unit = Unit::Run(run.id).to_string();
            evidence.runs.push((key, Ended { unit, status: run.status.name().to_owned() }));
        }
    }
    let mut after = ItemId(0);
    loop {
        let page = store.items_page(&Selection::default(), after, PAGE.into()).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.id;
        for item in page {
            let unit = Unit::Item(item.id).to_string();
            let ended = Ended { unit, status: item.status.name().to_owned() };
            evidence.items.push(((item.group.group, item.name), ended));
        }
    }
    evidence.mills = read_mills(store).await;
    for kind in UnitKind::ALL {
        read_ledger(store, kind, &partitions, &mut evidence.attempts).await;
    }
    evidence.journal = read_journal(store).await;
    evidence
}

async fn read_mills(store: &dyn Store) -> Vec<(i64, String, [u64; 4])> {
    let page = store
        .pipeline_runs_page(
            &Selection::default(),
            PipelineRunId(i64::MAX),
            PageLimit::from(PAGE).newest_first(),
        )
        .await;
    let mut mills = Vec::new();
    for run in page.unwrap() {
        let mut counts = [0; 4];
        let filter = Selection { run: Some(run.id), ..Selection::default() };
        let mut after = SampleId(0);
        loop {
            let page = store.samples_page(&filter, after, PAGE.into()).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.id;
            for sample in page {
                counts[3] += 1;
                match sample.status.name() {
                    "succeeded" => counts[0] += 1,
                    "skipped" => counts[1] += 1,
                    "dlq" => counts[2] += 1,
                    _ => {}
                }
            }
        }
        mills.push((run.id.0, run.progress.status.name().to_owned(), counts));
    }
    mills
}

async fn read_ledger(
    store: &dyn Store,
    kind: UnitKind,
    partitions: &BTreeMap<i64, String>,
    attempts: &mut Vec<Attempt>,
) {
    let mut after = LedgerPlace::start();
    loop {
        let page = store.ledger_page(kind, &after, PAGE).await.unwrap();
        let Some(last) = page.last() else { return };
        after = LedgerPlace::from(last);
        attempts.extend(page.into_iter().map(|row| attempt(row, partitions)));
    }
}

fn attempt(row: AttemptRecord, partitions: &BTreeMap<i64, String>) -> Attempt {
    let unit = match row.unit.kind {
        UnitKind::Partition => partitions[&row.unit.id].clone(),
        UnitKind::Run => Unit::Run(RunId(row.unit.id)).to_string(),
        UnitKind::Item => Unit::Item(ItemId(row.unit.id)).to_string(),
        UnitKind::Sample => {
            Unit::Sample { id: SampleId(row.unit.id), stage: row.unit.stage.clone() }.to_string()
        }
    };
    let which = row.run_id.unwrap_or_else(|| row.attempt.to_string());
    Attempt {
        execution: Execution { unit, which },
        kind: row.unit.kind,
        outcome: row.outcome,
        cause: row.cause,
        class: row.class,
        worker: row.worker,
        started_at: row.started_at,
        ended_at: row.ended_at,
    }
}

async fn read_journal(store: &dyn Store) -> Vec<Told> {
    let (mut journal, mut after) = (Vec::new(), 0);
    loop {
        let page = store.journal_page(&JournalFilter::default(), after, PAGE).await.unwrap();
        let Some(last) = page.last() else { return journal };
        after = last.id;
        for entry in page.into_iter().map(|record| record.entry) {
            let details: Value = redrive::serde_json::from_str(&entry.details).unwrap();
            let run_id = details["run_id"].as_str().map(str::to_owned);
            let Some(unit) = entry.unit else { continue };
            journal.push(Told { unit, action: entry.action, run_id });
        }
    }
}
