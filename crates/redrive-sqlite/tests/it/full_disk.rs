//! A disk without room: nothing is half written, reads go on, and so do writes once there is room.

use std::{fs, io::Write as _, path::Path, process::Command};

use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{Error, LeaseRef, Leased, Leases as _, NewRun, Runs as _, Store as _};

use crate::{
    child,
    scratch::{all_runs, at, begin, claim, told},
    writer::BlockedWriter,
};

/// Plays a part on a real disk of this size; nothing, where none can be mounted.
fn play_on_a_small_disk(role: &str, mib: u32) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!(r#"mount -t tmpfs -o size={mib}m tmpfs "$0" && exec "$@""#);
    let small_disk = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command.args(["sh", "-c", &mount]).arg(folder.path());
        command
    };
    match small_disk().arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: a small disk cannot be mounted here: {why}");
            return None;
        }
        Err(error) => {
            eprintln!("skipped: there is no unshare here: {error}");
            return None;
        }
    }
    let mut command = small_disk();
    command.arg(std::env::current_exe().unwrap());
    child::dress(&mut command, role, &folder.path().join("store.db"));
    Some(child::answers(&command.output().unwrap()))
}

// OPS-1
#[test]
fn a_full_disk_is_told_reads_go_on_and_writes_go_on_when_there_is_room_again() {
    if let Some(said) = play_on_a_small_disk("fill the disk", 4) {
        assert_eq!(said, ["went on"]);
    }
}

// OPS-1
#[test]
fn the_log_does_not_fill_a_small_disk() {
    if let Some(said) = play_on_a_small_disk("write much to a small disk", 12) {
        assert_eq!(said, ["went on", "emptied the log"]);
    }
}

/// A part of the test above: writes 40 MB to the log of a database of 3 MB.
pub(crate) fn write_much(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let location = Location::File(path.to_owned());
        let store = SqliteStore::open(location, SqliteOptions::default(), at(0)).unwrap();
        let payload = serde_json::json!("x".repeat(10_000));
        for _ in 0..250 {
            let run = [NewRun::new("q", &payload, at(0)).unwrap()];
            store.submit_runs(&run, at(0)).await.unwrap();
        }
        let claimed = store.claim_runs(&claim(250)).await.unwrap();
        let leases: Vec<_> =
            claimed.iter().map(|run| LeaseRef { id: run.id.0, epoch: run.epoch }).collect();
        for second in 0..40 {
            store.ping().await.unwrap();
            store.renew_leases(Leased::Run, &leases, at(60 + second)).await.unwrap();
        }
        child::answer("went on");

        let log = path.with_file_name("store.db-wal");
        assert!(log.metadata().unwrap().len() > 1024 * 1024, "there is something to gain");
        let mut filler = fs::File::create(path.with_file_name("filler")).unwrap();
        for size in [64 * 1024, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
        let error = store.ping().await.unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error:?}");
        for _ in 0..10 {
            let run = [NewRun::new("q", &payload, at(0)).unwrap()];
            store.submit_runs(&run, at(0)).await.unwrap();
        }
        child::answer("emptied the log");
    });
}

/// A part of the test above.
pub(crate) fn fill_and_go_on(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(async {
        let filler = path.with_file_name("filler");
        fs::write(&filler, vec![0; 2 * 1024 * 1024]).unwrap();
        let location = Location::File(path.to_owned());
        let options = SqliteOptions { min_free_bytes: 256 * 1024, ..SqliteOptions::default() };
        let store = SqliteStore::open(location, options, at(0)).unwrap();
        store.ping().await.unwrap();
        let payload = serde_json::json!("x".repeat(20_000));
        let large = [NewRun::new("q", &payload, at(0)).unwrap()];

        let mut acknowledged = 0;
        let error = loop {
            match store.submit_runs(&large, at(0)).await {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert!(acknowledged > 10, "{acknowledged}");
        let mut errors = vec![error];
        // In company too: one transaction, one error for all.
        let held = BlockedWriter::new(path);
        let mut calls: Vec<_> = (0..20).map(|_| store.submit_runs(&large, at(0))).collect();
        calls.iter_mut().for_each(begin);
        drop(held);
        for call in calls {
            errors.push(call.await.unwrap_err());
        }
        for error in errors {
            assert!(matches!(error, Error::Full { .. }), "{error:?}");
            assert!(error.is_transient());
            let text = told(&error);
            assert!(text.contains("no room left"), "{text}");
            assert!(text.contains(path.to_str().unwrap()), "{text}");
        }
        let error = store.ping().await.unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error:?}");
        assert_eq!(all_runs(&store).await.len(), acknowledged);

        fs::remove_file(filler).unwrap();
        store.ping().await.unwrap();
        store.submit_runs(&large, at(0)).await.unwrap();
        assert_eq!(all_runs(&store).await.len(), acknowledged + 1);
        assert_eq!(store.integrity_problems().await.unwrap(), [""; 0]);
    });
    child::answer("went on");
}
