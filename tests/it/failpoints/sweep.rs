//! One death at each failpoint, on both stores.
//!
//! Five workloads pass every failpoint there is. They are run once to see that, and then once for each of
//! them, up to the death of the process that passes it. After that the same is asked for again, as a
//! user would, and everything must be as if nothing had happened, but for the one attempt that was lost.

use std::{collections::BTreeSet, env, sync::Mutex, thread};

use super::{
    failpoints_in_sources, partition_workload, pipeline_workload, plan_workload, prune_workload,
    steps::{Workload, run_step},
    workload,
};
use crate::{
    databases::{drop_postgres, fresh_postgres},
    folder::Folder,
    shop::Shop,
};

/// Cases at once: most of their time is waiting for leases to end.
const AT_ONCE: usize = 6;

/// How often a failpoint is passed before the process dies there, when there is time for more than the
/// first passage.
const PASSAGES_IN_FULL: u32 = 3;

const WORKLOADS: [Workload; 5] = [
    workload::WORKLOAD,
    partition_workload::WORKLOAD,
    pipeline_workload::WORKLOAD,
    prune_workload::WORKLOAD,
    plan_workload::WORKLOAD,
];

/// One death: where, at which passage, and in which step at the earliest.
#[derive(Clone, Copy)]
struct Case<'a> {
    workload: &'a Workload,
    point: &'a str,
    passage: u32,
    from: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    fn fresh_shop(self, workload: &Workload) -> Shop {
        let folder = Folder::new();
        let store = match self {
            Self::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
            Self::Postgres => fresh_postgres(),
        };
        (workload.open)(folder, &store)
    }

    fn clear(self, shop: &Shop) {
        match self {
            Self::Sqlite => {}
            Self::Postgres => drop_postgres(shop.store()),
        }
    }

    /// Whether a failpoint can be passed with this store.
    fn may_pass(self, point: &str) -> bool {
        match self {
            Self::Sqlite => !point.starts_with("postgres."),
            Self::Postgres => !point.starts_with("sqlite."),
        }
    }
}

// OPS-6, OPS-8, RUN-7, PAR-4, PAR-6, DMN-2, PIP-1, PIP-5, PLN-3
#[test]
fn a_kill_at_any_step_of_a_write_costs_nothing_but_one_more_execution_on_sqlite() {
    sweep(Kind::Sqlite);
}

// OPS-6, OPS-8, RUN-7, PAR-4, PAR-6, DMN-2, PIP-1, PIP-5, PLN-3
#[test]
fn a_kill_at_any_step_of_a_write_costs_nothing_but_one_more_execution_on_postgres() {
    sweep(Kind::Postgres);
}

fn sweep(kind: Kind) {
    let all: BTreeSet<&str> =
        failpoints_in_sources().into_iter().filter(|point| kind.may_pass(point)).collect();
    let traces: Vec<Vec<BTreeSet<String>>> =
        WORKLOADS.iter().map(|workload| trace(kind, workload)).collect();
    let reached = traces.iter().flatten().flatten().map(String::as_str).collect::<BTreeSet<_>>();
    assert_eq!(reached, all, "the workloads reach every failpoint, and no other");

    let full = env::var_os("REDRIVE_TEST_FULL").is_some();
    let (mut cases, mut met): (Vec<Case<'_>>, BTreeSet<&str>) = Default::default();
    for (workload, passed) in WORKLOADS.iter().zip(&traces) {
        let in_steps = |point: &str| {
            let steps = (0..).zip(passed).filter(move |(_, passed)| passed.contains(point));
            steps.map(|(step, _)| step).collect::<Vec<usize>>()
        };
        for (point, steps) in all.iter().map(|point| (*point, in_steps(point))) {
            let case = |passage, from| Case { workload, point, passage, from };
            if !steps.is_empty() && (met.insert(point) || full) {
                cases.push(case(1, 0));
            }
            // One statement writes whatever the control plane wishes, and each wish is to die of it.
            if full || point.ends_with(".change_partitions.committed") {
                cases.extend(steps.iter().skip(1).map(|from| case(1, *from)));
            }
            if full && !steps.is_empty() {
                cases.extend((2..=PASSAGES_IN_FULL).map(|passage| case(passage, 0)));
            }
        }
    }
    let cases = Mutex::new(cases.into_iter());
    let next = || cases.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = next() {
                    die_and_ask_again(kind, case);
                }
            });
        }
    });
}

/// Which failpoints each step passes when nobody is killed at one.
fn trace(kind: Kind, workload: &Workload) -> Vec<BTreeSet<String>> {
    let shop = kind.fresh_shop(workload);
    let passed = workload.steps.iter().map(|step| {
        let ended = run_step(&shop, step, None);
        assert!(ended.is_as_meant(step), "{step:?} {ended:#?}");
        ended.passed
    });
    let passed = passed.collect();
    (workload.check)(&shop, 1, "nobody died");
    kind.clear(&shop);
    passed
}

/// Runs a workload until a process dies at a failpoint, then asks for everything again.
fn die_and_ask_again(kind: Kind, case: Case<'_>) {
    let Case { workload, point, passage, from } = case;
    let context = format!("{point}, passage {passage}, from step {from}");
    let shop = kind.fresh_shop(workload);
    let kill_at = format!("{point}:{passage}");
    let died_in = workload.steps.iter().enumerate().position(|(number, step)| {
        let armed = (number >= from).then_some(kill_at.as_str());
        let ended = run_step(&shop, step, armed);
        let died = armed.is_some() && ended.killed && ended.passed.contains(point);
        assert!(died || ended.is_as_meant(step), "{context}: {step:?} {ended:#?}");
        died
    });
    // What is passed again, and when, is a matter of time; the first passage is certain.
    let certain = passage == 1 && from == 0;
    assert!(died_in.is_some() || !certain, "{context}: nobody died");

    let survived = &workload.steps[..died_in.unwrap_or(workload.steps.len())];
    (workload.ask_again)(&shop, survived, &context);
    let crashes = survived.iter().filter(|step| step.is_killed_anyway()).count();
    (workload.check)(&shop, crashes + usize::from(died_in.is_some()), &context);
    kind.clear(&shop);
}
