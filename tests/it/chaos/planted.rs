//! Each rule finds what breaks it: a story in which all is well, and what is planted into it.

use redrive::{
    Cause,
    jiff::Timestamp,
    store::{AttemptOutcome, UnitKind},
};

use super::{
    case::Case,
    evidence::{Attempt, Ended, Evidence, Execution, Noted, Told},
    faults::{Fault, Incident},
    item_rules::ITEM_RULES,
    requests::Asked,
    rules::RULES,
    site::Receipt,
};

const ITEM: &str = "asked/fine-1-0";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn execution(unit: &str, which: &str) -> Execution {
    Execution { unit: unit.to_owned(), which: which.to_owned() }
}

fn attempt(kind: UnitKind, unit: &str, which: &str, outcome: AttemptOutcome) -> Attempt {
    Attempt {
        execution: execution(unit, which),
        kind,
        outcome,
        cause: (outcome != AttemptOutcome::Success).then_some(Cause::Handler),
        class: (outcome != AttemptOutcome::Success).then(|| "retryable".to_owned()),
        worker: "w".to_owned(),
        started_at: at(1),
        ended_at: at(2),
    }
}

fn ended(unit: &str, status: &str) -> Ended {
    Ended { unit: unit.to_owned(), status: status.to_owned() }
}

fn told(unit: &str, action: &str) -> Told {
    Told { unit: unit.to_owned(), action: action.to_owned(), run_id: None }
}

fn receipt(second: i64) -> Receipt {
    Receipt { name: ITEM.to_owned(), key: "k".to_owned(), at: at(second), acknowledged: true }
}

fn asked() -> Asked {
    Asked {
        runs: [(("exec".to_owned(), "1-0".to_owned()), "passed")].into(),
        partitions: ["partition:days/fine/q/2026-01-01".to_owned()].into(),
        items: [("g1".to_owned(), ITEM.to_owned())].into(),
        ..Asked::default()
    }
}

/// A run that failed once, a partition and an item, each done once.
fn sound() -> Evidence {
    let partition = "partition:days/fine/q/2026-01-01";
    let (first, second) = (execution("run:1", "1"), execution("run:1", "2"));
    let extraction = execution(partition, "r1");
    Evidence {
        notes: vec![
            (Noted::Begin, first.clone()),
            (Noted::Fail, first),
            (Noted::Begin, second.clone()),
            (Noted::Ok, second),
            (Noted::Begin, extraction.clone()),
            (Noted::Ok, extraction),
        ],
        attempts: vec![
            attempt(UnitKind::Run, "run:1", "1", AttemptOutcome::Retrying),
            attempt(UnitKind::Run, "run:1", "2", AttemptOutcome::Success),
            attempt(UnitKind::Partition, partition, "r1", AttemptOutcome::Success),
            attempt(UnitKind::Item, "item:1", "1", AttemptOutcome::Success),
        ],
        runs: vec![(("exec".to_owned(), "1-0".to_owned()), ended("run:1", "passed"))],
        partitions: vec![ended(partition, "success")],
        items: vec![(("g1".to_owned(), ITEM.to_owned()), ended("item:1", "uploaded"))],
        receipts: vec![receipt(1)],
        ..Evidence::default()
    }
}

/// The rules that something speaks against.
fn broken(evidence: &Evidence) -> Vec<&'static str> {
    let asked = asked();
    let killed = Incident {
        fault: Fault::Killed,
        from: at(1),
        until: at(1),
        on: None,
        worker: Some("w".to_owned()),
    };
    let incidents = [killed];
    let case = Case::new(evidence, &asked, &incidents);
    let rules = RULES.iter().chain(&ITEM_RULES);
    rules.filter(|(_, against)| !against(&case).is_empty()).map(|(rule, _)| *rule).collect()
}

/// Puts something into a story.
type Plant = fn(&mut Evidence);

/// What is planted, and the rule that it breaks.
const PLANTED: [(&str, Plant); 15] = [
    ("what was asked for is there, once, and nothing else", |it| it.runs.clear()),
    ("everything comes to the end that it should", |it| it.runs[0].1 = ended("run:1", "error")),
    ("what the store calls done was done", |it| drop(it.notes.remove(3))),
    ("what the store says a handler failed, failed", |it| drop(it.notes.remove(1))),
    ("what was done is in the store", |it| drop(it.attempts.remove(0))),
    ("no attempt is executed twice, but for what was handed back", |it| {
        it.notes.push((Noted::Begin, execution("run:1", "2")));
    }),
    ("a unit ends once", |it| {
        it.attempts.push(attempt(UnitKind::Run, "run:1", "3", AttemptOutcome::Success));
    }),
    ("nobody works on what another holds", |it| it.notes.swap(1, 2)),
    ("each loss is told", |it| it.attempts[0].cause = Some(Cause::LostWorker)),
    ("nobody is lost to whom nothing happened", |it| {
        it.attempts[0].cause = Some(Cause::LostWorker);
        it.attempts[0].worker = "other".to_owned();
    }),
    ("nothing behind a gate is given up because it was refused", |it| {
        it.runs.push((("metered".to_owned(), "1-1".to_owned()), ended("run:2", "error")));
        let refused = attempt(UnitKind::Run, "run:2", "1", AttemptOutcome::Retrying);
        it.attempts.push(Attempt { class: Some("rate_limited".to_owned()), ..refused });
    }),
    ("an item is acknowledged by the store only if it was by the server", |it| {
        it.receipts[0].acknowledged = false;
    }),
    ("what was acknowledged is not sent again", |it| it.receipts.push(receipt(3))),
    ("each attempt at an item is written once, and was made", |it| {
        it.attempts.push(attempt(UnitKind::Item, "item:1", "2", AttemptOutcome::Retrying));
    }),
    ("an item has one key", |it| {
        it.receipts.push(Receipt { key: "other".to_owned(), ..receipt(1) });
    }),
];

#[test]
fn each_rule_of_chaos_finds_what_is_planted_against_it() {
    assert_eq!(broken(&sound()), [""; 0], "nothing speaks against a sound story");
    for (rule, plant) in PLANTED {
        let mut evidence = sound();
        plant(&mut evidence);
        let found = broken(&evidence);
        assert!(found.contains(&rule), "{rule}: {found:?}");
    }
    let rules = RULES.iter().chain(&ITEM_RULES).map(|(rule, _)| *rule);
    assert_eq!(rules.collect::<Vec<_>>(), PLANTED.map(|(rule, _)| rule));
}

#[test]
fn chaos_knows_what_handing_back_and_losing_a_worker_explain() {
    let mut evidence = sound();
    evidence.notes.insert(2, (Noted::Begin, execution("run:1", "2")));
    evidence.journal.push(told("run:1", "run.handback"));
    assert_eq!(broken(&evidence), [""; 0], "what was handed back is begun again");

    let mut evidence = sound();
    evidence.attempts[0].cause = Some(Cause::LostWorker);
    evidence.journal.push(told("run:1", "run.lease_lost"));
    // The program of a lost worker does not know, and goes on.
    evidence.notes.swap(1, 2);
    assert_eq!(broken(&evidence), [""; 0], "what was lost may still be under way");
    // Its worker was killed at the first second.
    (evidence.attempts[0].started_at, evidence.attempts[0].ended_at) = (at(100), at(101));
    assert_eq!(broken(&evidence), ["nobody is lost to whom nothing happened"]);
}
