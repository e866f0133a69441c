//! Raw partitions, in a local folder, on a real S3 server on loopback, and on small servers that speak as
//! Google Cloud Storage and Azure Blob Storage do.

mod cloud_server;
mod s3_server;

mod cases;
mod child;
mod folder;
mod long;
mod no_room;
mod objects;

use redrive_core::{PartitionKey, PartitionRunId};
use redrive_engine::{Extracted, ObjectService, RawError, RawMetadata, RawSink};
use serde_json::json;
use tempfile::TempDir;

pub(crate) use cloud_server::CloudServer;
pub(crate) use s3_server::S3Server;

/// A sink and what it lives on.
pub(crate) struct Sink {
    pub(crate) sink: RawSink,
    pub(crate) name: &'static str,
    /// The folder of a local one, the server's folder otherwise.
    pub(crate) folder: std::path::PathBuf,
    _folder: Option<TempDir>,
    _server: Option<Server>,
}

/// What a sink lives on, until it is dropped.
enum Server {
    S3(#[expect(dead_code, reason = "it serves until it is dropped")] S3Server),
    Cloud(#[expect(dead_code, reason = "it serves until it is dropped")] CloudServer),
}

/// One of each kind.
pub(crate) async fn every_sink() -> Vec<Sink> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("raw");
    let sink = RawSink::folder(&root);
    let (folder, name) = (Some(folder), "folder");
    let local = Sink { sink, name, folder: root, _folder: folder, _server: None };

    let server = S3Server::start().await;
    let (sink, folder) = (server.sink("some/prefix"), server.folder());
    let server = Some(Server::S3(server));
    let s3 = Sink { sink, name: "s3", folder, _folder: None, _server: server };
    let mut sinks = vec![local, s3];
    for (service, name) in [(ObjectService::Gcs, "gcs"), (ObjectService::Azure, "azure")] {
        let server = CloudServer::start(service).await;
        let (sink, folder) = (server.sink("some/prefix"), server.folder());
        let server = Some(Server::Cloud(server));
        sinks.push(Sink { sink, name, folder, _folder: None, _server: server });
    }
    sinks
}

pub(crate) fn key(text: &str) -> PartitionKey {
    text.parse().unwrap()
}

pub(crate) fn a_key() -> PartitionKey {
    key("ads/1234/daily/2026-01-31")
}

pub(crate) fn run(text: &str) -> PartitionRunId {
    text.parse().unwrap()
}

pub(crate) fn extracted() -> Extracted {
    Extracted {
        extracted_at: "2026-02-01T04:00:00Z".parse().unwrap(),
        schema_version: Some("v3".to_owned()),
        extractor: json!({ "cursor": "c-17", "sha256": "mine" }).as_object().unwrap().clone(),
    }
}

/// Writes and seals a run.
pub(crate) async fn seal(
    sink: &RawSink,
    key: &PartitionKey,
    run_id: &PartitionRunId,
    payload: &[u8],
) -> Result<RawMetadata, RawError> {
    let mut writer = sink.begin(key, run_id).await?;
    writer.write(payload).await?;
    writer.seal(extracted()).await
}

/// Everything that a sealed run has.
pub(crate) async fn read(
    sink: &RawSink,
    key: &PartitionKey,
    run_id: &PartitionRunId,
) -> Result<Vec<u8>, RawError> {
    let mut reader = sink.read(key, run_id).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = reader.next().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// All files below a folder, as paths from it.
pub(crate) fn files_below(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
