//! Workers that are told to stop while they extract.

use redrive::PartitionStatus;

use super::yard::Yard;

// PAR-6, OPS-6
#[test]
fn an_extraction_that_does_not_end_in_time_is_handed_back_and_counts_nothing() {
    for yard in Yard::both() {
        yard.shop.make_gate();
        yard.shop.make_pipe("begun");
        let key = yard.ask("ads/1234/gate/2026-01-31");
        let worker = yard.shop.start_worker(&["--sources", "ads", "--grace", "50ms"]);
        yard.shop.folder.read("begun");
        worker.signal("-TERM");
        let (code, log) = worker.end();
        assert_eq!(code, Some(143), "{log}");

        let record = yard.record(&key);
        assert_eq!((record.status, record.attempt_count), (PartitionStatus::Pending, 0));
        assert!(yard.ledger(&key).is_empty(), "no attempt was spent");
        assert_eq!(yard.journal(&key).last().unwrap().1, "partition.handback");
        assert_eq!(yard.block_on(yard.sink().runs(&key)).unwrap(), []);
        assert!(record.work.unwrap().lease_owner.is_none(), "anybody can have it");
    }
}

// OPS-6
#[test]
fn a_signal_lets_an_extraction_end() {
    for yard in Yard::both() {
        yard.shop.make_gate();
        yard.shop.make_pipe("begun");
        let key = yard.ask("ads/1234/gate/2026-01-31");
        let mut worker = yard.shop.start_worker(&["--sources", "ads"]);
        yard.shop.folder.read("begun");
        worker.signal("-TERM");
        worker.wait_for("stopping");
        yard.shop.open_gate("go");
        let (code, log) = worker.end();
        assert_eq!(code, Some(143), "{log}");
        assert_eq!(yard.rows(&key).lines().count(), 2);
    }
}
