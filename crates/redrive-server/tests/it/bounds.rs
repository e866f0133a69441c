//! More than a server takes: too many at once, too often, too slowly.

use std::time::Duration;

use redrive_server::{Access, ServerLimits};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    client::{Answer, Client},
    site::{Running, guarded_access},
};

/// Few enough that the sockets of these tests do not use up the files that a process may open.
const FEW: ServerLimits =
    ServerLimits { connections: 24, connections_per_address: 12, ..ServerLimits::DEFAULT };

/// A server that takes little.
async fn small(limits: ServerLimits) -> Running {
    Running::with(Access::default(), limits).await
}

/// Everything that is said on a connection, until it is closed.
async fn rest(mut connection: TcpStream) -> String {
    let mut said = Vec::new();
    _ = connection.read_to_end(&mut said).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn whoever_comes_when_all_places_are_taken_is_told_to_come_back_except_health_checks() {
    let site = small(ServerLimits { connections: 3, ..ServerLimits::default() }).await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        let mut connection = site.client.open("/healthz").await;
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        taken.push(connection);
    }
    assert_eq!(site.client.get("/healthz").await.status, 200);
    assert_eq!(site.client.get("/readyz").await.status, 200);
    let answer = site.client.get("/v1/runs").await;
    let problem = answer.problem(503);
    assert_eq!(problem["type"], "urn:redrive:problem:too-many-connections");
    assert!(problem["detail"].as_str().unwrap().contains("too many"), "{problem}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    drop(taken);
    // The server hears of it soon.
    let mut last = answer;
    while last.status == 503 {
        last = site.client.get("/v1/runs").await;
    }
    assert_eq!(last.status, 200);
}

/// Opens as many connections as a client can and says nothing on them.
async fn idle(client: &Client, count: usize) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(client.connect().await);
    }
    connections
}

#[tokio::test]
async fn one_address_with_many_idle_connections_locks_nobody_out() {
    let site = small(FEW).await;
    let _idle = idle(&site.client, 30).await;
    // Another address is served as usual, and health checks of the same address are too, once the idle connections
    // have lost the reserved places.
    site.client.from(2).get("/v1/runs").await.ok();
    assert_eq!(until_served(&site.client, "/healthz").await, 200);
    assert_eq!(until_served(&site.client, "/v1/runs").await, 503);
}

#[tokio::test]
async fn many_addresses_with_idle_connections_leave_places_for_health_checks() {
    let site = small(FEW).await;
    let mut connections = Vec::new();
    for address in 10..16 {
        connections.extend(idle(&site.client.from(address), 10).await);
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(until_served(&site.client, path).await, 200, "{path}");
    }
    assert_eq!(until_served(&site.client, "/v1/runs").await, 503);
}

#[tokio::test]
async fn a_trusted_proxy_may_have_more_connections_than_an_address() {
    let limits = ServerLimits { connections_per_address: 2, ..ServerLimits::default() };
    let site = Running::with(guarded_access(), limits).await;
    let proxy = site.client.from(9);
    let _idle = idle(&proxy, 20).await;
    assert_eq!(proxy.get("/login").await.status, 200);
}

/// The status of the first answer: connections that are closed without one are tried again.
async fn until_served(client: &Client, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    loop {
        if let Some(status) = client.raw_status(request.as_bytes()).await {
            return status;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_say_what_it_wants_is_let_go() {
    let client_timeout = Duration::from_millis(50);
    let site = small(ServerLimits { client_timeout, ..ServerLimits::default() }).await;
    for said in ["", "GET /", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b"] {
        let mut connection = TcpStream::connect(site.client.address()).await.unwrap();
        connection.write_all(said.as_bytes()).await.unwrap();
        let answer = rest(connection).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{said:?}: {answer}");
    }
    let kept = site.client.open("/healthz").await;
    assert!(rest(kept).await.starts_with("HTTP/1.1 200"), "one that is kept is let go as well");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let client_timeout = Duration::from_millis(50);
    let site = small(ServerLimits { client_timeout, ..ServerLimits::default() }).await;
    for (path, kind) in
        [("/v1/runs", "application/json"), ("/queues/pause", "application/x-www-form-urlencoded")]
    {
        let mut connection = TcpStream::connect(site.client.address()).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n\
             Connection: close\r\nContent-Type: {kind}\r\nContent-Length: 100\r\n\r\n{{\"queue"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        Answer::read(rest(connection).await.as_bytes()).problem(408);
    }
    assert_eq!(site.journal().await, []);
}

#[tokio::test]
async fn a_client_that_never_reads_its_response_loses_its_place() {
    let client_timeout = Duration::from_millis(500);
    let limits = ServerLimits { connections: 1, client_timeout, ..ServerLimits::default() };
    let site = small(limits).await;
    let run = json!({ "queue": "q", "payload": "x".repeat(1_000_000) });
    site.client.post("/v1/runs", &json!([run, run, run])).await.ok();
    // More than the buffers of a connection hold.
    let request = "GET /v1/runs?data=true HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(20);
    let deaf = loop {
        let mut connection = site.client.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        connection.read_exact(&mut answer).await.unwrap();
        // The place of the submission is free soon.
        if &answer == b"HTTP/1.1 200" {
            break connection;
        }
    };
    let served = async { while site.client.get("/v1/runs").await.status != 200 {} };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("the place is free again");
    drop(deaf);
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_to_wait() {
    let site = small(ServerLimits { requests_a_second: 20, ..ServerLimits::default() }).await;
    let mut refused = None;
    // A second may end in between, and the count with it.
    for _ in 0..1_000 {
        let answer = site.client.get("/healthz").await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.unwrap();
    refused.problem(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    let mut last = site.client.get("/healthz").await;
    while last.status == 429 {
        last = site.client.get("/healthz").await;
    }
    assert_eq!(last.status, 200, "another second, another count");
}

#[tokio::test]
async fn a_client_that_closes_its_side_after_asking_is_answered() {
    let site = Running::full().await;
    let post = "{\"queue\": \"work\"}";
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), 200),
        ("GET /v1/overview HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".to_owned(), 200),
        (
            format!(
                "POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{post}",
                post.len()
            ),
            201,
        ),
    ] {
        assert_eq!(site.client.raw_status(request.as_bytes()).await, Some(status), "{request}");
    }
    // Who breaks off in the middle is not taken for somebody who has said all.
    let half = "POST /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                Content-Length: 100\r\n\r\n{\"queue\": \"half\"}";
    let status = site.client.raw_status(half.as_bytes()).await;
    assert!(matches!(status, None | Some(400)), "{status:?}");
    assert_eq!(site.client.get("/v1/runs?queue=half").await.ok()["items"], json!([]));
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let site = Running::empty().await;
    let long = "x".repeat(100 * 1024);
    for request in [
        format!("GET /?{long} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nLong: {long}\r\n\r\n"),
    ] {
        let answer = site.client.raw_status(request.as_bytes()).await;
        assert!(matches!(answer, Some(414 | 431)), "{answer:?}");
    }
    assert_eq!(site.client.post("/v1/runs", &json!({ "queue": "q" })).await.status, 201);
}
