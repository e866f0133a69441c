//! Bytes on a connection to the server.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::LazyLock,
    time::Duration,
};

use redrive::{PartitionRules, RawSink};
use redrive_engine::{PlanExecutor, random_worker_id};
use redrive_ops::Ops;
use redrive_server::{Access, Server, ServerLimits, ServerSetup, Uploads};
use tokio::runtime::Runtime;

/// A server on a store in memory. It lives as long as the process.
static SERVER: LazyLock<(Runtime, SocketAddr)> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap_or_else(|error| panic!("a runtime: {error}"));
    let address = runtime.block_on(async {
        let store = redrive::open("sqlite::memory:").await;
        let store = store.unwrap_or_else(|error| panic!("a store: {error}"));
        let raw = RawSink::folder("raw-that-is-not-there");
        let ops = Ops::new(store, None, PartitionRules::default(), raw);
        let (access, limits) = (Access::default(), ServerLimits::default());
        let (pipelines, uploads) = (Vec::new(), Uploads::new());
        let executor = random_worker_id().unwrap_or_else(|error| panic!("an id: {error}"));
        let plans = PlanExecutor::new(ops.store().clone(), executor);
        let site = ServerSetup {
            ops,
            access,
            limits,
            pipelines,
            uploads,
            archive: None,
            plans,
            write_times: Default::default(),
        };
        let server = Server::listen(([127, 0, 0, 1], 0).into(), site).await;
        let server = server.unwrap_or_else(|error| panic!("a server: {error}"));
        let address = server.address();
        tokio::spawn(server.serve(std::future::pending()));
        address
    });
    (runtime, address)
});

/// Longer than any answer takes that comes at all.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server answers or refuses, never fails, and goes on.
pub fn check(bytes: &[u8]) {
    // An open page is answered for as long as it is open.
    if bytes.windows(7).any(|part| part == b"/events") {
        return;
    }
    // As they are: a request that does not end is not answered when the other side is gone.
    no_failure(&say(bytes, true), bytes);
    // As one request that ends: this is answered, whatever it says.
    let request = framed(bytes);
    let answer = say(&request, false);
    assert!(!answer.is_empty(), "no answer to {:?}", String::from_utf8_lossy(&request));
    no_failure(&answer, &request);
    let health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let health = say(health, false);
    assert!(health.starts_with("HTTP/1.1 200 "), "it goes on: {health:?}");
}

fn no_failure(answer: &str, request: &[u8]) {
    for head in heads(answer) {
        let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {head:?}"));
        assert!((100..500).contains(&status), "{head:?} to {:?}", String::from_utf8_lossy(request));
    }
}

/// The same with headers that say where it ends.
fn framed(bytes: &[u8]) -> Vec<u8> {
    const FRAMING: [&str; 4] = ["content-length", "transfer-encoding", "connection", "expect"];
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let (head, body) = match end {
        Some(end) => (&bytes[..end], &bytes[end + 4..]),
        None => (bytes, &[][..]),
    };
    let mut request = Vec::new();
    for line in head.split(|byte| *byte == b'\n') {
        let name = String::from_utf8_lossy(line).to_ascii_lowercase();
        if !FRAMING.iter().any(|framing| name.trim().starts_with(framing)) {
            request.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            request.extend_from_slice(b"\r\n");
        }
    }
    let framing = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    request.extend_from_slice(framing.as_bytes());
    request.extend_from_slice(body);
    request
}

/// What comes back until the server hangs up. It may be told that nothing more comes.
fn say(bytes: &[u8], done: bool) -> String {
    let (_, address) = &*SERVER;
    let mut connection = TcpStream::connect(address).unwrap_or_else(|error| panic!("{error}"));
    connection.set_read_timeout(Some(PATIENCE)).unwrap_or_else(|error| panic!("{error}"));
    // It may hang up before all is said.
    _ = connection.write_all(bytes);
    if done {
        _ = connection.shutdown(Shutdown::Write);
    }
    let mut answer = Vec::new();
    match connection.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => {
            panic!("no end of an answer to {:?}: {error}", String::from_utf8_lossy(bytes));
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The first lines of all answers. None of ours has such a line inside.
fn heads(answer: &str) -> impl Iterator<Item = &str> {
    assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer:?}");
    answer.lines().filter(|line| line.starts_with("HTTP/1."))
}
