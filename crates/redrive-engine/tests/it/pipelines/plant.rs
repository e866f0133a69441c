//! A pipeline on a store of its own, and what its stages may do.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use redrive_core::{
    Backoff, Failure, Jitter, PipelineRunId, Policy, PolicySpec, Preset, SampleId, SampleStatus,
};
use redrive_engine::{
    Call, Clock, Engine, Handler, IteratorSource, JsonlSource, Outcome, Pipeline, SampleSource,
    StageAnswer, Stopper, SystemClock, Until, checker::check, handler_fn, stage_fn,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{Operator, PipelineRunRecord, SampleRecord, Selection, Store};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A pipeline on a store of its own.
pub(super) struct Plant {
    pub(super) store: Arc<dyn Store>,
    pub(super) folder: TempDir,
}

impl Plant {
    pub(super) fn new() -> Self {
        let now = SystemClock.now();
        let store = SqliteStore::open(Location::Memory, SqliteOptions::default(), now).unwrap();
        Self { store: Arc::new(store), folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn file(&self, text: &str) -> Arc<dyn SampleSource> {
        let path = self.folder.path().join("samples.jsonl");
        std::fs::write(&path, text).unwrap();
        Arc::new(JsonlSource::new(path))
    }

    pub(super) fn operator() -> Operator {
        Operator { actor: "test".to_owned(), at: SystemClock.now(), reason: None }
    }

    pub(super) async fn start(&self, pipeline: &Pipeline) -> PipelineRunId {
        self.store.start_pipeline_run(&pipeline.new_run(), &Self::operator()).await.unwrap()
    }

    /// WorkerSet until nothing is left.
    pub(super) async fn drain(&self, pipeline: &Pipeline) {
        let engine = Engine::new(self.store.clone()).with_pipeline(pipeline.clone());
        let (_stopper, stop) = Stopper::new();
        engine.run(stop, Until::Drained).await.unwrap();
        let report = check(&*self.store).await.unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }

    pub(super) async fn run(&self, pipeline: &Pipeline) -> PipelineRunRecord {
        let id = self.start(pipeline).await;
        self.drain(pipeline).await;
        self.record(id).await
    }

    pub(super) async fn record(&self, id: PipelineRunId) -> PipelineRunRecord {
        self.store.pipeline_runs_by_id(&[id]).await.unwrap().pop().unwrap()
    }

    pub(super) async fn samples(&self, status: SampleStatus) -> Vec<SampleRecord> {
        let filter = Selection { state: Some(status.into()), ..Selection::default() };
        self.store.samples_page(&filter, SampleId(0), 10_000.into()).await.unwrap()
    }

    pub(super) async fn data(&self, status: SampleStatus) -> Vec<Value> {
        let samples = self.samples(status).await;
        samples.iter().map(|s| serde_json::from_str(s.data.as_ref().unwrap()).unwrap()).collect()
    }
}

/// Tries again at once, so often in all.
pub(super) fn at_once(attempts: u32) -> Policy {
    Policy::new(PolicySpec {
        max_attempts: Some(attempts),
        backoff: Backoff::Fixed,
        base: std::time::Duration::from_millis(1),
        cap: std::time::Duration::from_millis(1),
        jitter: Jitter::None,
        ..Preset::Stage.policy().spec().clone()
    })
    .unwrap()
}

pub(super) fn add(key: &'static str) -> Arc<dyn Handler> {
    stage_fn(move |mut sample: Value| async move {
        let count = sample[key].as_u64().unwrap_or(0) + 1;
        sample[key] = count.into();
        Ok::<_, Failure>(StageAnswer::Sample(sample))
    })
}

pub(super) fn numbers(count: u64) -> Arc<dyn SampleSource> {
    Arc::new(IteratorSource::new("numbers", move || (0..count).map(|n| json!({ "n": n }))))
}

/// Counts the calls it gets for each sample, and fails some of them.
#[derive(Default)]
pub(super) struct Counter(Mutex<BTreeMap<u64, u32>>);

impl Counter {
    /// The how-manieth call this is for a sample.
    pub(super) fn call(&self, sample: &Value) -> u32 {
        let mut calls = self.0.lock().unwrap();
        let calls = calls.entry(sample["n"].as_u64().unwrap()).or_default();
        *calls += 1;
        *calls
    }

    pub(super) fn calls(&self) -> BTreeMap<u64, u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Fails by the number of the sample and the number of the call.
pub(super) fn failing(
    counter: &Arc<Counter>,
    fails: impl Fn(u64, u32) -> Option<Failure> + Send + Sync + 'static,
) -> Arc<dyn Handler> {
    let counter = counter.clone();
    handler_fn(move |call: Call| {
        let data = call.details["data"].clone();
        let n = data["n"].as_u64().unwrap();
        let failure = fails(n, counter.call(&data));
        async move {
            match failure {
                Some(failure) => Outcome::Failed(failure),
                None => Outcome::Answered { value: Some(data), verdict: None },
            }
        }
    })
}
