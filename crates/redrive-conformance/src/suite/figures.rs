//! Figures for dashboards and metrics.

use std::time::Duration;

use redrive_core::{AttemptNumber, ItemStatus};

use super::{
    Fixture,
    items::item,
    samples::{at, operator, run},
};
use redrive_store::{
    AttemptOutcome, AttemptRecord, ItemGroup, JournalEntry, JournalFilter, NewItem, UnitKind,
    UnitRow,
};

fn attempt(id: i64, outcome: AttemptOutcome, ended: i64, message: Option<&str>) -> AttemptRecord {
    let unit = UnitRow::new(UnitKind::Run, id);
    AttemptRecord {
        outcome,
        class: message.map(|_| "retryable".to_owned()),
        code: message.map(|_| "503".to_owned()),
        message: message.map(str::to_owned),
        fingerprint: message.map(|_| "00ff".to_owned()),
        ..AttemptRecord::success(unit, AttemptNumber(1), at(ended - 2), at(ended), "w1")
    }
}

pub async fn the_change_token_changes_with_every_write_and_not_without(f: &Fixture) {
    let quiet = f.store.change_token().await.expect("asked");
    let attempts = [attempt(1, AttemptOutcome::Success, 10, None)];
    f.store.append_attempts(&attempts).await.expect("written");
    let written = f.store.change_token().await.expect("asked");
    assert_ne!(quiet, written);
    f.store.activity(0, 10).await.expect("read");
    let again = f.store.change_token().await.expect("asked");
    let entry = JournalEntry {
        at: at(1),
        actor: "somebody".to_owned(),
        action: "run.cancel".to_owned(),
        unit: None,
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: None,
    };
    f.store.append_journal(&[entry]).await.expect("written");
    assert_ne!(again, f.store.change_token().await.expect("asked"));
}

pub async fn what_was_attempted_is_counted_by_minute_from_where_one_left_off(f: &Fixture) {
    let failed = AttemptOutcome::Failed;
    let batch = [
        attempt(1, AttemptOutcome::Success, 10, None),
        attempt(2, AttemptOutcome::Success, 50, None),
        attempt(3, AttemptOutcome::Retrying, 61, Some("first")),
        attempt(4, failed, 119, Some("second")),
        attempt(5, failed, 120, Some("last")),
    ];
    f.store.append_attempts(&batch).await.expect("written");
    let activity = f.store.activity(0, 1_000).await.expect("read");
    let mut counts: Vec<_> = activity
        .counts
        .iter()
        .map(|count| (count.minute, count.outcome.name(), count.attempts, count.took))
        .collect();
    counts.sort_unstable();
    assert!(activity.counts.iter().all(|count| count.reached == 5 && !count.lost), "{activity:?}");
    let took = |seconds| Duration::from_secs(seconds);
    assert_eq!(
        counts,
        [
            (at(0), "success", 2, took(4)),
            (at(60), "failed", 1, took(2)),
            (at(60), "retrying", 1, took(2)),
            (at(120), "failed", 1, took(2)),
        ]
    );
    let later = f.store.activity(activity.end, 1_000).await.expect("read");
    assert_eq!((later.counts.len(), later.end), (0, activity.end));
    f.store.append_attempts(&[attempt(6, failed, 130, None)]).await.expect("written");
    let later = f.store.activity(activity.end, 1_000).await.expect("read");
    assert_eq!(later.counts.iter().map(|count| count.attempts).sum::<u64>(), 1);
    // However long nobody looked, no more than so many are read.
    let newest = f.store.activity(0, 2).await.expect("read");
    assert_eq!(newest.after, newest.end - 2);
    assert_eq!(newest.counts.iter().map(|count| count.attempts).sum::<u64>(), 2);
}

pub async fn runs_are_counted_by_how_long_they_waited(f: &Fixture) {
    let soon = run("q", "", at(100));
    let late = run("q", "", at(100)).with_not_before(at(110));
    let ids = f.submit(&[soon, late], at(100)).await;
    let begun = |id: redrive_core::RunId, number, started| {
        let unit = UnitRow::new(UnitKind::Run, id.0);
        AttemptRecord::success(unit, AttemptNumber(number), at(started), at(started + 1), "w1")
    };
    let [soon, late] = ids[..] else { panic!("{ids:?}") };
    let attempts = [begun(soon, 1, 103), begun(soon, 2, 500), begun(late, 1, 110)];
    f.store.append_attempts(&attempts).await.expect("written");
    let activity = f.store.activity(0, 100).await.expect("read");
    let mut lags = f.store.lags(activity.after, activity.end).await.expect("read");
    lags.sort_by_key(|lag| lag.reached);
    let told: Vec<_> =
        lags.iter().map(|lag| (lag.reached, lag.runs, lag.waited.as_secs())).collect();
    assert_eq!(told, [(0, 1, 0), (5, 1, 3)]);
    assert_eq!(f.store.lags(activity.end, activity.end).await.expect("read"), []);
    let last = f.store.lags(activity.end - 1, activity.end).await.expect("read");
    assert_eq!(last.iter().map(|lag| lag.runs).sum::<u64>(), 1, "of the stretch alone");
}

pub async fn the_journal_is_read_from_its_end(f: &Fixture) {
    let entry = |n: i64| JournalEntry {
        at: at(n),
        actor: "somebody".to_owned(),
        action: if n % 2 == 0 { "even" } else { "odd" }.to_owned(),
        unit: Some(format!("run:{}", n % 3)),
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: None,
    };
    f.store.append_journal(&(1..=9).map(entry).collect::<Vec<_>>()).await.expect("written");
    let read = async |unit: Option<&str>, action: Option<&str>, before| {
        let filter =
            JournalFilter { unit: unit.map(str::to_owned), action: action.map(str::to_owned) };
        f.store.newest_journal(&filter, before, 3).await.expect("read")
    };
    let times = |rows: &[redrive_store::JournalRecord]| -> Vec<_> {
        rows.iter().map(|row| row.entry.at).collect()
    };
    let newest = read(None, None, i64::MAX).await;
    assert_eq!(times(&newest), [at(9), at(8), at(7)]);
    let last = newest.last().expect("three").id;
    assert_eq!(times(&read(None, None, last).await), [at(6), at(5), at(4)]);
    assert_eq!(times(&read(None, Some("even"), i64::MAX).await), [at(8), at(6), at(4)]);
    assert_eq!(times(&read(Some("run:0"), Some("odd"), i64::MAX).await), [at(9), at(3)]);
}

pub async fn items_are_counted_over_all_uploads(f: &Fixture) {
    assert_eq!(f.store.items_by_status().await.expect("read"), []);
    let of = |upload: &str, name: &str| {
        let group = ItemGroup { upload: upload.to_owned(), group: "g".to_owned() };
        NewItem { group, ..item(name) }
    };
    let items = [of("one", "a"), of("one", "b"), of("two", "a")];
    f.store.add_items(&items, &operator(at(1))).await.expect("added");
    assert_eq!(f.store.items_by_status().await.expect("read"), [(ItemStatus::Pending, 3)]);
}
