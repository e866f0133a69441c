//! A plain program that writes and syncs the files and folders of partitions, and does nothing else.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::contender::failed;
use crate::exit::Failure;

/// As long as the metadata of a small partition.
const METADATA_BYTES: usize = 420;

/// How long it takes to write partitions by so many threads.
pub(super) async fn write_plainly(
    root: &Path,
    count: usize,
    at_once: usize,
    payload: &[u8],
) -> Result<Duration, Failure> {
    let (root, payload): (Arc<PathBuf>, Arc<[u8]>) = (Arc::new(root.to_owned()), payload.into());
    let start = Instant::now();
    let mut threads = JoinSet::new();
    for thread in 0..at_once {
        let (root, payload) = (root.clone(), payload.clone());
        threads.spawn_blocking(move || {
            (thread..count).step_by(at_once).try_for_each(|n| write_one(&root, n, &payload))
        });
    }
    while let Some(ended) = threads.join_next().await {
        ended.map_err(failed)?.map_err(failed)?;
    }
    Ok(start.elapsed())
}

/// One folder for the day and one for the run, two files, each on the disk before the next step.
fn write_one(root: &Path, n: usize, payload: &[u8]) -> io::Result<()> {
    let query = root.join(format!("small/customer_id={}/query_name=daily", n / 365));
    let day = query.join(format!("logical_date={}", n % 365));
    let run = day.join(format!("run_id={n:032}"));
    fs::create_dir_all(&run)?;
    for (name, bytes) in
        [("payload.jsonl", payload), ("metadata.json", &[b' '; METADATA_BYTES][..])]
    {
        let mut file = File::create_new(run.join(name))?;
        file.write_all(bytes)?;
        file.sync_all()?;
    }
    for folder in [&run, &day, &query] {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
