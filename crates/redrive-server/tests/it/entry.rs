//! Who is let in, and for what.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use redrive_engine::{Clock, PartitionRules, PlanExecutor, RawSink, SystemClock};
use redrive_ops::Ops;
use redrive_server::{
    Access, NamedToken, Role, Server, ServerError, ServerLimits, ServerSetup, Token, Uploads,
};
use redrive_store::WorkerId;
use serde_json::json;

use crate::{
    client::Answer,
    site::{OPERATOR, REVOKED, Running, SUBMITTER, VIEWER, guarded_access},
};

#[tokio::test]
async fn without_a_token_programs_are_told_and_people_are_asked() {
    let site = Running::guarded().await;
    for path in ["/v1/runs", "/openapi.json", "/v1/nothing"] {
        let answer = site.client.get(path).await;
        answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for (path, login) in [
        ("/", "/login"),
        ("/runs?queue=a%20b", "/login?next=%2Fruns%3Fqueue%3Da%2520b"),
        ("/nothing", "/login?next=%2Fnothing"),
    ] {
        let answer = site.client.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(login)), "{path}");
    }
    for path in ["/healthz", "/readyz", "/login", "/assets/style.css"] {
        assert_eq!(site.client.get(path).await.status, 200, "{path}");
    }
    let body = json!({ "queue": "q" });
    site.client.post("/v1/runs", &body).await.problem(401);
    site.client.bearing("0123456789abcdef-wrong").post("/v1/runs", &body).await.problem(401);
}

#[tokio::test]
async fn a_viewer_may_look_and_not_change_and_an_operator_may_do_both() {
    let site = Running::guarded().await;
    let (viewer, operator) = (site.client.bearing(VIEWER), site.client.bearing(OPERATOR));
    let body = json!({ "queue": "q" });
    assert_eq!(operator.post("/v1/runs", &body).await.status, 201);
    operator.get("/v1/runs").await.ok();
    for path in [
        "/v1/runs",
        "/v1/doctor",
        "/v1/verify",
        "/v1/db",
        "/v1/policies",
        "/v1/schedule",
        "/v1/readable",
    ] {
        viewer.get(path).await.ok();
    }
    for (path, body) in [
        ("/v1/runs", body.clone()),
        ("/v1/runs/cancel", json!({ "ids": [1] })),
        ("/v1/runs/cancel", json!({ "ids": [1], "dry_run": true })),
        ("/v1/queues/q/pause", json!({})),
        ("/v1/partitions/retry", json!({ "all": true, "dry_run": true })),
        ("/v1/prune", json!({ "before": "2026-01-01T00:00:00Z", "dry_run": true })),
    ] {
        viewer.post(path, &body).await.problem(403);
    }
    assert_eq!(site.journal().await, []);
    operator.post("/v1/runs/cancel", &json!({ "ids": [1] })).await.ok();
    assert_eq!(site.journal().await, [("operator (api)".to_owned(), "run.cancel".to_owned())]);
}

/// The cookie that a sign-in sets.
pub(crate) fn cookie(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn after_the_sign_in_a_person_sees_the_page_that_was_requested() {
    let site = Running::guarded().await;
    let browser = site.client.browsing();
    let page = browser.get("/login?next=%2Fruns%3Fqueue%3Dq").await;
    assert!(page.body.contains("name=\"next\" value=\"/runs?queue=q\""), "{}", page.body);
    for (next, found) in [
        ("%2Fruns%3Fqueue%3Dq", "/runs?queue=q"),
        ("", "/"),
        ("%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2Fruns%0D%0ASet-Cookie%3A+a%3Db", "/"),
    ] {
        let form = format!("token={VIEWER}&next={next}");
        let answer = browser.submit("/login", &form).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some(found)), "{next}");
    }
    let wrong = browser.submit("/login", "token=nothing-like-it-at-all&next=%2Fruns").await;
    assert!(wrong.body.contains("name=\"next\" value=\"/runs\""), "{}", wrong.body);
}

#[tokio::test]
async fn a_person_signs_in_acts_and_signs_out() {
    let site = Running::guarded().await;
    let browser = site.client.browsing();
    let wrong = browser.submit("/login", "token=nothing-like-it-at-all").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("wrong token"), "{}", wrong.body);
    assert_eq!(wrong.header("set-cookie"), None);
    let entered = "token=operator%3B+of+%22things%22+%2541";
    let signed_in = browser.with("Cookie", &cookie(&browser.submit("/login", entered).await));
    assert_eq!(signed_in.get("/").await.status, 200);
    assert_eq!(signed_in.get("/login").await.header("location"), Some("/"));
    let paused = signed_in.submit("/queues/pause", "queue=q&reason=tired").await;
    assert_eq!(paused.header("location"), Some("/queues/q?did=pause%3A1%3A0"));
    assert_eq!(site.journal().await[0].0, "operator (dashboard)");
    let looking = cookie(&browser.submit("/login", &format!("token={VIEWER}")).await);
    let looking = browser.with("Cookie", &format!("other=1; {looking}"));
    let page = looking.get("/runs?queue=q").await;
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("Pause"), "no buttons for viewers: {}", page.body);
    assert_eq!(looking.submit("/queues/pause", "queue=q").await.status, 403);
    let out = looking.submit("/logout", "").await;
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"), "{out:?}");
}

#[tokio::test]
async fn an_address_that_others_can_reach_needs_a_token() {
    let listen = async |access| {
        let store = crate::health::store(redrive_sqlite::Location::Memory);
        let ops = Ops::new(store, None, PartitionRules::default(), RawSink::folder("raw"));
        let plans = PlanExecutor::new(ops.store().clone(), WorkerId("server".to_owned()));
        let site = ServerSetup {
            ops,
            access,
            pipelines: Vec::new(),
            uploads: Uploads::new(),
            archive: None,
            limits: ServerLimits::default(),
            plans,
            write_times: Default::default(),
        };
        Server::listen("0.0.0.0:0".parse().unwrap(), site).await
    };
    let refused = listen(Access::default()).await.err().unwrap();
    assert!(matches!(refused, ServerError::UnprotectedAddress(_)), "{refused}");
    assert!(refused.to_string().contains("no token"), "{refused}");
    assert!(listen(guarded_access()).await.is_ok());
    let mut revoked = guarded_access();
    revoked.tokens.retain(|token| token.revoked);
    assert!(listen(revoked).await.is_ok(), "a server whose tokens are revoked lets nobody in");
    assert!(Token::new("short").is_none());
    assert!(!format!("{:?}", Token::new(VIEWER)).contains(VIEWER));
}

/// A minute that does not end.
struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}

#[tokio::test]
async fn many_wrong_tokens_are_slowed_down_and_the_correct_one_passes() {
    for by_form in [false, true] {
        let clock = Arc::new(Stopped(SystemClock.now()));
        let site = Running::with_clock(guarded_access(), ServerLimits::default(), clock).await;
        let wrong = async |number: usize| {
            let wrong = format!("wrong-token-of-many-{number}");
            match by_form {
                true => site.client.browsing().submit("/login", &format!("token={wrong}")).await,
                false => site.client.bearing(&wrong).get("/v1/runs").await,
            }
        };
        for number in 1..=60 {
            assert_eq!(wrong(number).await.status, 401, "{number}");
        }
        let started = Instant::now();
        assert_eq!(wrong(61).await.status, 429);
        assert!(started.elapsed() >= Duration::from_millis(900), "it is answered late");
        // From the same address.
        site.client.bearing(OPERATOR).get("/v1/runs").await.ok();
        assert_eq!(site.client.bearing(VIEWER).get("/metrics").await.status, 200);
        let entered = format!("token={VIEWER}");
        cookie(&site.client.browsing().submit("/login", &entered).await);
        // Another client behind a trusted proxy has its own count, and nobody else can name a client.
        let proxy = site.client.from(9).bearing("wrong-token-of-another");
        proxy.with("X-Forwarded-For", "203.0.113.7").get("/v1/runs").await.problem(401);
        if !by_form {
            let spoofed = site.client.with("X-Forwarded-For", "203.0.113.7");
            spoofed.bearing("wrong-token-again-and-again").get("/v1/runs").await.problem(429);
        }
    }
}

#[tokio::test]
async fn a_submitter_may_submit_and_nothing_else_and_a_revoked_token_nothing() {
    let site = Running::guarded().await;
    let (ci, old) = (site.client.bearing(SUBMITTER), site.client.bearing(REVOKED));
    let body = json!({ "queue": "q" });
    assert_eq!(ci.post("/v1/runs", &body).await.status, 201);
    for path in ["/v1/runs", "/v1/runs/1", "/", "/metrics", "/openapi.json"] {
        ci.get(path).await.problem(403);
    }
    for path in ["/v1/runs/cancel", "/v1/queues/q/pause"] {
        ci.post(path, &json!({ "ids": [1] })).await.problem(403);
    }
    old.post("/v1/runs", &body).await.problem(401);
    let signed_in = site.client.browsing().submit("/login", &format!("token={SUBMITTER}")).await;
    assert_eq!((signed_in.status, signed_in.header("set-cookie")), (403, None));
    assert_eq!(
        site.client.browsing().submit("/login", &format!("token={REVOKED}")).await.status,
        401
    );
}

#[tokio::test]
async fn the_journal_has_the_name_of_the_token() {
    let ann = "the-token-of-ann-0123456789";
    let digest = Token::new(ann).unwrap().sha256();
    let token = Token::from_sha256(&digest).unwrap();
    let tokens = vec![NamedToken::new("ann", Role::Operator, token)];
    let access = Access { tokens, ..Access::default() };
    let site = Running::with(access, ServerLimits::default()).await;
    let client = site.client.bearing(ann);
    client.post("/v1/queues/q/pause", &json!({})).await.ok();
    client.with("Redrive-Actor", "deploy").post("/v1/queues/q/resume", &json!({})).await.ok();
    let actors: Vec<String> = site.journal().await.into_iter().map(|(actor, _)| actor).collect();
    assert_eq!(actors, ["ann (api)", "deploy (api, ann)"]);
    assert!(Token::from_sha256("abc").is_none() && Token::from_sha256(&"g".repeat(64)).is_none());
}

#[tokio::test]
async fn a_session_is_not_the_token_and_ends_and_then_the_page_says_sign_in_again() {
    let site = Running::guarded().await;
    let browser = site.client.browsing();
    let form = format!("token={VIEWER}");
    let answer = browser.submit("/login", &form).await;
    let set = answer.header("set-cookie").unwrap();
    assert!(!set.contains(VIEWER) && set.contains("Max-Age=43200"), "{set}");
    assert!(!set.contains("Secure"), "plain HTTP: {set}");
    let signed_in = browser.with("Cookie", &cookie(&answer));
    assert_eq!(signed_in.get("/runs").await.status, 200);
    // The cookie is no token.
    let session = cookie(&answer).split_once('=').unwrap().1.to_owned();
    site.client.bearing(&session).get("/v1/runs").await.problem(401);
    assert_eq!(signed_in.submit("/logout", "").await.status, 303);
    for client in [signed_in, browser.with("Cookie", "redrive_session=from-before-a-restart")] {
        let page = client.get("/runs").await;
        assert_eq!((page.status, page.header("location")), (303, Some("/login?next=%2Fruns")));
        assert!(client.get("/login").await.body.contains("sign in again"));
        assert!(client.get("/v1/runs").await.problem(401)["detail"].to_string().contains("again"));
    }
    assert!(!browser.get("/login").await.body.contains("sign in again"));
    // Behind a proxy that says so, the connection of the browser is encrypted.
    for (last, header, secure) in [
        (9, ("X-Forwarded-Proto", "https"), true),
        (9, ("X-Forwarded-Proto", "http"), false),
        (2, ("X-Forwarded-Proto", "https"), false),
    ] {
        let proxy = browser.from(last).with("X-Forwarded-For", "203.0.113.7");
        let answer = proxy.with(header.0, header.1).submit("/login", &form).await;
        assert_eq!(answer.header("set-cookie").unwrap().contains("; Secure"), secure, "{header:?}");
    }
    let forwarded = browser.from(9).with("Forwarded", "for=203.0.113.7;proto=https");
    assert!(
        forwarded.submit("/login", &form).await.header("set-cookie").unwrap().contains("Secure")
    );
}

#[tokio::test]
async fn probes_may_use_any_host_and_metrics_with_a_token() {
    let site = Running::guarded().await;
    for host in ["10.1.2.3:7878", "pod.example", "redrive.example"] {
        let client = site.client.with("Host", host);
        assert_eq!(client.get("/healthz").await.status, 200, "{host}");
        assert_eq!(client.get("/readyz").await.status, 200, "{host}");
        assert_eq!(client.bearing(VIEWER).get("/metrics").await.status, 200, "{host}");
    }
    let other = site.client.with("Host", "10.1.2.3");
    other.get("/metrics").await.problem(421);
    other.bearing(VIEWER).get("/v1/runs").await.problem(421);
    let none = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(site.client.raw(none).await.status, 200);
    // Without tokens a page of another site could read them by a name of its own.
    Running::empty().await.client.with("Host", "evil.example").get("/metrics").await.problem(421);
}
