//! The uploader that sends: one POST for each item, several at once.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use redrive_core::{AttemptNumber, Cause, Failure, ItemId, Unit, named};
use redrive_store::{ItemGroup, ItemRecord, Store};
use serde_json::{Map, Value};
use tokio::task::JoinSet;

use crate::{
    Call, Clock, Handler, HttpSpec, InvalidHttp, Outcome, Stopper, SystemClock,
    traces::Traces,
    uploads::{
        Content, UploadError, UploadObserver, UploadReport, UploadRequest, Uploader,
        event::no_observer,
        item_sender::ItemSender,
        item_supply::ItemSupply,
        lanes::{Lanes, UploadPass},
        recorder::Recorder,
    },
};

/// How long what is under way may go on after a stop.
const GRACE: Duration = Duration::from_secs(10);

/// Where items go, and how.
#[derive(Clone)]
pub struct HttpUpload {
    /// The upload's name.
    pub name: String,
    /// Where they are posted, and with which headers; the rest of it is not used.
    pub spec: HttpSpec,
    /// How many are sent at once.
    pub concurrency: usize,
    /// How long one may take.
    pub time_limit: Duration,
    /// Who says whether an upload may start.
    pub ready: Option<Arc<dyn Handler>>,
    /// Who sends, for the ledger.
    pub worker: String,
}

/// Posts the bytes of every pending item of a group.
///
/// A status from 200 to 299 acknowledges an item, which is soon written. Any other, a connection that
/// is cut and a time limit that is over are rejections: the item stays pending. Content that is not what
/// was added is rejected too, and is not sent. Where the server cannot be reached before it has answered
/// anything, that is an error; later, what could not be sent stays as it is. 401 and 407 are about who
/// sends: they refuse the batch.
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
}

impl HttpUploader {
    /// Checks a specification. The environment is read here, once.
    pub fn new(
        upload: HttpUpload,
        store: Arc<dyn Store>,
        content: Arc<dyn Content>,
    ) -> Result<Self, InvalidHttp> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let sender = ItemSender::new(&upload.spec, clock.clone(), upload.time_limit)?;
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
        })
    }

    /// With someone who watches.
    pub fn with_observer(self, observer: UploadObserver) -> Self {
        Self { observer, ..self }
    }

    /// Traces the attempts at items.
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Sends everything that is pending, as far as there is use in it.
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
        let lanes = Arc::new(Lanes::new(parts, supply, request.clone(), self.traces.clone()));
        let mut running = JoinSet::new();
        for _ in 0..self.concurrency {
            running.spawn(lanes.clone().run());
        }
        await_lanes(request, &lanes, &mut running).await;
        let pass = lanes.end();
        drop(lanes);
        // Also after an error: what was acknowledged is acknowledged.
        recorder.finish().await?;
        Ok(pass)
    }
}

/// Waits for what is under way. After a stop that has a limit; what is dropped then was not judged.
async fn await_lanes(request: &UploadRequest, lanes: &Lanes, running: &mut JoinSet<()>) {
    let over = async {
        request.stopped().await;
        tokio::time::sleep(GRACE).await;
    };
    let mut over = std::pin::pin!(over);
    loop {
        tokio::select! {
            biased;
            ended = running.join_next() => match ended {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, "sending an item broke off");
                    lanes.pass().is_over = true;
                }
            },
            () = &mut over => return running.shutdown().await,
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

    /// A handler that answers is ready, unless it answers `false`. Its call is about no item: the unit
    /// is `item:0`.
    async fn confirm_ready(&self) -> Result<(), UploadError> {
        let Some(ready) = &self.ready else { return Ok(()) };
        let details = Map::from_iter([("upload".to_owned(), Value::from(self.name.as_str()))]);
        let call =
            Call { unit: Unit::Item(ItemId(0)), attempt: AttemptNumber(0), run_id: None, details };
        let (_stopper, stop) = Stopper::new();
        let outcome = ready.handle(&call, self.time_limit, stop).await;
        ready.release().await;
        let no = |why: &str| Failure::named(named::BAD_REPLY, Cause::Handler, why);
        Err(UploadError::NotReady(match outcome {
            Outcome::Answered { value: Some(Value::Bool(false)), .. } => no("the check says false"),
            Outcome::Answered { .. } => return Ok(()),
            Outcome::Skipped(why) => no(&why),
            Outcome::Failed(failure) => failure,
            Outcome::Stopped => no("the check was stopped"),
        }))
    }
}

impl fmt::Debug for HttpUploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpUploader").field("name", &self.name).finish_non_exhaustive()
    }
}
