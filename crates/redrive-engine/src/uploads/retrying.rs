//! Retries the calls of another uploader, within limits (UPL-2).

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{Failure, HumanDuration, ItemId, JitterKey, JitterSeed};
use redrive_store::{ItemGroup, ItemRecord, Store};

use crate::{
    Clock, SystemClock,
    uploads::{
        GiveupFile, ItemOutcome, ItemReport, RetrySettings, UploadError, UploadEvent,
        UploadObserver, UploadOutcome, UploadReport, UploadRequest, Uploader, event::no_observer,
        giveup::count_rejections,
    },
};

type RetrySleep = Arc<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Wraps an uploader.
///
/// Success, failure and errors are returned at once. After a partial success, every rejected item is counted, and
/// given up when its attempts are spent. The call is repeated after a sleep while retries and pending items are
/// left.
pub struct RetryingUploader<U> {
    inner: U,
    store: Arc<dyn Store>,
    settings: RetrySettings,
    clock: Arc<dyn Clock>,
    sleep: RetrySleep,
    actor: String,
    observer: UploadObserver,
    giveup_file: Option<GiveupFile>,
}

impl<U: Uploader> RetryingUploader<U> {
    /// `actor` is the actor of give-ups in the journal.
    pub fn new(
        inner: U,
        store: Arc<dyn Store>,
        settings: RetrySettings,
        actor: impl Into<String>,
    ) -> Self {
        Self {
            inner,
            store,
            settings,
            clock: Arc::new(SystemClock),
            sleep: Arc::new(|delay| Box::pin(tokio::time::sleep(delay))),
            actor: actor.into(),
            observer: no_observer(),
            giveup_file: None,
        }
    }

    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    pub fn with_sleep<S, W>(self, sleep: S) -> Self
    where
        S: Fn(Duration) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        Self { sleep: Arc::new(move |delay| Box::pin(sleep(delay))), ..self }
    }

    pub fn with_observer(self, observer: UploadObserver) -> Self {
        Self { observer, ..self }
    }

    pub fn with_giveup_file(self, file: Option<GiveupFile>) -> Self {
        Self { giveup_file: file, ..self }
    }

    /// Counts the rejections of a call, and gives up items whose attempts are spent.
    async fn count_rejections_of(
        &self,
        report: &UploadReport,
        combined: &mut CombinedReport,
    ) -> Result<(), UploadError> {
        let rejected: Vec<(ItemId, &Failure)> = report.rejected().collect();
        let (now, actor) = (self.clock.now(), self.actor.as_str());
        let given_up = count_rejections(&self.store, &self.settings, &rejected, actor, now).await?;
        if !given_up.is_empty() {
            self.update_giveup_file().await;
        }
        for spent in given_up {
            let (item, attempts, failure) = (&spent.item, spent.attempts, &spent.failure);
            (self.observer)(UploadEvent::GaveUp { item, attempts, failure });
            combined.gave_up(spent.item.id, spent.attempts, spent.failure);
        }
        Ok(())
    }

    /// The journal has every give-up, so a file that cannot be written now catches up later.
    async fn update_giveup_file(&self) {
        let Some(file) = &self.giveup_file else { return };
        if let Err(error) = file.catch_up(&*self.store).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(
                error,
                "cannot write the file of give-ups; the journal has them, and the next upload writes them again"
            );
        }
    }

    fn log_start(&self, group: &ItemGroup) {
        let spec = self.settings.item_policy().spec();
        tracing::info!(
            upload = group.upload,
            group = group.group,
            max_in_call_retries = self.settings.max_in_call_retries(),
            max_item_attempts = spec.max_attempts,
            backoff_base = %HumanDuration::from(spec.base),
            backoff_multiplier = spec.multiplier,
            backoff_cap = %HumanDuration::from(spec.cap),
            "uploading with retries"
        );
    }
}

#[async_trait]
impl<U: Uploader> Uploader for RetryingUploader<U> {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        let group = &request.group;
        self.log_start(group);
        let mut combined = CombinedReport::default();
        loop {
            let report = match self.inner.upload_pending(request).await {
                // What the calls before did is reported; the content may come back before the next upload.
                Err(error @ UploadError::Unreadable(_)) if combined.retries > 0 => {
                    tracing::warn!(upload = group.upload, group = group.group, "{error}");
                    let pending = self.store.item_counts(group).await?.pending;
                    return Ok(combined.partial(
                        pending,
                        self.clock.now(),
                        self.settings.cap(),
                        false,
                    ));
                }
                report => report?,
            };
            match report.outcome {
                UploadOutcome::Partial => {}
                _ if combined.retries == 0 => return Ok(report),
                outcome => {
                    combined.add(&report);
                    return Ok(combined.report(outcome, report.refusal, report.interrupted));
                }
            }
            combined.add(&report);
            self.count_rejections_of(&report, &mut combined).await?;
            let pending = self.store.item_counts(group).await?.pending;
            let hint = report.rejected().filter_map(|(_, failure)| failure.class().hint()).max();
            let jitter = JitterKey::written(JitterSeed::default(), &group.group);
            let now = self.clock.now();
            let sleep = self.settings.sleep_before_retry(combined.retries, hint, now, jitter);
            let (Some(sleep), false) = (sleep, pending == 0 || report.interrupted) else {
                return Ok(combined.partial(pending, now, self.settings.cap(), report.interrupted));
            };
            let retry = combined.retries + 1;
            tracing::info!(
                upload = group.upload,
                group = group.group,
                attempt_number = retry,
                sleep_s = sleep.as_secs_f64(),
                remaining_pending_count = pending,
                "retrying the pending items"
            );
            (self.observer)(UploadEvent::Retrying { retry, sleep, pending });
            redrive_store::failpoint!("engine.upload.sleeping");
            tokio::select! {
                biased;
                () = request.stopped() => {
                    let now = self.clock.now();
                    return Ok(combined.partial(pending, now, self.settings.cap(), true));
                }
                () = (self.sleep)(sleep) => {}
            }
            combined.retries = retry;
        }
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        self.inner.enumerate_pending(group, after, limit).await
    }

    async fn confirm_ready(&self) -> Result<(), UploadError> {
        self.inner.confirm_ready().await
    }
}

impl<U: fmt::Debug> fmt::Debug for RetryingUploader<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("RetryingUploader");
        shown.field("inner", &self.inner).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The combined result of the calls so far.
#[derive(Default)]
struct CombinedReport {
    retries: u32,
    items: BTreeMap<ItemId, ItemOutcome>,
    gave_up: bool,
}

impl CombinedReport {
    fn add(&mut self, report: &UploadReport) {
        for ItemReport { item, outcome } in &report.items {
            match (outcome, self.items.get(item)) {
                // The earlier rejection has more information.
                (ItemOutcome::NotSent, Some(_)) => {}
                _ => _ = self.items.insert(*item, outcome.clone()),
            }
        }
    }

    fn gave_up(&mut self, item: ItemId, attempts: u32, failure: Failure) {
        self.items.insert(item, ItemOutcome::GivenUp { attempts, failure });
        self.gave_up = true;
    }

    /// Success means that every item was acknowledged.
    fn report(
        self,
        outcome: UploadOutcome,
        refusal: Option<Failure>,
        interrupted: bool,
    ) -> UploadReport {
        let outcome = match outcome {
            UploadOutcome::Success if self.gave_up => UploadOutcome::Partial,
            outcome => outcome,
        };
        let items = self.items.into_iter();
        let items = items.map(|(item, outcome)| ItemReport { item, outcome }).collect();
        let report = UploadReport::new(outcome, items);
        UploadReport { retry_count: self.retries, refusal, interrupted, ..report }
    }

    fn partial(
        self,
        pending: u64,
        now: Timestamp,
        cap: Duration,
        interrupted: bool,
    ) -> UploadReport {
        let report = self.report(UploadOutcome::Partial, None, interrupted);
        let later = now.checked_add(cap).unwrap_or(Timestamp::MAX);
        UploadReport { next_retry_at: (pending > 0).then_some(later), ..report }
    }
}
