//! A request carries the call, and its answer is the outcome.

use http::{HeaderName, HeaderValue, Method};
use redrive_core::{Cause, Class, Code};
use redrive_engine::{BodyTemplate, HeaderSource, HttpHandler, InvalidHttp, Outcome};
use redrive_store::Verdict;
use serde_json::{Value, json};

use crate::{
    program::{answered, failure, in_short, run, run_with, sample},
    web::{Web, answer, handle},
};

const SILENT: Outcome = Outcome::Answered { value: None, verdict: None };

fn header(name: &'static str, source: HeaderSource) -> (HeaderName, HeaderSource) {
    (HeaderName::from_static(name), source)
}

fn literal(name: &'static str, value: &'static str) -> (HeaderName, HeaderSource) {
    header(name, HeaderSource::Literal(HeaderValue::from_static(value)))
}

fn from_env(name: &'static str, variable: &str, prefix: &str) -> (HeaderName, HeaderSource) {
    let source = HeaderSource::Env { variable: variable.to_owned(), prefix: prefix.to_owned() };
    header(name, source)
}

// HANDLERS-4
#[tokio::test]
async fn a_request_carries_the_whole_call_as_json() {
    let web = Web::new(|_| answer(200, "", "")).await;
    for call in [run(), run_with(json!({"payload": "two\nlines\0\u{1b}é"}))] {
        assert_eq!(handle(web.spec(), &call).await, SILENT);
        let seen = web.seen().pop().unwrap();
        assert!(seen.head.starts_with("POST /do?a=b HTTP/1.1\r\n"), "{}", seen.head);
        assert_eq!(seen.header("host"), Some(web.address.to_string().as_str()));
        assert_eq!(seen.header("content-type"), Some("application/json"));
        assert_eq!(seen.header("accept-encoding"), Some("identity"));
        assert!(seen.header("user-agent").unwrap().starts_with("redrive/"));
        assert_eq!(seen.json(), call.to_json());
    }
}

// HANDLERS-4
#[tokio::test]
async fn methods_without_a_body_send_none() {
    let web = Web::new(|_| answer(200, "", "")).await;
    for (method, has_body) in [
        (Method::POST, true),
        (Method::PUT, true),
        (Method::PATCH, true),
        (Method::GET, false),
        (Method::HEAD, false),
        (Method::DELETE, false),
    ] {
        let mut spec = web.spec();
        spec.method = method.clone();
        assert_eq!(handle(spec, &run()).await, SILENT, "{method}");
        let seen = web.seen().pop().unwrap();
        assert!(seen.head.starts_with(method.as_str()), "{}", seen.head);
        assert_eq!(!seen.body.is_empty(), has_body, "{method}");
        assert_eq!(seen.header("content-type").is_some(), has_body, "{method}");
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_body_takes_values_of_the_call_by_pointer() {
    let web = Web::new(|_| answer(200, "", "")).await;
    let call = run_with(json!({"queue": "q", "payload": {"a/b": [1, {"~": null}], "t": "x"}}));
    let cases = [
        (json!("fixed"), json!("fixed")),
        (json!({"$": "/payload/t"}), json!("x")),
        (
            json!([{"$": "/payload/a~1b/0"}, {"k": {"$": "/payload/a~1b/1/~0"}}]),
            json!([1, {"k": null}]),
        ),
        (json!({"$": "/attempt"}), json!(3)),
        (json!({"$": "/unit"}), json!("run:7")),
        (json!({"$": ""}), call.to_json()),
        (json!({"$x": "/payload"}), json!({"$x": "/payload"})),
        (json!({}), json!({})),
        (json!(null), json!(null)),
    ];
    for (template, body) in cases {
        let mut spec = web.spec();
        spec.body = Some(BodyTemplate::new(template.clone()).unwrap());
        assert_eq!(handle(spec, &call).await, SILENT, "{template}");
        assert_eq!(web.seen().pop().unwrap().json(), body, "{template}");
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_value_that_the_call_does_not_have_is_final_and_named_and_nothing_is_sent() {
    let web = Web::new(|_| answer(200, "", "")).await;
    for pointer in ["/payload/prompt", "/payload/n/0", "/", "/payload/-1"] {
        let mut spec = web.spec();
        spec.body = Some(BodyTemplate::new(json!({"a": [{"$": pointer}]})).unwrap());
        let failure = failure(handle(spec, &run()).await);
        assert_eq!(in_short(&failure), (Class::Final, false, Code::name("bad_template")));
        assert!(failure.message().as_str().contains(pointer), "{}", failure.message());
    }
    assert_eq!(web.connections(), 0);
}

// HANDLERS-4
#[test]
fn a_template_that_takes_nothing_is_refused_at_once() {
    for wrong in [
        json!({"$": "payload"}),
        json!({"$": 1}),
        json!({"$": "/a", "b": 1}),
        json!([{"a": {"$": "/~2"}}]),
    ] {
        assert!(BodyTemplate::new(wrong.clone()).is_err(), "{wrong}");
    }
}

// HANDLERS-4
#[tokio::test]
async fn every_attempt_at_a_unit_has_the_same_idempotency_key() {
    let web = Web::new(|_| answer(200, "", "")).await;
    let mut again = run();
    again.attempt.0 += 1;
    for call in [run(), again, sample()] {
        handle(web.spec(), &call).await;
    }
    let mut spec = web.spec();
    spec.headers = vec![literal("idempotency-key", "mine"), literal("user-agent", "me")];
    handle(spec, &run()).await;
    let seen = web.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys, ["run:7", "run:7", "sample:9/llm_call", "mine"]);
    assert_eq!(seen[3].header("user-agent"), Some("me"));
}

// HANDLERS-4
#[tokio::test]
async fn a_header_from_the_environment_is_sent_with_its_prefix_and_shown_to_nobody() {
    // It is set wherever programs can be started.
    let secret = std::env::var("PATH").unwrap();
    let echo = |status| {
        move |seen: &crate::web::Seen| {
            let sent = seen.header("authorization").unwrap();
            answer(status, &format!("x-echo: {sent}\r\n"), json!({"sent": sent}).to_string())
        }
    };
    let spec = |web: &Web| {
        let mut spec = web.spec();
        spec.headers = vec![from_env("authorization", "PATH", "Bearer ")];
        spec
    };
    let web = Web::new(echo(401)).await;
    let failed = failure(handle(spec(&web), &run()).await);
    let sent = format!("Bearer {secret}");
    assert_eq!(web.seen()[0].header("authorization"), Some(sent.as_str()));
    assert!(failed.message().as_str().contains("Bearer [$PATH]"), "{failed:?}");

    let web = Web::new(echo(200)).await;
    let handler = HttpHandler::new(spec(&web)).unwrap();
    assert!(!format!("{handler:?}").contains(&secret));
    let passed = handle(spec(&web), &run()).await;
    assert_eq!(passed, answered(json!({"sent": "Bearer [$PATH]"})));
}

// HANDLERS-4
#[tokio::test]
async fn what_can_never_be_sent_is_refused_at_once() {
    let web = Web::new(|_| answer(200, "", "")).await;
    let refusal = |change: &dyn Fn(&mut redrive_engine::HttpSpec)| {
        let mut spec = web.spec();
        change(&mut spec);
        HttpHandler::new(spec).expect_err("it must be refused")
    };
    for url in ["/path", "ftp://h/", "http://ann:pw@h/", "h:80"] {
        let refused = refusal(&|spec| spec.url = url.parse().unwrap());
        assert!(matches!(refused, InvalidHttp::Url), "{url}: {refused}");
    }
    for name in ["content-length", "transfer-encoding", "connection"] {
        let refused = refusal(&|spec| spec.headers = vec![literal(name, "x")]);
        assert!(matches!(refused, InvalidHttp::FramingHeader(_)), "{refused}");
    }
    let refused = refusal(&|spec| spec.headers = vec![from_env("x-key", "REDRIVE_NOT_SET", "")]);
    let text = refused.to_string();
    assert!(text.contains("x-key") && text.contains("REDRIVE_NOT_SET"), "{text}");
    let newline = refusal(&|spec| spec.headers = vec![from_env("x-key", "PATH", "\n")]);
    assert!(matches!(newline, InvalidHttp::InvalidVariable { .. }), "{newline}");
}

// HANDLERS-4, HANDLERS-5
#[tokio::test]
async fn a_body_that_is_a_reply_is_that_reply_and_any_other_is_the_answer() {
    let judged = |verdict| Outcome::Answered { value: Some(json!(1)), verdict: Some(verdict) };
    let cases: [(u16, &[u8], Outcome); 15] = [
        (200, b"", SILENT),
        (204, b"", SILENT),
        (200, b" \r\n", SILENT),
        (200, br#"{"ok": 1}"#, answered(json!(1))),
        (201, br#"{"ok": 1, "verdict": "failed"}"#, judged(Verdict::Failed)),
        (200, br#" {"ok": 1, "verdict": "needs_review"} "#, judged(Verdict::NeedsReview)),
        (200, br#"{"id": 7}"#, answered(json!({"id": 7}))),
        (202, b"[1, 2]", answered(json!([1, 2]))),
        (200, b"null", answered(json!(null))),
        (200, b"\xef\xbb\xbf{\"id\": 7}", answered(json!({"id": 7}))),
        (200, b"done", answered(json!("done"))),
        (200, b"<p>done</p>\n", answered(json!("<p>done</p>"))),
        (200, b"caf\xff\0\x1b", answered(json!("caf\u{fffd}\0\u{1b}"))),
        (206, b"{\"a\": ", answered(json!("{\"a\":"))),
        (200, br#"{"id": 7, "id": 8}"#, answered(json!({"id": 8}))),
    ];
    for (status, body, outcome) in cases {
        let shown = String::from_utf8_lossy(body).into_owned();
        let web = Web::new(move |_| answer(status, "", body)).await;
        assert_eq!(web.handle().await, outcome, "{shown}");
    }
}

// HANDLERS-4
#[tokio::test]
async fn a_pointer_picks_the_reply_and_the_rest_is_data() {
    let body = r#"{"choices": [{"message": "hi"}], "ok": false, "error": {"class": "final"}}"#;
    let whole: Value = serde_json::from_str(body).unwrap();
    let web = Web::new(move |_| answer(200, "", body)).await;
    let picked = |pointer: &str| {
        let mut spec = web.spec();
        spec.reply = Some(pointer.parse().unwrap());
        async move { handle(spec, &run()).await }
    };
    assert_eq!(picked("/choices/0/message").await, answered(json!("hi")));
    assert_eq!(picked("/error").await, answered(json!({"class": "final"})));
    assert_eq!(picked("").await, answered(whole));
    for missing in ["/choices/1", "/choices/0/message/text", "/nothing"] {
        let failure = failure(picked(missing).await);
        assert_eq!(in_short(&failure), (Class::Retryable, false, Code::name("bad_reply")));
        let message = failure.message().as_str();
        assert!(message.contains(&format!("no {missing}: {{\"choices\"")), "{message}");
    }
}

// HANDLERS-5
#[tokio::test]
async fn an_answer_that_fits_nothing_is_a_failure() {
    let cases = [
        (Some("/a"), "", run(), "not JSON"),
        (Some("/a"), "<html>", run(), "not JSON"),
        (Some(""), "{\"a\": ", run(), "not JSON"),
        (None, r#"{"skip": "empty"}"#, run(), "cannot be skipped"),
        (None, "", sample(), "a sample needs a reply"),
        (None, r#"{"ok": 1, "verdict": "good"}"#, run(), "verdict must be"),
        (None, r#"{"ok": false, "error": "channel_not_found"}"#, run(), "exclude each other"),
    ];
    for (pointer, body, call, problem) in cases {
        let web = Web::new(move |_| answer(200, "", body)).await;
        let mut spec = web.spec();
        spec.reply = pointer.map(|pointer| pointer.parse().unwrap());
        let failure = failure(handle(spec, &call).await);
        let expected = (Class::Retryable, false, Code::name("bad_reply"));
        assert_eq!(in_short(&failure), expected, "{body}");
        assert!(failure.message().as_str().contains(problem), "{body}: {}", failure.message());
    }
    let web = Web::new(|_| answer(200, "", r#"{"skip": "empty"}"#)).await;
    assert_eq!(handle(web.spec(), &sample()).await, Outcome::Skipped("empty".to_owned()));
}

// HANDLERS-5, CLS-5
#[tokio::test]
async fn a_success_may_report_an_error_and_state_its_class() {
    let cases = [
        (
            r#"{"error": {"class": "final", "code": "gone"}}"#,
            (Class::Final, true, Code::name("gone")),
        ),
        (r#"{"error": {"code": 404}}"#, (Class::Final, false, Code::Number(404))),
        (r#"{"error": {}}"#, (Class::Retryable, false, Code::name("error"))),
    ];
    for (body, expected) in cases {
        let web = Web::new(move |_| answer(200, "", body)).await;
        let failure = web.failure().await;
        assert_eq!(in_short(&failure), expected, "{body}");
        assert_eq!(failure.cause(), Cause::Handler);
        assert!(!failure.message().is_empty(), "{body}");
    }
}
