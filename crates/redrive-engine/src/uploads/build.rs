//! Assembles uploaders.

use std::sync::Arc;

use redrive_store::{GateDeclarations, GateRules, Store};

use crate::{
    InvalidHttp,
    traces::Traces,
    uploads::{
        Content, GiveupFile, HttpUpload, HttpUploader, RetrySettings, RetryingUploader,
        UploadObserver, Uploader, event::no_observer,
    },
};

pub struct UploadPlan {
    pub http: HttpUpload,
    pub retry: RetrySettings,
    /// Return a partial success without a retry.
    pub disable_retry: bool,
    pub giveup_file: Option<GiveupFile>,
    pub observer: Option<UploadObserver>,
    pub traces: Traces,
    pub gates: GateRules,
    pub declared_gates: GateDeclarations,
}

/// An uploader that sends items by HTTP: with retries, unless they are disabled.
pub fn build_uploader(
    plan: UploadPlan,
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
) -> Result<Arc<dyn Uploader>, InvalidHttp> {
    let observer = plan.observer.unwrap_or_else(no_observer);
    let (name, worker) = (plan.http.name.clone(), plan.http.worker.clone());
    let bare = HttpUploader::new(plan.http, store.clone(), content)?;
    let bare = bare.with_observer(observer.clone()).with_traces(plan.traces);
    let bare = bare.with_gates(plan.gates, plan.declared_gates);
    if plan.disable_retry {
        tracing::info!(
            upload = name,
            "retries are disabled: a partial success is final for this call"
        );
        return Ok(Arc::new(bare));
    }
    let retrying = RetryingUploader::new(bare, store, plan.retry, worker)
        .with_observer(observer)
        .with_giveup_file(plan.giveup_file);
    Ok(Arc::new(retrying))
}
