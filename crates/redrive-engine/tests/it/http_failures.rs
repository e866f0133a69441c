//! What servers and networks do wrong, and the class and code of each.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{Cause, Class, Code, MAX_MESSAGE_BYTES};
use redrive_engine::{Clock, Handler, HttpHandler, MAX_BODY_BYTES, Outcome, Stopper};
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};

use crate::{
    program::{LONG, SHORT, answered, failure, in_short, run, soon},
    web::{Then, Web, answer, handle, handle_within, raw},
};

fn retryable(code: &'static str) -> (Class, bool, Code) {
    (Class::Retryable, false, Code::name(code))
}

// CLS-2
#[tokio::test]
async fn every_status_has_its_class_and_is_its_own_code() {
    let error = r#"{"error": {"class": "retryable", "code": "invalid_api_key", "message": "no"}}"#;
    let statuses = (300..=599).filter(|status| {
        status % 100 < 32 || [451, 499, 511, 520, 522, 524, 529, 598, 599].contains(status)
    });
    let web = Web::new(move |seen| {
        let status = seen.header("x-status").unwrap().parse().unwrap();
        answer(status, "", if matches!(status, 304) { "" } else { error })
    })
    .await;
    for status in statuses {
        let mut spec = web.spec();
        let value = status.to_string().parse().unwrap();
        spec.headers =
            vec![("x-status".parse().unwrap(), redrive_engine::HeaderSource::Literal(value))];
        let failure = failure(handle(spec, &run()).await);
        let class = match status {
            429 => Class::RateLimited { retry_after: None },
            408 | 425 | 500 | 502 | 503 | 504 => Class::Retryable,
            300..=499 | 501 | 505 => Class::Final,
            _ => Class::Retryable,
        };
        assert_eq!(in_short(&failure), (class, false, Code::Number(status)), "{status}");
        assert_eq!(failure.cause(), Cause::Handler, "{status}");
        let message = failure.message().as_str();
        assert!(message.starts_with(&format!("the server answered {status}")), "{message}");
        assert_eq!(message.ends_with(error), status != 304, "{message}");
        assert_eq!(message.contains("redirects are not followed"), status < 400, "{message}");
    }
}

struct Fixed(Timestamp);

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        self.0
    }
}

// CLS-2, CLS-3
#[tokio::test]
async fn a_hint_is_read_in_all_its_forms_and_with_the_clock_that_was_given() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let cases = [
        ("", None),
        ("retry-after: 120\r\n", seconds(120)),
        ("Retry-After:  7 \r\n", seconds(7)),
        ("retry-after: 0\r\n", None),
        ("retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n", seconds(30)),
        ("retry-after: Sunday, 06-Nov-94 08:49:37 GMT\r\n", seconds(30)),
        ("retry-after: Sun Nov  6 08:49:37 1994\r\n", seconds(30)),
        ("retry-after: Sat, 05 Nov 1994 08:49:37 GMT\r\n", None),
        (
            "retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\ndate: Sun, 06 Nov 1994 08:49:27 GMT\r\n",
            seconds(10),
        ),
        ("retry-after: -3\r\n", None),
        ("retry-after: 1.5\r\n", None),
        ("retry-after: 1e9\r\n", None),
        ("retry-after: inf\r\n", None),
        ("retry-after: 99999999999999999999\r\n", Some(redrive_core::MAX_DURATION)),
        ("retry-after: Wed, 29 Feb 2023 00:00:00 GMT\r\n", None),
        ("retry-after: \u{e9}\r\n", None),
        ("retry-after: \r\n", None),
    ];
    let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
    for (header, hint) in cases {
        for status in [429, 503, 500, 404] {
            let web = Web::new(move |_| answer(status, header, "")).await;
            let handler = HttpHandler::new(web.spec()).unwrap().with_clock(Arc::new(Fixed(now)));
            let (_stopper, stop) = Stopper::new();
            let failure = failure(soon(handler.handle(&run(), LONG, stop)).await);
            let class = match (status, hint) {
                (429, _) | (_, Some(_)) => Class::RateLimited { retry_after: hint },
                (404, _) => Class::Final,
                _ => Class::Retryable,
            };
            assert_eq!(failure.class(), class, "{status} {header}");
        }
    }
}

// CLS-7
#[tokio::test]
async fn a_service_may_mean_something_else_by_its_statuses_and_name_its_errors() {
    let body = r#"{"error": {"code": "ThrottlingException", "number": 17, "other": [1]}}"#;
    let failed = async |status, header: &'static str, place: Option<&str>| {
        let web = Web::new(move |_| answer(status, header, body)).await;
        let mut spec = web.spec();
        spec.conventions.classes = vec![
            (409, Class::Retryable),
            (401, Class::Final),
            (418, Class::RateLimited { retry_after: None }),
        ];
        spec.conventions.error_code = place.map(|place| place.parse().unwrap());
        let handler = HttpHandler::new(spec).unwrap();
        let (_stopper, stop) = Stopper::new();
        failure(soon(handler.handle(&run(), LONG, stop)).await)
    };
    let wait = "retry-after: 9\r\n";
    let hint = Some(Duration::from_secs(9));
    let limited = |retry_after| Class::RateLimited { retry_after };
    for (status, header, class) in [
        (409, "", Class::Retryable),
        (409, wait, Class::Retryable),
        (401, wait, Class::Final),
        (418, "", limited(None)),
        (418, wait, limited(hint)),
        (403, wait, limited(hint)),
        (403, "", Class::Final),
    ] {
        let failure = failed(status, header, None).await;
        assert_eq!(failure.class(), class, "{status} {header}");
        assert_eq!(failure.code().to_string(), status.to_string());
        assert_eq!(
            failure.is_stated(),
            [401, 409, 418].contains(&status),
            "a declared class binds"
        );
    }
    for (place, code) in [
        ("/error/code", "ThrottlingException"),
        ("/error/number", "17"),
        ("/error/other", "503"),
        ("/missing", "503"),
    ] {
        let failure = failed(503, "", Some(place)).await;
        assert_eq!(failure.code().to_string(), code, "{place}");
        assert_eq!(failure.class(), Class::Retryable, "the class is that of the status");
    }
}

// CLS-2
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let web = Web::new(|seen| {
        let host = seen.header("host").unwrap();
        answer(302, &format!("location: http://{host}/do?a=b\r\n"), "")
    })
    .await;
    let failure = web.failure().await;
    assert_eq!(in_short(&failure), (Class::Final, false, Code::Number(302)));
    assert_eq!(web.seen().len(), 1);
}

// CLS-2
#[tokio::test]
async fn a_connection_that_breaks_is_retryable_under_its_own_code() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    let cases: [(&str, Then, &str); 11] = [
        ("", Then::Close, "connection_reset"),
        ("", Then::Reset, "connection_reset"),
        ("HTTP/1.1 200 OK\r\ncontent-le", Then::Close, "connection_reset"),
        (head, Then::Close, "cut_body"),
        (head, Then::Reset, "cut_body"),
        (chunked, Then::Close, "cut_body"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Then::Close, "cut_body"),
        ("SSH-2.0-OpenSSH_9.6\r\n", Then::Close, "bad_response"),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", Then::Close, "bad_response"),
        ("HTTP/1.1 2oo OK\r\n\r\n", Then::Close, "bad_response"),
        ("HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", Then::Close, "bad_response"),
    ];
    for (bytes, then, code) in cases {
        let then = std::sync::Mutex::new(Some(then));
        let script = move |_: &_| raw(bytes, then.lock().unwrap().take().unwrap_or(Then::Close));
        let web = Web::new(script).await;
        let failure = web.failure().await;
        assert_eq!(in_short(&failure), retryable(code), "{bytes}: {}", failure.message());
        assert_eq!(failure.cause(), Cause::Handler);
        assert_eq!(web.seen().len(), 1, "what may have been done is not sent again: {bytes}");
    }
}

// CLS-2
#[tokio::test]
async fn a_server_that_is_not_there_is_retryable_under_its_own_code() {
    // It has its port, so that nobody else gets it, and does not listen.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let web = Web::new(|_| answer(200, "", "")).await;
    let cases = [
        (format!("http://{address}/"), "connection_refused"),
        ("http://no-such-host.invalid/".to_owned(), "dns"),
        ("http://no-such-host.invalid:8443/".to_owned(), "dns"),
    ];
    for (url, code) in cases {
        let mut spec = web.spec();
        spec.url = url.parse().unwrap();
        let failure = failure(handle(spec, &run()).await);
        assert_eq!(in_short(&failure), retryable(code), "{url}");
        let place = url.trim_start_matches("http://").trim_end_matches('/');
        let message = failure.message().as_str();
        assert!(message.starts_with(&format!("no response from {place}: ")), "{message}");
    }
}

// CLS-2
#[tokio::test]
async fn a_connection_that_is_never_accepted_times_out_under_its_own_code() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(connected.unwrap());
    }
    let web = Web::new(|_| answer(200, "", "")).await;
    let mut spec = web.spec();
    spec.url = format!("http://{address}/").parse().unwrap();
    spec.connect_timeout = Duration::from_millis(50);
    let failure = failure(handle(spec, &run()).await);
    assert_eq!(in_short(&failure), retryable("connection_timeout"), "{}", failure.message());
}

// HANDLERS-4, CLS-2
#[tokio::test]
async fn the_time_limit_covers_headers_and_body() {
    let cases = [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ];
    for bytes in cases {
        let mut web = Web::new(move |_| raw(bytes, Then::Hang)).await;
        let outcome = handle_within(web.spec(), &run(), Duration::from_millis(300)).await;
        let failure = failure(outcome);
        assert_eq!(in_short(&failure), retryable("timeout"), "{bytes}");
        assert_eq!(failure.cause(), Cause::Timeout);
        assert!(failure.message().as_str().contains("300ms"), "{}", failure.message());
        soon(web.over.recv()).await.expect("the connection is closed");
    }
}

// CLS-2
#[tokio::test]
async fn a_status_stands_whatever_becomes_of_its_body() {
    let head = "HTTP/1.1 404 Not Found\r\ncontent-length: 100\r\n\r\nhalf";
    for then in [Then::Close, Then::Reset, Then::Hang] {
        let then = std::sync::Mutex::new(Some(then));
        let script = move |_: &_| raw(head, then.lock().unwrap().take().unwrap_or(Then::Close));
        let web = Web::new(script).await;
        let failure = failure(handle_within(web.spec(), &run(), SHORT).await);
        assert_eq!(in_short(&failure), (Class::Final, false, Code::Number(404)));
        assert!(failure.message().as_str().ends_with("\nhalf"), "{}", failure.message());
    }
}

// CLS-2
#[tokio::test]
async fn the_body_of_a_failure_is_not_waited_for_until_the_time_limit() {
    let head = "HTTP/1.1 503 X\r\ncontent-length: 100\r\n\r\nhalf";
    let web = Web::new(move |_| raw(head, Then::Hang)).await;
    let begun = std::time::Instant::now();
    let failure = failure(handle_within(web.spec(), &run(), LONG).await);
    assert_eq!(failure.code(), &Code::Number(503));
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
}

// HANDLERS-4
#[tokio::test]
async fn a_body_without_end_is_cut_off_and_its_connection_closed() {
    let endless = |status: u16| {
        let head = format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        move |_: &_| raw(&head, Then::Forever(chunk.clone()))
    };
    let mut web = Web::new(endless(200)).await;
    let failure = web.failure().await;
    assert_eq!(in_short(&failure), retryable("body_too_large"));
    assert!(failure.message().as_str().contains(&MAX_BODY_BYTES.to_string()));
    soon(web.over.recv()).await.expect("the connection is closed");

    let mut web = Web::new(endless(500)).await;
    let failure = web.failure().await;
    assert_eq!(in_short(&failure), (Class::Retryable, false, Code::Number(500)));
    assert!(failure.message().as_str().len() <= MAX_MESSAGE_BYTES);
    soon(web.over.recv()).await.expect("the connection is closed");
}

// HANDLERS-4
#[tokio::test]
async fn a_body_that_says_it_is_too_long_is_not_even_read() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n";
    let web = Web::new(move |_| raw(head, Then::Hang)).await;
    assert_eq!(in_short(&web.failure().await), retryable("body_too_large"));
}

// HANDLERS-4
#[tokio::test]
async fn a_body_that_is_just_short_enough_is_read() {
    let web = Web::new(move |_| answer(200, "", vec![b'x'; MAX_BODY_BYTES])).await;
    let outcome = web.handle().await;
    let Outcome::Answered { value: Some(serde_json::Value::String(text)), .. } = outcome else {
        panic!("it fits");
    };
    assert_eq!(text.len(), MAX_BODY_BYTES);
    let web = Web::new(move |_| answer(200, "", vec![b'x'; MAX_BODY_BYTES + 1])).await;
    assert_eq!(in_short(&web.failure().await), retryable("body_too_large"));
    // One that does not say how long it is: it ends with its connection.
    let unsaid = [b"HTTP/1.1 200 X\r\n\r\n".as_slice(), &vec![b'x'; MAX_BODY_BYTES + 1]].concat();
    let web = Web::new(move |_| raw(&unsaid, Then::Close)).await;
    assert_eq!(in_short(&web.failure().await), retryable("body_too_large"));
}

// HANDLERS-4
#[tokio::test]
async fn a_long_error_keeps_its_head_and_its_tail() {
    let body = [b"first ".as_slice(), &vec![b'x'; 10_000_000], b" last"].concat();
    let web = Web::new(move |_| answer(500, "", &body)).await;
    let failure = web.failure().await;
    let message = failure.message().as_str();
    assert!(message.len() <= MAX_MESSAGE_BYTES, "{}", message.len());
    assert!(message.contains("\nfirst xxx") && message.ends_with("xxx last"), "{message}");
    assert!(message.contains("bytes truncated"), "{message}");
}

// HANDLERS-4
#[tokio::test]
async fn what_an_error_says_is_cleaned() {
    let web = Web::new(|_| answer(500, "", b"red \x1b[31m \0 \xc2\x9b \xff \xe2\x80\xae")).await;
    let failure = web.failure().await;
    let message = failure.message().as_str();
    let expected = "red \\u{1b}[31m \\u{0} \\u{9b} \u{fffd} \\u{202e}";
    assert!(message.ends_with(expected), "{message}");
}

// HANDLERS-4
#[tokio::test]
async fn a_packed_body_is_never_unpacked() {
    // A gzip header and the beginning of a block that stands for a great many zeros.
    let bomb =
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xec, 0xc1], [0_u8; 4096].as_slice()].concat();
    let packed = bomb.clone();
    let web = Web::new(move |_| answer(200, "content-encoding: gzip\r\n", &packed)).await;
    let failure = web.failure().await;
    assert_eq!(in_short(&failure), retryable("bad_reply"));
    assert!(failure.message().as_str().contains("content-encoding gzip"), "{}", failure.message());
    let web = Web::new(|_| answer(200, "content-encoding: identity\r\n", "[1]")).await;
    assert_eq!(web.handle().await, answered(json!([1])));
}

// HANDLERS-4
#[tokio::test]
async fn headers_without_end_are_cut_off() {
    let line = b"x-more: and more and more and more\r\n".repeat(100);
    let script = move |_: &_| raw("HTTP/1.1 200 OK\r\n", Then::Forever(line.clone()));
    let mut web = Web::new(script).await;
    assert_eq!(in_short(&web.failure().await), retryable("bad_response"));
    soon(web.over.recv()).await.expect("the connection is closed");
    let one = format!("x-long: {}\r\n", "x".repeat(10 * 1024 * 1024));
    let web = Web::new(move |_| answer(200, &one, "")).await;
    assert_eq!(in_short(&web.failure().await), retryable("bad_response"));
}
