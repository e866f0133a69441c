//! A collector of spans: a server that takes OTLP over HTTP and keeps what it was sent.

use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use crate::http_worker::read_request;

/// A request as it came: its head, and what it carried.
type Received = Vec<(String, Value)>;

/// What it answers to its n-th request, from 0: a status, headers, a body. `None` is no answer at all.
pub(crate) type Script = fn(usize) -> Option<(u16, &'static str, &'static str)>;

/// It takes everything.
pub(crate) const TAKES: Script = |_| Some((200, "", "{}"));

/// The collector. It lives as long as the tests.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Received>>,
}

impl Collector {
    pub(crate) fn new(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Received>>::default();
        let log = received.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, stream) = (log.clone(), stream.unwrap());
                thread::spawn(move || {
                    let mut stream = BufReader::new(stream);
                    while let Some(request) = read_request(&mut stream) {
                        let number = {
                            let mut log = log.lock().unwrap();
                            log.push(request);
                            log.len() - 1
                        };
                        let Some((status, more, body)) = script(number) else {
                            // Silent until the other side is gone.
                            _ = read_request(&mut stream);
                            return;
                        };
                        let length = body.len();
                        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
                        _ = write!(stream.get_mut(), "{head}{more}\r\n{body}");
                    }
                });
            }
        });
        Self { address, received }
    }

    /// Where nobody listens.
    pub(crate) fn nowhere() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    pub(crate) fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }

    /// Every span that came, in the order of coming.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.received();
        let all = requests.iter().flat_map(|(_, request)| list(request, "resourceSpans"));
        let all = all.flat_map(|resource| list(resource, "scopeSpans"));
        all.flat_map(|scope| list(scope, "spans")).map(|span| Span(span.clone())).collect()
    }
}

/// A span as it came.
#[derive(Debug, Clone)]
pub(crate) struct Span(pub(crate) Value);

impl Span {
    #[track_caller]
    pub(crate) fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_else(|| panic!("{field} of {}", self.0))
    }

    pub(crate) fn nanos(&self, field: &str) -> i128 {
        self.text(field).parse().unwrap()
    }

    /// The value of an attribute as text; empty if there is none.
    pub(crate) fn attribute(&self, key: &str) -> String {
        let found = list(&self.0, "attributes").find(|attribute| attribute["key"] == key);
        let value = found.map(|attribute| attribute["value"].as_object().unwrap());
        match value.and_then(|value| value.values().next()) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.attribute("redrive.attempt").parse().unwrap()
    }

    /// The traces and spans it is linked to.
    pub(crate) fn links(&self) -> Vec<(&str, &str)> {
        fn id<'a>(link: &'a Value, field: &str) -> &'a str {
            link[field].as_str().unwrap()
        }
        list(&self.0, "links").map(|link| (id(link, "traceId"), id(link, "spanId"))).collect()
    }

    pub(crate) fn id(&self) -> (&str, &str) {
        (self.text("traceId"), self.text("spanId"))
    }

    /// As a handler is told of it.
    pub(crate) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.text("traceId"), self.text("spanId"))
    }
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value[field].as_array().into_iter().flatten()
}
