//! A long partition needs no long memory.

use std::{fs, path::Path};

use redrive_engine::RawSink;

use super::{a_key, child, extracted, folder, run};

const PAYLOAD_BYTES: usize = 300 << 20;

const MAX_GROWTH_BYTES: u64 = 48 << 20;

/// Written to a folder and to S3, verified in both.
// PAR-3
#[test]
fn a_long_partition_is_written_and_read_in_flat_memory() {
    let folder = tempfile::tempdir().unwrap();
    let said = child::play("write and judge much", folder.path());
    let growth: u64 = said[0].parse().unwrap();
    assert!(growth < MAX_GROWTH_BYTES, "memory grew by {growth} bytes");
}

/// A part of the test above.
pub(super) fn write_and_judge(path: &Path) {
    let row = format!("{{\"text\":\"{}\"}}\n", "x".repeat(500));
    let piece = row.repeat(128);
    let before = peak_memory();
    folder::in_runtime(async {
        let sink = RawSink::folder(path);
        let mut writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
        for _ in 0..PAYLOAD_BYTES / piece.len() {
            writer.write(piece.as_bytes()).await.unwrap();
        }
        writer.seal(extracted()).await.unwrap();
        sink.verify(&a_key(), &run("r-1")).await.unwrap();
    });
    child::answer(&(peak_memory() - before).to_string());
}

/// The most this process ever had in memory, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
