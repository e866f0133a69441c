//! Sends spans in batches, without blocking attempts.
//!
//! Ending an attempt puts its span into a queue. A task posts the queue to the collector. When the queue is full,
//! because the collector is down or too slow, spans are dropped: this is logged once, and the number at the end.
//! Failed requests are retried by the policy below.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header::CONTENT_TYPE};
use http_body_util::Full;
use redrive_core::{Failure, Policy, PolicySpec, Preset};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{TraceSettings, span::text};
use crate::handlers::http::{
    BodyBuffer, HttpClient, HttpSpec, InvalidHttp, ReceivedResponse, ServiceConventions,
    default_headers, no_response, status_failure, timeout_failure,
};
use redrive_retry::{Clock, Stop, Stopper, SystemClock, retry};

/// How long [`Export::finish`] waits for the remaining spans.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);

/// Retries a request after 1, 2 and 4 s, or after the delay that the collector names, up to 30 s.
fn policy() -> Policy {
    let spec = PolicySpec {
        max_attempts: Some(4),
        max_hint: Duration::from_secs(30),
        max_deferrals: 3,
        ..PolicySpec::default()
    };
    Policy::new(spec).unwrap_or_else(|_| Preset::Stage.policy())
}

pub(super) struct SpanQueue {
    queue: mpsc::Sender<Value>,
    counts: Arc<SpanCounts>,
}

#[derive(Default)]
struct SpanCounts {
    made: AtomicU64,
    sent: AtomicU64,
    warned: AtomicBool,
}

impl SpanQueue {
    pub(super) fn add(&self, span: Value) {
        self.counts.made.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(span).is_err() && !self.counts.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("the queue of spans is full; some spans are dropped from now on");
        }
    }
}

/// The running task that sends spans.
pub(super) struct Export {
    stopper: Stopper,
    sending: JoinHandle<()>,
}

impl Export {
    pub(super) fn start(settings: TraceSettings) -> Result<(SpanQueue, Self), InvalidHttp> {
        let spec = HttpSpec::new(Method::POST, settings.url);
        spec.check()?;
        if let Some(protocol) = &settings.other_protocol {
            tracing::warn!(
                protocol,
                "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: spans are sent as JSON over HTTP"
            );
        }
        let mut headers = default_headers(&spec);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(settings.headers);
        let resource = settings.resource.iter().map(|(key, value)| text(key, value)).collect();
        let (queue, waiting) = mpsc::channel(settings.queue);
        let (stopper, stop) = Stopper::new();
        let counts = Arc::<SpanCounts>::default();
        let sending = SpanSender {
            client: HttpClient::for_spec(&spec)?,
            collector: spec.server(),
            target: spec.target(),
            headers,
            time_limit: settings.timeout,
            resource,
            delay: settings.delay,
            batch: settings.batch,
            waiting,
            counts: counts.clone(),
            stop,
            failing: false,
        };
        let sending = tokio::spawn(sending.run());
        Ok((SpanQueue { queue, counts }, Self { stopper, sending }))
    }

    /// Sends the remaining spans within [`FINISH_TIMEOUT`], and logs how many were not sent.
    pub(super) async fn finish(mut self, spans: &SpanQueue) {
        self.stopper.stop();
        if timeout(FINISH_TIMEOUT, &mut self.sending).await.is_err() {
            self.sending.abort();
        }
        let SpanCounts { made, sent, .. } = &*spans.counts;
        let sent = sent.load(Ordering::Relaxed);
        let dropped = made.load(Ordering::Relaxed).saturating_sub(sent);
        if dropped > 0 {
            tracing::warn!(sent, dropped, "some spans were not sent");
        } else {
            tracing::debug!(sent, "all spans were sent");
        }
    }
}

struct SpanSender {
    client: HttpClient<Full<Bytes>>,
    /// For messages.
    collector: String,
    target: Uri,
    headers: HeaderMap,
    time_limit: Duration,
    /// The attributes of this process.
    resource: Value,
    delay: Duration,
    batch: usize,
    waiting: mpsc::Receiver<Value>,
    counts: Arc<SpanCounts>,
    stop: Stop,
    /// Whether the last request failed, which is logged once.
    failing: bool,
}

impl SpanSender {
    async fn run(mut self) {
        let policy = policy();
        while let Some(spans) = self.gather().await {
            self.send(&policy, spans).await;
        }
    }

    /// Waits for spans, and a little longer for more. `None` after a stop, when all are sent.
    async fn gather(&mut self) -> Option<Vec<Value>> {
        let mut stop = self.stop.clone();
        let first = tokio::select! {
            biased;
            first = self.waiting.recv() => first,
            () = stop.stopped() => None,
        };
        let mut spans = vec![first?];
        let mut over = pin!(sleep(self.delay));
        while spans.len() < self.batch {
            let room = self.batch - spans.len();
            tokio::select! {
                biased;
                taken = self.waiting.recv_many(&mut spans, room) => if taken == 0 { break },
                () = stop.stopped() => break,
                () = &mut over => break,
            }
        }
        Some(spans)
    }

    async fn send(&mut self, policy: &Policy, spans: Vec<Value>) {
        let count = spans.len() as u64;
        let body = Bytes::from(self.request_of(spans).to_string());
        let mut failing = self.failing;
        let mut warn = |failure: &Failure| {
            if !std::mem::replace(&mut failing, true) {
                let error = failure.message().as_str();
                tracing::warn!(
                    error,
                    "cannot send spans to the collector; attempts continue without them"
                );
            }
        };
        let sent = retry(policy, || self.post(body.clone()))
            .on_retry(|event| warn(event.error))
            .stop(self.stop.clone())
            .await;
        match sent {
            Ok(rejected) => {
                self.counts.sent.fetch_add(count.saturating_sub(rejected), Ordering::Relaxed);
                if failing {
                    tracing::info!("the collector accepts spans again");
                }
                if rejected > 0 {
                    tracing::warn!(rejected, "the collector rejected spans");
                }
                self.failing = false;
            }
            Err(failure) => {
                warn(&failure);
                self.failing = true;
            }
        }
    }

    fn request_of(&self, spans: Vec<Value>) -> Value {
        let scope = json!({ "name": "redrive", "version": env!("CARGO_PKG_VERSION") });
        json!({ "resourceSpans": [{
            "resource": { "attributes": self.resource },
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] })
    }

    /// Posts a batch; returns how many of its spans the collector rejected.
    async fn post(&self, body: Bytes) -> Result<u64, Failure> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.target.clone();
        request.headers_mut().clone_from(&self.headers);
        let exchange = async {
            let answer = self.client.request(request).await;
            let (head, body) = answer.map_err(|error| no_response(&error, &self.collector))?;
            let mut kept = BodyBuffer::new(head.status);
            let end = kept.read(body).await;
            if head.status.is_success() {
                return Ok(rejected(&kept.into_bytes()));
            }
            // The text of the response may repeat the headers, which are secrets.
            let (status, headers) = (head.status, &head.headers);
            let answer = ReceivedResponse { status, headers, text: "".into(), end };
            Err(status_failure(&answer, &ServiceConventions::default(), SystemClock.now()))
        };
        timeout(self.time_limit, exchange)
            .await
            .unwrap_or_else(|_| Err(timeout_failure(self.time_limit)))
    }
}

/// The number of rejected spans in a partial success.
fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    match answer.pointer("/partialSuccess/rejectedSpans") {
        Some(Value::String(count)) => count.parse().unwrap_or_default(),
        Some(Value::Number(count)) => count.as_u64().unwrap_or_default(),
        _ => 0,
    }
}
