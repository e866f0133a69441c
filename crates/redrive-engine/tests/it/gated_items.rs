//! Items that pass a gate before they are sent.

use std::{
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::{GateSettings, GateStatus};
use redrive_engine::{
    Clock, HttpUpload, HttpUploader, RawSink, SystemClock, UploadEvent, UploadReport,
    UploadRequest, Uploader, reference_content,
};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    ClaimedGroup, DeclaredGate, GateOrder, GatePlace, GateRecord, GateRule, GroupClaim, ItemGroup,
    LeaseRef, NewItem, Operator, Store, UnitKind, WorkerId,
};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    program::{LONG, soon},
    web::{Answer, Then, Web, answer, raw},
};

/// What the server makes of the first requests; it accepts the others.
#[derive(Debug, Clone, Copy)]
enum Reply {
    Accept,
    Limit,
    RefuseSender,
    Hang,
}

impl Reply {
    fn answer(self) -> Answer {
        match self {
            Self::Accept => answer(200, "", ""),
            Self::Limit => answer(429, "retry-after: 1\r\n", ""),
            Self::RefuseSender => answer(401, "", ""),
            Self::Hang => raw("", Then::Hang),
        }
    }
}

/// A group of items behind gate `api`, and a server.
struct GatedGroup {
    folder: TempDir,
    store: Arc<dyn Store>,
    settings: GateSettings,
    lease: LeaseRef,
    web: Web,
    arrivals: Arc<Mutex<Vec<Instant>>>,
}

fn group() -> ItemGroup {
    ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() }
}

fn declared() -> DeclaredGate {
    let places = vec![GatePlace { kind: UnitKind::Item, place: group().upload }];
    DeclaredGate { name: "api".to_owned(), places, ..DeclaredGate::default() }
}

fn ada() -> Operator {
    Operator { actor: "ada".to_owned(), at: SystemClock.now(), reason: None }
}

fn limits(rate: Option<&str>, concurrency: Option<u32>) -> GateSettings {
    let (rate, second) = (rate.map(|rate| rate.parse().unwrap()), Duration::from_secs(1));
    GateSettings::new(rate, concurrency, None, second, second).unwrap()
}

impl GatedGroup {
    async fn new(items: usize, settings: GateSettings, replies: &'static [Reply]) -> Self {
        let (folder, options) = (tempfile::tempdir().unwrap(), SqliteOptions::default());
        let store = SqliteStore::open(Location::Memory, options, Timestamp::UNIX_EPOCH).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        for n in 0..items {
            let path = folder.path().join(n.to_string());
            fs::write(&path, "a tile").unwrap();
            let kept = reference_content(&path).await.unwrap();
            let (content_url, size_bytes, sha256) = (kept.url, kept.size_bytes, kept.sha256);
            let (group, name) = (group(), n.to_string());
            let item = NewItem { group, name, content_url, size_bytes, sha256 };
            store.add_items(&[item], &ada()).await.unwrap();
        }
        let (owner, now) = (WorkerId("w".to_owned()), store.now());
        let lease_until = now + SignedDuration::from_hours(1);
        let claim = GroupClaim { group: group(), owner, now, lease_until };
        let ClaimedGroup::Held(lease) = store.claim_group(&claim).await.unwrap() else {
            panic!("nobody else has the group")
        };
        let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let log = arrivals.clone();
        let web = Web::new(move |_| {
            let mut log = log.lock().unwrap();
            let reply = replies.get(log.len()).copied().unwrap_or(Reply::Accept);
            log.push(Instant::now());
            reply.answer()
        });
        let web = web.await;
        Self { folder, store, settings, lease, web, arrivals }
    }

    /// The period of the gate is over, so the next item is a probe.
    async fn close_until_now(&self) {
        self.store.declare_gates(&vec![declared()].into(), SystemClock.now()).await.unwrap();
        let close = GateOrder::Close { until: Some(SystemClock.now()) };
        self.store.order_gate("api", "", &close, &ada()).await.unwrap();
    }

    /// Also returns when each rejection was written.
    async fn send(&self, time_limit: Duration) -> (UploadReport, Vec<Instant>) {
        let http = HttpUpload {
            name: group().upload,
            spec: self.web.spec(),
            concurrency: 4,
            time_limit,
            ready: None,
            worker: "w".to_owned(),
        };
        let settings = self.settings;
        let gates = Arc::new([GateRule { name: "api".to_owned(), is_keyed: false, settings }]);
        let content = RawSink::folder(self.folder.path()).content();
        let rejected: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let log = rejected.clone();
        let uploader = HttpUploader::new(http, self.store.clone(), content).unwrap();
        let uploader = uploader.with_gates(gates, vec![declared()].into());
        let uploader = uploader.with_observer(Arc::new(move |event| {
            if let UploadEvent::Rejected(..) = event {
                log.lock().unwrap().push(Instant::now());
            }
        }));
        let request = UploadRequest::new(group()).under(self.lease);
        let report = soon(uploader.upload_pending(&request)).await.unwrap();
        let rejected = rejected.lock().unwrap().clone();
        (report, rejected)
    }

    /// The names that arrived, each as often as it did.
    fn arrived(&self) -> Vec<String> {
        let seen = self.web.seen();
        let names = seen.iter().map(|seen| seen.header("redrive-item").unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort_by_key(|name| name.parse::<usize>().unwrap());
        names
    }

    async fn gate(&self) -> GateRecord {
        self.store.gate_rows(&[("api", "")]).await.unwrap().pop().unwrap()
    }
}

fn names(items: std::ops::Range<usize>) -> Vec<String> {
    items.map(|n| n.to_string()).collect()
}

// GAT-3, GAT-4
#[tokio::test]
async fn items_that_a_closing_keeps_back_do_not_block_the_probe() {
    use Reply::{Accept, Hang, Limit};
    // The last of four lanes lets four more items through, and is refused with the first of them.
    let replies = &[Hang, Hang, Hang, Accept, Limit];
    let tiles = GatedGroup::new(12, limits(None, Some(8)), replies).await;
    let (report, _) = tiles.send(Duration::from_millis(300)).await;
    assert_eq!(tiles.arrived(), names(0..12), "each once: {report:?}");
    let gate = tiles.gate().await;
    // With more than four items on their way when it closed, too few are left to open it.
    let opens = [GateStatus::Open, GateStatus::Ramping].contains(&gate.state.status);
    assert!(opens && gate.held.all == 0, "{gate:?}");
}

// GAT-4
#[tokio::test]
async fn a_probe_whose_content_is_missing_leaves_its_place_to_another() {
    let tiles = GatedGroup::new(6, limits(None, None), &[]).await;
    fs::remove_file(tiles.folder.path().join("0")).unwrap();
    tiles.close_until_now().await;
    let (report, rejected) = tiles.send(LONG).await;
    assert_eq!(tiles.arrived(), names(1..6), "{report:?}");
    assert_eq!(rejected.len(), 1, "the item without content: {report:?}");
    let gate = tiles.gate().await;
    assert!(gate.is_open() && gate.held.all == 0, "{gate:?}");
}

// GAT-4
#[tokio::test]
async fn a_probe_with_which_the_upload_ends_leaves_its_place_at_once() {
    let tiles = GatedGroup::new(6, limits(None, Some(8)), &[Reply::RefuseSender]).await;
    tiles.close_until_now().await;
    let (report, _) = tiles.send(LONG).await;
    assert!(report.refusal.is_some(), "{report:?}");
    assert_eq!(tiles.arrived(), names(0..1), "no more items are sent");
    let gate = tiles.gate().await;
    assert_eq!(gate.held.all, 0, "although the group is held: {gate:?}");
}

// GAT-3, GAT-5
#[tokio::test]
async fn an_item_that_waits_for_its_start_time_is_kept_back_when_its_gate_closes() {
    // Two items are let through at once: the second starts a quarter of a second later.
    let tiles = GatedGroup::new(4, limits(Some("250/min"), None), &[Reply::Limit]).await;
    let (report, rejected) = tiles.send(LONG).await;
    assert_eq!(tiles.arrived(), names(0..4), "{report:?}");
    let closed_at = rejected[0];
    let arrivals = tiles.arrivals.lock().unwrap().clone();
    let while_closed = closed_at..closed_at + Duration::from_millis(700);
    let early = arrivals.iter().filter(|at| while_closed.contains(at)).count();
    assert_eq!(early, 0, "closed at {closed_at:?}, requests at {arrivals:?}");
}
