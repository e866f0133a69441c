//! The logs of attempts.

use redrive_core::{AttemptNumber, Epoch};

use super::{Fixture, samples::at};
use redrive_store::{AttemptLog, LoggedAttempt, UnitKind, UnitRow};

pub(super) fn log(unit: &UnitRow, attempt: u32, epoch: i64, text: &str) -> AttemptLog {
    AttemptLog {
        unit: unit.clone(),
        attempt: AttemptNumber(attempt),
        epoch: Epoch(epoch),
        worker: format!("w{epoch}"),
        printed: text.len() as u64,
        written_at: at(epoch),
        text: text.to_owned(),
    }
}

impl Fixture {
    pub(super) async fn log_text(&self, unit: &UnitRow, attempt: u32) -> Option<String> {
        let found = self.store.log_of(unit, AttemptNumber(attempt)).await.expect("read");
        found.map(|log| log.text)
    }
}

// LOG-1, LOG-2
pub async fn logs_read_back_as_they_were_given_each_with_its_attempt(f: &Fixture) {
    let sample = UnitRow { stage: "llm/call".to_owned(), ..UnitRow::new(UnitKind::Sample, 7) };
    let other_stage = UnitRow { stage: "grade".to_owned(), ..sample.clone() };
    let run = UnitRow::new(UnitKind::Run, 7);
    let logs = [
        AttemptLog {
            printed: 5_000_000_000,
            ..log(&sample, 1, 3, "one\n\ttwo 'three' \u{1F600}\n")
        },
        log(&other_stage, 1, 4, "other stage"),
        log(&sample, 2, 5, ""),
        log(&run, 1, 6, "other kind"),
    ];
    f.store.write_logs(&logs).await.expect("written");
    f.store.write_logs(&[]).await.expect("nothing");
    for log in &logs {
        let read = f.store.log_of(&log.unit, log.attempt).await.expect("read");
        assert_eq!(read.as_ref(), Some(log));
    }
    assert_eq!(f.log_text(&UnitRow::new(UnitKind::Run, 8), 1).await, None);
    assert_eq!(f.log_text(&run, 2).await, None);
    let logged = f.store.logged_attempts(&sample, 10).await.expect("read");
    let of = |attempt, printed| LoggedAttempt { attempt: AttemptNumber(attempt), printed };
    assert_eq!(logged, [of(2, 0), of(1, 5_000_000_000)]);
    assert_eq!(f.store.logged_attempts(&sample, 1).await.expect("read"), [of(2, 0)]);
}

// LOG-2
pub async fn a_later_log_replaces_an_earlier_one_and_never_the_other_way(f: &Fixture) {
    let unit = UnitRow::new(UnitKind::Run, 1);
    let steps = [
        (2, "short", "short"),
        (2, "longer", "longer"),
        (2, "late", "longer"),
        (1, "of a lost worker, and long", "longer"),
        (3, "new", "new"),
        (2, "of a lost worker, and long", "new"),
    ];
    for (epoch, text, expected) in steps {
        f.store.write_logs(&[log(&unit, 1, epoch, text)]).await.expect("written");
        assert_eq!(f.log_text(&unit, 1).await.as_deref(), Some(expected), "{epoch} {text}");
    }
}
