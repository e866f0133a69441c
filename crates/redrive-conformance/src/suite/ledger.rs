//! The ledger.

use std::time::Duration;

use redrive_core::{AttemptNumber, Cause};

use super::{Fixture, samples::at};
use redrive_store::{AttemptOutcome, AttemptRecord, LedgerPlace, UnitKind, UnitRow};

fn attempt(unit: UnitRow, number: u32) -> AttemptRecord {
    AttemptRecord::success(unit, AttemptNumber(number), at(1), at(2), "w1")
}

impl Fixture {
    async fn numbers(&self, unit: &UnitRow) -> Vec<u32> {
        let attempts = self.store.attempts_of(unit, AttemptNumber(0), 1_000).await.expect("read");
        attempts.iter().map(|attempt| attempt.attempt.0).collect()
    }
}

pub async fn attempts_read_back_as_they_were_given(f: &Fixture) {
    let unit = UnitRow { kind: UnitKind::Sample, id: 5_000_000_000, stage: "llm/call".to_owned() };
    let full = AttemptRecord {
        stage_config_hash: Some("cafe".to_owned()),
        counted: false,
        run_id: Some("0190-a".to_owned()),
        outcome: AttemptOutcome::Retrying,
        class: Some("rate_limited".to_owned()),
        code: Some("429".to_owned()),
        message: Some("slow\ndown".to_owned()),
        fingerprint: Some("00ff".to_owned()),
        cause: Some(Cause::Validator),
        delay: Some(Duration::from_micros(1_234_567)),
        ..attempt(unit.clone(), 1)
    };
    let bare = attempt(unit.clone(), 2);
    f.store.append_attempts(&[full.clone(), bare.clone()]).await.expect("written");
    let read = f.store.attempts_of(&unit, AttemptNumber(0), 10).await.expect("read");
    assert_eq!(read, [full, bare]);
}

pub async fn a_number_is_given_once_and_a_refused_batch_leaves_nothing(f: &Fixture) {
    let (one, two) = (UnitRow::new(UnitKind::Item, 1), UnitRow::new(UnitKind::Item, 2));
    f.store.append_attempts(&[attempt(one.clone(), 1)]).await.expect("written");
    let batch = [attempt(two.clone(), 1), attempt(one.clone(), 1)];
    let error = f.store.append_attempts(&batch).await.expect_err("refused");
    assert!(!error.is_transient(), "{error}");
    assert_eq!(f.numbers(&one).await, [1]);
    assert_eq!(f.numbers(&two).await, Vec::<u32>::new());
}

pub async fn stages_are_numbered_by_themselves(f: &Fixture) {
    let at_stage = |stage: &str| UnitRow { kind: UnitKind::Sample, id: 1, stage: stage.to_owned() };
    let item = UnitRow::new(UnitKind::Item, 1);
    let batch = [
        attempt(at_stage("a"), 1),
        attempt(at_stage("b"), 1),
        attempt(at_stage("a"), 2),
        attempt(item.clone(), 1),
    ];
    f.store.append_attempts(&batch).await.expect("written");
    assert_eq!(f.numbers(&at_stage("a")).await, [1, 2]);
    assert_eq!(f.numbers(&at_stage("b")).await, [1]);
    assert_eq!(f.numbers(&item).await, [1]);
}

pub async fn attempts_come_page_by_page(f: &Fixture) {
    let unit = UnitRow::new(UnitKind::Item, 9);
    let all: Vec<_> = (1..=25).map(|number| attempt(unit.clone(), number)).collect();
    f.store.append_attempts(&all).await.expect("written");
    let (mut after, mut seen) = (AttemptNumber(0), Vec::new());
    loop {
        let page = f.store.attempts_of(&unit, after, 10).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.attempt;
        seen.extend(page);
    }
    assert_eq!(seen, all);
}

pub async fn the_ledger_of_a_kind_comes_page_by_page(f: &Fixture) {
    let sample = |id, stage: &str| UnitRow { kind: UnitKind::Sample, id, stage: stage.to_owned() };
    let ordered: Vec<_> = [(7, "a", 1), (7, "a", 2), (7, "b", 1), (8, "", 1), (30, "a", 1)]
        .map(|(id, stage, number)| attempt(sample(id, stage), number))
        .to_vec();
    let mut written: Vec<_> = ordered.iter().rev().cloned().collect();
    written.push(attempt(UnitRow::new(UnitKind::Item, 7), 1));
    f.store.append_attempts(&written).await.expect("written");
    let (mut after, mut seen) = (LedgerPlace::start(), Vec::new());
    loop {
        let page = f.store.ledger_page(UnitKind::Sample, &after, 2).await.expect("read");
        let Some(last) = page.last() else { break };
        after = LedgerPlace::from(last);
        seen.extend(page);
        assert!(seen.len() <= ordered.len(), "a page is read again");
    }
    assert_eq!(seen, ordered);
    let after = LedgerPlace::from(&ordered[1]);
    let of_some = f.store.attempts_at(UnitKind::Sample, &[7, 30], &after, 9).await.expect("read");
    assert_eq!(of_some, [ordered[2].clone(), ordered[4].clone()]);
}

pub async fn the_database_refuses_to_change_the_ledger(f: &Fixture) {
    let unit = UnitRow::new(UnitKind::Item, 9);
    f.store.append_attempts(&[attempt(unit.clone(), 1)]).await.expect("written");
    for sql in ["UPDATE attempts SET worker = 'x'", "DELETE FROM attempts"] {
        let refusal = f.raw.execute(sql).await.expect_err(sql);
        assert!(refusal.contains("append-only"), "{refusal}");
    }
    assert_eq!(f.numbers(&unit).await, [1]);
}
