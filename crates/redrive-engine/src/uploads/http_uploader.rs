//! Sends items with HTTP: one POST per item, several at once.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause, Failure, ItemId, Unit, named};
use redrive_store::{GateDeclarations, GateRules, ItemGroup, ItemRecord, Store, WorkerId};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::{
    Call, CallLog, Clock, Handler, HttpSpec, InvalidHttp, Outcome, Stop, Stopper, SystemClock,
    gates::{known_gates::KnownGates, work_gates::WorkGates},
    traces::Traces,
    uploads::{
        Content, UploadError, UploadObserver, UploadReport, UploadRequest, Uploader,
        event::no_observer,
        item_gates::ItemGates,
        item_sender::ItemSender,
        item_supply::ItemSupply,
        lanes::{Lanes, UploadPass},
        recorder::Recorder,
    },
};

/// How long items that are being sent may take after a stop.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct HttpUpload {
    pub name: String,
    /// The URL and the headers; other fields are not used.
    pub spec: HttpSpec,
    /// The most items at once.
    pub concurrency: usize,
    /// Per item.
    pub time_limit: Duration,
    /// Decides whether an upload may start.
    pub ready: Option<Arc<dyn Handler>>,
    /// The worker id in the ledger.
    pub worker: String,
}

/// Posts the bytes of every pending item of a group.
///
/// A status from 200 to 299 acknowledges an item. Any other status, a broken connection and a timeout are
/// rejections: the item stays pending. Content that has changed or is missing is rejected without being sent. If the
/// server cannot be reached before it has responded to any item, or the content of all items is missing, the upload is
/// an error; later, unsent items stay pending. An item whose folder does not exist or is empty stays pending too. 401 and 407 are about the sender: they refuse the whole batch.
pub struct HttpUploader {
    name: String,
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    sender: Arc<ItemSender>,
    concurrency: usize,
    time_limit: Duration,
    ready: Option<Arc<dyn Handler>>,
    worker: String,
    clock: Arc<dyn Clock>,
    observer: UploadObserver,
    traces: Traces,
    gates: GateRules,
    declared_gates: Arc<GateDeclarations>,
}

impl HttpUploader {
    /// Checks a specification. Environment variables are read here, once.
    pub fn new(
        upload: HttpUpload,
        store: Arc<dyn Store>,
        content: Arc<dyn Content>,
    ) -> Result<Self, InvalidHttp> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let sender =
            ItemSender::new(&upload.spec, content.clone(), clock.clone(), upload.time_limit)?;
        Ok(Self {
            name: upload.name,
            store,
            content,
            sender: Arc::new(sender),
            concurrency: upload.concurrency.max(1),
            time_limit: upload.time_limit,
            ready: upload.ready,
            worker: upload.worker,
            clock,
            observer: no_observer(),
            traces: Traces::default(),
            gates: GateRules::default(),
            declared_gates: Arc::default(),
        })
    }

    pub fn with_observer(self, observer: UploadObserver) -> Self {
        Self { observer, ..self }
    }

    /// Traces the attempts at items.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Lets items pass gates, with their group as the key. The gates are declared with all places whose units pass them.
    pub fn with_gates(self, gates: GateRules, declared: GateDeclarations) -> Self {
        Self { gates, declared_gates: declared.into(), ..self }
    }

    /// The gates of a request, which are followed until the stopper is dropped.
    fn item_gates(&self, request: &UploadRequest, stop: Stop) -> Option<ItemGates> {
        if self.gates.is_empty() {
            return None;
        }
        let known: Arc<KnownGates> = Arc::default();
        tokio::spawn(known.clone().follow(self.store.clone(), stop));
        Some(ItemGates {
            gates: WorkGates::new(self.gates.clone(), self.declared_gates.clone(), known),
            store: self.store.clone(),
            clock: self.clock.clone(),
            worker: WorkerId(self.worker.clone()),
            group: request.group.group.clone(),
            epoch: request.epoch,
            batch: self.concurrency,
            queue: Default::default(),
            unsent: Default::default(),
        })
    }

    /// Sends the pending items, until one of them shows that the others would fail as well.
    async fn send_all(&self, request: &UploadRequest) -> Result<UploadPass, UploadError> {
        let recorder = Recorder::start(
            self.store.clone(),
            self.worker.clone(),
            self.observer.clone(),
            self.traces.clone(),
        );
        let supply =
            ItemSupply::start(self.store.clone(), self.content.clone(), request.group.clone());
        let parts = (self.sender.clone(), self.clock.clone(), recorder.sender());
        let (stopper, stop) = Stopper::new();
        let gates = self.item_gates(request, stop);
        let lanes = Lanes::new(parts, supply, gates, request.clone(), self.traces.clone());
        let lanes = Arc::new(lanes);
        let mut running = JoinSet::new();
        for _ in 0..self.concurrency {
            running.spawn(lanes.clone().run());
        }
        await_lanes(request, &lanes, &mut running).await;
        stopper.stop();
        let mut pass = lanes.end().await;
        drop(lanes);
        if pass.has_missing() {
            let counts = self.store.item_counts(&request.group).await?;
            let available_before = counts.uploaded + counts.trusted > 0;
            for rejected in pass.end_missing(available_before) {
                _ = recorder.sender().send(rejected).await;
            }
        }
        // After an error too, because acknowledgements must be written.
        recorder.finish().await?;
        Ok(pass)
    }
}

/// Waits for the lanes. After a stop, lanes are dropped when the grace time is over; their items stay pending.
async fn await_lanes(request: &UploadRequest, lanes: &Lanes, running: &mut JoinSet<()>) {
    let grace_over = async {
        request.stopped().await;
        tokio::time::sleep(GRACE).await;
    };
    let mut grace_over = std::pin::pin!(grace_over);
    loop {
        tokio::select! {
            biased;
            ended = running.join_next() => match ended {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "a lane panicked while it sent an item; the upload ends");
                    lanes.pass().is_over = true;
                }
            },
            () = &mut grace_over => return running.shutdown().await,
        }
    }
}

#[async_trait]
impl Uploader for HttpUploader {
    async fn upload_pending(&self, request: &UploadRequest) -> Result<UploadReport, UploadError> {
        tokio::select! {
            biased;
            () = request.stopped() => {
                return UploadPass::interrupted().report();
            }
            ready = self.confirm_ready() => ready?,
        }
        self.send_all(request).await?.report()
    }

    async fn enumerate_pending(
        &self,
        group: &ItemGroup,
        after: ItemId,
        limit: u32,
    ) -> Result<Vec<ItemRecord>, UploadError> {
        Ok(self.store.pending_items(group, after, limit).await?)
    }

    /// The upload is ready if the handler answers anything but `false`. The call is about no item: its unit is
    /// `item:0`.
    async fn confirm_ready(&self) -> Result<(), UploadError> {
        let Some(ready) = &self.ready else { return Ok(()) };
        let details = Map::from_iter([("upload".to_owned(), Value::from(self.name.as_str()))]);
        let call = Call {
            unit: Unit::Item(ItemId(0)),
            attempt: AttemptNumber(0),
            run_id: None,
            details,
            log: CallLog::default(),
        };
        let (_stopper, stop) = Stopper::new();
        let outcome = ready.handle(&call, self.time_limit, stop).await;
        ready.release().await;
        let no = |why: &str| Failure::named(named::BAD_REPLY, Cause::Handler, why);
        Err(UploadError::NotReady(match outcome {
            Outcome::Answered { value: Some(Value::Bool(false)), .. } => {
                no("the readiness check answered false")
            }
            Outcome::Answered { .. } => return Ok(()),
            Outcome::Skipped(why) => no(&why),
            Outcome::Failed(failure) => failure,
            Outcome::Stopped => no("the readiness check was stopped"),
        }))
    }
}

impl fmt::Debug for HttpUploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpUploader").field("name", &self.name).finish_non_exhaustive()
    }
}
