//! `GET /readyz`.

use std::sync::Arc;

use jiff::Timestamp;
use redrive_engine::{PartitionRules, PlanExecutor, RawSink};
use redrive_ops::Ops;
use redrive_server::{Access, Server, ServerError, ServerLimits, ServerSetup, Uploads};
use redrive_sqlite::{Location, SqliteOptions, SqliteStore};
use redrive_store::{Store, WorkerId};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

pub(crate) fn store(location: Location) -> Arc<dyn Store> {
    let options = SqliteOptions::default();
    Arc::new(SqliteStore::open(location, options, Timestamp::UNIX_EPOCH).unwrap())
}

/// The status line and the body of an answer.
async fn get(server: Server, path: &str) -> (String, String) {
    let address = server.address();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        // A dropped sender means the same.
        let _ = stopped.await;
    }));
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    stop.send(()).unwrap();
    serving.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn site(store: Arc<dyn Store>) -> ServerSetup {
    let ops = Ops::new(store, None, PartitionRules::default(), RawSink::folder("raw"));
    let plans = PlanExecutor::new(ops.store().clone(), WorkerId("server".to_owned()));
    ServerSetup {
        ops,
        access: Access::default(),
        pipelines: Vec::new(),
        uploads: Uploads::new(),
        archive: None,
        limits: ServerLimits::default(),
        plans,
        write_times: Default::default(),
    }
}

async fn listen(store: Arc<dyn Store>) -> Result<Server, ServerError> {
    Server::listen("127.0.0.1:0".parse().unwrap(), site(store)).await
}

#[tokio::test]
async fn a_store_that_answers_is_healthy() {
    let server = listen(store(Location::Memory)).await.unwrap();
    let (status, body) = get(server, "/readyz").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["status"], "ok");
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_healthy_and_tells_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = store(Location::File(path.clone()));
    store.ping().await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let (status, body) = get(listen(store).await.unwrap(), "/readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(body.contains("the store does not answer"), "{body}");
    assert!(!body.contains("store.db"), "{body}");
}

#[tokio::test]
async fn a_store_without_room_is_not_ready_and_the_process_is_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::File(folder.path().join("store.db"));
    let options = SqliteOptions { min_free_bytes: u64::MAX, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(location, options, Timestamp::UNIX_EPOCH).unwrap());
    let (status, body) = get(listen(store.clone()).await.unwrap(), "/readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(body.contains("the store has no room left"), "{body}");
    let (_, doctor) = get(listen(store.clone()).await.unwrap(), "/v1/doctor").await;
    assert!(doctor.contains("bytes are left"), "{doctor}");
    assert_eq!(get(listen(store).await.unwrap(), "/healthz").await.0, "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn an_unknown_page_is_not_found() {
    let server = listen(store(Location::Memory)).await.unwrap();
    assert_eq!(get(server, "/nothing").await.0, "HTTP/1.1 404 Not Found");
}

#[tokio::test]
async fn an_address_in_use_is_refused_by_name() {
    let first = listen(store(Location::Memory)).await.unwrap();
    let again = Server::listen(first.address(), site(store(Location::Memory))).await;
    let error = again.err().unwrap();
    assert!(error.to_string().contains(&first.address().to_string()), "{error}");
}
