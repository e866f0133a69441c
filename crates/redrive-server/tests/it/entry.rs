//! Who is let in, and for what.

use redrive_engine::{PartitionRules, RawSink};
use redrive_ops::Ops;
use redrive_server::{Access, Server, ServerError, ServerLimits, ServerSetup, Token, Uploads};
use serde_json::json;

use crate::{
    client::Answer,
    site::{OPERATOR, Running, VIEWER},
};

#[tokio::test]
async fn without_a_token_programs_are_told_and_people_are_asked() {
    let site = Running::guarded().await;
    for path in ["/v1/runs", "/openapi.json", "/v1/nothing"] {
        let answer = site.client.get(path).await;
        answer.problem(401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    for path in ["/", "/runs", "/events", "/nothing"] {
        let answer = site.client.get(path).await;
        assert_eq!((answer.status, answer.header("location")), (303, Some("/login")), "{path}");
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
fn cookie(answer: &Answer) -> String {
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
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
    assert_eq!(signed_in.submit("/queues/pause", "queue=q&reason=tired").await.status, 200);
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
        let site = ServerSetup {
            ops,
            access,
            pipelines: Vec::new(),
            uploads: Uploads::new(),
            archive: None,
            limits: ServerLimits::default(),
            write_times: Default::default(),
        };
        Server::listen("0.0.0.0:0".parse().unwrap(), site).await
    };
    let refused = listen(Access::default()).await.err().unwrap();
    assert!(matches!(refused, ServerError::UnprotectedAddress(_)), "{refused}");
    assert!(refused.to_string().contains("no token"), "{refused}");
    let viewer = Token::new(VIEWER);
    assert!(listen(Access { viewer, ..Access::default() }).await.is_ok());
    assert!(Token::new("short").is_none());
    assert!(!format!("{:?}", Token::new(VIEWER)).contains(VIEWER));
}

#[tokio::test]
async fn whoever_tries_many_wrong_tokens_is_told_nothing_more() {
    for by_form in [false, true] {
        let site = Running::guarded().await;
        let mut last = 0;
        // A minute may end in between, and the count with it.
        for number in 0..130 {
            let wrong = format!("wrong-token-of-many-{number}");
            let answer = match by_form {
                true => site.client.browsing().submit("/login", &format!("token={wrong}")).await,
                false => site.client.bearing(&wrong).get("/v1/runs").await,
            };
            last = answer.status;
            if last == 429 {
                break;
            }
            assert_eq!(last, 401, "{answer:?}");
        }
        assert_eq!(last, 429);
        site.client.get("/v1/runs").await.problem(401);
    }
}
