//! Adding items by their content, and having groups sent.

use std::{fs, path::Path, time::Duration};

use redrive_core::{ItemEvent, ItemId};
use redrive_engine::{Clock, GroupLease, SystemClock, sha256_of};
use redrive_server::{Access, ServerLimits};
use redrive_store::{ItemGroup, ItemMove, JournalFilter, WorkerId, Written};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Client},
    site::{OPERATOR, Running, VIEWER},
};

async fn put(client: &Client, path: &str, content: &str) -> Answer {
    client.send("PUT", &format!("/v1/uploads/{path}"), None, content).await
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(
            |path| {
                if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }
            },
        )
        .collect()
}

fn group(name: &str) -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: name.to_owned() }
}

// FIX-1
#[tokio::test]
async fn an_item_is_replaced_dropped_and_marked_over_the_api() {
    let site = Running::empty().await;
    let old = put(&site.client, "tiles/groups/g/items/a.png", "old").await.json();
    let other = put(&site.client, "tiles/groups/g/items/a.png", "new").await.problem(409);
    assert!(other["allowed"].as_str().unwrap().contains("?replace=true"), "{other}");
    let new = put(&site.client, "tiles/groups/g/items/a.png?replace=true", "new").await.ok();
    assert_eq!((&new["id"], &new["sha256"]), (&old["id"], &json!(sha256_of(b"new"))));
    let again = put(&site.client, "tiles/groups/g/items/a.png?replace=true", "new").await.ok();
    assert_eq!(again, new, "the same content again is no change");
    let first = ItemId(new["id"].as_i64().unwrap());
    let give_up = ItemMove::new(first, ItemEvent::GiveUp, SystemClock.now());
    assert_eq!(site.store.move_items(&[give_up]).await.unwrap(), [Written::Applied]);
    let same = put(&site.client, "tiles/groups/g/items/a.png?replace=true", "new").await;
    let same = same.problem(409);
    assert!(same["detail"].as_str().unwrap().contains("uploads reset"), "{same}");
    let reset = ItemMove::new(first, ItemEvent::Reset, SystemClock.now());
    assert_eq!(site.store.move_items(&[reset]).await.unwrap(), [Written::Applied]);
    let added = put(&site.client, "tiles/groups/g/items/b.png?replace=true", "b").await;
    assert_eq!(added.status, 201);
    let second = added.json()["id"].as_i64().unwrap();
    let step = ItemMove::new(ItemId(second), ItemEvent::Acknowledge, SystemClock.now());
    assert_eq!(site.store.move_items(&[step]).await.unwrap(), [Written::Applied]);
    let late = put(&site.client, "tiles/groups/g/items/b.png?replace=true", "c").await.problem(409);
    assert!(late["detail"].as_str().unwrap().contains("never replaced"), "{late}");

    let act = async |action: &str, id: i64| {
        let body = json!({ "ids": [id], "reason": "because" });
        let changed = site.client.post(&format!("/v1/items/{action}"), &body).await.ok();
        changed["changes"][0]["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(act("drop", second).await, "refused", "an acknowledged item is never dropped");
    assert_eq!(act("refuse", second).await, "done");
    assert_eq!(act("trust", second).await, "refused", "the mark is final");
    assert_eq!(act("drop", 1).await, "done");
    site.client.get("/v1/items/1").await.problem(404);
    let why = site.client.get("/v1/why?unit=item:1").await.problem(404);
    assert!(why["detail"].as_str().unwrap().contains("was dropped at"), "{why}");
    assert_eq!(site.client.get(&format!("/v1/items/{second}")).await.ok()["status"], "rejected");
}

#[tokio::test]
async fn an_item_is_added_by_its_content_once_and_kept_by_its_hash() {
    let site = Running::empty().await;
    let by = site.client.with("Redrive-Actor", "ada");
    let added = put(&by, "tiles/groups/g/items/a.png", "the bytes").await;
    assert_eq!(added.status, 201, "{added:?}");
    let item = added.json();
    let hash = sha256_of(b"the bytes");
    assert_eq!((&item["name"], &item["status"]), (&json!("a.png"), &json!("pending")));
    assert_eq!((&item["sha256"], &item["size_bytes"]), (&json!(hash), &json!(9)));
    assert_eq!(item["content_url"], format!("sha256:{hash}"));
    let (folder, name) = hash.split_at(2);
    let kept = site.folder.path().join("raw/items/sha256").join(folder).join(name);
    assert_eq!(fs::read(kept).unwrap(), b"the bytes");

    let again = put(&by, "tiles/groups/g/items/a.png", "the bytes").await.ok();
    assert_eq!(again, item, "the same content again is the same answer");
    let other = put(&by, "tiles/groups/g/items/a.png", "other bytes").await.problem(409);
    assert!(other["detail"].as_str().unwrap().contains("item 1"), "{other}");
    assert_eq!(site.client.get("/v1/items/1").await.ok(), item);
    let elsewhere = put(&by, "tiles/groups/h/items/a.png", "").await;
    assert_eq!((elsewhere.status, &elsewhere.json()["size_bytes"]), (201, &json!(0)));
    let told = ("ada (api, local)".to_owned(), "upload.add".to_owned());
    assert_eq!(site.journal().await, [told.clone(), told]);
    let unknown = put(&by, "nothing/groups/g/items/a", "x").await.problem(404);
    assert_eq!(unknown["allowed"], "sealed, tiles");
}

#[tokio::test]
async fn a_name_is_a_name_and_never_a_path() {
    let site = Running::empty().await;
    for (name, meant) in [
        ("%2E%2E", ".."),
        ("..%2F..%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("%2Fetc%2Fpasswd", "/etc/passwd"),
        ("C:%5Cnul", "C:\\nul"),
        ("CON", "CON"),
        ("%C3%A9", "é"),
        ("e%CC%81", "e\u{301}"),
        ("%E2%80%AEtxt.exe", "\u{202e}txt.exe"),
        ("%3Cb%3E%1B%5B31m", "<b>\u{1b}[31m"),
        ("a%20b%25", "a b%"),
        (&"n".repeat(512), &"n".repeat(512)),
    ] {
        for (group, meant_group) in [("g", "g"), (name, meant)] {
            let path = format!("tiles/groups/{group}/items/{name}");
            let added = put(&site.client, &path, "x").await;
            assert_eq!(added.status, 201, "{path}: {added:?}");
            let item = added.json();
            assert_eq!((&item["name"], &item["group"]), (&json!(meant), &json!(meant_group)));
        }
    }
    for name in ["%00", "a%00b", &"n".repeat(513), &"%C3%A9".repeat(257)] {
        put(&site.client, &format!("tiles/groups/g/items/{name}"), "y").await.problem(400);
        put(&site.client, &format!("tiles/groups/{name}/items/a"), "y").await.problem(400);
    }
    for path in ["tiles/groups/g/items/", "tiles/groups/g/items/a/b", "tiles/groups/g/items/%FF"] {
        put(&site.client, path, "y").await.problem(404);
    }
    let kept = files(&site.folder.path().join("raw"));
    assert_eq!(kept.len(), 1, "one content, and nothing of what was refused: {kept:?}");
}

#[tokio::test]
async fn a_body_has_a_limit_and_must_come_whole() {
    let most = 100_000;
    let limits = ServerLimits { item_bytes: most, ..ServerLimits::default() };
    let site = Running::with(Access::default(), limits).await;
    let (large, body) = ("tiles/groups/g/items/large", "x".repeat(most));
    let head = format!(
        "PUT /v1/uploads/{large} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\n",
        site.client.address()
    );
    let told = format!("{head}Content-Length: {}\r\n\r\n", most + 1);
    let refused = site.client.raw(told.as_bytes()).await.problem(413);
    assert!(refused["allowed"].as_str().unwrap().contains("up to 100000 bytes"), "{refused}");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{most:x}\r\n{body}\r\n1\r\nx\r\n");
    let refused =
        site.client.raw(format!("{head}{chunked}0\r\n\r\n").as_bytes()).await.problem(413);
    assert!(refused["allowed"].is_string(), "{refused}");
    let broken = format!("{head}Content-Length: {most}\r\n\r\nnot all of it");
    assert!(matches!(site.client.raw_status(broken.as_bytes()).await, None | Some(400)));
    assert_eq!(site.client.get("/v1/items").await.ok()["items"], json!([]));
    let whole = put(&site.client, large, &body).await;
    assert_eq!((whole.status, &whole.json()["size_bytes"]), (201, &json!(most)));

    // Beside other bodies, which are smaller, it may be as large as a submission.
    let site = Running::empty().await;
    assert_eq!(put(&site.client, large, &"x".repeat(1_000_000)).await.status, 201);
}

#[tokio::test]
async fn only_operators_on_pages_of_ours_add_and_send() {
    let site = Running::guarded().await;
    let (viewer, operator) = (site.client.bearing(VIEWER), site.client.bearing(OPERATOR));
    let (item, send) = ("tiles/groups/g/items/a", "/v1/uploads/tiles/groups/g/send");
    put(&site.client, item, "x").await.problem(401);
    put(&viewer, item, "x").await.problem(403);
    assert_eq!(put(&operator, item, "x").await.status, 201);
    viewer.post(send, &json!({})).await.problem(403);
    let form = "upload=tiles&group=g";
    let looking = viewer.browsing();
    assert_eq!(looking.submit("/uploads/send", form).await.status, 403);
    let page = looking.get("/uploads?upload=tiles&group=g").await.body;
    assert!(page.contains("1 pending") && !page.contains("/uploads/send"), "{page}");

    let site = Running::empty().await;
    assert_eq!(put(&site.client, item, "x").await.status, 201);
    for (name, value) in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
    ] {
        let elsewhere = site.client.with(name, value);
        put(&elsewhere, "tiles/groups/g/items/b", "x").await.problem(403);
        elsewhere.post(send, &json!({})).await.problem(403);
        elsewhere.submit("/uploads/send", form).await.problem(403);
    }
    assert_eq!(site.journal().await.len(), 1, "nothing but the first item");
}

/// Looks at a group until nobody here sends it.
async fn sent(site: &Running, name: &str) -> Value {
    loop {
        let path = format!("/v1/uploads/tiles/groups/{name}");
        let group = site.client.get(&path).await.ok();
        if group["sending_since"].is_null() {
            return group;
        }
    }
}

#[tokio::test]
async fn a_group_is_sent_and_its_end_can_be_seen() {
    let site = Running::empty().await;
    for name in ["a", "b"] {
        assert_eq!(
            put(&site.client, &format!("tiles/groups/g/items/{name}"), name).await.status,
            201
        );
    }
    let send = "/v1/uploads/tiles/groups/g/send";
    let by = site.client.with("Redrive-Actor", "ada");
    let begun = by.post(send, &json!({ "reason": "it landed" })).await;
    assert_eq!(begun.status, 202, "{begun:?}");
    let begun = begun.json();
    assert_eq!((&begun["pending"], &begun["worker"]), (&json!(2), &json!("server-1")));
    let group = sent(&site, "g").await;
    let counts = ["pending", "uploaded", "upload_giveup", "total"].map(|name| &group[name]);
    assert_eq!(counts, [0, 2, 0, 2].map(|n| json!(n)).each_ref());
    let journal = site.store.journal_page(&JournalFilter::default(), 0, 10).await.unwrap();
    let entry = |n: usize| &journal[n].entry;
    assert_eq!((&*entry(2).actor, &*entry(2).action), ("ada (api, local)", "upload.send"));
    assert!(entry(2).details.contains("it landed"), "{}", entry(2).details);
    assert_eq!((&*entry(3).actor, &*entry(3).action), ("server-1", "upload.handback"));
    assert!(entry(3).details.contains("\"done\""), "{}", entry(3).details);
    by.post(send, &json!({})).await.problem(422);
    site.client.post("/v1/uploads/tiles/groups/none/send", &json!({})).await.problem(404);
    site.client.post("/v1/uploads/none/groups/g/send", &json!({})).await.problem(404);
    site.client.get("/v1/uploads/tiles/groups/none").await.problem(404);
    assert_eq!(put(&site.client, "sealed/groups/g/items/a", "x").await.status, 201);
    let sealed =
        site.client.post("/v1/uploads/sealed/groups/g/send", &json!({})).await.problem(422);
    assert!(sealed["detail"].as_str().unwrap().contains("$SEAL is not set"), "{sealed}");
}

#[tokio::test]
async fn a_group_that_somebody_sends_is_refused_by_their_name() {
    let site = Running::empty().await;
    assert_eq!(put(&site.client, "tiles/groups/g/items/a", "x").await.status, 201);
    let (g, other) = (group("g"), WorkerId("w-elsewhere".to_owned()));
    let lease = GroupLease::take(site.store.clone(), &g, other, Duration::from_secs(60));
    let lease = lease.await.unwrap().unwrap();
    let send = "/v1/uploads/tiles/groups/g/send";
    let busy = site.client.post(send, &json!({})).await.problem(409);
    assert!(busy["detail"].as_str().unwrap().contains("w-elsewhere"), "{busy}");
    assert_eq!(site.journal().await.len(), 1, "who was refused is not told of");
    drop(lease);

    assert_eq!(put(&site.client, "tiles/groups/h/items/slow", "x").await.status, 201);
    let send = "/v1/uploads/tiles/groups/h/send";
    assert_eq!(site.client.post(send, &json!({})).await.status, 202);
    let busy = site.client.post(send, &json!({})).await.problem(409);
    let said = busy["detail"].as_str().unwrap();
    assert!(said.contains("by server-1 since 20"), "{busy}");
    site.end().await;
}

#[tokio::test]
async fn a_server_that_is_told_to_stop_gives_back_what_it_sends() {
    let site = Running::empty().await;
    for name in ["quick", "slow"] {
        assert_eq!(
            put(&site.client, &format!("tiles/groups/g/items/{name}"), "x").await.status,
            201
        );
    }
    let send = "/v1/uploads/tiles/groups/g/send";
    assert_eq!(site.client.post(send, &json!({})).await.status, 202);
    let (store, _folder) = (site.store.clone(), site.end().await);
    let counts = store.item_counts(&group("g")).await.unwrap();
    assert_eq!((counts.uploaded, counts.pending), (1, 1));
    let filter = JournalFilter { action: Some("upload.handback".to_owned()), unit: None };
    let journal = store.journal_page(&filter, 0, 10).await.unwrap();
    assert!(journal[0].entry.details.contains("shutdown"), "{journal:?}");
    let next = WorkerId("next".to_owned());
    let lease = GroupLease::take(store, &group("g"), next, Duration::from_secs(60)).await.unwrap();
    assert!(lease.is_ok(), "the group is free at once");
}

#[tokio::test]
async fn a_person_presses_a_button_to_have_a_group_sent() {
    let site = Running::empty().await;
    let names = "tiles/groups/%22%3E%3Cb%3E/items/a";
    assert_eq!(put(&site.client, names, "x").await.status, 201);
    let browser = site.client.browsing();
    let list = browser.get("/uploads").await.body;
    let address = "/uploads?upload=tiles&amp;group=%22%3E%3Cb%3E";
    assert!(list.contains(&format!("href=\"{address}\"")), "{list}");
    let address = address.replace("&amp;", "&");
    let page = browser.get(&address).await.body;
    assert!(page.contains("action=\"/uploads/send\"") && page.contains("1 pending"), "{page}");
    let form = "upload=tiles&group=%22%3E%3Cb%3E&reason=now";
    let pressed = browser.submit("/uploads/send", form).await;
    assert_eq!(pressed.status, 303, "{pressed:?}");
    let list = browser.get(pressed.header("location").unwrap()).await;
    assert!(list.body.contains("Sending 1 items"), "{}", list.body);
    sent(&site, "%22%3E%3Cb%3E").await;
    let page = browser.get(&address).await.body;
    assert!(page.contains("1 of 1 are uploaded") && !page.contains("/uploads/send"), "{page}");
    let told = site.journal().await;
    assert_eq!(told[1], ("local (dashboard)".to_owned(), "upload.send".to_owned()));
    assert_eq!(browser.submit("/uploads/send", form).await.status, 422);
}
