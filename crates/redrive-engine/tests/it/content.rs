//! The content of items, kept in a local folder and on a real S3 server on loopback.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use redrive_core::ItemId;
use redrive_engine::{
    Content, ContentError, HttpUpload, HttpUploader, ItemOutcome, KeptContent, NewContent,
    ObjectService, RawSink, UploadError, UploadOutcome, UploadReport, UploadRequest, Uploader,
    reference_content, sha256_of,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{AddedItem, ItemGroup, ItemRecord, Items, NewItem, Operator};
use tempfile::TempDir;

use crate::{
    program::LONG,
    raw::{S3Server, every_sink},
    web::{Then, Web, answer, raw},
};

/// Files, the items they become, and a server that takes them.
struct Post {
    folder: TempDir,
    store: Arc<SqliteStore>,
    web: Web,
    concurrency: usize,
}

fn group() -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() }
}

impl Post {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let options = SqliteOptions::default();
        let store = SqliteStore::open(location, options, Timestamp::UNIX_EPOCH).unwrap();
        let web = Web::new(|_| answer(200, "", "")).await;
        Self { folder, store: Arc::new(store), web, concurrency: 3 }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    async fn keep(&self, content: &dyn Content, name: &str, bytes: &[u8]) -> KeptContent {
        let path = self.file(name, bytes);
        let kept = content.keep(NewContent::File(path.clone())).await.unwrap();
        fs::remove_file(path).unwrap();
        self.add(name, &kept).await;
        kept
    }

    async fn add(&self, name: &str, kept: &KeptContent) {
        let item = NewItem {
            group: group(),
            name: name.to_owned(),
            content_url: kept.url.clone(),
            size_bytes: kept.size_bytes,
            sha256: kept.sha256.clone(),
        };
        let by = Operator { actor: "ada".to_owned(), at: Timestamp::UNIX_EPOCH, reason: None };
        let added = self.store.add_items(&[item], &by).await.unwrap();
        assert!(matches!(added[..], [AddedItem::Accepted(_)]), "{added:?}");
    }

    async fn send(&self, content: Arc<dyn Content>) -> Result<UploadReport, UploadError> {
        let http = HttpUpload {
            name: "tiles".to_owned(),
            spec: self.web.spec(),
            concurrency: self.concurrency,
            time_limit: LONG,
            ready: None,
            worker: "w".to_owned(),
        };
        let uploader = HttpUploader::new(http, self.store.clone(), content).unwrap();
        uploader.upload_pending(&UploadRequest::new(group())).await
    }

    async fn items(&self) -> Vec<ItemRecord> {
        self.store.items_page(&Default::default(), ItemId(0), 100.into()).await.unwrap()
    }

    /// What arrived of an item.
    fn arrived(&self, name: &str) -> Option<Vec<u8>> {
        let seen = self.web.seen.lock().unwrap();
        let of_it = |request: &&crate::web::Seen| request.header("redrive-item") == Some(name);
        seen.iter().find(of_it).map(|request| request.body.clone())
    }
}

/// Where kept content is below the root.
fn place(kept: &KeptContent) -> String {
    let hash = kept.url.strip_prefix("sha256:").unwrap();
    format!("items/sha256/{}/{}", &hash[..2], &hash[2..])
}

/// More than two parts of an object.
fn long() -> Vec<u8> {
    (0..20_000_000_u32).map(|n| (n / 7) as u8).collect()
}

// UPL-1
#[tokio::test]
async fn content_is_kept_beside_the_raw_partitions_and_sent_as_it_was_added() {
    for sink in every_sink().await {
        let (post, content) = (Post::new().await, sink.sink.content());
        let local = sink.name == "folder";
        let root = if local { sink.folder } else { sink.folder.join("some/prefix") };
        let files = [
            ("short", b"short".to_vec()),
            ("empty", Vec::new()),
            ("long", long()),
            ("again", b"short".to_vec()),
            ("long again", long()),
        ];
        for (name, bytes) in &files {
            let kept = post.keep(&*content, name, bytes).await;
            assert_eq!(kept.size_bytes, bytes.len() as u64);
            assert!(fs::read(root.join(place(&kept))).unwrap() == *bytes, "{}", sink.name);
        }
        for bytes in [b"from memory".to_vec(), Vec::new(), long()[1..].to_vec()] {
            let kept = content.keep(NewContent::Bytes(bytes.clone().into())).await.unwrap();
            assert_eq!((kept.size_bytes, &kept.sha256), (bytes.len() as u64, &sha256_of(&bytes)));
            assert!(fs::read(root.join(place(&kept))).unwrap() == bytes, "{}", sink.name);
        }
        let left = post.file("left", b"left where it is");
        post.add("left", &reference_content(&left).await.unwrap()).await;
        let report = post.send(content).await.unwrap();
        assert_eq!(report.outcome, UploadOutcome::Success, "{}: {report:?}", sink.name);
        for (name, bytes) in &files {
            let name = name.replace(' ', "%20");
            assert!(post.arrived(&name).as_ref() == Some(bytes), "{}: {name}", sink.name);
        }
        assert_eq!(post.arrived("left").unwrap(), b"left where it is");
    }
}

// UPL-1
#[tokio::test]
async fn kept_content_that_was_changed_or_taken_away_is_rejected() {
    for sink in every_sink().await {
        let (post, content) = (Post::new().await, sink.sink.content());
        let local = sink.name == "folder";
        let root = if local { sink.folder } else { sink.folder.join("some/prefix") };
        let changed = post.keep(&*content, "changed", b"as it was").await;
        let gone = post.keep(&*content, "gone", b"soon gone").await;
        let shorter = post.keep(&*content, "shorter", &long()).await;
        fs::write(root.join(place(&changed)), b"as it is!").unwrap();
        fs::remove_file(root.join(place(&gone))).unwrap();
        fs::write(root.join(place(&shorter)), &long()[..9_000_000]).unwrap();
        let report = post.send(content).await.unwrap();
        assert_eq!(report.outcome, UploadOutcome::Partial);
        for (item, words) in report.items.iter().zip(["its hash is", "cannot read", "had 20000000"])
        {
            let ItemOutcome::Rejected(failure) = &item.outcome else { panic!("{item:?}") };
            let reason = failure.message().as_str();
            assert!(reason.contains(words), "{}: {reason}", sink.name);
        }
        assert!(post.web.seen.lock().unwrap().is_empty(), "nothing arrived as a whole");
    }
}

// UPL-1
#[tokio::test]
async fn content_that_cannot_be_reached_costs_its_items_nothing() {
    let (server, post) = (S3Server::start().await, Post::new().await);
    post.keep(&*server.sink("").content(), "kept", b"kept").await;
    let mut environment = server.environment();
    environment.push(("AWS_SECRET_ACCESS_KEY".to_owned(), "wrong".to_owned()));
    let locked = RawSink::bucket(ObjectService::S3, "bucket", "", environment).unwrap();
    let error = post.send(locked.content()).await.unwrap_err();
    assert!(matches!(error, UploadError::Unreadable(_)), "{error:?}");
    assert!(error.to_string().contains("s3://bucket/items/sha256/"), "{error}");
    let item = post.items().await.remove(0);
    assert_eq!((item.last_attempt.0, item.upload_attempts), (0, 0));
    let refused =
        locked.content().keep(NewContent::File(post.file("new", b"new"))).await.unwrap_err();
    assert!(matches!(refused, ContentError::Write { .. }), "{refused:?}");
    assert_eq!(post.send(server.sink("").content()).await.unwrap().outcome, UploadOutcome::Success);
}

// UPL-1
#[tokio::test]
async fn an_item_that_crosses_with_the_close_of_a_kept_connection_is_sent_again() {
    let count = AtomicUsize::new(0);
    let web = Web::new(move |_| match count.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => answer(200, "", ""),
        _ => raw("", Then::Close),
    });
    let post = Post { web: web.await, concurrency: 1, ..Post::new().await };
    let content = RawSink::folder(post.folder.path().join("raw")).content();
    let files = [("short", b"short".to_vec()), ("long", long()), ("empty", Vec::new())];
    for (name, bytes) in &files {
        post.keep(&*content, name, bytes).await;
    }
    let report = post.send(content).await.unwrap();
    assert_eq!(report.outcome, UploadOutcome::Success, "{report:?}");
    assert_eq!((post.web.seen().len(), post.web.connections()), (5, 3));
    for item in post.items().await {
        assert_eq!((item.last_attempt.0, item.upload_attempts), (1, 0), "{item:?}");
    }
}

#[tokio::test]
async fn what_is_no_file_is_not_kept() {
    for sink in every_sink().await {
        let (post, content) = (Post::new().await, sink.sink.content());
        for path in [post.folder.path().to_owned(), post.folder.path().join("nowhere")] {
            let refused = content.keep(NewContent::File(path)).await.unwrap_err();
            assert!(matches!(refused, ContentError::Read { .. }), "{}: {refused:?}", sink.name);
        }
    }
}
