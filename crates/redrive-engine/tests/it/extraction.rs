//! One partition, from an extractor to the row of state.

use std::sync::Arc;

use redrive_engine::{Clock, Engine, Extractor, RawSink, Source, Stopper, SystemClock, Until};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AuditContext, Lane, NamedPartition, Operator, PartitionAction, PartitionRecord, Partitions,
    Store,
};
use tempfile::TempDir;

/// What became of it.
pub(crate) struct ExtractedPartition {
    pub(crate) record: PartitionRecord,
    pub(crate) sink: RawSink,
    _folder: TempDir,
}

/// Has one partition extracted.
pub(crate) async fn extracted(extractor: Arc<dyn Extractor>) -> ExtractedPartition {
    extracted_by(|sink| Source::new("ads", extractor, sink)).await
}

/// The same with a source of its own.
pub(crate) async fn extracted_by(source: impl FnOnce(RawSink) -> Source) -> ExtractedPartition {
    let folder = tempfile::tempdir().unwrap();
    let sink = RawSink::folder(folder.path().join("raw"));
    let (options, now) = (SqliteOptions::default(), SystemClock.now());
    let store = Arc::new(SqliteStore::open(Location::Memory, options, now).unwrap());
    let key = "ads/1234/daily/2026-01-31".parse().unwrap();
    let by = Operator { actor: "test".to_owned(), at: now, reason: None };
    let order = AuditContext { by, command: "test".to_owned(), filter: None, flags: Vec::new() };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    let named = [NamedPartition::from(Clone::clone(&key))];
    store.change_partitions(&action, &named, &order).await.unwrap();
    let engine = Engine::new(store.clone() as Arc<dyn Store>).with_source(source(sink.clone()));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let record = store.partitions_by_key(&[key]).await.unwrap().remove(0).unwrap();
    ExtractedPartition { record, sink, _folder: folder }
}

impl ExtractedPartition {
    /// The rows that can be read.
    pub(crate) async fn rows(&self) -> String {
        let run = self.record.current_run_id.as_ref().expect("a run has authority");
        let mut reader = self.sink.read(&self.record.key, run).await.unwrap();
        let mut rows = Vec::new();
        while let Some(chunk) = reader.next().await.unwrap() {
            rows.extend_from_slice(&chunk);
        }
        String::from_utf8(rows).unwrap()
    }

    /// What was wrong. Nothing may be left then that looks like a run.
    pub(crate) async fn problem(&self) -> &str {
        assert_eq!(self.sink.runs(&self.record.key).await.unwrap(), []);
        self.record.error_message.as_deref().expect("it failed")
    }
}
