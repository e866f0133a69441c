//! Other sites, other names, and requests that no browser makes.

use serde_json::json;

use crate::{
    client::{Answer, Client},
    site::{OPERATOR, Running},
};

const HEADERS: [(&str, &str); 5] = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cache-control", "no-store"),
];

#[track_caller]
fn has_headers(answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'; "), "{answer:?}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"));
    for (name, value) in HEADERS {
        assert_eq!(answer.header(name), Some(value), "{answer:?}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn every_answer_has_the_security_headers_also_a_refusal() {
    let site = Running::guarded().await;
    let operator = site.client.bearing(OPERATOR);
    for path in ["/", "/runs", "/v1/runs", "/openapi.json", "/nothing", "/runs/x", "/v1/runs/9"] {
        has_headers(&operator.get(path).await);
        has_headers(&operator.browsing().get(path).await);
        has_headers(&site.client.get(path).await);
    }
    for path in ["/healthz", "/readyz", "/login"] {
        has_headers(&site.client.get(path).await);
    }
    has_headers(&operator.send("DELETE", "/v1/runs", None, "").await);
    has_headers(&operator.post("/v1/runs", &json!(1)).await);
    has_headers(&operator.with("Host", "evil.example").get("/").await);
    has_headers(&operator.send("OPTIONS", "/v1/runs", None, "").await);
    let style = site.client.get("/assets/style.css").await;
    assert_eq!(style.header("cache-control"), Some("max-age=300"));
    assert!(style.header("content-security-policy").is_some());
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_not_enough() {
    let site = Running::guarded().await;
    let client = site.client.bearing(OPERATOR);
    for host in [
        "evil.example",
        "evil.example:7878",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]:80",
        "",
        "redrive.example.evil",
        "evil@localhost.example",
    ] {
        client.with("Host", host).get("/v1/runs").await.problem(421);
    }
    for host in
        ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:80", "Redrive.Example:443"]
    {
        client.with("Host", host).get("/v1/runs").await.ok();
    }
    let none = b"GET /v1/runs HTTP/1.1\r\nConnection: close\r\n\r\n";
    client.raw(none).await.problem(421);
}

#[tokio::test]
async fn a_request_with_two_hosts_or_bare_line_feeds_is_refused() {
    let site = Running::empty().await;
    for hosts in ["localhost\r\nHost: localhost", "evil.example\r\nHost: localhost"] {
        for path in ["/healthz", "/v1/runs"] {
            let two = format!("GET {path} HTTP/1.1\r\nHost: {hosts}\r\nConnection: close\r\n\r\n");
            site.client.raw(two.as_bytes()).await.problem(400);
        }
    }
    for bare in [
        "GET /healthz HTTP/1.1\nHost: localhost\r\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\n",
        "GET /healthz HTTP/1.1\nHost: localhost\nConnection: close\n\n",
    ] {
        assert_eq!(site.client.raw_status(bare.as_bytes()).await, Some(400), "{bare:?}");
    }
    // The second request of a connection is checked too, and line feeds in a body are data.
    let body = "{\n\"queue\": \"q\"\n}";
    let first = format!(
        "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let second = "GET /healthz HTTP/1.1\r\nHost: localhost\nA: b\r\n\r\n";
    let both = site.client.exchange(format!("{first}{second}").as_bytes()).await;
    let both = String::from_utf8(both).unwrap();
    assert!(both.starts_with("HTTP/1.1 201") && both.contains("HTTP/1.1 400"), "{both}");
    let chunked = "POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\nf\r\n{\"queue\":\n\"q\"\n\n\r\n1\r\n}\r\n0\r\n\r\n";
    let chunked = site.client.exchange(chunked.as_bytes()).await;
    assert!(String::from_utf8(chunked).unwrap().starts_with("HTTP/1.1 201"));
}

/// Forms as other sites can send them, and scripts of theirs.
fn strangers(client: &Client) -> Vec<Client> {
    let origin = |origin: &str| client.with("Origin", origin);
    let site = |site: &str| client.with("Sec-Fetch-Site", site);
    vec![
        site("cross-site"),
        site("same-site"),
        site("nonsense"),
        site("cross-site").with("Origin", "http://localhost"),
        origin("http://evil.example"),
        origin("null"),
        origin("http://localhost:1"),
        origin("http://localhost.evil.example"),
        client.clone(),
    ]
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    for guarded in [false, true] {
        let site = if guarded { Running::guarded().await } else { Running::empty().await };
        let client = match guarded {
            // As the browser of someone who signed in sends it along by itself.
            true => {
                let entered = "token=operator%3B+of+%22things%22+%2541";
                let answer = site.client.browsing().submit("/login", entered).await;
                site.client.with("Cookie", &crate::entry::cookie(&answer))
            }
            false => site.client.clone(),
        };
        let client = client.with("Host", "localhost");
        assert_eq!(client.get("/").await.status, 200);
        for stranger in strangers(&client) {
            for path in ["/queues/pause", "/pipelines/start", "/logout"] {
                stranger.submit(path, "queue=q&pipeline=flour").await.problem(403);
            }
            for kind in ["text/plain", "Text/Plain;x=1", "multipart/form-data; boundary=x"] {
                stranger.send("POST", "/v1/runs", Some(kind), "{}").await.problem(403);
            }
        }
        for stranger in strangers(&client).iter().take(8) {
            stranger.post("/v1/queues/q/pause", &json!({})).await.problem(403);
        }
        assert_eq!(site.journal().await, []);
        let ours = client.with("Sec-Fetch-Site", "same-origin").with("Origin", "http://localhost");
        assert_eq!(ours.submit("/queues/pause", "queue=q").await.status, 303);
        let typed = client.with("Sec-Fetch-Site", "none");
        assert_eq!(typed.submit("/queues/resume", "queue=q").await.status, 303);
        let older = client.with("Origin", "http://localhost");
        assert_eq!(older.submit("/queues/pause", "queue=q").await.status, 303);
        client.post("/v1/queues/q/resume", &json!({})).await.ok();
        assert_eq!(site.journal().await.len(), 4);
    }
}

#[tokio::test]
async fn a_program_with_a_token_may_come_from_anywhere() {
    let site = Running::guarded().await;
    let client = site.client.bearing(OPERATOR).with("Origin", "https://tools.example");
    client.post("/v1/queues/q/pause", &json!({})).await.ok();
}

#[tokio::test]
async fn odd_paths_lead_nowhere_and_break_nothing() {
    let site = Running::full().await;
    for path in [
        "/../../etc/passwd",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/style.css%00.js",
        "/runs/%00",
        "/runs/1%0d%0aSet-Cookie:%20a=b",
        "/v1/runs?queue=%00",
        "/v1/runs?queue=%0d%0aSet-Cookie:%20a=b&after=%0d",
        "/runs?queue=%ff%fe",
        "/partitions/%ff/b/c/2026-01-01",
        "/partitions/a%2Fb/c/d/2026-01-01",
        "/partitions/ads/1234/daily/2026-01-01/../../../..",
        "//evil.example/",
        "/\\evil.example",
        "/v1//runs",
        "/runs/99999999999999999999999999",
        "/runs/-9223372036854775808",
        "/pipelines/9223372036854775807",
    ] {
        let answer = site.client.get(path).await;
        assert!(answer.status < 500, "{path}: {answer:?}");
        assert!(!answer.body.contains("root:"), "{path}");
        assert_eq!(answer.header("set-cookie"), None, "{path}");
        assert!(
            answer.header("location").is_none_or(|to| to.starts_with('/') && !to.starts_with("//"))
        );
    }
    let long = format!("/runs?queue={}", "q".repeat(60_000));
    assert!(site.client.get(&long).await.status < 500);
    let longer = format!("/runs/{}", "1/".repeat(60_000));
    assert!((400..500).contains(&site.client.get(&longer).await.status));
    assert_eq!(site.client.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn odd_headers_break_nothing() {
    let site = Running::guarded().await;
    let client = site.client.bearing(OPERATOR);
    for (name, value) in [
        ("Redrive-Actor", "<script>\t\"'"),
        ("Idempotency-Key", "a\tb"),
        ("Cookie", ";;;=;redrive_session;redrive_session=%zz%ff"),
        ("Accept", "text/html;q=x,,,"),
        ("Content-Length", "0"),
        ("X-Forwarded-Host", "evil.example"),
    ] {
        assert_eq!(client.with(name, value).get("/").await.status, 200, "{name}");
    }
    let huge = client.with("X-Huge", &"x".repeat(1_000_000)).get("/").await;
    assert!((400..500).contains(&huge.status), "{huge:?}");
    let bytes = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n";
    assert!(client.raw(bytes).await.status < 500);
    for request in [
        b"GET / HTTP/9.9\r\n\r\n".as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let status = client.raw_status(request).await;
        assert!(status.is_none_or(|status| status < 500), "{status:?}");
    }
    assert_eq!(site.client.get("/healthz").await.status, 200);
}
