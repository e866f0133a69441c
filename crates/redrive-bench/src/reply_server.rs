//! A local HTTP server with simple replies, and a bare client of it.

use std::{
    borrow::Cow,
    net::Ipv4Addr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use redrive::{HttpHandler, HttpSpec};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    runtime,
    sync::oneshot,
    task::JoinSet,
};

use crate::{
    error::{BenchError, failed},
    run_backend::PAYLOAD,
};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The backlog has room for all connections at once: one that finds none is retried after a second.
const BACKLOG: u32 = 4_096;

pub(crate) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                        content-length: 12\r\n\r\n{\"ok\": null}";

/// What a request is answered with, decided when it has arrived.
pub(crate) type Replies = Arc<dyn Fn() -> Cow<'static, [u8]> + Send + Sync>;

/// Answers requests at once or after `response_time`, on a thread of its own. Stops when dropped.
pub(crate) struct ReplyServer {
    pub(crate) url: Uri,
    _stop: oneshot::Sender<()>,
}

impl ReplyServer {
    /// A server that always gives the same reply.
    pub(crate) fn new(response_time: Duration) -> Result<Self, BenchError> {
        Self::with_replies(response_time, Arc::new(|| Cow::Borrowed(ANSWER)))
    }

    pub(crate) fn with_replies(
        response_time: Duration,
        replies: Replies,
    ) -> Result<Self, BenchError> {
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _inside = runtime.enter();
            listen().map_err(failed)?
        };
        let url = format!("http://{}/work", listener.local_addr().map_err(failed)?);
        let (_stop, stopped) = oneshot::channel();
        let serve = move || runtime.block_on(serve(listener, response_time, replies, stopped));
        thread::Builder::new().name("server".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { url: url.parse().map_err(failed)?, _stop })
    }

    pub(crate) fn handler(&self) -> Result<HttpHandler, BenchError> {
        HttpHandler::new(HttpSpec::new(Method::POST, self.url.clone())).map_err(failed)
    }

    /// Requests per second of a client that sends the same calls as a worker, and reads the replies.
    pub(crate) async fn bare_rate(
        &self,
        count: usize,
        concurrency: usize,
    ) -> Result<f64, BenchError> {
        let payload: Arc<RawValue> =
            RawValue::from_string(PAYLOAD.to_owned()).map_err(failed)?.into();
        let headers = headers("application/json");
        let request = move |number: usize| {
            let unit = format!("run:{number}");
            let call = BareCall {
                id: format!("{unit}#1"),
                kind: "run",
                unit: &unit,
                attempt: 1,
                run_id: None,
                queue: "bench",
                category: "",
                payload: &payload,
            };
            let body = serde_json::to_vec(&call).map_err(failed)?;
            let mut headers = headers.clone();
            headers.insert(IDEMPOTENCY_KEY, unit.parse().map_err(failed)?);
            Ok((headers, body.into()))
        };
        let start = Instant::now();
        self.send(count, concurrency, request, |_, reply| {
            serde_json::from_slice(&reply).map(|_: serde_json::Value| ()).map_err(failed)
        })
        .await?;
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    /// Sends `count` requests, and calls `answered` with the number and the body of each reply.
    pub(crate) async fn send(
        &self,
        count: usize,
        concurrency: usize,
        request: impl Fn(usize) -> Result<(HeaderMap, Bytes), BenchError> + Clone + Send + 'static,
        answered: impl Fn(usize, Bytes) -> Result<(), BenchError> + Clone + Send + 'static,
    ) -> Result<(), BenchError> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let mut tasks = JoinSet::new();
        for lane in 0..concurrency {
            let (client, url) = (client.clone(), self.url.clone());
            let (request, answered) = (request.clone(), answered.clone());
            tasks.spawn(async move {
                for number in (lane..count).step_by(concurrency) {
                    let (headers, body) = request(number)?;
                    let mut request = Request::new(Full::new(body));
                    *request.method_mut() = Method::POST;
                    *request.uri_mut() = url.clone();
                    *request.headers_mut() = headers;
                    let response = client.request(request).await.map_err(failed)?;
                    let reply = response.into_body().collect().await.map_err(failed)?;
                    answered(number, reply.to_bytes())?;
                }
                Ok::<(), BenchError>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(failed)??;
        }
        Ok(())
    }
}

/// A call with the fields that a worker sends.
#[derive(Serialize)]
struct BareCall<'a> {
    id: String,
    kind: &'a str,
    unit: &'a str,
    attempt: u32,
    run_id: Option<&'a str>,
    queue: &'a str,
    category: &'a str,
    payload: &'a RawValue,
}

/// The headers that a worker sends with every request.
pub(crate) fn headers(content_type: &'static str) -> HeaderMap {
    let agent = concat!("redrive/", env!("CARGO_PKG_VERSION"));
    HeaderMap::from_iter([
        (ACCEPT, HeaderValue::from_static("application/json, */*")),
        (ACCEPT_ENCODING, HeaderValue::from_static("identity")),
        (USER_AGENT, HeaderValue::from_static(agent)),
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
    ])
}

fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    socket.listen(BACKLOG)
}

async fn serve(
    listener: TcpListener,
    response_time: Duration,
    replies: Replies,
    stopped: oneshot::Receiver<()>,
) {
    let accepting = async {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, response_time, replies.clone()));
        }
    };
    tokio::select! {
        _ = stopped => {}
        () = accepting => {}
    }
}

/// Answers the requests of a connection until the client closes it.
async fn answer(
    stream: TcpStream,
    response_time: Duration,
    replies: Replies,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut line, mut length, mut body) = (String::new(), 0, Vec::new());
    while stream.read_line(&mut line).await? > 0 {
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
            let reply = replies();
            if !response_time.is_zero() {
                tokio::time::sleep(response_time).await;
            }
            stream.write_all(&reply).await?;
            length = 0;
        }
        line.clear();
    }
    Ok(())
}
