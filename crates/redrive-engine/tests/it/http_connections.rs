//! Connections: used again, closed in time, encrypted, and only to where they may go.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redrive_core::{Class, Code};
use redrive_engine::{Handler, HttpHandler, HttpSpec, InvalidHttp, Outcome, Stop, Stopper};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpListener, sync::Notify, task::JoinSet, time::Instant};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::{
    program::{LONG, answered, failure, in_short, run, run_with, soon},
    web::{Then, Web, answer, handle, raw, read_request},
};

const SILENT: Outcome = Outcome::Answered { value: None, verdict: None };

/// Handles a run, and the connection is kept for the next.
async fn handle_with(handler: &HttpHandler) -> Outcome {
    let (_stopper, stop) = Stopper::new();
    soon(handler.handle(&run(), LONG, stop)).await
}

// HANDLERS-4
#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let web =
        Web::new(|seen| answer(if seen.body.len() > 200 { 503 } else { 200 }, "", "{}")).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    for _ in 0..20 {
        assert_eq!(handle_with(&handler).await, answered(json!({})));
    }
    let (_stopper, stop) = Stopper::new();
    let large = run_with(json!({"payload": "x".repeat(1000)}));
    failure(soon(handler.handle(&large, LONG, stop)).await);
    assert_eq!(handle_with(&handler).await, answered(json!({})), "after a failure as well");
    assert_eq!((web.seen().len(), web.connections()), (22, 1));
}

// HANDLERS-4
#[tokio::test]
async fn calls_at_once_have_connections_of_their_own_and_each_gets_its_answer() {
    let web = Web::new(|seen| answer(200, "", seen.json()["n"].to_string())).await;
    let handler = Arc::new(HttpHandler::new(web.spec()).unwrap());
    let mut calls = JoinSet::new();
    for n in 0..64 {
        let handler = Arc::clone(&handler);
        calls.spawn(async move {
            for round in 0..4 {
                let (_stopper, stop) = Stopper::new();
                let number = n * 10 + round;
                let outcome = handler.handle(&run_with(json!({"n": number})), LONG, stop).await;
                assert_eq!(outcome, answered(json!(number)));
            }
        });
    }
    while let Some(ended) = soon(calls.join_next()).await {
        ended.unwrap();
    }
    assert!(web.connections() <= 64, "{}", web.connections());
}

// HANDLERS-4
#[tokio::test]
async fn a_connection_that_the_server_closed_in_between_is_no_failure() {
    let mut web = Web::new(|_| raw("HTTP/1.1 204 X\r\n\r\n", Then::Close)).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    for _ in 0..20 {
        assert_eq!(handle_with(&handler).await, SILENT);
        soon(web.over.recv()).await.unwrap();
        // The end of the connection is read when its task has a turn.
        tokio::task::yield_now().await;
    }
    assert_eq!(web.seen().len(), 20, "nothing is sent twice");
}

/// Answers the first request; then does this to every second one.
async fn closing_every_second(bytes: &'static str, then: fn() -> Then) -> Web {
    let count = AtomicUsize::new(0);
    Web::new(move |_| match count.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => answer(200, "", "{}"),
        _ => raw(bytes, then()),
    })
    .await
}

// HANDLERS-4
#[tokio::test]
async fn a_request_that_crosses_with_the_close_of_a_kept_connection_is_sent_again() {
    for then in [|| Then::Close, || Then::Reset] {
        let web = closing_every_second("", then).await;
        let handler = HttpHandler::new(web.spec()).unwrap();
        for _ in 0..10 {
            assert_eq!(handle_with(&handler).await, answered(json!({})));
        }
        let seen = web.seen();
        assert_eq!((seen.len(), web.connections()), (19, 10), "nine were sent twice");
        let keys = seen.iter().map(|seen| seen.header("idempotency-key"));
        assert!(keys.into_iter().all(|key| key == seen[0].header("idempotency-key")));
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_request_is_sent_again_once_and_not_after_a_part_of_a_response() {
    let web = Web::new(|seen| match seen.body.len() > 1000 {
        true => answer(200, "", "{}"),
        false => raw("", Then::Close),
    })
    .await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    let (_stopper, stop) = Stopper::new();
    let large = run_with(json!({"payload": "x".repeat(1000)}));
    assert_eq!(soon(handler.handle(&large, LONG, stop)).await, answered(json!({})));
    let failed = failure(handle_with(&handler).await);
    assert_eq!(*failed.code(), Code::name("connection_reset"));
    assert_eq!((web.seen().len(), web.connections()), (3, 2), "once again, on a new connection");

    let web = closing_every_second("HTTP/1.1 2", || Then::Close).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    assert_eq!(handle_with(&handler).await, answered(json!({})));
    failure(handle_with(&handler).await);
    assert_eq!((web.seen().len(), web.connections()), (2, 1), "the server got the request");
}

// HANDLERS-4
#[tokio::test]
async fn a_connection_whose_answer_says_close_is_not_used_again() {
    let mut web = Web::new(|_| answer(200, "connection: close\r\n", "{}")).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    for connections in 1..=3 {
        assert_eq!(handle_with(&handler).await, answered(json!({})));
        soon(web.over.recv()).await.expect("this side closes it");
        assert_eq!(web.connections(), connections);
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed_before_common_servers_close_theirs() {
    let mut web = Web::new(|_| answer(200, "", "{}")).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    for connections in 1..=2 {
        assert_eq!(handle_with(&handler).await, answered(json!({})));
        tokio::time::pause();
        let idle = Instant::now();
        web.over.recv().await.expect("it is closed");
        let idle = idle.elapsed();
        assert!((Duration::from_secs(3)..Duration::from_secs(5)).contains(&idle), "{idle:?}");
        tokio::time::resume();
        assert_eq!(web.connections(), connections);
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_call_that_is_told_to_stop_drops_its_request() {
    for bytes in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"] {
        let mut web = Web::new(move |_| raw(bytes, Then::Hang)).await;
        let handler = HttpHandler::new(web.spec()).unwrap();
        let (stopper, stop) = Stopper::new();
        let call = tokio::spawn(async move { handler.handle(&run(), LONG, stop).await });
        soon(web.asked.recv()).await.unwrap();
        stopper.stop();
        assert_eq!(soon(call).await.unwrap(), Outcome::Stopped, "{bytes}");
        soon(web.over.recv()).await.expect("the connection is closed");
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_call_that_was_told_to_stop_before_sends_nothing() {
    let web = Web::new(|_| answer(200, "", "")).await;
    let (stopper, stop): (Stopper, Stop) = Stopper::new();
    stopper.stop();
    let handler = HttpHandler::new(web.spec()).unwrap();
    assert_eq!(handler.handle(&run(), LONG, stop).await, Outcome::Stopped);
    assert_eq!(web.connections(), 0);
}

// HANDLERS-4
#[tokio::test]
async fn a_dropped_call_leaves_nothing_behind() {
    let mut web = Web::new(|_| raw("", Then::Hang)).await;
    let handler = HttpHandler::new(web.spec()).unwrap();
    let (_stopper, stop) = Stopper::new();
    let call = tokio::spawn(async move { handler.handle(&run(), LONG, stop).await });
    soon(web.asked.recv()).await.unwrap();
    call.abort();
    soon(web.over.recv()).await.expect("the connection is closed");
}

fn at(web: &Web, host: &str) -> HttpSpec {
    let mut spec = web.spec();
    spec.url = format!("http://{host}:{}/", web.address.port()).parse().unwrap();
    spec
}

// HANDLERS-4
#[tokio::test]
async fn private_addresses_are_refused_when_asked_for_whatever_their_name() {
    let web = Web::new(|_| answer(200, "", "")).await;
    assert_eq!(handle(at(&web, "localhost"), &run()).await, SILENT, "they are allowed by default");
    let connections = web.connections();
    // The system's resolver reads numbers in forms that are no address on their face.
    for host in ["localhost", "LOCALHOST", "2130706433", "0x7f000001", "127.1"] {
        let mut spec = at(&web, host);
        spec.private_addresses = false;
        let failure = failure(handle(spec, &run()).await);
        let code = failure.code().to_string();
        // Where the resolver does not read such a number it is an unknown name, which is as good.
        assert!(
            code == "private_address" || host != "localhost" && code == "dns",
            "{host}: {code}"
        );
        if code == "private_address" {
            assert_eq!(failure.class(), Class::Final, "{host}");
            assert!(failure.message().as_str().contains("private address"), "{failure:?}");
        }
    }
    for host in
        ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0", "10.1.2.3"]
    {
        let mut spec = at(&web, host);
        spec.private_addresses = false;
        let refused = HttpHandler::new(spec).expect_err("it must be refused");
        assert!(matches!(refused, InvalidHttp::PrivateAddress(_)), "{host}: {refused}");
    }
    assert_eq!(web.connections(), connections);
}

/// Speaks TLS with a certificate that nobody has signed.
async fn tls_server() -> (u16, Arc<Notify>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Notify::new());
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await
                && read_request(&mut stream).await.is_some()
            {
                heard.notify_one();
                _ = stream.write_all(b"HTTP/1.1 204 X\r\n\r\n").await;
            }
        }
    });
    (port, asked)
}

// CLS-2
#[tokio::test]
async fn an_unknown_certificate_is_final_and_nothing_is_sent() {
    let (port, asked) = tls_server().await;
    let web = Web::new(|_| answer(200, "", "")).await;
    let mut spec = web.spec();
    spec.url = format!("https://localhost:{port}/").parse().unwrap();
    let failure = failure(handle(spec, &run()).await);
    assert_eq!(in_short(&failure), (Class::Final, false, Code::name("certificate")));
    assert!(failure.message().as_str().contains("certificate"), "{}", failure.message());
    let nothing = tokio::time::timeout(Duration::from_millis(1), asked.notified()).await;
    assert!(nothing.is_err());
}

// CLS-2
#[tokio::test]
async fn a_server_that_speaks_no_tls_is_not_a_certificate_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            _ = stream.shutdown().await;
        }
    });
    let web = Web::new(|_| answer(200, "", "")).await;
    let mut spec = web.spec();
    spec.url = format!("https://localhost:{port}/").parse().unwrap();
    let failure = failure(handle(spec, &run()).await);
    assert_eq!(in_short(&failure), (Class::Retryable, false, Code::name("tls")), "{failure:?}");
}
