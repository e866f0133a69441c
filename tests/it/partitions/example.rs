//! `examples/partitions` does what it says.

use std::{fs, os::unix::fs::PermissionsExt};

use redrive::{
    Clock, PartitionStatus, SystemClock,
    jiff::{ToSpan, tz::TimeZone},
    store::Selection,
};

use crate::{folder::Folder, shop::Worker, source_tree::root};

// PAR-2, PAR-4
#[test]
fn the_example_source_is_extracted_by_its_schedule() {
    let folder = Folder::new();
    let example = root().join("examples/partitions");
    for file in ["redrive.toml", "row.schema.json", "extract.sh"] {
        folder.write(file, fs::read(example.join(file)).unwrap());
    }
    let mode = fs::metadata(example.join("extract.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "the extractor can be started");
    let extractor = folder.path().join("extract.sh");
    fs::set_permissions(&extractor, fs::Permissions::from_mode(mode)).unwrap();
    // A month of it, whatever day it is.
    let today = SystemClock.now().to_zoned(TimeZone::UTC).date();
    let start = today.checked_sub(31.days()).unwrap().to_string();
    let config = folder.read("redrive.toml").replace("2026-01-01", &start);
    folder.write("redrive.toml", config);

    folder.run(&["check"]).ok();
    let worker = Worker::start(folder.command(&["worker"]));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = format!("sqlite:{}", folder.path().join("redrive.db").display());
    let (good, failed) = runtime.block_on(async {
        let store = redrive::open(&url).await.unwrap();
        loop {
            let counts = store.partition_counts().await.unwrap();
            let of =
                |status| counts.iter().find(|count| count.status == status).map(|c| c.partitions);
            let pending = of(PartitionStatus::Pending).unwrap_or(0);
            if pending == 0 && of(PartitionStatus::Success).is_some() {
                let filter = Selection {
                    state: Some(PartitionStatus::Failed.into()),
                    ..Selection::default()
                };
                let failed = store.partitions_page(&filter, None, 100.into()).await.unwrap();
                return (of(PartitionStatus::Success).unwrap(), failed);
            }
            tokio::task::yield_now().await;
        }
    });
    worker.signal("-TERM");
    assert_eq!(worker.end().0, Some(143));
    assert!(good >= 50, "{good}");
    assert!((4..=6).contains(&failed.len()), "the station is silent at times");
    for partition in failed {
        let said = partition.error_message.unwrap();
        assert!(said.starts_with("no raw partition: the station in "), "{said}");
    }
    folder.run(&["doctor"]).ok();
}
