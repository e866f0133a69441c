//! A bare program that writes and syncs the files and folders of partitions, and does nothing else.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::error::{BenchError, failed};

/// As long as the metadata of a small partition.
const METADATA_BYTES: usize = 420;

/// How long `concurrency` threads take to write `count` partitions.
pub(crate) async fn write_partition_files(
    root: &Path,
    count: usize,
    concurrency: usize,
    payload: &[u8],
) -> Result<Duration, BenchError> {
    let (root, payload): (Arc<PathBuf>, Arc<[u8]>) = (Arc::new(root.to_owned()), payload.into());
    let start = Instant::now();
    let mut threads = JoinSet::new();
    for thread in 0..concurrency {
        let (root, payload) = (root.clone(), payload.clone());
        threads.spawn_blocking(move || {
            (thread..count).step_by(concurrency).try_for_each(|n| write_one(&root, n, &payload))
        });
    }
    while let Some(ended) = threads.join_next().await {
        ended.map_err(failed)?.map_err(failed)?;
    }
    Ok(start.elapsed())
}

/// Writes a folder for the day, a folder for the run and two files, each synced before the next step.
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
