//! A server on a SQLite file with something of every kind in it, some of which failed.

use std::sync::Arc;

use redrive_core::{Class, Code, Failure, ItemEvent, Message, PartitionKey};
use redrive_engine::{
    Call, Clock, Engine, IteratorSource, Outcome, PartitionRules, Pipeline, PlanExecutor, Queue,
    RawSink, RowWriter, Source, Stage, Stopper, SystemClock, Until, extractor_fn, handler_fn,
};
use redrive_ops::Ops;
use redrive_server::{Access, NamedToken, Role, Server, ServerLimits, ServerSetup, Token};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{
    AddedItem, AuditContext, ItemGroup, ItemMove, Lane, NamedPartition, NewItem, NewRun, Operator,
    PartitionAction, Store, WorkerId,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{client::Client, receiver};

pub(crate) const OPERATOR: &str = "operator; of \"things\" %41";
pub(crate) const VIEWER: &str = "viewer-token-0123456789";
pub(crate) const SUBMITTER: &str = "submitter-token-0123456789";
pub(crate) const REVOKED: &str = "revoked-token-0123456789";

/// Access with a token of each role, and one that was revoked.
pub(crate) fn guarded_access() -> Access {
    let token = |name, role, text| NamedToken::new(name, role, Token::new(text).unwrap());
    Access {
        tokens: vec![
            token("operator", Role::Operator, OPERATOR),
            token("viewer", Role::Viewer, VIEWER),
            token("ci", Role::Submitter, SUBMITTER),
            NamedToken { revoked: true, ..token("old", Role::Operator, REVOKED) },
        ],
        hosts: vec!["redrive.example".to_owned()],
        trusted_proxies: vec!["127.0.0.9".parse().unwrap()],
    }
}

/// Runs of each fate, samples that die, items that are given up.
pub(crate) const RUNS: usize = 25;
pub(crate) const DEAD: usize = 9;
pub(crate) const ITEMS: usize = 23;

/// A server that runs.
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) folder: TempDir,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    /// One with something of everything.
    pub(crate) async fn full() -> Self {
        Self::saying("the mill stands still").await
    }

    /// One where everything that can be named or said is this text.
    pub(crate) async fn saying(text: &str) -> Self {
        let running = Self::empty().await;
        fill(&running.store, running.folder.path(), text).await;
        running
    }

    pub(crate) async fn empty() -> Self {
        Self::with(Access::default(), ServerLimits::default()).await
    }

    /// One that asks for tokens.
    pub(crate) async fn guarded() -> Self {
        Self::with(guarded_access(), ServerLimits::default()).await
    }

    pub(crate) async fn with(access: Access, limits: ServerLimits) -> Self {
        Self::with_clock(access, limits, Arc::new(SystemClock)).await
    }

    pub(crate) async fn with_clock(
        access: Access,
        limits: ServerLimits,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("store.db"));
        let options = SqliteOptions::default();
        let store = SqliteStore::open(location, options, SystemClock.now()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let raw = RawSink::folder(folder.path().join("raw"));
        let ops = Ops::new(store.clone(), None, PartitionRules::default(), raw).with_clock(clock);
        let pipelines = vec![pipeline("it stands still")];
        let uploads = receiver::uploads(&store);
        let archive = Some(folder.path().join("archive"));
        let plans = PlanExecutor::new(store.clone(), WorkerId("server".to_owned()))
            .with_partitions(ops.partitions().clone());
        let site = ServerSetup {
            ops,
            access,
            pipelines,
            uploads,
            archive,
            limits,
            plans,
            write_times: Default::default(),
        };
        let server = Server::listen("127.0.0.1:0".parse().unwrap(), site).await.unwrap();
        let client = Client::new(server.address());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(async {
            // A dropped sender means the same.
            _ = stopped.await;
        }));
        Self { client, store, folder, stop, serving }
    }

    /// Tells it to stop, and waits until it has. What it kept is left.
    pub(crate) async fn end(self) -> TempDir {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap();
        self.folder
    }

    /// What the journal has: actor and action.
    pub(crate) async fn journal(&self) -> Vec<(String, String)> {
        let page = self.store.journal_page(&Default::default(), 0, 10_000).await.unwrap();
        page.into_iter().map(|row| (row.entry.actor, row.entry.action)).collect()
    }
}

pub(crate) fn key(customer: &str, day: u32) -> PartitionKey {
    let day = format!("2026-01-{day:02}").parse().unwrap();
    PartitionKey::new("ads", customer, "daily", day).unwrap()
}

fn never(text: &str) -> Outcome {
    Outcome::Failed(Failure::reported(Some(Class::Final), Code::Number(400), text))
}

/// Grinds odd samples, and finds the others bad.
fn pipeline(text: &str) -> Pipeline {
    let text = text.to_owned();
    let work = handler_fn(move |call: Call| {
        let (data, text) = (call.details["data"].clone(), text.clone());
        async move {
            match data["n"].as_u64() {
                Some(n) if n % 2 == 1 => Outcome::Answered { value: Some(data), verdict: None },
                _ => never(&text),
            }
        }
    });
    let source = IteratorSource::new("numbers", || (0..DEAD as u64 * 2).map(|n| json!({ "n": n })));
    Pipeline::new("flour", Arc::new(source)).with_stage(Stage::new("grind", work))
}

async fn fill(store: &Arc<dyn Store>, folder: &std::path::Path, text: &str) {
    let now = SystemClock.now();
    let by = Operator { actor: "filler".to_owned(), at: now, reason: Some(text.to_owned()) };
    let run = |n: usize| {
        let payload = json!({ "n": n, "text": text });
        NewRun::new("work", &payload, now).unwrap().with_category(["a", "b"][n % 2]).unwrap()
    };
    let runs: Vec<NewRun> = (0..RUNS).map(run).collect();
    store.submit_runs(&runs, now).await.unwrap();
    let customer = text.replace('/', "-");
    let customer: String = customer.chars().take(60).collect();
    let days = (1..=5).flat_map(|day| [key("1234", day), key(&customer, day)]);
    let days: Vec<NamedPartition> = days.map(NamedPartition::from).collect();
    let order =
        AuditContext { by: by.clone(), command: "fill".to_owned(), filter: None, flags: vec![] };
    let action = PartitionAction::Backfill { force_pending: false, lane: Lane::Fresh };
    store.change_partitions(&action, &days, &order).await.unwrap();
    let pipeline = pipeline(text);
    store.start_pipeline_run(&pipeline.new_run(), &by).await.unwrap();
    let (said, told) = (text.to_owned(), text.to_owned());
    let queue = handler_fn(move |call: Call| {
        let text = said.clone();
        async move {
            match call.details["payload"]["n"].as_u64() {
                Some(n) if n % 3 > 0 => {
                    Outcome::Answered { value: Some(json!(text)), verdict: None }
                }
                _ => never(&text),
            }
        }
    });
    let source = extractor_fn(move |call: Call, rows: RowWriter| {
        let text = told.clone();
        async move {
            match call.details["logical_date"].as_str() {
                Some("2026-01-01") => {
                    rows.row(&json!({ "n": 1 })).await.unwrap();
                    Outcome::Answered { value: None, verdict: None }
                }
                _ => never(&text),
            }
        }
    });
    let sink = RawSink::folder(folder.join("raw"));
    let engine = Engine::new(store.clone())
        .with_queue(Queue::new("work", queue))
        .with_source(Source::new("ads", source, sink))
        .with_pipeline(pipeline);
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
    let later = [NewRun::new("later", &Value::Null, now).unwrap()];
    store.submit_runs(&later, now).await.unwrap();
    give_up_items(store, text).await;
}

async fn give_up_items(store: &Arc<dyn Store>, text: &str) {
    let now = SystemClock.now();
    let name: String = text.chars().take(60).collect();
    let item = |n: usize| NewItem {
        group: ItemGroup { upload: "tiles".to_owned(), group: "g".to_owned() },
        name: format!("{n} {name}"),
        content_url: format!("file:tiles/{n}"),
        size_bytes: 7,
        sha256: "ab".repeat(32),
    };
    let by = Operator { actor: "filler".to_owned(), at: now, reason: None };
    let items: Vec<NewItem> = (0..ITEMS).map(item).collect();
    for added in store.add_items(&items, &by).await.unwrap() {
        let AddedItem::Accepted(id) = added else { panic!("{added:?}") };
        for event in [ItemEvent::RejectAttempt, ItemEvent::GiveUp] {
            let reason = Some(Message::clean(text));
            let step = ItemMove { rejection_reason: reason, ..ItemMove::new(id, event, now) };
            store.move_items(&[step]).await.unwrap();
        }
    }
}

/// Lets new runs of the queue, and all that are ready, fail for good.
pub(crate) async fn fail_more(store: &Arc<dyn Store>) {
    let now = SystemClock.now();
    let runs = vec![NewRun::new("work", &json!({}), now).unwrap(); 5];
    store.submit_runs(&runs, now).await.unwrap();
    let queue = handler_fn(|_: Call| async { never("it is still down") });
    let engine = Engine::new(store.clone()).with_queue(Queue::new("work", queue));
    let (_stopper, stop) = Stopper::new();
    engine.run(stop, Until::Drained).await.unwrap();
}
