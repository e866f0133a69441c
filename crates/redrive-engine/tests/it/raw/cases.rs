//! What holds for raw partitions wherever they are kept.

use std::collections::BTreeSet;

use redrive_core::PartitionKey;
use redrive_engine::{Damage, RawError};
use serde_json::{Value, json};

use super::{Sink, a_key, every_sink, extracted, files_below, key, read, run, seal};

/// `printf '{"a":1}\n{"a":2}\n' | sha256sum`
const TWO_ROWS: &[u8] = b"{\"a\":1}\n{\"a\":2}\n";
const SHA256_OF_TWO_ROWS: &str = "e91bd3062f38c3f1df2165d987872b022fb39a08c642a6fbc3b862dd2a2aaf24";

// PAR-3
#[tokio::test]
async fn a_sealed_run_is_read_back_byte_by_byte() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let metadata = seal(&sink, &a_key(), &run("r-1"), TWO_ROWS).await.unwrap();
        assert_eq!(metadata.record_count, 2, "{name}");
        assert_eq!(metadata.sha256, SHA256_OF_TWO_ROWS, "{name}");
        assert_eq!(read(&sink, &a_key(), &run("r-1")).await.unwrap(), TWO_ROWS, "{name}");
        assert_eq!(sink.verify(&a_key(), &run("r-1")).await.unwrap(), metadata, "{name}");
        assert_eq!(sink.metadata(&a_key(), &run("r-1")).await.unwrap(), Some(metadata), "{name}");

        let at = "ads/customer_id=1234/query_name=daily/logical_date=2026-01-31/run_id=r-1";
        let files = files_below(&folder);
        let ours: Vec<_> = files.iter().filter(|file| file.ends_with(".json")).collect();
        assert_eq!(ours.len(), 1, "{name}: {files:?}");
        let metadata = folder.join(ours[0]);
        assert!(ours[0].ends_with(&format!("{at}/metadata.json")), "{name}: {files:?}");
        assert!(metadata.with_file_name("payload.jsonl").exists(), "{name}: {files:?}");
        let written: Value = serde_json::from_slice(&std::fs::read(metadata).unwrap()).unwrap();
        let expected = json!({
            "source": "ads", "customer_id": "1234", "query_name": "daily",
            "logical_date": "2026-01-31", "run_id": "r-1",
            "extracted_at": "2026-02-01T04:00:00Z", "schema_version": "v3", "record_count": 2,
            "sha256": SHA256_OF_TWO_ROWS, "extractor": { "cursor": "c-17", "sha256": "mine" },
        });
        assert_eq!(written, expected, "{name}");
    }
}

// PAR-3
#[tokio::test]
async fn a_last_line_without_an_end_gets_one_and_nothing_else_is_changed() {
    for Sink { sink, name, .. } in every_sink().await {
        for (at, (given, kept, records)) in [
            (&b""[..], &b""[..], 0),
            (b"{}", b"{}\n", 1),
            (b"{}\r\n", b"{}\r\n", 1),
            (b"\xff\0\n\n{", b"\xff\0\n\n{\n", 3),
        ]
        .into_iter()
        .enumerate()
        {
            let run = run(&format!("r-{at}"));
            let metadata = seal(&sink, &a_key(), &run, given).await.unwrap();
            assert_eq!(metadata.record_count, records, "{name} {at}");
            assert_eq!(read(&sink, &a_key(), &run).await.unwrap(), kept, "{name} {at}");
        }
    }
}

// PAR-3
#[tokio::test]
async fn a_run_id_is_used_once() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        seal(&sink, &a_key(), &run("r-1"), TWO_ROWS).await.unwrap();
        let before = files_below(&folder);
        for payload in [&b"{\"other\":1}\n"[..], TWO_ROWS, b""] {
            let again = seal(&sink, &a_key(), &run("r-1"), payload).await;
            assert!(matches!(again, Err(RawError::Used { .. })), "{name}: {again:?}");
        }
        assert_eq!(read(&sink, &a_key(), &run("r-1")).await.unwrap(), TWO_ROWS, "{name}");
        assert_eq!(files_below(&folder), before, "{name}");
    }
}

// PAR-3
#[tokio::test]
async fn of_two_writers_of_a_run_one_seals() {
    for Sink { sink, name, .. } in every_sink().await {
        for round in 0..10 {
            let run = run(&format!("r-{round}"));
            let key = a_key();
            let writers: Vec<_> = (0..4)
                .map(|writer| {
                    let (sink, key, run) = (sink.clone(), key.clone(), run.clone());
                    tokio::spawn(async move {
                        let payload = format!("{{\"writer\":{writer}}}\n");
                        seal(&sink, &key, &run, payload.as_bytes()).await.map(|_| payload)
                    })
                })
                .collect();
            let mut sealed = Vec::new();
            for writer in writers {
                match writer.await.unwrap() {
                    Ok(payload) => sealed.push(payload),
                    Err(error) => assert!(matches!(error, RawError::Used { .. }), "{error:?}"),
                }
            }
            assert_eq!(sealed.len(), 1, "{name}: {sealed:?}");
            assert_eq!(read(&sink, &key, &run).await.unwrap(), sealed[0].as_bytes(), "{name}");
        }
    }
}

// PAR-3
#[tokio::test]
async fn what_is_not_sealed_does_not_exist() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let open = async |run_id: &str| {
            let mut writer = sink.begin(&a_key(), &run(run_id)).await.unwrap();
            writer.write(TWO_ROWS).await.unwrap();
            writer
        };
        let unsealed = open("r-1").await;
        open("r-2").await.abort().await.unwrap();
        drop(open("r-3").await);
        for run_id in ["r-1", "r-2", "r-3", "r-4"] {
            assert_eq!(sink.metadata(&a_key(), &run(run_id)).await.unwrap(), None, "{name}");
            let read = sink.read(&a_key(), &run(run_id)).await;
            assert!(matches!(read, Err(RawError::NotSealed { .. })), "{name}: {read:?}");
        }
        assert!(sink.runs(&a_key()).await.unwrap().is_empty(), "{name}");
        drop(unsealed);
        assert!(files_below(&folder).is_empty(), "{name}");
    }
}

// PAR-8
#[tokio::test]
async fn the_sealed_runs_of_a_key_are_listed_the_oldest_first() {
    for Sink { sink, name, .. } in every_sink().await {
        assert!(sink.runs(&a_key()).await.unwrap().is_empty(), "{name}");
        let neighbours = ["ads/1234/daily/2026-01-30", "ads/12345/daily/2026-01-31"];
        for (key, run_id) in neighbours.into_iter().map(|text| (key(text), "r-9")).chain([
            (a_key(), "r-2"),
            (a_key(), "r-10"),
            (a_key(), "R-3"),
        ]) {
            seal(&sink, &key, &run(run_id), TWO_ROWS).await.unwrap();
        }
        let runs = sink.runs(&a_key()).await.unwrap();
        assert_eq!(runs, ["R-3", "r-10", "r-2"].map(run), "{name}");
    }
}

// PAR-3
#[tokio::test]
async fn hostile_keys_stay_below_the_root_and_apart() {
    let long = "\u{fc}".repeat(256);
    let hostile = [
        "..",
        ".",
        "../..",
        "../../etc/passwd",
        "/",
        "a/b",
        "a",
        "A",
        "%",
        "%2e%2e",
        "_",
        "CON",
        "con",
        "nul.txt",
        "caf\u{e9}",
        "cafe\u{301}",
        "a\\b",
        "a:b",
        " ",
        "a ",
        "a.",
        "\u{202e}",
        "\n",
        "*",
        "?",
        "run_id=r-1",
        "customer_id=a",
        "~",
        "metadata.json",
        &long,
        &long[2..],
    ];
    let date = "2024-02-29".parse().unwrap();
    for Sink { sink, name, folder, .. } in every_sink().await {
        let outside = folder.parent().unwrap().to_owned();
        let before: BTreeSet<_> = files_below(&outside).into_iter().collect();
        // The server names its notes after whole keys, and has no room for long ones.
        let hostile = hostile.iter().filter(|part| name == "folder" || part.len() < 100);
        for (at, part) in hostile.clone().enumerate() {
            let keys = [
                PartitionKey::new(part, "c", "q", date).unwrap(),
                PartitionKey::new("s", part, "q", date).unwrap(),
                PartitionKey::new("s", "c", part, date).unwrap(),
            ];
            for (which, key) in keys.iter().enumerate() {
                let payload = format!("{{\"at\":{at},\"which\":{which}}}\n");
                seal(&sink, key, &run("r-1"), payload.as_bytes()).await.unwrap();
            }
        }
        for (at, part) in hostile.enumerate() {
            let key = PartitionKey::new(part, "c", "q", date).unwrap();
            let payload = format!("{{\"at\":{at},\"which\":0}}\n");
            assert_eq!(read(&sink, &key, &run("r-1")).await.unwrap(), payload.as_bytes(), "{name}");
            assert_eq!(sink.runs(&key).await.unwrap(), [run("r-1")], "{name} {part:?}");
        }
        let inside = folder.file_name().unwrap().to_str().unwrap();
        for file in files_below(&outside).iter().filter(|file| !before.contains(*file)) {
            // The server keeps notes of its own beside its buckets; they begin with a dot.
            assert!(file.starts_with(inside) || file.starts_with('.'), "{name}: {file}");
        }
    }
}

// PAR-11
#[tokio::test]
async fn a_payload_that_was_changed_or_cut_is_found() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let rows = b"{\"a\":1}\n".repeat(100_000);
        type Inflict = fn(&std::path::Path);
        let damages: [(&str, Inflict); 5] = [
            ("changed", |path| edit(path, |bytes| bytes[400_000] = b'2')),
            ("cut", |path| edit(path, |bytes| bytes.truncate(400_000))),
            ("longer", |path| edit(path, |bytes| bytes.extend(b"{}\n"))),
            ("emptied", |path| edit(path, Vec::clear)),
            ("gone", |path| std::fs::remove_file(path).unwrap()),
        ];
        for (damage, inflict) in damages {
            let run = run(damage);
            seal(&sink, &a_key(), &run, &rows).await.unwrap();
            sink.verify(&a_key(), &run).await.unwrap();
            let files = files_below(&folder);
            let payload = format!("run_id={damage}/payload.jsonl");
            let payload = files.iter().find(|file| file.ends_with(&payload)).unwrap();
            inflict(&folder.join(payload));
            let expected = if damage == "gone" { Damage::NoPayload } else { Damage::Hash };
            match sink.verify(&a_key(), &run).await {
                Err(RawError::Damaged { damage, .. }) => assert_eq!(damage, expected, "{name}"),
                other => panic!("{name}, {damage}: {other:?}"),
            }
        }
    }
}

// PAR-11
#[tokio::test]
async fn metadata_that_was_changed_is_found() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let changes: [(&str, &str, &str); 5] = [
            ("count", "\"record_count\": 2", "\"record_count\": 3"),
            ("of-another", "\"customer_id\": \"1234\"", "\"customer_id\": \"12345\""),
            ("half", "\"sha256\"", "\u{0}"),
            ("hash", SHA256_OF_TWO_ROWS, "0000"),
            ("key", "\"logical_date\": \"2026-01-31\"", "\"logical_date\": \"2026-02-31\""),
        ];
        for (run_id, from, to) in changes {
            seal(&sink, &a_key(), &run(run_id), TWO_ROWS).await.unwrap();
            let files = files_below(&folder);
            let metadata = format!("run_id={run_id}/metadata.json");
            let metadata = files.iter().find(|file| file.ends_with(&metadata)).unwrap();
            edit(&folder.join(metadata), |bytes| {
                let text = String::from_utf8(bytes.clone()).unwrap();
                assert!(text.contains(from), "{text}");
                *bytes = text.replace(from, to).into_bytes();
            });
            let found = sink.verify(&a_key(), &run(run_id)).await.unwrap_err();
            assert!(matches!(found, RawError::Damaged { .. }), "{name}, {run_id}: {found:?}");
        }
    }
}

// PAR-12
#[tokio::test]
async fn a_reader_goes_on_undisturbed_while_another_run_is_sealed() {
    for Sink { sink, name, .. } in every_sink().await {
        let rows = b"{\"a\":1}\n".repeat(200_000);
        seal(&sink, &a_key(), &run("r-1"), &rows).await.unwrap();
        let mut reader = sink.read(&a_key(), &run("r-1")).await.unwrap();
        let mut bytes = reader.next().await.unwrap().unwrap().to_vec();
        seal(&sink, &a_key(), &run("r-2"), TWO_ROWS).await.unwrap();
        while let Some(chunk) = reader.next().await.unwrap() {
            bytes.extend_from_slice(&chunk);
        }
        assert!(bytes == rows, "{name}");
        assert_eq!(reader.next().await.unwrap(), None, "{name}: the end stays the end");
        assert_eq!(read(&sink, &a_key(), &run("r-2")).await.unwrap(), TWO_ROWS, "{name}");
    }
}

// PAR-3
#[tokio::test]
async fn fields_of_the_extractor_have_a_limit() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
        let mut said = extracted();
        said.extractor.insert("log".to_owned(), "x".repeat(2 << 20).into());
        let refused = writer.seal(said).await.unwrap_err();
        assert!(matches!(refused, RawError::MetadataTooLong { .. }), "{name}: {refused:?}");
        assert!(files_below(&folder).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_run_says_where_it_is() {
    for Sink { sink, name, folder, .. } in every_sink().await {
        let location = sink.location(&a_key(), &run("r-1"));
        let at = "ads/customer_id=1234/query_name=daily/logical_date=2026-01-31/run_id=r-1";
        let root = match name {
            "folder" => folder.to_str().unwrap().to_owned(),
            "s3" => "s3://bucket/some/prefix".to_owned(),
            "gcs" => "gs://bucket/some/prefix".to_owned(),
            _ => "az://bucket/some/prefix".to_owned(),
        };
        assert_eq!(sink.to_string(), root);
        assert_eq!(location.payload, format!("{root}/{at}/payload.jsonl"));
        assert_eq!(location.metadata, format!("{root}/{at}/metadata.json"));
        sink.check().await.unwrap();
    }
}

fn edit(path: &std::path::Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
