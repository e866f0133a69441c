//! A long partition needs no long memory.

use std::{fs, path::Path};

use redrive_core::AttemptNumber;
use redrive_engine::{
    CallLog, ExtractionOutcome, RawSink, Stopper, ValidationOutcome, ValidationRequest,
    ValidationRules, Validator,
};
use redrive_store::PartitionVerdict;

use super::{S3Server, a_key, child, extracted, folder, run};

/// How long the payload is in a folder, and how much more memory it may take.
const IN_A_FOLDER: (usize, u64) = (300 << 20, 16 << 20);

/// The same on S3. The server is in the same process, and parts of 8 MB are under way.
const ON_S3: (usize, u64) = (120 << 20, 48 << 20);

/// Written and judged, in a folder and on S3.
// PAR-3 PAR-4
#[test]
fn a_long_partition_is_written_and_judged_in_flat_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (role, allowed) in [("much in a folder", IN_A_FOLDER.1), ("much on S3", ON_S3.1)] {
        let said = child::play(role, folder.path());
        let growth: u64 = said[0].parse().unwrap();
        assert!(growth < allowed, "{role}: memory grew by {growth} bytes");
    }
}

/// A part of the test above.
pub(super) fn in_a_folder(path: &Path) {
    folder::in_runtime(write_and_judge(&RawSink::folder(path), IN_A_FOLDER.0));
}

/// A part of the test above.
pub(super) fn on_s3() {
    folder::in_runtime(async {
        let server = S3Server::start().await;
        write_and_judge(&server.sink(""), ON_S3.0).await;
    });
}

async fn write_and_judge(sink: &RawSink, payload_bytes: usize) {
    let row = format!("{{\"text\":\"{}\"}}\n", "x".repeat(500));
    let piece = row.repeat(128);
    let before = peak_memory();
    let mut writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    for _ in 0..payload_bytes / piece.len() {
        writer.write(piece.as_bytes()).await.unwrap();
    }
    writer.seal(extracted()).await.unwrap();
    let judged = ValidationRequest {
        key: a_key(),
        run_id: run("r-1"),
        attempt: AttemptNumber(1),
        log: CallLog::default(),
    };
    let (_stopper, stop) = Stopper::new();
    let validator = Validator::new(sink.clone(), ValidationRules::default());
    let judgement = validator.validate(&judged, ExtractionOutcome::Done, stop).await;
    let good = matches!(judgement, ValidationOutcome::Verdict(PartitionVerdict::Accepted { .. }));
    assert!(good, "{judgement:?}");
    child::answer(&(peak_memory() - before).to_string());
}

/// The most this process ever had in memory, in bytes.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
