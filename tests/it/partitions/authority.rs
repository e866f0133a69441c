//! Who has authority, and how hard it is to lose it.

use std::thread;

use redrive::{
    Epoch, PartitionKey, PartitionStatus,
    store::{
        LeaseRef, PartitionClaim, PartitionFinish, PartitionRecord, PartitionVerdict, WorkerId,
        Written,
    },
};

use super::yard::Yard;
use crate::faults::lasted_a_lease;

/// What may not change when a reprocess fails.
fn authority(
    yard: &Yard,
    key: &PartitionKey,
) -> (PartitionStatus, Option<String>, Option<u64>, String) {
    let PartitionRecord { status, current_run_id, record_count, .. } = yard.record(key);
    (status, current_run_id.map(|id| id.to_string()), record_count, yard.rows(key))
}

fn good(yard: &Yard, good: bool) {
    yard.shop.folder.write("mode", if good { "good" } else { "bad" });
}

// PAR-5, PAR-6
#[test]
fn a_reprocess_that_fails_or_is_killed_leaves_everything_as_it_was() {
    for yard in Yard::both() {
        good(&yard, true);
        let key = yard.ask("ads/1234/mode/2026-01-31");
        yard.drain();
        let before = authority(&yard, &key);

        good(&yard, false);
        yard.reprocess(&key);
        yard.drain();
        assert_eq!(authority(&yard, &key), before);
        assert_eq!(yard.record(&key).attempt_count, 2, "it counts");
        assert_eq!(yard.ledger(&key)[1].outcome.name(), "failed");

        // Killed while it extracts: a later worker judges what it left.
        std::fs::remove_file(yard.shop.folder.path().join("mode")).unwrap();
        yard.shop.make_pipe("mode");
        yard.reprocess(&key);
        let mut worker = yard.shop.start_worker(&["--sources", "ads"]);
        worker.wait_for("reprocessing");
        worker.signal("-KILL");
        worker.end();
        assert_eq!(authority(&yard, &key), before);
        yard.drain();
        assert_eq!(authority(&yard, &key), before);
        let ledger = yard.ledger(&key);
        assert_eq!(ledger[2].cause.unwrap().name(), "lost_worker");
        let story = yard.shop.run(&["why", &format!("partition:{key}"), "-o", "json"]).json();
        lasted_a_lease(&story["attempts"][2]);
        assert_eq!(yard.journal(&key).last().unwrap().1, "partition.lease_lost");

        std::fs::remove_file(yard.shop.folder.path().join("mode")).unwrap();
        good(&yard, true);
        yard.reprocess(&key);
        yard.drain();
        let after = yard.record(&key);
        assert_ne!(after.current_run_id.as_ref().map(|id| id.to_string()), before.1);
        assert_eq!((after.status, after.attempt_count), (PartitionStatus::Success, 4));
        assert_eq!(yard.rows(&key), before.3, "the same day gives the same rows");
        yard.shop.run(&["doctor"]).ok();
    }
}

// PAR-5, PAR-10
#[test]
fn an_older_run_that_finishes_after_a_newer_one_takes_no_authority() {
    for yard in Yard::both() {
        let key = yard.ask("ads/1234/fine/2026-01-31");
        let store = yard.store().clone();
        // A worker takes the partition and falls silent.
        let claim = PartitionClaim {
            gates: redrive::store::GateRules::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            source: "ads".to_owned(),
            run_ids: vec!["0100-old".parse().unwrap()],
            backfill: redrive_store::BackfillShare::default(),
            owner: WorkerId("silent".to_owned()),
            lease_until: store.now(),
        };
        let claimed = yard.block_on(store.claim_partitions(&claim)).unwrap().remove(0);
        // It is lost, the partition fails, is retried, and succeeds.
        yard.drain();
        assert_eq!(yard.record(&key).status, PartitionStatus::Failed);
        yard.retry(&key);
        yard.drain();
        let before = authority(&yard, &key);

        // Now the silent one comes back with a good verdict of its own, whatever epoch it claims.
        for epoch in [claimed.lease.epoch, Epoch(claimed.lease.epoch.0 + 1)] {
            let finish = PartitionFinish {
                gates: None,
                key: key.clone(),
                lease: LeaseRef { epoch, ..claimed.lease },
                attempt: claimed.attempt,
                run_id: claimed.run_id.clone(),
                started_at: yard.record(&key).updated_at,
                ended_at: yard.record(&key).updated_at,
                worker: WorkerId("silent".to_owned()),
                verdict: PartitionVerdict::Accepted { record_count: 9, schema_version: None },
            };
            let written = yard.block_on(store.finish_partitions(&[finish])).unwrap();
            assert_eq!(written, [Written::Stale]);
        }
        assert_eq!(authority(&yard, &key), before);
        assert_eq!(yard.record(&key).attempt_count, 2);
    }
}

// PAR-5, PAR-10
#[test]
fn a_reprocess_that_is_fenced_leaves_everything_as_it_was() {
    for yard in Yard::both() {
        let key = yard.ask("ads/1234/fine/2026-01-31");
        yard.drain();
        let before = authority(&yard, &key);
        yard.reprocess(&key);
        let store = yard.store().clone();
        let claim = PartitionClaim {
            gates: redrive::store::GateRules::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            source: "ads".to_owned(),
            run_ids: vec!["ffff-fenced".parse().unwrap()],
            backfill: redrive_store::BackfillShare::default(),
            owner: WorkerId("silent".to_owned()),
            lease_until: store.now(),
        };
        let claimed = yard.block_on(store.claim_partitions(&claim)).unwrap().remove(0);
        // Nothing was sealed, so the loss is a failed reprocess; then the silent one seals and speaks.
        yard.drain();
        yard.block_on(async {
            let mut writer = yard.sink().begin(&key, &claimed.run_id).await.unwrap();
            writer.write(b"{\"n\": \"of a fenced run\"}\n").await.unwrap();
            writer.seal(redrive::Extracted::default()).await.unwrap();
        });
        let record = yard.record(&key);
        let finish = PartitionFinish {
            gates: None,
            key: key.clone(),
            lease: claimed.lease,
            attempt: claimed.attempt,
            run_id: claimed.run_id,
            started_at: record.updated_at,
            ended_at: record.updated_at,
            worker: WorkerId("silent".to_owned()),
            verdict: PartitionVerdict::Accepted { record_count: 1, schema_version: None },
        };
        let written = yard.block_on(store.finish_partitions(&[finish])).unwrap();
        assert_eq!(written, [Written::Stale]);
        assert_eq!(authority(&yard, &key), before);
        assert_eq!(yard.record(&key).attempt_count, 2, "the loss, and nothing else");
        yard.shop.run(&["doctor"]).ok();
    }
}

// PAR-5
#[test]
fn a_reprocess_switches_at_once_for_whoever_reads_meanwhile() {
    for yard in Yard::both() {
        let key = yard.ask("ads/1234/fine/2026-01-31");
        yard.drain();
        let first = yard.record(&key).current_run_id.unwrap();
        yard.reprocess(&key);
        let mut seen = Vec::new();
        thread::scope(|scope| {
            let worker = scope.spawn(|| yard.shop.run(&["worker", "--drain", "-q", "-q"]));
            while !worker.is_finished() {
                let record = yard.record(&key);
                assert_eq!(record.status, PartitionStatus::Success);
                assert_eq!(record.record_count, Some(2));
                assert_eq!(yard.rows(&key).lines().count(), 2);
                seen.extend(record.current_run_id);
                thread::yield_now();
            }
        });
        seen.dedup();
        seen.extend(yard.record(&key).current_run_id);
        seen.dedup();
        assert_eq!(seen.len(), 2, "from the one to the other, and never back");
        assert_eq!(seen[0], first);
    }
}

// PAR-4
#[test]
fn what_a_lost_worker_sealed_is_judged_by_its_data() {
    for yard in Yard::both() {
        let good = yard.ask("ads/1234/fine/2026-01-31");
        let bad = yard.ask("ads/1234/fine/2026-02-01");
        let claim = PartitionClaim {
            gates: redrive::store::GateRules::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            source: "ads".to_owned(),
            run_ids: ["0100-a", "0100-b"].map(|id| id.parse().unwrap()).to_vec(),
            backfill: redrive_store::BackfillShare::default(),
            owner: WorkerId("lost".to_owned()),
            lease_until: yard.store().now(),
        };
        let claimed = yard.block_on(yard.store().claim_partitions(&claim)).unwrap();
        for claimed in &claimed {
            let rows: &[u8] = if claimed.key == good { b"{\"n\": 1}\n" } else { b"rubbish\n" };
            yard.block_on(async {
                let mut writer = yard.sink().begin(&claimed.key, &claimed.run_id).await.unwrap();
                writer.write(rows).await.unwrap();
                writer.seal(redrive::Extracted::default()).await.unwrap();
            });
        }
        yard.drain();
        assert_eq!(yard.rows(&good), "{\"n\": 1}\n");
        assert_eq!(yard.ledger(&good).len(), 1);
        let record = yard.record(&bad);
        assert_eq!(record.status, PartitionStatus::Failed);
        assert!(record.error_message.unwrap().contains("not a JSON object"));
        yard.shop.run(&["doctor"]).ok();
    }
}
