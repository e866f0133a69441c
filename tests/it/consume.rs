//! `redrive consume list | cat`, and the same from Rust.

use redrive::{ConsumeError, Consumer, Lane, PartitionAction, Unreadable};
use serde_json::json;

use crate::archive::Archive;

// PAR-12, PAR-11
#[test]
fn only_what_is_good_can_be_read() {
    for archive in Archive::both() {
        let good = archive.good("ads/7/daily/2026-03-01", &["{\"a\": 1}", "{\"a\": 2}"]);
        archive.failed("ads/7/daily/2026-03-02", 1);
        archive.pending("ads/7/daily/2026-03-03");
        archive.terminal("ads/7/daily/2026-03-04");
        let list = archive.run(&["consume", "list", "-o", "json"]).json();
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(
            json!([list[0]["logical_date"], list[0]["record_count"], list[0]["schema_version"]]),
            json!(["2026-03-01", 2, "1"])
        );
        let payload = list[0]["payload"].as_str().unwrap();
        assert!(payload.starts_with("[FOLDER]/raw/ads/customer_id=7/"), "{payload}");
        let march = ["--since", "2026-03-01", "--until", "2026-03-05", "--customer-id", "7"];
        let ads = [&["consume", "cat", "--source", "ads"], &march[..]].concat();
        let rows = archive.run(&ads);
        assert_eq!(rows.stdout, "{\"a\": 1}\n{\"a\": 2}\n");
        let states = ["missing", "late", "failed", "gone"];
        for (day, state, exit) in [(2, 2, 7), (3, 1, 6), (4, 3, 5), (5, 0, 6)] {
            let unit = format!("partition:ads/7/daily/2026-03-0{day}");
            let told = format!("not printed: {unit}: {}: ", states[state]);
            assert!(rows.stderr.contains(&told), "{told:?} in {}", rows.stderr);
            let ended = archive.run(&["consume", "cat", &unit, "-o", "json"]);
            let (line, complaint) = ended.stderr.split_once('\n').unwrap();
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(json!([line["unit"], line["state"]]), json!([unit, states[state]]));
            assert!(
                complaint.contains(&format!("cannot be read: {}: ", states[state])),
                "{complaint}"
            );
            assert_eq!(ended.code, Some(exit), "{unit}");
        }
        let counts = "4 partitions were not printed: 1 failed, 1 gone, 1 late, 1 missing; ";
        assert!(rows.stderr.contains(counts), "{}", rows.stderr);
        let with_keys = archive.run(&[&ads[..], &["--with-keys", "-q"]].concat()).ok();
        let lines = with_keys.lines().map(|line| serde_json::from_str(line).unwrap());
        let row = |n: i32| {
            json!({
                "source": "ads", "customer_id": "7", "query_name": "daily",
                "logical_date": "2026-03-01", "row": { "a": n }
            })
        };
        assert_eq!(lines.collect::<Vec<serde_json::Value>>(), [row(1), row(2)]);
        archive.run(&["consume", "cat"]).failed(4);

        let consumer = Consumer::new(archive.store.clone(), archive.raw.clone());
        archive.runtime.block_on(async {
            let mut rows = consumer.read(&good).await.unwrap();
            assert_eq!(rows.next().await.unwrap().unwrap().as_ref(), b"{\"a\": 1}\n{\"a\": 2}\n");
            assert_eq!(rows.next().await.unwrap(), None);
            let failed = consumer.read(&"ads/7/daily/2026-03-02".parse().unwrap()).await;
            assert!(
                matches!(failed, Err(ConsumeError::NotReadable { why: Unreadable::Failed, .. })),
                "{failed:?}"
            );
        });
    }
}

// PAR-5, PAR-12
#[test]
fn a_reprocess_switches_what_is_read_at_once_and_readers_go_on() {
    for archive in Archive::both() {
        let key = archive.good("ads/7/daily/2026-03-01", &["\"old\""]);
        let cat = || archive.run(&["consume", "cat", "ads/7/daily/2026-03-01"]).ok();
        let again = PartitionAction::Reprocess { lane: Lane::Fresh };
        archive.done(again, &key);
        assert_eq!(cat(), "\"old\"\n", "while it is being reprocessed");
        let consumer = Consumer::new(archive.store.clone(), archive.raw.clone());
        let mut reader = archive.runtime.block_on(consumer.read(&key)).unwrap();
        archive.accept(&key, &["\"new\""]);
        assert_eq!(cat(), "\"new\"\n");
        let read = archive.runtime.block_on(reader.next()).unwrap().unwrap();
        assert_eq!(read.as_ref(), b"\"old\"\n", "whoever had begun goes on");
        archive.done(again, &key);
        archive.reject(&key, redrive::Clock::now(&redrive::SystemClock), true);
        assert_eq!(cat(), "\"new\"\n", "a failed reprocess changes nothing");
    }
}

// OPS-4
#[test]
fn a_source_that_is_misspelt_is_refused() {
    for archive in Archive::both() {
        let complaint = archive.run(&["consume", "cat", "--source", "adds"]).failed(4);
        assert!(complaint.contains("declares no source \"adds\""), "{complaint}");
        assert!(complaint.contains("did you mean `ads`?"), "{complaint}");
        archive.run(&["consume", "cat", "--source", "ads", "-q"]).ok();
        archive.good("adds/7/daily/2026-03-01", &["{}"]);
        assert_eq!(archive.run(&["consume", "cat", "--source", "adds"]).ok(), "{}\n");
    }
}
