//! What only a local folder does: full disks, killed writers, foreign files.

use std::fs;

use redrive_engine::{RawError, RawSink};

use super::{a_key, child, extracted, files_below, run, seal};

/// A killed process leaves at most what nobody reads.
// PAR-3
#[test]
fn a_writer_killed_in_the_middle_leaves_nothing_readable() {
    let folder = tempfile::tempdir().unwrap();
    let mut writing = child::Playing::start("write without an end", folder.path());
    assert_eq!(writing.next().as_deref(), Some("written"));
    writing.kill();
    assert!(!files_below(folder.path()).is_empty(), "it had begun");
    in_runtime(async {
        let sink = RawSink::folder(folder.path());
        assert!(sink.runs(&a_key()).await.unwrap().is_empty());
        let read = sink.read(&a_key(), &run("r-1")).await;
        assert!(matches!(read, Err(RawError::NotSealed { .. })), "{read:?}");
        let again = seal(&sink, &a_key(), &run("r-1"), b"{}\n").await;
        assert!(matches!(again, Err(RawError::Used { .. })), "{again:?}");
        seal(&sink, &a_key(), &run("r-2"), b"{}\n").await.unwrap();
    });
}

/// Whatever a process had sealed when it was killed is whole, whenever that was.
// PAR-3 PAR-11
#[test]
fn what_was_sealed_before_a_kill_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    for kill_after in [1, 3, 10] {
        let mut sealing = child::Playing::start("seal until killed", folder.path());
        let mut acknowledged: Vec<_> = (0..kill_after).map(|_| sealing.next().unwrap()).collect();
        acknowledged.extend(sealing.kill());
        in_runtime(async {
            let sink = RawSink::folder(folder.path());
            let runs = sink.runs(&a_key()).await.unwrap();
            for run_id in acknowledged {
                assert!(runs.contains(&run(&run_id)), "{run_id} of {runs:?}");
            }
            for run_id in runs {
                sink.verify(&a_key(), &run_id).await.unwrap();
            }
        });
    }
}

// PAR-3
#[test]
fn a_full_disk_is_told_and_seals_nothing() {
    if let Some(answers) = child::play_on_a_small_disk("fill the disk") {
        assert_eq!(answers, ["went on"]);
    }
}

/// A part of the test above.
pub(super) fn fill_and_go_on(folder: &std::path::Path) {
    in_runtime(async {
        let sink = RawSink::folder(folder.join("raw"));
        seal(&sink, &a_key(), &run("r-0"), b"{}\n").await.unwrap();
        let row = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1000));
        let large = row.repeat(6000);
        let full = seal(&sink, &a_key(), &run("r-1"), large.as_bytes()).await.unwrap_err();
        assert!(full.is_disk_full(), "{full:?}");
        assert!(full.in_words().contains("No space left"), "{}", full.in_words());
        let left = files_below(folder);
        assert!(left.iter().all(|file| file.contains("run_id=r-0")), "{left:?}");

        // No room for the metadata alone.
        let mut writer = sink.begin(&a_key(), &run("r-2")).await.unwrap();
        writer.write(b"{}\n").await.unwrap();
        let mut filler = fs::File::create(folder.join("filler")).unwrap();
        while std::io::Write::write_all(&mut filler, &[0; 1024]).is_ok() {}
        let full = writer.seal(extracted()).await.unwrap_err();
        assert!(full.is_disk_full(), "{full:?}");
        assert_eq!(sink.runs(&a_key()).await.unwrap(), [run("r-0")]);
        sink.verify(&a_key(), &run("r-0")).await.unwrap();

        drop(filler);
        fs::remove_file(folder.join("filler")).unwrap();
        seal(&sink, &a_key(), &run("r-3"), row.as_bytes()).await.unwrap();
        assert_eq!(sink.runs(&a_key()).await.unwrap(), [run("r-0"), run("r-3")]);
        child::answer("went on");
    });
}

// PAR-3
#[tokio::test]
async fn a_root_that_was_taken_away_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("deep/er/raw");
    let sink = RawSink::folder(&root);
    sink.check().await.unwrap();
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    fs::remove_dir_all(folder.path().join("deep")).unwrap();
    assert!(sink.runs(&a_key()).await.unwrap().is_empty());
    seal(&sink, &a_key(), &run("r-2"), b"{}\n").await.unwrap();
    assert_eq!(sink.runs(&a_key()).await.unwrap(), [run("r-2")]);
}

#[tokio::test]
async fn a_root_that_is_a_file_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("raw");
    fs::write(&root, "mine").unwrap();
    let sink = RawSink::folder(&root);
    let told = sink.check().await.unwrap_err().in_words();
    assert!(told.contains(root.to_str().unwrap()), "{told}");
    let told = sink.begin(&a_key(), &run("r-1")).await.unwrap_err().in_words();
    assert!(told.contains(root.to_str().unwrap()), "{told}");
    assert!(sink.runs(&a_key()).await.unwrap().is_empty());
    assert_eq!(fs::read(&root).unwrap(), b"mine");
}

// PAR-3
#[tokio::test]
async fn foreign_files_beside_runs_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path());
    seal(&sink, &a_key(), &run("r-1"), b"{}\n").await.unwrap();
    let payload = sink.location(&a_key(), &run("r-1")).payload;
    let date = std::path::Path::new(&payload).parent().unwrap().parent().unwrap();
    fs::write(date.join("notes.txt"), "mine").unwrap();
    fs::create_dir(date.join("run_id=UPPER")).unwrap();
    fs::write(date.join("run_id=UPPER/metadata.json"), "{}").unwrap();
    assert_eq!(sink.runs(&a_key()).await.unwrap(), [run("r-1")]);
}

pub(super) fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
