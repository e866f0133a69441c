//! The sources of a world: who extracts and judges, who retries, who meddles and who reads.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use object_store::memory::InMemory;
use redrive_core::{PartitionStatus, RetryForecast};
use redrive_engine::{Clock, Engine, RawSink, Until, verify_partitions};
use redrive_store::{AuditContext, MAX_PAGE, PartitionAction, PartitionRecord, Selection, Store};

use super::{
    cast::Actor,
    ending::Lived,
    operators::{DAEMON, Operators},
    plan::Plan,
};
use crate::simulator::{
    chance::Chance,
    ground::{Ground, Identity, Left, WORLD},
};

/// All sources.
pub(crate) struct Sources {
    seed: u64,
    pub(crate) plan: Arc<Plan>,
    sink: RawSink,
}

impl Sources {
    pub(crate) fn new(seed: u64, plan: Plan) -> Self {
        let sink = RawSink::objects(Arc::new(InMemory::new()), "", "memory:").unwrap();
        Self { seed, plan: Arc::new(plan), sink }
    }

    fn operators(&self, who: &Identity, ground: &mut Ground) -> Operators {
        let deaf = ground.chance.one_in(4);
        let mut store = ground.way(who);
        store.deaf = deaf;
        Operators {
            store: Arc::new(store),
            rules: self.plan.rules(),
            sink: self.sink.clone(),
            clock: ground.clock.clone(),
            log: ground.log.clone(),
            who: who.id.clone(),
        }
    }

    /// Has a worker serve them.
    pub(crate) fn served_by(&self, who: &Identity, engine: Engine, ground: &Ground) -> Engine {
        let actor = Actor {
            seed: self.seed,
            worker: who.id.clone(),
            deadly: self.plan.troubles.crashes,
            gate: who.gate.clone(),
            log: ground.log.clone(),
            deaths: ground.deaths.0.clone(),
        };
        let sources = self.plan.sources.iter().map(|plan| actor.plays(plan, &self.sink));
        sources.fold(engine, Engine::with_source)
    }

    /// Daemons that are gone come back under other names, one by one. Says whether one did.
    pub(crate) fn start_missing_daemon(&self, ground: &mut Ground) -> bool {
        let daemons = ground.processes.keys().filter(|id| id.starts_with(DAEMON)).count() as u64;
        let missing = daemons < self.plan.daemons;
        if missing {
            let who = ground.newcomer(DAEMON);
            let (operators, interval) = (self.operators(&who, ground), self.plan.interval);
            ground.start(who, Until::Stopped, move |stop| async move {
                operators.daemon().run(interval, stop).await;
            });
        }
        missing
    }

    pub(crate) fn meddle(&self, ground: &mut Ground) {
        let operators = self.operators(&ground.outsider("ada"), ground);
        let (plan, chance) = (self.plan.clone(), ground.chance.fork());
        ground.errands.spawn(async move {
            operators.meddle(plan, chance).await;
            Ok(())
        });
    }

    pub(crate) fn consume(&self, ground: &mut Ground) {
        let operators = self.operators(&ground.outsider("reader"), ground);
        let chance = ground.chance.fork();
        ground.errands.spawn(operators.consume(chance));
    }

    pub(crate) fn some_lease(&self, chance: &mut Chance) -> Duration {
        chance.pick(&self.plan.sources).limits.lease
    }

    /// Nothing is paused any more.
    pub(crate) async fn resume_all(&self, ground: &mut Ground) {
        let who = Identity { weather: Arc::default(), ..ground.outsider(WORLD) };
        let (deaf, mut way) = (ground.chance.one_in(4), ground.way(&who));
        way.deaf = deaf;
        let (by, command) = (ground.by(WORLD), "state resume".to_owned());
        let order = AuditContext { by, command, filter: None, flags: Vec::new() };
        let all = all(ground).await.into_iter();
        let named: Vec<_> = all.map(|record| record.key.into()).collect();
        let store: &dyn Store = &way;
        store.change_partitions(&PartitionAction::Resume, &named, &order).await.unwrap();
    }

    pub(crate) async fn what_is_left(&self, ground: &Ground) -> Left {
        let (rules, now) = (self.plan.rules(), ground.clock.now());
        let mut due: Option<Timestamp> = None;
        for partition in all(ground).await {
            if partition.work.is_some() || partition.status == PartitionStatus::Pending {
                return Left::Work(None);
            }
            if let Some(RetryForecast::RetryAt { at, .. }) = rules.forecast(&partition, now) {
                due = due.into_iter().chain([at]).min();
            }
        }
        due.map_or(Left::Nothing, Left::Waiting)
    }

    /// What is good stands on raw data that is as it was sealed.
    pub(crate) async fn check(&self, ground: &mut Ground, when: &str) {
        let raw = verify_partitions(&*ground.store, &self.sink).await.unwrap();
        let findings = raw.findings.iter().map(|finding| format!("{when}: {finding}"));
        ground.problems.extend(findings);
    }

    /// Has a daemon look twice more.
    pub(crate) async fn look_again(&self, ground: &mut Ground) {
        let who = Identity { weather: Arc::default(), ..ground.outsider(&format!("{DAEMON}last")) };
        let daemon = self.operators(&who, ground).daemon();
        for _ in 0..2 {
            let tick = daemon.tick().await.unwrap();
            if tick.retried > 0 {
                ground.problems.push(format!("something was left to do: {tick:?}"));
            }
        }
    }

    /// What is left of them in the end.
    pub(crate) async fn lived(&self, ground: &Ground, problems: Vec<String>) -> Lived {
        Lived::new(&self.plan, &ground.log, &*ground.store, &self.sink, problems).await
    }
}

async fn all(ground: &Ground) -> Vec<PartitionRecord> {
    ground.store.partitions_page(&Selection::default(), None, MAX_PAGE.into()).await.unwrap()
}
