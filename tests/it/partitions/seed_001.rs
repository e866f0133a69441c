//! What the specification of the retry daemon says, where no other test is about just that. The headings
//! are its own; `docs/partitions.md` has the whole list.

use redrive::{
    Clock, PartitionAction, PartitionRecord, PartitionStatus, SystemClock,
    jiff::{Timestamp, ToSpan},
    store::JournalFilter,
};

use crate::{archive::Archive, databases::texts};

fn ago(minutes: i64) -> Timestamp {
    SystemClock.now().checked_sub(minutes.minutes()).unwrap()
}

/// Overview and non-goals: the daemon changes nothing but `failed` to `pending`. No run, no raw data, no
/// verdict, no count.
// DMN-3
#[test]
fn overview_the_daemon_makes_no_runs_no_raw_data_and_no_verdicts() {
    for archive in Archive::both() {
        let key = archive.failed_at("ads/7/daily/2026-03-01", 2, ago(60), true);
        let before = archive.partition(&key).unwrap();
        let runs = archive.runtime.block_on(archive.raw.runs(&key)).unwrap();
        archive.run(&["daemon", "--once", "-q"]).ok();
        let after = archive.partition(&key).unwrap();
        let work = after.work.clone().unwrap();
        assert_eq!((work.run_id, work.lease_owner), (None, None));
        assert_eq!(archive.runtime.block_on(archive.raw.runs(&key)).unwrap(), runs);
        let PartitionRecord { updated_at, .. } = after;
        let only = PartitionRecord {
            status: PartitionStatus::Pending,
            updated_at,
            work: after.work.clone(),
            ..before
        };
        assert_eq!(after, only, "nothing else has changed");
    }
}

/// Selection logic, second step, and non-goals: what an operator marked is skipped tick by tick until the
/// mark is cleared by hand, and then it is retried when its time has come.
// DMN-1, DMN-3
#[test]
fn selection_logic_a_mark_is_respected_until_it_is_cleared_by_hand() {
    for archive in Archive::both() {
        let key = archive.failed_at("ads/7/daily/2026-03-01", 1, ago(60), false);
        archive.done(PartitionAction::MarkTerminal, &key);
        for _ in 0..3 {
            archive.run(&["daemon", "--once"]).ok();
            assert_eq!(archive.inspect(&key)["terminal_reason"], "marked");
        }
        archive.run(&["state", "clear-terminal", &format!("partition:{key}")]).ok();
        archive.run(&["daemon", "--once"]).ok();
        // Clearing is a change, and the wait begins there.
        assert_eq!(archive.status(&key), PartitionStatus::Failed);
    }
}

/// Selection logic, third and fourth step: eligible is `now - updated_at >= delay_for(attempt_count)`,
/// five minutes doubled with each attempt, six hours at most, give or take thirty seconds.
// DMN-1
#[test]
fn selection_logic_the_wait_doubles_with_each_attempt_up_to_six_hours() {
    for archive in Archive::both() {
        let waits = [(1, 5), (2, 10), (3, 20), (7, 320), (8, 360), (9, 360)];
        let key = |attempts: u32, due: bool| format!("ads/{attempts}-{due}/daily/2026-03-01");
        let keys: Vec<_> = waits
            .iter()
            .flat_map(|(attempts, minutes)| {
                let early = ago(minutes - 1);
                let due = ago(minutes + 1);
                [(false, early), (true, due)].map(|(is_due, at)| {
                    let key = key(*attempts, is_due);
                    (archive.failed_at(&key, *attempts, at, false), is_due)
                })
            })
            .collect();
        archive.run(&["daemon", "--once", "-q"]).ok();
        for (key, is_due) in keys {
            let expected = if is_due { PartitionStatus::Pending } else { PartitionStatus::Failed };
            assert_eq!(archive.status(&key), expected, "{key}");
        }
    }
}

/// Crash safety: the retry is the command's own, so a daemon beside an operator finds nothing left to do,
/// and the other way round.
// DMN-2
#[test]
fn crash_safety_who_comes_second_finds_nothing_to_do() {
    for archive in Archive::both() {
        let key = archive.failed_at("ads/7/daily/2026-03-01", 1, ago(60), true);
        let unit = format!("partition:{key}");
        archive.run(&["daemon", "--once", "-q"]).ok();
        let once = archive.partition(&key);
        let again = archive.run(&["state", "retry", &unit, "-o", "json"]);
        assert_eq!(again.json()[0]["outcome"], "already");
        assert_eq!(archive.run(&["daemon", "--once"]).ok(), "");
        assert_eq!(archive.partition(&key), once);
        let filter = JournalFilter { unit: Some(unit), action: Some("partition.retry".to_owned()) };
        let told = archive.runtime.block_on(archive.store.journal_page(&filter, 0, 10)).unwrap();
        assert_eq!(told.len(), 1);
    }
}

/// Implementation notes: one command for each customer and query, forced, with its filter in the journal.
// DMN-1
#[test]
fn implementation_notes_retries_are_batched_by_customer_and_query_and_forced() {
    for archive in Archive::both() {
        for (customer, day) in [(7, 1), (7, 2), (8, 1)] {
            let key = format!("ads/{customer}/daily/2026-03-0{day}");
            archive.failed_at(&key, 1, ago(60), false);
        }
        archive.run(&["daemon", "--once", "-q"]).ok();
        let filter = JournalFilter { action: Some("partition.retry".to_owned()), unit: None };
        let told = archive.runtime.block_on(archive.store.journal_page(&filter, 0, 10)).unwrap();
        let filters: Vec<_> = told.iter().map(|row| row.entry.filter.clone().unwrap()).collect();
        assert_eq!(filters.iter().filter(|filter| filter.contains("\"7\"")).count(), 2);
        assert_eq!(filters.iter().filter(|filter| filter.contains("\"8\"")).count(), 1);
        assert!(told.iter().all(|row| row.entry.details.contains("--force")));
        let actors: std::collections::BTreeSet<_> =
            told.iter().map(|row| row.entry.actor.as_str()).collect();
        assert_eq!(actors.len(), 1, "one daemon");
    }
}

/// Non-goals: the daemon has no column of its own; what is stored of a partition is what PAR-1 lists.
// DMN-2, PAR-1
#[test]
fn non_goals_partition_state_has_its_columns_and_no_other() {
    const COLUMNS: [&str; 12] = [
        "id",
        "source",
        "customer_id",
        "query_name",
        "logical_date",
        "status",
        "current_run_id",
        "schema_version",
        "record_count",
        "attempt_count",
        "error_message",
        "updated_at",
    ];
    for archive in Archive::both() {
        let sql = if archive.url().starts_with("sqlite:") {
            "SELECT name FROM pragma_table_info('partition_state') ORDER BY cid"
        } else {
            "SELECT column_name::text FROM information_schema.columns
             WHERE table_schema = 'redrive' AND table_name = 'partition_state'
             ORDER BY ordinal_position"
        };
        assert_eq!(texts(archive.url(), sql), COLUMNS);
    }
}
