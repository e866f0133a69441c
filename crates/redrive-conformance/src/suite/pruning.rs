//! Pruning: which units may be removed, and how.

use jiff::Timestamp;
use redrive_core::{
    AttemptNumber, Epoch, GiveUpReason, PlanCounts, PlanId, RunId, RunStatus, SampleId,
};
use serde_json::json;

use super::{
    Fixture,
    attempt_logs::log,
    pipeline_samples::{answered, broken, counts, skipped},
    plans::RETRY,
    samples::{at, claim_of, give_up, operator, passed, retry, run},
};
use redrive_store::{
    AttemptRecord, ExportedUnit, LeaseRef, LeaseRelease, Leased, LedgerPlace, NewRun, PlanEnd,
    PlanPrune, PlanRecord, PruneFilter, PruneRecord, Pruned, PrunedPlan, PrunedSamples, RunRecord,
    SampleRecord, SubmittedRun, UnitKind, UnitRow, WorkerId, Written,
};

fn older_than(before: Timestamp) -> PruneFilter {
    PruneFilter { before, queue: None, pipeline: None }
}

fn exported(run: &RunRecord) -> ExportedUnit {
    ExportedUnit { id: run.id.0, attempts: run.attempts, epoch: run.lease_epoch }
}

fn exported_sample(sample: &SampleRecord) -> ExportedUnit {
    ExportedUnit { id: sample.id.0, attempts: sample.attempts, epoch: sample.lease_epoch }
}

fn record(name: &str, filter: &PruneFilter) -> PruneRecord {
    let (by, files) = (operator(at(1_000)), json!([]));
    PruneRecord { name: name.to_owned(), filter: filter.clone(), by, files }
}

impl Fixture {
    /// Tells the journal of a prune, and returns its key.
    async fn begin_prune(&self, name: &str, filter: &PruneFilter) -> String {
        let record = record(name, filter);
        self.store.append_journal(&[record.start_entry()]).await.expect("told");
        record.key()
    }

    async fn prunable(&self, filter: &PruneFilter) -> Vec<RunRecord> {
        let runs = self.store.prunable_runs(filter, RunId(0), 100).await.expect("read");
        let count = self.store.count_prunable_runs(filter).await.expect("counted");
        assert_eq!(count, runs.len() as u64);
        runs
    }

    async fn prunable_samples(&self, filter: &PruneFilter) -> Vec<SampleRecord> {
        let samples = self.store.prunable_samples(filter, SampleId(0), 100).await.expect("read");
        let count = self.store.count_prunable_samples(filter).await.expect("counted");
        assert_eq!(count, samples.len() as u64);
        samples
    }

    async fn prunable_plans(&self, filter: &PruneFilter) -> Vec<PlanRecord> {
        let plans = self.store.prunable_plans(filter, PlanId(0), 100).await.expect("read");
        let count = self.store.count_prunable_plans(filter).await.expect("counted");
        assert_eq!(count, plans.len() as u64);
        plans
    }

    async fn ledger_of(&self, kind: UnitKind, id: i64, stage: &str) -> Vec<AttemptRecord> {
        let unit = UnitRow { kind, id, stage: stage.to_owned() };
        self.store.attempts_of(&unit, AttemptNumber(0), 100).await.expect("read")
    }

    /// A run that passed at a moment.
    async fn passed_at(&self, moment: i64) -> RunRecord {
        let ids = self.submit(&[run("q", "", at(moment))], at(moment)).await;
        let claimed = self.claim_one(at(moment)).await;
        self.end(&claimed, at(moment), passed()).await;
        self.run(ids[0]).await
    }
}

// OPS-8
pub async fn only_what_is_finished_and_old_may_go(f: &Fixture) {
    let runs: Vec<NewRun> = (0..6).map(|n| run("q", "", at(n))).collect();
    let ids = f.submit(&runs, at(0)).await;
    f.submit(&[run("other", "", at(0))], at(0)).await;
    let held = f.claim(&super::samples::claim_of(4, at(10))).await;
    f.end(&held[0], at(20), passed()).await;
    f.end(&held[1], at(40), passed()).await;
    f.end(&held[2], at(20), give_up(GiveUpReason::Final)).await;
    f.end(&held[3], at(20), retry(at(20), std::time::Duration::from_secs(3_600), true)).await;
    f.store.cancel_runs(&ids[4..5], &operator(at(25))).await.expect("cancelled");
    let may_go = async |before| -> Vec<RunId> {
        f.prunable(&older_than(before)).await.into_iter().map(|run| run.id).collect()
    };
    assert_eq!(may_go(at(20)).await, [], "what ended at the moment is not older");
    assert_eq!(may_go(at(21)).await, [ids[0], ids[2]]);
    assert_eq!(may_go(at(26)).await, [ids[0], ids[2], ids[4]], "cancelled at 25");
    assert_eq!(may_go(at(900)).await, [ids[0], ids[1], ids[2], ids[4]]);
    let filter = |queue: &str| PruneFilter { queue: Some(queue.to_owned()), ..older_than(at(900)) };
    assert_eq!(f.prunable(&filter("q")).await.len(), 4);
    assert_eq!(f.prunable(&filter("other")).await, []);
    let second = f.store.prunable_runs(&older_than(at(900)), ids[0], 2).await.expect("read");
    assert_eq!(second.iter().map(|run| run.id).collect::<Vec<_>>(), ids[1..3]);
    f.store.retry_runs(&ids[2..3], &operator(at(950))).await.expect("retried");
    assert_eq!(may_go(at(900)).await, [ids[0], ids[1], ids[4]], "what goes on stays");
}

// OPS-8, RUN-6, LOG-3
pub async fn a_pruned_run_takes_its_ledger_along_and_frees_its_key(f: &Fixture) {
    let keyed = run("q", "", at(0)).with_idempotency_key("k").expect("valid");
    let first = f.submit(std::slice::from_ref(&keyed), at(0)).await[0];
    for (moment, completion) in
        [(1, retry(at(1), std::time::Duration::from_secs(1), true)), (3, passed())]
    {
        let claimed = f.claim_one(at(moment + 1)).await;
        f.end(&claimed, at(moment), completion).await;
    }
    let younger = f.passed_at(50).await;
    let item = AttemptRecord::success(
        UnitRow::new(UnitKind::Item, first.0),
        AttemptNumber(1),
        at(0),
        at(1),
        "w1",
    );
    f.store.append_attempts(&[item]).await.expect("written");
    let rows = [(UnitKind::Run, first.0), (UnitKind::Item, first.0), (UnitKind::Run, younger.id.0)]
        .map(|(kind, id)| UnitRow::new(kind, id));
    f.store.write_logs(&rows.each_ref().map(|row| log(row, 1, 1, "text"))).await.expect("written");
    let filter = older_than(at(40));
    let found = f.prunable(&filter).await;
    let place = LedgerPlace::start();
    let ids = [first.0, younger.id.0];
    let attempts = f.store.attempts_at(UnitKind::Run, &ids[..1], &place, 9).await.expect("read");
    assert_eq!(attempts, f.ledger_of(UnitKind::Run, first.0, "").await);
    let place = LedgerPlace::from(&attempts[0]);
    let second = f.store.attempts_at(UnitKind::Run, &ids, &place, 1);
    assert_eq!(second.await.expect("read"), attempts[1..], "page by page");

    let told = f.told(None).await.len();
    let key = f.begin_prune("one", &filter).await;
    let exports: Vec<_> = found.iter().map(exported).collect();
    let pruned = f.store.prune_runs(&key, &filter, &exports).await.expect("pruned");
    assert_eq!(pruned, Pruned { units: 1, attempts: 2 });
    assert_eq!(f.store.runs_by_id(&[first]).await.expect("read"), []);
    assert_eq!(f.ledger_of(UnitKind::Run, first.0, "").await, []);
    assert_eq!(f.ledger_of(UnitKind::Item, first.0, "").await.len(), 1, "another kind's");
    assert_eq!(f.ledger_of(UnitKind::Run, younger.id.0, "").await.len(), 1);
    for (row, is_kept) in rows.iter().zip([false, true, true]) {
        assert_eq!(f.log_text(row, 1).await.is_some(), is_kept, "the log of {row}");
    }
    assert_eq!(f.told(None).await.len(), told + 1, "the journal keeps everything");
    let again = f.store.submit_runs(&[keyed], at(60)).await.expect("submitted");
    assert!(matches!(again[..], [SubmittedRun::Accepted(id)] if id > younger.id), "{again:?}");
}

// OPS-8
pub async fn what_has_changed_since_it_was_written_down_stays(f: &Fixture) {
    let filter = older_than(at(40));
    let (same, gone_on) = (f.passed_at(1).await, f.passed_at(2).await);
    let key = f.begin_prune("one", &filter).await;
    let old = [
        ExportedUnit { attempts: 0, ..exported(&same) },
        ExportedUnit { epoch: super::samples::before(same.lease_epoch), ..exported(&same) },
        ExportedUnit { id: 999, ..exported(&same) },
    ];
    assert_eq!(f.store.prune_runs(&key, &filter, &old).await.expect("asked"), Pruned::default());
    let young = older_than(at(1));
    let too_young = f.store.prune_runs(&key, &young, &[exported(&same)]).await;
    assert_eq!(too_young.expect("asked"), Pruned::default());
    let ids = f.submit(&[run("q", "", at(3))], at(3)).await;
    f.store.cancel_runs(&ids, &operator(at(4))).await.expect("cancelled");
    let cancelled = exported(&f.run(ids[0]).await);
    f.store.retry_runs(&ids, &operator(at(50))).await.expect("retried");
    let asked = [cancelled, exported(&gone_on)];
    let pruned = f.store.prune_runs(&key, &filter, &asked).await.expect("pruned");
    assert_eq!(pruned, Pruned { units: 1, attempts: 1 });
    assert_eq!(f.run(ids[0]).await.status, RunStatus::Discovered);
    assert_eq!(f.run(same.id).await, same);
}

// OPS-8
pub async fn nothing_leaves_the_ledger_unless_the_journal_tells_of_it(f: &Fixture) {
    let filter = older_than(at(40));
    let run = f.passed_at(1).await;
    let untold = f.store.prune_runs("prune:nobody", &filter, &[exported(&run)]).await;
    untold.expect_err("the journal does not know it");
    assert_eq!(f.run(run.id).await, run);
    assert_eq!(f.ledger_of(UnitKind::Run, run.id.0, "").await.len(), 1);
    let other = f.passed_at(2).await;
    let key = f.begin_prune("one", &filter).await;
    f.store.prune_runs(&key, &filter, &[exported(&other)]).await.expect("pruned");
    let refusal = f.raw.execute("DELETE FROM attempts").await.expect_err("a stray delete");
    assert!(refusal.contains("append-only"), "{refusal}");
    assert_eq!(f.ledger_of(UnitKind::Run, run.id.0, "").await.len(), 1);
}

// OPS-8, PIP-5
pub async fn a_pipeline_run_still_counts_its_samples_that_are_gone(f: &Fixture) {
    let id = f.run_of(5).await;
    f.end_each(at(10), vec![answered("1"), answered("2"), skipped(), broken()]).await;
    assert_eq!(f.prunable_samples(&older_than(at(900))).await, [], "the run goes on");
    f.end_each(at(20), vec![broken()]).await;
    assert_eq!(f.prunable_samples(&older_than(at(20))).await, [], "it ended at the moment");
    let filter = PruneFilter { pipeline: Some("p".to_owned()), ..older_than(at(21)) };
    let other = PruneFilter { pipeline: Some("x".to_owned()), ..filter.clone() };
    assert_eq!(f.prunable_samples(&other).await, []);
    let samples = f.prunable_samples(&filter).await;
    assert_eq!(samples.len(), 5);
    f.store.reprocess_samples(&[samples[3].id], &operator(at(30))).await.expect("back");
    let key = f.begin_prune("one", &filter).await;
    let exports: Vec<_> = samples.iter().map(exported_sample).collect();
    let running = f.store.prune_samples(&key, &filter, &exports).await.expect("asked");
    assert_eq!(running, Pruned::default(), "it goes on again");
    f.end_each(at(35), vec![broken()]).await;
    let filter = older_than(at(36));
    let changed = f.store.prune_samples(&key, &filter, &exports).await.expect("pruned");
    assert_eq!(changed, Pruned { units: 4, attempts: 4 }, "one was brought back since");
    let run = f.pipeline_run(id).await;
    assert_eq!(run.progress.counts, counts([5, 2, 1, 2], true), "the counts are as they were");
    assert_eq!(run.pruned, PrunedSamples { succeeded: 2, skipped: 1, dlq: 1 });
    let left = f.prunable_samples(&filter).await;
    assert_eq!(left.iter().map(|sample| sample.id).collect::<Vec<_>>(), [samples[3].id]);
    let rest: Vec<_> = left.iter().map(exported_sample).collect();
    let pruned = f.store.prune_samples(&key, &filter, &rest).await.expect("pruned");
    assert_eq!(pruned, Pruned { units: 1, attempts: 2 });
    assert_eq!(f.pipeline_run(id).await.pruned.total(), 5, "the run itself stays");
    let gone = samples.iter().map(|sample| f.sample_attempts(sample.id, "clean"));
    for attempts in gone {
        assert_eq!(attempts.await, []);
    }
}

// OPS-8
pub async fn prunes_at_once_remove_each_unit_once(f: &Fixture) {
    let mut runs = Vec::new();
    for moment in 1..=12 {
        runs.push(f.passed_at(moment).await);
    }
    let id = f.run_of(6).await;
    f.end_each(at(20), vec![broken(); 6]).await;
    let filter = older_than(at(40));
    let samples: Vec<_> = f.prunable_samples(&filter).await.iter().map(exported_sample).collect();
    let runs: Vec<_> = runs.iter().map(exported).collect();
    let prunes = (0..4).map(|n| {
        let (store, filter) = (f.store.clone(), filter.clone());
        let (runs, samples) = (runs.clone(), samples.clone());
        tokio::spawn(async move {
            let record = record(&format!("number {n}"), &filter);
            store.append_journal(&[record.start_entry()]).await.expect("told");
            let runs = store.prune_runs(&record.key(), &filter, &runs).await.expect("pruned");
            let samples = store.prune_samples(&record.key(), &filter, &samples).await;
            (runs, samples.expect("pruned"))
        })
    });
    let (mut gone, mut attempts) = ((0, 0), 0);
    for prune in prunes.collect::<Vec<_>>() {
        let (runs, samples) = prune.await.expect("ended");
        gone = (gone.0 + runs.units, gone.1 + samples.units);
        attempts += runs.attempts + samples.attempts;
    }
    assert_eq!((gone, attempts), ((12, 6), 18));
    assert_eq!(f.pipeline_run(id).await.pruned, PrunedSamples { dlq: 6, ..Default::default() });
}

// OPS-8
pub async fn a_unit_is_pruned_by_its_id_its_attempts_and_its_epoch(f: &Fixture) {
    let release = |id, epoch| LeaseRelease {
        lease: LeaseRef { id, epoch },
        owner: WorkerId("w1".to_owned()),
        why: "shutdown".to_owned(),
    };
    for moment in 1..=3 {
        f.passed_at(moment).await;
    }
    f.submit(&[run("q", "", at(4))], at(4)).await;
    let first = f.claim_one(at(5)).await;
    let back = release(first.id.0, first.epoch);
    let back = f.store.release_leases(Leased::Run, &[back], at(6)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);
    let second = f.claim_one(at(7)).await;
    f.end(&second, at(8), passed()).await;
    let run = exported(&f.run(second.id).await);

    f.run_of(4).await;
    let held = f.samples_at(0, 4, at(5)).await;
    let back = release(held[3].id.0, held[3].epoch);
    let back = f.store.release_leases(Leased::Sample, &[back], at(6)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);
    for sample in &held[..3] {
        f.end_sample(sample, 0, at(8), broken()).await;
    }
    let again = f.sample_at(0, at(7)).await;
    f.end_sample(&again, 0, at(8), broken()).await;
    let sample = exported_sample(&f.sample(again.id).await);

    let filter = older_than(at(40));
    let key = f.begin_prune("one", &filter).await;
    for unit in [&run, &sample] {
        assert_eq!((unit.id, unit.attempts), (4, 1));
        assert!(![0, 1, 4].contains(&unit.epoch.0), "all differ: {unit:?}");
    }
    let one = Pruned { units: 1, attempts: 1 };
    assert_eq!(f.store.prune_runs(&key, &filter, &[run]).await.expect("pruned"), one);
    assert_eq!(f.store.prune_samples(&key, &filter, &[sample]).await.expect("pruned"), one);
}

// OPS-8, PLN-3
pub async fn plans_that_have_ended_are_pruned_in_pages(f: &Fixture) {
    f.dead_runs(3).await;
    let (draft, id) = (f.plan(RETRY).await, f.plan(RETRY).await);
    let lease = f.apply_plan(id).await;
    f.step(lease, 10, 21).await.expect("stepped");
    f.store.end_plan(lease, &PlanEnd::Complete, at(22)).await.expect("ended").expect("held");
    let filter = |second| older_than(at(second));
    assert_eq!(f.prunable_plans(&filter(100)).await, [], "its units are watched");
    for claimed in f.claim(&claim_of(10, at(30))).await {
        f.end(&claimed, at(31), passed()).await;
    }
    f.settle(lease).await;
    assert_eq!(f.prunable_plans(&filter(22)).await, [], "it ended at the moment");
    let filter = filter(23);
    let found = f.prunable_plans(&filter).await;
    assert_eq!(found, [f.plan_record(id).await]);

    let plan = PlanPrune { id, epoch: found[0].lease_epoch, by: operator(at(200)), limit: 2 };
    let prune = async |key: &str, plan: &PlanPrune| {
        f.store.prune_plan(key, &filter, plan).await.expect("answered")
    };
    assert_eq!(prune("prune:unknown", &plan).await, PrunedPlan::Left, "no prune was told");
    let key = f.begin_prune("p", &filter).await;
    let stale = PlanPrune { epoch: Epoch(found[0].lease_epoch.0 - 1), ..plan.clone() };
    assert_eq!(prune(&key, &stale).await, PrunedPlan::Left, "it has changed");
    let other = PlanPrune { id: draft, epoch: Epoch(0), ..plan.clone() };
    assert_eq!(prune(&key, &other).await, PrunedPlan::Left, "a draft stays");
    assert_eq!(f.plan_units(id).await.len(), 3);

    assert_eq!(prune(&key, &plan).await, PrunedPlan::Units(2));
    let part = f.plan_record(id).await;
    let counts = PlanCounts { total: 1, changed: 1, recovered: 1, ..PlanCounts::default() };
    assert_eq!((part.counts, f.plan_units(id).await.len()), (counts, 1), "interrupted here");
    assert_eq!(prune(&key, &plan).await, PrunedPlan::Units(1));
    assert_eq!(prune(&key, &plan).await, PrunedPlan::Gone);
    assert_eq!(prune(&key, &plan).await, PrunedPlan::Left);
    assert_eq!(f.store.plans_by_id(&[id]).await.expect("read"), []);
    assert_eq!(f.plan_units(draft).await.len(), 3);
    assert_eq!(f.told_by("plan.prune").await.len(), 1);
}

// OPS-8, PLN-1
pub async fn drafts_that_were_never_completed_are_pruned(f: &Fixture) {
    f.dead_runs(3).await;
    let (kept, id) = (f.plan(RETRY).await, f.plan(RETRY).await);
    // Interrupted here, the draft has a part of its list.
    assert!(f.store.discard_plan(id, 2, &operator(at(10))).await.expect("discarded"));
    assert_eq!(f.prunable_plans(&older_than(at(10))).await, [], "it was made at the moment");
    let filter = older_than(at(11));
    assert_eq!(f.prunable_plans(&filter).await, [f.plan_record(id).await]);
    let key = f.begin_prune("p", &filter).await;
    let plan = PlanPrune { id, epoch: Epoch(0), by: operator(at(200)), limit: 10 };
    for pruned in [PrunedPlan::Units(1), PrunedPlan::Gone] {
        assert_eq!(f.store.prune_plan(&key, &filter, &plan).await.expect("answered"), pruned);
    }
    let plans = f.store.plans_by_id(&[id, kept]).await.expect("read");
    assert_eq!(plans.iter().map(|plan| plan.id).collect::<Vec<_>>(), [kept]);
}
