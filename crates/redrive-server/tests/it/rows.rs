//! The rows of good partitions, and of those that are no longer as they were sealed.

use std::{fs, path::Path, path::PathBuf};

use crate::site::Running;

const ROWS: &str = "/v1/partitions/ads/1234/daily/2026-01-01/rows";

/// The payload of the one good day of that customer.
fn payload(folder: &Path) -> PathBuf {
    let mut folders = vec![folder.join("raw/ads/customer_id=1234")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let holds_rows = || fs::read(&entry).is_ok_and(|bytes| bytes == b"{\"n\":1}\n");
            match entry.is_dir() {
                true => folders.push(entry),
                false if holds_rows() => return entry,
                false => {}
            }
        }
    }
    panic!("there are no rows");
}

// PAR-12
#[tokio::test]
async fn rows_come_as_they_were_extracted_and_break_off_where_they_are_not() {
    let site = Running::full().await;
    let rows = site.client.get(ROWS).await;
    assert_eq!((rows.status, rows.header("content-type")), (200, Some("application/x-ndjson")));
    assert!(rows.body.contains("{\"n\":1}\n") && rows.body.ends_with("0\r\n\r\n"), "{rows:?}");
    let file = payload(site.folder.path());
    fs::write(&file, "{\"n\":1}\n".repeat(1_000_000)).unwrap();
    let changed = site.client.get(ROWS).await;
    assert_eq!(changed.status, 200, "so much is sent before its end is known");
    assert!(!changed.body.ends_with("0\r\n\r\n"), "it is not whole");
    fs::write(&file, "{\"n\":2}\n").unwrap();
    site.client.get(ROWS).await.problem(409);
    fs::write(&file, "").unwrap();
    site.client.get(ROWS).await.problem(409);
    fs::remove_file(&file).unwrap();
    let gone = site.client.get(ROWS).await.problem(409);
    assert!(!gone.to_string().contains("raw/"), "where they are is in the log: {gone}");
}
