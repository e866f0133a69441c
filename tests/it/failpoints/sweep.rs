//! One death at each failpoint, on both stores.
//!
//! One workload passes every failpoint there is. It is run once to see that, and then once for each of
//! them, up to the death of the process that passes it. After that the same is asked for again, as a
//! user would, and everything must be as if nothing had happened, but for the one attempt that was lost.

use std::{collections::BTreeSet, env, sync::Mutex, thread};

use super::{
    aftermath::check,
    failpoints_in_sources,
    workload::{RUNS, STEPS, Step, ask_again, open_shop, run_step},
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

/// One death: where, at which passage, and in which step at the earliest.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
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
    fn fresh_shop(self) -> Shop {
        let folder = Folder::new();
        let store = match self {
            Self::Sqlite => format!("sqlite:{}", folder.path().join("store.db").display()),
            Self::Postgres => fresh_postgres(),
        };
        open_shop(folder, &store)
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

// OPS-6, RUN-7, PAR-4
#[test]
fn a_kill_at_any_step_of_a_write_costs_nothing_but_one_more_execution_on_sqlite() {
    sweep(Kind::Sqlite);
}

// OPS-6, RUN-7, PAR-4
#[test]
fn a_kill_at_any_step_of_a_write_costs_nothing_but_one_more_execution_on_postgres() {
    sweep(Kind::Postgres);
}

fn sweep(kind: Kind) {
    let all: BTreeSet<&str> =
        failpoints_in_sources().into_iter().filter(|point| kind.may_pass(point)).collect();
    let passed = trace(kind);
    let reached: BTreeSet<&str> = passed.iter().flatten().map(String::as_str).collect();
    assert_eq!(reached, all, "the workload reaches every failpoint, and no other");

    let each_once = all.iter().map(|point| Case { point, passage: 1, from: 0 });
    let mut cases: Vec<Case<'_>> = each_once.collect();
    if env::var_os("REDRIVE_TEST_FULL").is_some() {
        for point in &all {
            cases.extend((2..=PASSAGES_IN_FULL).map(|passage| Case { point, passage, from: 0 }));
            let steps = (1..).zip(passed.iter().skip(1));
            let passing = steps.filter(|(_, passed)| passed.contains(*point));
            cases.extend(passing.map(|(from, _)| Case { point, passage: 1, from }));
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
fn trace(kind: Kind) -> Vec<BTreeSet<String>> {
    let shop = kind.fresh_shop();
    let passed = STEPS.iter().map(|step| {
        let ended = run_step(&shop, step, None);
        assert!(ended.is_as_meant(step), "{step:?} {ended:#?}");
        ended.passed
    });
    let passed = passed.collect();
    check(&shop, 1, "nobody died");
    passed
}

/// Runs the workload until a process dies at a failpoint, then asks for everything again.
fn die_and_ask_again(kind: Kind, case: Case<'_>) {
    let context = format!("{case:?}");
    let shop = kind.fresh_shop();
    let kill_at = format!("{}:{}", case.point, case.passage);
    let died_in = STEPS.iter().enumerate().position(|(number, step)| {
        let armed = (number >= case.from).then_some(kill_at.as_str());
        let ended = run_step(&shop, step, armed);
        let died = armed.is_some() && ended.killed && ended.passed.contains(case.point);
        assert!(died || ended.is_as_meant(step), "{context}: {step:?} {ended:#?}");
        died
    });
    // What is passed again, and when, is a matter of time; the first passage is certain.
    let certain = case.passage == 1 && case.from == 0;
    assert!(died_in.is_some() || !certain, "{context}: nobody died");

    let survived = &STEPS[..died_in.unwrap_or(STEPS.len())];
    let accepted = ask_again(&shop, &context);
    if survived.iter().any(Step::submits) {
        assert_eq!(accepted, 0, "{context}: what was acknowledged is there");
    } else {
        // Batches are there as a whole or not at all.
        assert!([0, 1, RUNS.len()].contains(&accepted), "{context}: {accepted} were not there");
    }
    let crashes = survived.iter().filter(|step| step.is_killed_anyway()).count();
    check(&shop, crashes + usize::from(died_in.is_some()), &context);
    kind.clear(&shop);
}
