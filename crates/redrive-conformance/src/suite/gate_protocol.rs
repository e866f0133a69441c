//! Walks every situation of the gate model on the store, and compares the results.

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use redrive_core::{Decision, Failure, GateSettings, GateState};
use redrive_store::{
    ClaimRequest, ClaimedRun, DeclaredGate, GateOrder, GateOrdered, GatePlace, GateRule, GateRules,
    LeaseRef, LeaseRelease, Leased, PassedGates, RunChange, RunCompletion, RunFinish, UnitKind,
    WorkerId, Written,
};

use super::{
    Fixture,
    samples::{at, claim_of, finish, operator, passed, retry, run},
};
use crate::protocol::{
    CLOSED_FOR, GateModel, GateReport, GateStep, GateWorker, HINT, Model, explore,
};

/// One for the probe, and one that is told to wait or comes too late.
const WORKERS: usize = 2;

const DELAY: Duration = Duration::from_secs(1);

// GAT-3, GAT-4
pub async fn every_step_of_the_gate_protocol_comes_out_as_in_its_model(f: &Fixture) {
    let base = Duration::from_secs(10);
    let limited = GateSettings::new(None, Some(1), None, base, base).expect("valid");
    for (name, settings) in [("plain", GateSettings::default()), ("limited", limited)] {
        let model = explore(GateModel::new(settings, WORKERS), None);
        let model = model.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(model.walks.len() > 100, "{} walks", model.walks.len());
        for (number, walk) in model.walks.iter().enumerate() {
            let mut walker = Walker::start(f, format!("{name}-{number}"), settings).await;
            for (place, step) in walk.iter().enumerate() {
                walker.take(*step, &walk[..=place]).await;
            }
        }
    }
}

/// Executes the steps of a walk on the store and in the model.
struct Walker<'a> {
    f: &'a Fixture,
    /// The name of the gate and of the queue behind it.
    name: String,
    gates: GateRules,
    model: GateModel,
    /// The run that each worker claimed last.
    claimed: Vec<Option<ClaimedRun>>,
}

impl<'a> Walker<'a> {
    async fn start(f: &'a Fixture, name: String, settings: GateSettings) -> Self {
        let place = GatePlace { kind: UnitKind::Run, place: name.clone() };
        let gate =
            DeclaredGate { name: name.clone(), places: vec![place], ..DeclaredGate::default() };
        f.store.declare_gates(&vec![gate].into(), at(0)).await.expect("declared");
        let gates = Arc::new([GateRule { name: name.clone(), is_keyed: false, settings }]);
        let model = GateModel::new(settings, WORKERS);
        Self { f, name, gates, model, claimed: vec![None; WORKERS] }
    }

    async fn take(&mut self, step: GateStep, walk: &[GateStep]) {
        let (before, store) = (self.model.clone(), &self.f.store);
        let (model, took) = before.after(step, None).expect("a step of the model");
        self.model = model;
        let now = self.model.now;
        match step {
            GateStep::Claim(who) => {
                self.f.submit(&[run(&self.name, "", now)], now).await;
                let request = ClaimRequest {
                    queue: self.name.clone(),
                    gates: self.gates.clone(),
                    lease_until: store.now() + SignedDuration::from_hours(1),
                    ..claim_of(1, now)
                };
                let claimed = self.f.claim(&request).await.pop();
                assert_eq!(claimed.is_some(), took, "after {walk:#?}");
                if let Some(claimed) = claimed {
                    let noted = match self.model.workers[who] {
                        GateWorker::Holds(pass) => pass.permit.is_some(),
                        _ => false,
                    };
                    assert_eq!(claimed.pass.has_permit, noted, "after {walk:#?}");
                    self.claimed[who] = Some(claimed);
                }
            }
            GateStep::Report(who, report, _) => {
                let held = matches!(before.workers[who], GateWorker::Holds(_));
                let written = self.report(who, report).await;
                let expected = if held { Written::Applied } else { Written::Stale };
                assert_eq!(written, expected, "after {walk:#?}");
            }
            GateStep::Reap(who) => {
                let lost = RunCompletion::Failed {
                    failure: Failure::lost_worker("no word"),
                    decision: Decision::RetryAt { at: now, delay: DELAY, counted: true },
                };
                assert_eq!(self.finish(who, lost).await, Written::Applied, "after {walk:#?}");
            }
            GateStep::Cancel(who) => {
                let id = self.claimed(who).id;
                let changes = store.cancel_runs(&[id], &operator(now)).await.expect("answered");
                assert!(matches!(changes[..], [RunChange::Done(_)]), "after {walk:#?}");
            }
            GateStep::Close { for_a_time } => {
                let until = for_a_time.then(|| now + CLOSED_FOR);
                self.order(GateOrder::Close { until }).await;
            }
            GateStep::Open => self.order(GateOrder::Open).await,
            GateStep::Crash(_) | GateStep::PeriodEnds => {}
        }
        self.compare(walk).await;
    }

    fn claimed(&self, who: usize) -> &ClaimedRun {
        self.claimed[who].as_ref().expect("it claimed a run")
    }

    async fn report(&self, who: usize, report: GateReport) -> Written {
        let now = self.model.now;
        let completion = match report {
            GateReport::Answered => passed(),
            GateReport::Failed => retry(now, DELAY, true),
            GateReport::Refused => retry(now, HINT, false),
            GateReport::Released => {
                let run = self.claimed(who);
                let lease = LeaseRef { id: run.id.0, epoch: run.epoch };
                let back = LeaseRelease::each(&[lease], &WorkerId("w1".to_owned()), "shutdown");
                let released = self.f.store.release_leases(Leased::Run, &back, now).await;
                return released.expect("answered").pop().expect("one");
            }
        };
        self.finish(who, completion).await
    }

    async fn finish(&self, who: usize, completion: RunCompletion) -> Written {
        let now = self.model.now;
        let gates = Some(PassedGates { rules: self.gates.clone(), key: String::new() });
        let finish = RunFinish { gates, ..finish(self.claimed(who), now, completion) };
        let written = self.f.store.finish_runs(&[finish], now).await;
        written.expect("answered").pop().expect("one")
    }

    async fn order(&self, order: GateOrder) {
        let by = operator(self.model.now);
        let ordered = self.f.store.order_gate(&self.name, "", &order, &by).await;
        assert_eq!(ordered.expect("answered"), GateOrdered::Done);
    }

    async fn compare(&self, walk: &[GateStep]) {
        let found = self.f.store.gate_rows(&[(&self.name, "")]).await.expect("read").pop();
        let row = found.expect("the gate has a row");
        // Who closed the gate, and why, is not part of the protocol.
        let protocol =
            |state: &GateState| GateState { closed_by: None, reason: None, ..state.clone() };
        assert_eq!(protocol(&row.state), protocol(&self.model.state), "after {walk:#?}");
        assert_eq!(row.held, self.model.permits(), "after {walk:#?}");
    }
}
