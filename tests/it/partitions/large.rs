//! A partition that is larger than what a worker may hold.

use std::fs;

use super::yard::Yard;

/// A worker at rest has about 20 MB.
const MAX_RESIDENT_KB: u64 = 100 * 1024;

// PAR-3
#[test]
fn an_extraction_of_300_mb_needs_little_memory() {
    let yard = Yard::on_sqlite();
    let key = yard.ask("ads/1234/big/2026-01-31");
    let mut command = yard.shop.command(&["worker", "--drain", "-q", "-q"]);
    command.env("PATH", "/usr/bin:/bin");
    let mut child = command.spawn().unwrap();
    let mut most = 0;
    let ended = loop {
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let resident =
            resident.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok());
        most = most.max(resident.unwrap_or(0));
        std::thread::yield_now();
    };
    assert!(ended.success());
    assert!((1..MAX_RESIDENT_KB).contains(&most), "{most} kB");
    let record = yard.record(&key);
    assert_eq!(record.record_count, Some(314_573), "{record:?}");
}
