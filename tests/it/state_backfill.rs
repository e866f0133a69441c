//! `redrive state backfill`.

use redrive::{PartitionAction, PartitionStatus};

use crate::archive::{Archive, outcomes, pairs};

fn backfill<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["state", "backfill", "--source", "ads", "-o", "json"], more].concat()
}

// PAR-9
#[test]
fn every_day_of_a_range_becomes_pending_both_ends_included() {
    for archive in Archive::both() {
        let ranges = [
            ("2024-02-28", "2024-03-01", 3),
            ("2023-02-28", "2023-03-01", 2),
            ("2025-12-31", "2026-01-01", 2),
            ("2000-02-29", "2000-02-29", 1),
        ];
        for (since, until, days) in ranges {
            let range = ["--since", since, "--until", until];
            let ended = archive.run(&backfill(&range));
            assert_eq!((outcomes(&ended).len(), ended.code), (2 * days, Some(0)), "{since}");
        }
        let all = archive.everything();
        assert_eq!(all.len(), 2 * 8, "for both customers of the source");
        assert!(all.iter().all(|it| it.status == PartitionStatus::Pending && it.work.is_some()));
        let days: Vec<String> =
            all.iter().take(4).map(|it| it.key.logical_date().to_string()).collect();
        assert_eq!(days, ["2000-02-29", "2023-02-28", "2023-03-01", "2024-02-28"]);
    }
}

// PAR-9, OPS-4
#[test]
fn a_range_that_runs_backwards_or_is_huge_is_not_begun() {
    let archive = Archive::on_sqlite();
    let backwards = backfill(&["--since", "2026-01-02", "--until", "2026-01-01"]);
    let complaint = archive.run(&backwards).failed(2);
    assert!(complaint.contains("--since 2026-01-02 is after --until 2026-01-01"), "{complaint}");
    let giant = ["--since", "0001-01-01", "--until", "9999-12-31", "--yes"];
    let complaint = archive.run(&backfill(&giant)).failed(2);
    assert!(complaint.contains("the range has 7304118 partitions"), "{complaint}");
    assert!(complaint.contains("up to 1000000"), "{complaint}");
    let huge = backfill(&["--since", "1900-01-01", "--until", "2026-01-01"]);
    let complaint = archive.run(&huge).failed(4);
    assert!(complaint.contains("add --yes"), "{complaint}");
    let beyond = backfill(&["--since", "2026-01-01", "--until", "10000-01-01"]);
    archive.run(&beyond).failed(2);
    let nothing = backfill(&["--since", "2026-02-29", "--until", "2026-03-01"]);
    archive.run(&nothing).failed(2);
    assert!(archive.everything().is_empty());
    // Fifty days of two customers are a hundred, which are not asked about.
    let hundred = backfill(&["--since", "2026-01-01", "--until", "2026-02-19"]);
    archive.run(&hundred).ok();
    let more = backfill(&["--since", "2026-01-01", "--until", "2026-02-20"]);
    archive.run(&more).failed(4);
    assert_eq!(archive.everything().len(), 100);
}

// PAR-5, PAR-9
#[test]
fn what_is_there_is_respected_and_success_is_never_demoted() {
    for archive in Archive::both() {
        let good = archive.good("ads/7/daily/2026-01-01", &["{}"]);
        let failed = archive.failed("ads/7/daily/2026-01-02", 1);
        let marked = archive.terminal("ads/7/daily/2026-01-03");
        let again = archive.good("ads/7/daily/2026-01-04", &["{}"]);
        archive.done(PartitionAction::Reprocess { lane: redrive::Lane::Backfill }, &again);
        archive.pending("ads/7/daily/2026-01-05");
        let range = ["--customer-id", "7", "--since", "2026-01-01", "--until", "2026-01-06"];
        let before = archive.everything();
        let plain = archive.run(&backfill(&range));
        let mut expected = [
            ("ads/7/2026-01-01", "already"),
            ("ads/7/2026-01-02", "already"),
            ("ads/7/2026-01-03", "already"),
            ("ads/7/2026-01-04", "already"),
            ("ads/7/2026-01-05", "already"),
            ("ads/7/2026-01-06", "done"),
        ];
        assert_eq!((outcomes(&plain), plain.code), (pairs(&expected), Some(0)));
        assert_eq!(archive.everything()[..5], before, "nothing of them was touched");

        let forced = backfill(&[&range[..], &["--force-pending"]].concat());
        let dry = archive.run(&[&forced[..], &["--dry-run"]].concat());
        let forced = archive.run(&forced);
        expected[1].1 = "done";
        expected[2].1 = "refused";
        expected[5].1 = "already";
        assert_eq!((outcomes(&forced), forced.code), (pairs(&expected), Some(3)));
        assert_eq!(dry.stdout.replace("would_be_done", "done"), forced.stdout);
        assert_eq!(archive.status(&good), PartitionStatus::Success);
        assert_eq!(archive.status(&again), PartitionStatus::Success);
        assert_eq!(archive.status(&failed), PartitionStatus::Pending);
        assert_eq!(archive.status(&marked), PartitionStatus::Failed);
    }
}

// PAR-9
#[test]
fn customers_and_queries_are_those_of_the_source_unless_given() {
    let archive = Archive::on_sqlite();
    let one_day = ["--since", "2026-01-01", "--until", "2026-01-01"];
    let given = ["--customer-id", "9", "--customer-id", "-1", "--query-name", "hourly"];
    let given = backfill(&[&one_day[..], &given].concat());
    let complaint = archive.run(&given).failed(4);
    assert!(complaint.contains("declares no customer \"9\"; nothing was changed"), "{complaint}");
    assert!(complaint.contains("--allow-unknown"), "{complaint}");
    let query = backfill(&[&one_day[..], &["--query-name", "dialy"]].concat());
    let complaint = archive.run(&query).failed(4);
    assert!(
        complaint.contains("no query \"dialy\"") && complaint.contains("`daily`"),
        "{complaint}"
    );
    let source =
        ["state", "backfill", "--source", "adds", "--customer-id", "7", "--query-name", "daily"];
    let complaint = archive.run(&[&source[..], &one_day].concat()).failed(4);
    assert!(complaint.contains("no source \"adds\"") && complaint.contains("`ads`"), "{complaint}");
    assert!(archive.everything().is_empty());
    archive.run(&[&given[..], &["--allow-unknown"]].concat()).ok();
    let keys: Vec<String> = archive.everything().iter().map(|it| it.key.to_string()).collect();
    assert_eq!(keys, ["ads/-1/hourly/2026-01-01", "ads/9/hourly/2026-01-01"]);
    let stranger = [&["state", "backfill", "--source", "asd"], &one_day[..]].concat();
    let complaint = archive.run(&stranger).failed(2);
    assert!(complaint.contains("source \"asd\" is not declared"), "{complaint}");
    assert!(complaint.contains("ads"), "a name that is near: {complaint}");
    let told = archive.audit(&keys[0].parse().unwrap());
    assert_eq!(told[0]["details"]["command"], "state backfill");
    assert_eq!(told[0]["filter"]["query_name"], "hourly");
    let flags = told[0]["details"]["flags"].to_string();
    assert!(flags.contains("--customer-id=9"), "{flags}");
}

// PAR-9, OPS-4
#[test]
fn a_dry_run_creates_no_database_and_a_long_run_says_how_far_it_is() {
    let folder = crate::folder::Folder::new();
    let days = ["--since", "2000-01-01", "--until", "2030-01-01", "-o", "jsonl", "--dry-run"];
    let names = ["--source", "ads", "--customer-id", "7", "--query-name", "daily"];
    let ended = folder.run(&[&["state", "backfill"], &names[..], &days].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = ended.stdout.lines().filter(|line| line.contains("would_be_done"));
    assert_eq!(lines.count(), 10_959);
    assert_eq!(ended.stderr, "10000 units so far\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

// PAR-9, OPS-4
#[test]
fn a_backfill_that_is_not_confirmed_creates_no_store() {
    let archive = Archive::on_sqlite();
    let huge = backfill(&["--since", "1900-01-01", "--until", "2026-01-01"]);
    let ended = archive.folder.run(&[&huge[..], &["--store", "sqlite:other.db"]].concat());
    assert!(ended.failed(4).contains("add --yes"));
    assert!(!archive.folder.path().join("other.db").exists());
}
