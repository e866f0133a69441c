//! The server: the overview of a large store, runs submitted over HTTP, and open pages.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::Args;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use jiff::Timestamp;
use redrive::{Control, PartitionRules, RawSink, StoreUrl};
use redrive_engine::{Clock, SystemClock, random_worker_id};
use redrive_ops::Ops;
use redrive_server::{Access, Server, ServerLimits, ServerSetup, Uploads};
use redrive_store::Store;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::{
    bench_store::{BenchStore, working_folder},
    error::{BenchError, failed},
    measurement::Measurement,
    redrive_store::RedriveStore,
    run_backend::{PAYLOAD, RunBackend},
    server_data::{fill_partitions, fill_runs, finish},
    sizes::{scale, seconds},
    usage::{cpu_time, median, peak_memory},
};

#[derive(Debug, Args)]
pub(crate) struct ServerBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is a store of a million runs and 100 000 partitions, 500 requests of the
    /// overview, and 100 000 runs to submit
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Open pages that the server keeps up to date
    #[arg(long, default_value = "200", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=300))]
    pages: u16,

    /// How long the pages stay open while nothing happens
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    seconds: f64,

    /// Connections to PostgreSQL; the default is that of a store
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// The interval between requests of the overview, whether or not the previous one was answered.
const VIEW_INTERVAL: Duration = Duration::from_millis(20);

/// One in this many requests also reads the age of the figures.
const VIEWS_PER_AGE: usize = 5;

/// The worker finishes `WORK_BATCH` runs in each interval, so that each view has something new.
const WORK_INTERVAL: Duration = Duration::from_millis(50);
const WORK_BATCH: usize = 100;

/// Runs in one request, clients that send requests, and runs in one call of the store.
const HTTP_BATCH: usize = 100;
const CLIENTS: usize = 4;
const STORE_BATCH: usize = 1_000;

/// The server and the store take this many turns, so that a slow minute affects both.
const ROUNDS: usize = 5;

/// How long the server may take to finish open requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(12);

pub(crate) async fn run(
    args: &ServerBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, args.connections).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &ServerBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let folder = working_folder()?;
    let raw = RawSink::folder(folder.path().join("raw"));
    let store = bench_store.open().await?;
    let control = Control::new(store.clone(), PartitionRules::default(), raw.clone());
    let many = |at_one: f64| (at_one * args.scale).ceil() as usize;
    fill_runs(&store, many(1_000_000.0), finish).await?;
    fill_partitions(&control, many(100_000.0).max(20)).await?;

    let ops = Ops::new(store.clone(), None, PartitionRules::default(), raw);
    let setup = ServerSetup {
        ops,
        access: Access::default(),
        pipelines: Vec::new(),
        uploads: Uploads::new(),
        archive: None,
        limits: ServerLimits::default(),
        plans: redrive_engine::PlanExecutor::new(
            store.clone(),
            redrive_store::WorkerId("server".to_owned()),
        ),
        write_times: Default::default(),
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::listen(address, setup).await.map_err(failed)?;
    let client = ServerClient::new(server.address());
    let (stopper, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        _ = stopped.await;
    }));
    let views = many(500.0).max(VIEWS_PER_AGE);
    let mut measurements = measure_overview(&client, &store, views).await?;
    measurements.push(measure_submits(&client, &store, many(100_000.0)).await?);
    measurements.push(measure_open_pages(&client, args).await?);
    measurements.extend(peak_memory().map(|peak| Measurement::alone("peak memory", peak, "MB")));
    drop(stopper);
    // A client that keeps its connection open must not keep the benchmark from ending.
    _ = tokio::time::timeout(STOP_TIMEOUT, serving).await;
    Ok(measurements)
}

#[derive(Clone)]
struct ServerClient {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl ServerClient {
    fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), address }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<hyper::body::Incoming>, BenchError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(failed)?;
        let answer = self.client.request(request).await.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            other => Err(BenchError::new(format!("{path} returned {other}; 200 was expected"))),
        }
    }

    async fn get(&self, path: &str) -> Result<Bytes, BenchError> {
        let answer = self.request(Method::GET, path, Bytes::new()).await?;
        Ok(answer.into_body().collect().await.map_err(failed)?.to_bytes())
    }

    /// Milliseconds for the overview page.
    async fn view_overview(&self) -> Result<f64, BenchError> {
        let start = Instant::now();
        self.get("/").await?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// The age of the figures of the overview, in seconds.
    async fn overview_age(&self) -> Result<f64, BenchError> {
        let overview = self.get("/v1/overview").await?;
        let overview: serde_json::Value = serde_json::from_slice(&overview).map_err(failed)?;
        let at = overview.get("at").and_then(|at| at.as_str()).unwrap_or_default();
        let at: Timestamp = at.parse().map_err(failed)?;
        Ok(SystemClock.now().duration_since(at).as_secs_f64())
    }

    async fn submit(&self, batch: Bytes) -> Result<(), BenchError> {
        let answer = self.request(Method::POST, "/v1/runs", batch).await?;
        let answer = answer.into_body().collect().await.map_err(failed)?.to_bytes();
        let accepted = format!("{{\"accepted\":{HTTP_BATCH},");
        if answer.starts_with(accepted.as_bytes()) {
            Ok(())
        } else {
            Err(BenchError::new("/v1/runs did not accept every run"))
        }
    }
}

/// How long the overview takes while a worker finishes runs, and how old its figures are.
async fn measure_overview(
    client: &ServerClient,
    store: &Arc<dyn Store>,
    views: usize,
) -> Result<Vec<Measurement>, BenchError> {
    let first = client.view_overview().await?;
    let mut worker = RedriveStore::new(store.clone(), &random_worker_id().map_err(failed)?)?;
    let work = async {
        let mut interval = tokio::time::interval(WORK_INTERVAL);
        loop {
            interval.tick().await;
            worker.insert(WORK_BATCH).await?;
            worker.claim(WORK_BATCH).await?;
            worker.finish(WORK_BATCH).await?;
        }
    };
    let view = async {
        let mut interval = tokio::time::interval(VIEW_INTERVAL);
        let (mut pages, mut ages) = (JoinSet::new(), JoinSet::new());
        for number in 0..views {
            interval.tick().await;
            let viewer = client.clone();
            pages.spawn(async move { viewer.view_overview().await });
            if number % VIEWS_PER_AGE == 0 {
                let viewer = client.clone();
                ages.spawn(async move { viewer.overview_age().await });
            }
        }
        Ok::<_, BenchError>((sorted_results(pages).await?, sorted_results(ages).await?))
    };
    let (times, ages) = tokio::select! {
        viewed = view => viewed?,
        worked = work => return worked,
    };
    let of = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok(vec![
        Measurement::alone("overview page, the first", first, "ms"),
        Measurement::alone("overview page, p50", of(50), "ms"),
        Measurement::alone("overview page, p99", of(99), "ms"),
        Measurement::alone(
            "overview page, longest",
            times.last().copied().unwrap_or_default(),
            "ms",
        ),
        Measurement::alone(
            "age of its figures, most",
            ages.last().copied().unwrap_or_default(),
            "s",
        ),
    ])
}

/// The results of all tasks, sorted.
async fn sorted_results(
    mut tasks: JoinSet<Result<f64, BenchError>>,
) -> Result<Vec<f64>, BenchError> {
    let mut results = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        results.push(ended.map_err(failed)??);
    }
    results.sort_unstable_by(f64::total_cmp);
    Ok(results)
}

/// Runs submitted per second over HTTP, and by the store alone.
async fn measure_submits(
    client: &ServerClient,
    store: &Arc<dyn Store>,
    count: usize,
) -> Result<Measurement, BenchError> {
    let run = format!(r#"{{"queue":"submitted","payload":{PAYLOAD}}}"#);
    let batch = Bytes::from(format!("[{}]", vec![run.as_str(); HTTP_BATCH].join(",")));
    let mut bare = RedriveStore::new(store.clone(), &random_worker_id().map_err(failed)?)?;
    let share = count.div_ceil(ROUNDS);
    let (mut over_http, mut by_store) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let batches = share.div_ceil(STORE_BATCH);
        let start = Instant::now();
        for _ in 0..batches {
            bare.insert(STORE_BATCH).await?;
        }
        by_store.push((batches * STORE_BATCH) as f64 / start.elapsed().as_secs_f64());

        let each = share.div_ceil(HTTP_BATCH * CLIENTS);
        let start = Instant::now();
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (client, batch) = (client.clone(), batch.clone());
            clients.spawn(async move {
                for _ in 0..each {
                    client.submit(batch.clone()).await?;
                }
                Ok::<(), BenchError>(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.map_err(failed)??;
        }
        let runs = (each * CLIENTS * HTTP_BATCH) as f64;
        over_http.push(runs / start.elapsed().as_secs_f64());
    }
    let (over_http, by_store) = (median(over_http), median(by_store));
    Ok(Measurement::rate("runs submitted over HTTP, by 100", over_http, by_store))
}

/// The cost of open pages while nothing happens, as the share of a core that this process uses. The process also
/// reads the events of the pages, as browsers would.
async fn measure_open_pages(
    client: &ServerClient,
    args: &ServerBenchArgs,
) -> Result<Measurement, BenchError> {
    let (notify, mut notified) = mpsc::channel(usize::from(args.pages));
    let mut pages = JoinSet::new();
    for _ in 0..args.pages {
        let (client, notify) = (client.clone(), notify.clone());
        pages.spawn(async move {
            let mut events =
                client.request(Method::GET, "/events", Bytes::new()).await?.into_body();
            while let Some(frame) = events.frame().await {
                frame.map_err(failed)?;
                // Only the first event of each page is waited for.
                _ = notify.try_send(());
            }
            Ok::<(), BenchError>(())
        });
    }
    for _ in 0..args.pages {
        tokio::select! {
            _ = notified.recv() => {}
            Some(ended) = pages.join_next() => {
                ended.map_err(failed)??;
                return Err(BenchError::new("the server closed the events of an open page"));
            }
        }
    }
    let (start, before) = (Instant::now(), cpu_time());
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    let taken = cpu_time().saturating_sub(before);
    let share = taken.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    Ok(Measurement::alone("a core for open pages, idle", share, "%"))
}
