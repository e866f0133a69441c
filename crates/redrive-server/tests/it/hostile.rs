//! Texts of strangers are shown as text, on every page.

use serde_json::{Value, json};

use crate::{client::Answer, site::Running};

const TEXTS: [&str; 7] = [
    "</textarea><script>alert(1)</script>",
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>'><b a=\"",
    "</pre></title></textarea><svg onload=alert(1)>",
    "\u{202e}drowssap\u{202c} \u{200b}\u{2066}x {{7*7}} ${7*7} javascript:alert(1)",
    "a & b &lt;script&gt; %3Cscript%3E \\u003cscript\\u003e ' or '1'='1",
    "\u{1b}[31mred\u{7}\u{9b} <!--<iframe/src=\"x\">-->",
];

/// The tags that pages are made of.
const TAGS: [&str; 50] = [
    "html", "head", "meta", "title", "link", "script", "body", "a", "header", "div", "nav", "main",
    "footer", "span", "form", "button", "input", "label", "select", "option", "section", "h1",
    "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "svg", "line", "rect", "text", "time",
    "dl", "dt", "dd", "code", "pre", "br", "strong", "b", "details", "summary", "ul", "li",
    "small", "em", "textarea",
];

/// Reads a page as a browser does: every tag is one of ours, with attributes of ours, and every attribute is
/// quoted. A text that broke out of its place would leave another tag or attribute behind.
#[track_caller]
fn is_ours(path: &str, page: &str) {
    let mut rest = page.strip_prefix("<!DOCTYPE html>").unwrap();
    let mut scripts = 0;
    while let Some(at) = rest.find('<') {
        // Names that reorder or hide what stands beside them are shown escaped.
        let hidden = rest[..at].chars().find(|c| redrive_core::Message::must_escape(*c));
        assert_eq!(hidden, None, "{path}: {}", &rest[..at]);
        rest = &rest[at + 1..];
        let is_end = rest.starts_with('/');
        rest = rest.trim_start_matches('/');
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        assert!(TAGS.contains(&name.as_str()), "{path}: <{name} in {page}");
        rest = &rest[name.len()..];
        if is_end {
            rest = rest.strip_prefix('>').unwrap();
            continue;
        }
        scripts += usize::from(name == "script");
        while !rest.starts_with('>') {
            rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{path}: {name} {rest:.80}"));
            let attribute: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
            assert!(!attribute.is_empty() && !attribute.starts_with("on"), "{path}: {attribute}");
            rest = &rest[attribute.len()..];
            let Some(value) = rest.strip_prefix("=\"") else { continue };
            let (value, after) = value.split_once('"').unwrap();
            assert!(!value.contains('<'), "{path}: {attribute}={value}");
            if ["href", "src", "action"].contains(&attribute.as_str()) {
                let is_here = value.starts_with('/') && !value.starts_with("//");
                let is_skip = ["#main", "#rows"].contains(&value);
                assert!(is_here || is_skip, "{path}: {attribute}={value}");
            }
            rest = after;
        }
    }
    assert_eq!(scripts, 2, "{path}");
    for script in ["live", "keys"] {
        let tag = format!("<script src=\"/assets/{script}.js\" defer></script>");
        assert!(page.contains(&tag), "{path}");
    }
    assert!(!page.contains('\0'), "{path}");
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Where each page of the dashboard is.
async fn pages(site: &Running) -> Vec<String> {
    let items = |answer: Answer| answer.ok()["items"].as_array().unwrap().clone();
    let mut pages = vec![];
    let lists =
        ["/", "/runs", "/partitions", "/uploads", "/pipelines", "/dead-letters", "/journal"];
    pages.extend(lists.map(str::to_owned));
    let id = |row: &Value| row["id"].as_i64().unwrap();
    for run in items(site.client.get("/v1/runs?limit=3").await) {
        pages.push(format!("/runs/{}", id(&run)));
    }
    for item in items(site.client.get("/v1/items?limit=2").await) {
        pages.push(format!("/uploads/{}", id(&item)));
    }
    for letter in items(site.client.get("/v1/dead-letters?limit=2").await) {
        pages.push(format!("/dead-letters/{}", id(&letter)));
    }
    for partition in items(site.client.get("/v1/partitions").await) {
        let part = |name: &str| encoded(partition[name].as_str().unwrap());
        let parts = ["source", "customer_id", "query_name", "logical_date"].map(part);
        pages.push(format!("/partitions/{}", parts.join("/")));
    }
    pages.push("/pipelines/1".to_owned());
    pages.push("/dead-letters/preview?action=reprocess&all=true".to_owned());
    pages.push("/runs/preview?action=retry&queue=work".to_owned());
    pages.push("/uploads/preview?action=reset&upload=tiles&group=g".to_owned());
    pages.push("/partitions/preview?action=retry&source=ads".to_owned());
    pages
}

#[tokio::test]
async fn what_strangers_wrote_is_text_on_every_page() {
    let long = format!("<b>{}", "long ".repeat(20_000));
    for text in TEXTS.into_iter().chain([long.as_str()]) {
        let site = Running::saying(text).await;
        let browser = site.client.browsing().with("Redrive-Actor", "<i>eve");
        let body = json!({ "ids": [1], "reason": text });
        browser.post("/v1/items/reset", &body).await.ok();
        browser.post("/v1/queues/%3Cb%3Eq/pause", &json!({ "reason": text })).await.ok();
        for path in pages(&site).await {
            let page = browser.get(&path).await;
            assert_eq!(page.status, 200, "{path}: {page:?}");
            is_ours(&path, &page.body);
        }
        let overview = browser.get("/").await.body;
        assert!(overview.contains("ads/"), "the failures are there to be seen");
    }
}

#[tokio::test]
async fn what_an_address_says_is_text_on_every_page_also_when_it_is_refused() {
    let site = Running::full().await;
    let browser = site.client.browsing();
    for text in TEXTS {
        let text = encoded(text);
        for path in [
            format!("/runs?queue={text}"),
            format!("/runs?category={text}"),
            format!("/runs?status={text}"),
            format!("/runs?{text}=1"),
            format!("/runs/{text}"),
            format!("/runs/preview?action={text}&queue=work"),
            format!("/runs/preview?action=retry&queue={text}"),
            format!("/partitions?source={text}&customer_id={text}"),
            format!("/partitions?month={text}"),
            format!("/partitions?after={text}"),
            format!("/partitions/{text}/b/c/2026-01-01"),
            format!("/partitions/a/b/c/{text}"),
            format!("/partitions/preview?action={text}&source=ads"),
            format!("/partitions/preview?action=retry&source={text}"),
            format!("/uploads?upload={text}&group={text}"),
            format!("/uploads/preview?upload={text}&group={text}"),
            format!("/pipelines?pipeline={text}"),
            format!("/pipelines/{text}"),
            format!("/dead-letters?error={text}&cause={text}&run={text}"),
            format!("/dead-letters?error={text}&stage={text}"),
            format!("/dead-letters/preview?pipeline={text}"),
            format!("/journal?unit={text}&action={text}"),
            format!("/{text}"),
        ] {
            let page = browser.get(&path).await;
            assert!(page.status < 500, "{path}: {page:?}");
            is_ours(&path, &page.body);
        }
        for (path, form) in [
            ("/queues/pause", format!("queue={text}&reason={text}")),
            ("/runs/retry", format!("id=1&reason={text}")),
            ("/runs/retry", format!("id={text}")),
            ("/partitions/act/retry", format!("partition={text}")),
            ("/dead-letters/reprocess", format!("cause={text}&token={text}")),
            ("/pipelines/start", format!("pipeline={text}")),
            ("/pipelines/1/resume", format!("reason={text}&{text}=1")),
        ] {
            let mut page = browser.submit(path, &form).await;
            if let Some(shown) = page.header("location") {
                page = browser.get(shown).await;
            }
            assert!(page.status < 500, "{path}: {page:?}");
            is_ours(path, &page.body);
        }
    }
}

#[tokio::test]
async fn odd_parameters_of_every_page_are_answered() {
    let site = Running::full().await;
    let odd = [
        "",
        "0",
        "-1",
        "9223372036854775807",
        "1e9",
        "true",
        "0001-01",
        "9999-12",
        "-9999-01",
        "2026-02-30",
        "a/b/c/2026-01-01",
        "a/b/c/9999-12-31",
        "%25",
        "+",
        "%F0%9F%92%A9",
        "[]",
        "{}",
    ];
    let names = [
        ("/runs", "queue category status after before last order search did"),
        ("/runs/preview", "action queue category status id token list"),
        ("/partitions", "source customer_id query_name status month after before search"),
        ("/partitions/preview", "action partition source since until clear_terminal force"),
        ("/uploads", "upload group status after"),
        ("/uploads/preview", "id upload group"),
        ("/pipelines", "pipeline status after"),
        ("/dead-letters", "pipeline run stage error code cause after"),
        ("/dead-letters/preview", "id pipeline run stage all"),
        ("/journal", "unit action before"),
    ];
    for (path, names) in names {
        for name in names.split(' ') {
            for value in odd {
                let asked = format!("{path}?{name}={value}");
                let page = site.client.get(&asked).await;
                assert!(page.status < 500, "{asked}: {page:?}");
            }
        }
    }
    for page in ["/runs/", "/uploads/", "/pipelines/", "/dead-letters/", "/partitions/a/b/c/"] {
        for value in odd {
            assert!(site.client.get(&format!("{page}{value}")).await.status < 500, "{page}{value}");
        }
    }
}
