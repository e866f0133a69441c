//! Walks every situation of the lease model on the store, and compares the results.

use jiff::{SignedDuration, Timestamp};
use redrive_core::{AttemptNumber, Epoch, RunId, RunState};

use super::{
    Fixture,
    samples::{at, claim_of, operator, run},
};
use crate::protocol::{
    ActorCounts, Model, ModelActor, ModelClaim, ModelCompletion, ModelState, ModelStep,
    WorkerReport, explore,
};
use redrive_store::{
    ClaimRequest, LeaseRef, LeaseRelease, Leased, RunAction, RunChange, RunRecord, WorkerId,
};

/// One actor of each kind, and a second worker that comes too late.
const ACTORS: ActorCounts = ActorCounts { workers: 2, reapers: 1 };

// RUN-7, PAR-10
pub async fn every_step_of_the_protocol_comes_out_as_in_its_model(f: &Fixture) {
    let model =
        explore(ModelState::new(ACTORS), None).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(model.walks.len() > 100, "{} walks", model.walks.len());
    for (number, walk) in model.walks.iter().enumerate() {
        let queue = format!("walk-{number}");
        let submitted = f.submit(&[run(&queue, "", at(0))], at(0)).await;
        let mut walker = Walker {
            f,
            queue,
            id: submitted[0],
            state: ModelState::new(ACTORS),
            workers: vec![None; ACTORS.workers],
            reapers: vec![None; ACTORS.reapers],
            now: at(0),
            epochs: Vec::new(),
        };
        for (place, step) in walk.iter().enumerate() {
            walker.take(*step).await;
            walker.compare(&walk[..=place]).await;
        }
    }
}

/// Executes the steps of a walk on the store and in the model.
struct Walker<'a> {
    f: &'a Fixture,
    queue: String,
    id: RunId,
    state: ModelState,
    /// The claims that the store returned.
    workers: Vec<Option<ModelClaim>>,
    reapers: Vec<Option<ModelClaim>>,
    now: Timestamp,
    /// The epochs of the run in their order. The model numbers them from 1.
    epochs: Vec<Epoch>,
}

impl Walker<'_> {
    async fn take(&mut self, step: ModelStep) {
        // Every waiting run is due by the next step.
        self.now += SignedDuration::from_hours(1);
        let (state, _) = self.state.after(step, None).expect("a step of the model");
        let store = &self.f.store;
        match step {
            ModelStep::Claim(who) => {
                let claim = ClaimRequest { queue: self.queue.clone(), ..claim_of(1, self.now) };
                let claimed = self.f.claim(&claim).await.pop().expect("the model claims it");
                self.workers[who] = Some(ModelClaim::of(
                    self.numbered(claimed.epoch),
                    claimed.attempt,
                    claimed.history.counted,
                    claimed.history.deferrals,
                ));
            }
            ModelStep::Renew(who) => self.renew(self.workers[who]).await,
            ModelStep::Probe(who) => self.renew(self.reapers[who]).await,
            ModelStep::Report(who, WorkerReport::Completed(end), _) => {
                self.finish(self.workers[who], end).await
            }
            ModelStep::Reap(who, _) => self.finish(self.reapers[who], ModelCompletion::Lost).await,
            ModelStep::Report(who, WorkerReport::Released, _) => {
                let lease = self.lease(self.workers[who]);
                let back = LeaseRelease::each(&[lease], &WorkerId("w1".to_owned()), "shutdown");
                _ = store.release_leases(Leased::Run, &back, self.now).await.expect("answered");
            }
            ModelStep::FindExpired(who) => {
                let far = self.now + SignedDuration::from_hours(1);
                let before = self.id.0 - 1;
                let found = store.expired_leases(Leased::Run, far, None, before, 1).await;
                let lease = found.expect("answered").pop().expect("the model finds it").lease;
                let run = self.f.run(self.id).await;
                assert_eq!(lease, LeaseRef { id: self.id.0, epoch: run.lease_epoch });
                let attempt = AttemptNumber(run.attempts + 1);
                let epoch = self.numbered(lease.epoch);
                let claim = ModelClaim::of(epoch, attempt, run.retry_count, run.deferrals);
                self.reapers[who] = Some(claim);
            }
            ModelStep::Operate(action) => {
                let by = operator(self.now);
                let changes = match action {
                    RunAction::Retry => store.retry_runs(&[self.id], &by).await,
                    RunAction::Cancel => store.cancel_runs(&[self.id], &by).await,
                };
                let changes = changes.expect("answered");
                assert_eq!(changes, [RunChange::Done(self.state.row.state)]);
            }
            ModelStep::CrashWorker(_) | ModelStep::CrashReaper(_) | ModelStep::ExpireLease => {}
        }
        self.state = state;
    }

    fn numbered(&mut self, epoch: Epoch) -> Epoch {
        if epoch != Epoch(0) && !self.epochs.contains(&epoch) {
            assert!(self.epochs.last().is_none_or(|last| *last < epoch), "epochs only grow");
            self.epochs.push(epoch);
        }
        Epoch(self.epochs.iter().filter(|known| **known <= epoch).count() as i64)
    }

    fn lease(&self, claim: Option<ModelClaim>) -> LeaseRef {
        let number = claim.expect("it holds the run").epoch;
        LeaseRef { id: self.id.0, epoch: self.epochs[number as usize - 1] }
    }

    async fn renew(&self, claim: Option<ModelClaim>) {
        let until = self.now + SignedDuration::from_secs(60);
        let renewed = self.f.store.renew_leases(Leased::Run, &[self.lease(claim)], until).await;
        _ = renewed.expect("answered");
    }

    async fn finish(&self, claim: Option<ModelClaim>, end: ModelCompletion) {
        let mut finish = claim.expect("it holds the run").finish(self.id, end, self.now);
        finish.epoch = self.lease(claim).epoch;
        _ = self.f.store.finish_runs(&[finish], self.now).await.expect("answered");
    }

    async fn compare(&mut self, walk: &[ModelStep]) {
        let run: RunRecord = self.f.run(self.id).await;
        let epoch = self.numbered(run.lease_epoch);
        let row = &self.state.row;
        let real = (
            RunState::of(run.status, run.next_retry_at.is_some()),
            epoch,
            run.lease_owner.is_some(),
            run.attempts,
            run.retry_count,
            run.deferrals,
        );
        let modelled = (
            row.state,
            Epoch(row.epoch),
            row.lease.is_some(),
            row.attempts,
            row.counted,
            row.deferrals,
        );
        assert_eq!(real, modelled, "after {walk:#?}");
        for (actor, held) in self.state.workers.iter().zip(&self.workers) {
            if let Some(claim) = ModelActor::claim(actor) {
                assert_eq!(held.map(|held| held.epoch), Some(claim.epoch), "after {walk:#?}");
            }
        }
    }
}
