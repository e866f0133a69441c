//! A server that answers as a script says, byte by byte: what is wrong with an answer is the point.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use redrive_core::Failure;
use redrive_engine::{Call, Handler, HttpHandler, HttpSpec, Outcome, Stopper};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

use crate::program::{LONG, failure, run, soon};

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The request line and the headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// What is sent back, and what then.
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) then: Then,
}

pub(crate) enum Then {
    /// Waits for the next request.
    Next,
    Close,
    /// Closes so that the other side hears of it as an error.
    Reset,
    /// Says nothing more, and keeps the connection.
    Hang,
    /// Sends this again and again.
    Forever(Vec<u8>),
}

/// A status, headers and a body of a known length.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n");
    Answer { bytes: [head.as_bytes(), body].concat(), then: Then::Next }
}

/// These bytes, and what then.
pub(crate) fn raw(bytes: impl AsRef<[u8]>, then: Then) -> Answer {
    Answer { bytes: bytes.as_ref().to_vec(), then }
}

/// The server. It ends with its test.
pub(crate) struct Web {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    /// Gets a word for every connection that is over.
    pub(crate) over: mpsc::UnboundedReceiver<()>,
    /// Gets a word for every request.
    pub(crate) asked: mpsc::UnboundedReceiver<()>,
    accepting: JoinHandle<()>,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Web {
    /// Answers every request like this.
    pub(crate) async fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::default(), Arc::default());
        let (over_sender, over) = mpsc::unbounded_channel();
        let (asked_sender, asked) = mpsc::unbounded_channel();
        let (log, count) = (Arc::clone(&seen), Arc::clone(&connections));
        let script = Arc::new(script);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                AtomicUsize::fetch_add(&count, 1, Ordering::SeqCst);
                let (script, log, asked, over) =
                    (script.clone(), Arc::clone(&log), asked_sender.clone(), over_sender.clone());
                tokio::spawn(async move {
                    serve(stream, &*script, &log, &asked).await;
                    _ = over.send(());
                });
            }
        });
        Self { address, seen, connections, over, asked, accepting }
    }

    /// A request to it.
    pub(crate) fn spec(&self) -> HttpSpec {
        let url = format!("http://{}/do?a=b", self.address);
        HttpSpec::new(Method::POST, url.parse().unwrap())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Handles a run.
    pub(crate) async fn handle(&self) -> Outcome {
        handle(self.spec(), &run()).await
    }

    /// Handles a run and expects a failure.
    pub(crate) async fn failure(&self) -> Failure {
        failure(self.handle().await)
    }
}

/// Handles a call without hurry.
pub(crate) async fn handle(spec: HttpSpec, call: &Call) -> Outcome {
    handle_within(spec, call, LONG).await
}

pub(crate) async fn handle_within(spec: HttpSpec, call: &Call, limit: Duration) -> Outcome {
    let (_stopper, stop) = Stopper::new();
    soon(HttpHandler::new(spec).unwrap().handle(call, limit, stop)).await
}

async fn serve(
    mut stream: TcpStream,
    script: &(impl Fn(&Seen) -> Answer + ?Sized),
    log: &Mutex<Vec<Seen>>,
    asked: &mpsc::UnboundedSender<()>,
) {
    while let Some(seen) = read_request(&mut stream).await {
        let Answer { bytes, then } = script(&seen);
        log.lock().unwrap().push(seen);
        _ = asked.send(());
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        match then {
            Then::Next => {}
            Then::Close => return,
            Then::Reset => return stream.set_zero_linger().unwrap(),
            Then::Hang => {
                // Until the other side is gone.
                _ = stream.read(&mut [0]).await;
                return;
            }
            Then::Forever(more) => while stream.write_all(&more).await.is_ok() {},
        }
    }
}

/// The next request, or `None` when there is none.
pub(crate) async fn read_request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let mut seen = Seen { head: String::from_utf8(head).unwrap(), body: Vec::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body.resize(length, 0);
    stream.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}
