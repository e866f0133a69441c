//! The server: the overview of a large store, runs submitted over HTTP, and pages that are open.

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
use redrive::{Control, PartitionRules, RawSink};
use redrive_ops::Ops;
use redrive_engine::{Clock, SystemClock, random_worker_id};
use redrive_server::{Access, Server, ServerLimits, ServerSetup, Uploads};
use redrive_store::Store;
use rustix::time::{ClockId, clock_gettime};
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    contender::{Contender, PAYLOAD, failed},
    place::Place,
    redrive_store::RedriveStore,
    runs::{Measure, peak_memory},
    scale, seconds,
    server_fill::{fill_partitions, fill_runs},
};
use crate::{
    context::Context,
    exit::{Exit, Failure},
    site::Serving,
};

/// The arguments of `bench server`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How much to do, from 0.001 to 100; 1 is a million runs and 100 000 partitions to look at, 500 looks, and
    /// 100 000 runs to submit
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,

    /// Pages that are open and kept up to date
    #[arg(long, default_value = "200", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=300))]
    pages: u16,

    /// How long they are open while nothing happens
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    seconds: f64,

    /// Connections to PostgreSQL; as many as a store has by itself
    #[arg(long, default_value = "10", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    connections: u16,
}

/// How often the overview is asked for, whether or not the one before was answered.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Of so many looks one also asks how old the figures are.
const AGE_EVERY: usize = 5;

/// How often the worker does so many runs, so that there is something new at each look.
const WORK_EVERY: Duration = Duration::from_millis(50);
const WORK: usize = 100;

/// Runs of one request, clients that send them, and runs that the store takes at a time by itself.
const HTTP_BATCH: usize = 100;
const CLIENTS: usize = 4;
const STORE_BATCH: usize = 1_000;

/// The server and the store take turns this often, so that a slow minute hits both.
const ROUNDS: usize = 5;

/// Measures, and removes what it made.
pub(crate) async fn run(arguments: &Arguments, context: &Context) -> Result<Vec<Measure>, Failure> {
    let place = Place::new(context, arguments.connections).await?;
    place.measured(async |place| measure(arguments, place).await).await
}

async fn measure(arguments: &Arguments, place: &Place) -> Result<Vec<Measure>, Failure> {
    let folder = tempfile::Builder::new().prefix("redrive-bench-").tempdir_in(".");
    let raw = RawSink::folder(folder.map_err(failed)?.path().join("raw"));
    let store = place.store().await?;
    let control = Control::new(store.clone(), PartitionRules::default(), raw.clone());
    let many = |at_one: f64| (at_one * arguments.scale).ceil() as usize;
    fill_runs(&store, many(1_000_000.0)).await?;
    fill_partitions(&control, many(100_000.0).max(20)).await?;

    let ops = Ops::new(store.clone(), None, PartitionRules::default(), raw);
    let site = ServerSetup {
        ops,
        access: Access::default(),
        pipelines: Vec::new(),
        uploads: Uploads::new(),
        archive: None,
        limits: ServerLimits::default(),
    };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::listen(here, site).await.map_err(failed)?;
    let visitor = Visitor::new(server.address());
    let serving = Serving::start(server);
    let looks = many(500.0).max(AGE_EVERY);
    let mut measures = look(&visitor, &store, looks).await?;
    measures.push(submit(&visitor, &store, many(100_000.0)).await?);
    measures.push(wait(&visitor, arguments).await?);
    measures.extend(peak_memory().map(|peak| Measure::alone("peak memory", peak, "MB")));
    serving.stop().await?;
    Ok(measures)
}

/// Someone who asks the server.
#[derive(Clone)]
struct Visitor {
    client: Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl Visitor {
    fn new(address: SocketAddr) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { client: Client::builder(TokioExecutor::new()).build(connector), address }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<hyper::body::Incoming>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(failed)?;
        let answer = self.client.request(request).await.map_err(failed)?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            other => Err(Failure::new(Exit::Error, format!("{path} was answered with {other}"))),
        }
    }

    async fn get(&self, path: &str) -> Result<Bytes, Failure> {
        let answer = self.ask(Method::GET, path, Bytes::new()).await?;
        Ok(answer.into_body().collect().await.map_err(failed)?.to_bytes())
    }

    /// Milliseconds that the overview takes.
    async fn look(&self) -> Result<f64, Failure> {
        let start = Instant::now();
        self.get("/").await?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }

    /// How old the figures are that are shown, in seconds.
    async fn age(&self) -> Result<f64, Failure> {
        let overview = self.get("/v1/overview").await?;
        let overview: serde_json::Value = serde_json::from_slice(&overview).map_err(failed)?;
        let at = overview.get("at").and_then(|at| at.as_str()).unwrap_or_default();
        let at: Timestamp = at.parse().map_err(failed)?;
        Ok(SystemClock.now().duration_since(at).as_secs_f64())
    }

    /// Submits a batch.
    async fn submit(&self, batch: Bytes) -> Result<(), Failure> {
        let answer = self.ask(Method::POST, "/v1/runs", batch).await?;
        let answer = answer.into_body().collect().await.map_err(failed)?.to_bytes();
        let accepted = format!("{{\"accepted\":{HTTP_BATCH},");
        if answer.starts_with(accepted.as_bytes()) {
            Ok(())
        } else {
            Err(Failure::new(Exit::Error, "not every run was accepted"))
        }
    }
}

/// What the overview takes while a worker goes on, and how old its figures are.
async fn look(
    visitor: &Visitor,
    store: &Arc<dyn Store>,
    looks: usize,
) -> Result<Vec<Measure>, Failure> {
    let first = visitor.look().await?;
    let mut worker = RedriveStore::new(store.clone(), &random_worker_id().map_err(failed)?)?;
    let working = async {
        let mut beat = tokio::time::interval(WORK_EVERY);
        loop {
            beat.tick().await;
            worker.insert(WORK).await?;
            worker.claim(WORK).await?;
            worker.finish(WORK).await?;
        }
    };
    let looking = async {
        let mut beat = tokio::time::interval(LOOK_EVERY);
        let (mut pages, mut ages) = (JoinSet::new(), JoinSet::new());
        for number in 0..looks {
            beat.tick().await;
            let someone = visitor.clone();
            pages.spawn(async move { someone.look().await });
            if number % AGE_EVERY == 0 {
                let someone = visitor.clone();
                ages.spawn(async move { someone.age().await });
            }
        }
        Ok::<_, Failure>((all(pages).await?, all(ages).await?))
    };
    let (times, ages) = tokio::select! {
        looked = looking => looked?,
        worked = working => return worked,
    };
    let of = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    Ok(vec![
        Measure::alone("overview page, the first", first, "ms"),
        Measure::alone("overview page, p50", of(50), "ms"),
        Measure::alone("overview page, p99", of(99), "ms"),
        Measure::alone("overview page, longest", times.last().copied().unwrap_or_default(), "ms"),
        Measure::alone("age of its figures, most", ages.last().copied().unwrap_or_default(), "s"),
    ])
}

/// What all tasks say, in order.
async fn all(mut tasks: JoinSet<Result<f64, Failure>>) -> Result<Vec<f64>, Failure> {
    let mut said = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        said.push(ended.map_err(failed)??);
    }
    said.sort_unstable_by(f64::total_cmp);
    Ok(said)
}

/// Runs submitted per second over HTTP, and by the store alone.
async fn submit(
    visitor: &Visitor,
    store: &Arc<dyn Store>,
    count: usize,
) -> Result<Measure, Failure> {
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
            let (visitor, batch) = (visitor.clone(), batch.clone());
            clients.spawn(async move {
                for _ in 0..each {
                    visitor.submit(batch.clone()).await?;
                }
                Ok::<(), Failure>(())
            });
        }
        while let Some(ended) = clients.join_next().await {
            ended.map_err(failed)??;
        }
        let runs = (each * CLIENTS * HTTP_BATCH) as f64;
        over_http.push(runs / start.elapsed().as_secs_f64());
    }
    let median = |mut rates: Vec<f64>| {
        rates.sort_unstable_by(f64::total_cmp);
        rates.get(ROUNDS / 2).copied().unwrap_or_default()
    };
    let (over_http, by_store) = (median(over_http), median(by_store));
    Ok(Measure::beside("runs submitted over HTTP, by 100", over_http, by_store))
}

/// What pages cost that are open while nothing happens: the share of a core that this process takes, which
/// has their browsers' part in it.
async fn wait(visitor: &Visitor, arguments: &Arguments) -> Result<Measure, Failure> {
    let (told, mut heard) = mpsc::channel(usize::from(arguments.pages));
    let mut pages = JoinSet::new();
    for _ in 0..arguments.pages {
        let (visitor, told) = (visitor.clone(), told.clone());
        pages.spawn(async move {
            let mut events = visitor.ask(Method::GET, "/events", Bytes::new()).await?.into_body();
            while let Some(frame) = events.frame().await {
                frame.map_err(failed)?;
                // The first of them is waited for, and nothing later.
                _ = told.try_send(());
            }
            Ok::<(), Failure>(())
        });
    }
    for _ in 0..arguments.pages {
        tokio::select! {
            _ = heard.recv() => {}
            Some(ended) = pages.join_next() => {
                ended.map_err(failed)??;
                return Err(Failure::new(Exit::Error, "a page was let go"));
            }
        }
    }
    let (start, before) = (Instant::now(), processor_time());
    tokio::time::sleep(Duration::from_secs_f64(arguments.seconds)).await;
    let taken = processor_time().saturating_sub(before);
    let share = taken.as_secs_f64() / start.elapsed().as_secs_f64() * 100.0;
    Ok(Measure::alone("a core for open pages, idle", share, "%"))
}

/// How long processors have worked for this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
