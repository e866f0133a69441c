//! Several worker processes that share the limit of one service: without gates, behind a gate that learns of the limit from
//! refusals, and behind one that knows the rate.

use std::{env, process::Stdio, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use redrive::{
    StoreUrl,
    http::{Method, Uri},
};
use redrive_core::{GateSettings, Policy, PolicySpec};
use redrive_engine::{Engine, Handler, HttpHandler, HttpSpec, Queue, Stopper, Until};
use redrive_store::GateRule;
use tokio::{process::Command, task::JoinSet, time::timeout};

use crate::{
    bench_store::{BenchStore, open_store},
    error::{BenchError, failed},
    gates::{GatesBenchArgs, Spread},
    limited_api::{ApiReport, LimitedApi, RATE},
    runs::{QUEUE, submit},
};

/// A program that sends requests for runs, as a worker on one of several hosts does.
#[derive(Debug, Args)]
pub(crate) struct CallServiceArgs {
    #[arg(long)]
    url: Uri,
    #[arg(long, value_enum)]
    gate: ServiceGate,
    #[arg(long)]
    connections: u16,
}

/// What stands before the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServiceGate {
    None,
    /// Closes when the service refuses a request.
    Plain,
    /// Knows the limit.
    Rate,
}

/// Where a worker process finds the store: other users may see arguments, and a URL may have a password.
const STORE: &str = "REDRIVE_BENCH_STORE";

/// Requests of a worker process in flight at most: far more than the service allows.
const CONCURRENCY: usize = 16;

/// Longer than any kind takes.
const PATIENCE: Duration = Duration::from_secs(600);

impl ServiceGate {
    const ALL: [Self; 3] = [Self::None, Self::Plain, Self::Rate];

    fn name(self) -> &'static str {
        match self {
            Self::None => "no gate",
            Self::Plain => "a gate",
            Self::Rate => "a gate with the rate",
        }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Plain => "plain",
            Self::Rate => "rate",
        }
    }

    fn rules(self) -> Result<Vec<GateRule>, BenchError> {
        let rate = match self {
            Self::None => return Ok(Vec::new()),
            Self::Plain => None,
            Self::Rate => Some(format!("{RATE}/s").parse().map_err(failed)?),
        };
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(10));
        let settings = GateSettings::new(rate, None, None, base, cap).map_err(failed)?;
        let name = format!("service-{}", self.argument());
        Ok(vec![GateRule { name, is_keyed: false, settings }])
    }
}

pub(crate) async fn measure(
    args: &GatesBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Spread>, BenchError> {
    let count = (1_000.0 * args.scale).ceil() as usize;
    let mut reports: Vec<(ServiceGate, ApiReport)> = Vec::new();
    for round in 0..usize::from(args.request_rounds) {
        let mut gates = ServiceGate::ALL;
        gates.rotate_left(round % ServiceGate::ALL.len());
        for gate in gates {
            reports.push((gate, turn(args, bench_store, gate, count).await?));
        }
    }
    let mut rows = Vec::new();
    for gate in ServiceGate::ALL {
        let of = |value: fn(&ApiReport) -> f64| -> Vec<f64> {
            let of_gate = reports.iter().filter(|(it, _)| *it == gate);
            of_gate.map(|(_, report)| value(report)).collect()
        };
        let name = gate.name();
        rows.extend([
            Spread::new(format!("requests refused, {name}"), &of(|it| it.refused * 100.0), "%"),
            Spread::new(format!("allowance used, {name}"), &of(|it| it.used * 100.0), "%"),
            Spread::new(format!("time, {name}"), &of(|it| it.seconds), "s"),
        ]);
    }
    Ok(rows)
}

/// Runs that several worker processes share, and what the service saw of them.
async fn turn(
    args: &GatesBenchArgs,
    bench_store: &BenchStore,
    gate: ServiceGate,
    count: usize,
) -> Result<ApiReport, BenchError> {
    let api = LimitedApi::start()?;
    submit(&bench_store.open().await?, count).await?;
    let program = env::current_exe().map_err(failed)?;
    let mut workers = JoinSet::new();
    for _ in 0..args.workers {
        let mut command = Command::new(&program);
        command
            .args(["call-service", "--url", &api.url().to_string(), "--gate", gate.argument()])
            .args(["--connections", &args.connections.to_string()])
            .env(STORE, bench_store.url_with_password())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let mut worker = command.spawn().map_err(failed)?;
        workers.spawn(async move { timeout(PATIENCE, worker.wait()).await });
    }
    while let Some(ended) = workers.join_next().await {
        let Ok(status) = ended.map_err(failed)? else {
            return Err(BenchError::new(format!("the runs are not done after {PATIENCE:?}")));
        };
        let status = status.map_err(failed)?;
        if !status.success() {
            return Err(BenchError::new(format!("a worker process ended with {status}")));
        }
    }
    let report = api.report();
    if report.allowed as usize != count {
        let allowed = report.allowed;
        return Err(BenchError::new(format!("{allowed} requests were allowed for {count} runs")));
    }
    Ok(report)
}

/// Handles runs until none is left, as one of several processes.
pub(crate) async fn call_service(args: &CallServiceArgs) -> Result<(), BenchError> {
    let url = env::var(STORE).map_err(failed)?;
    let url: StoreUrl = url.parse().map_err(|_| BenchError::usage("the store has no valid URL"))?;
    let store = open_store(&url, args.connections).await?;
    let handler = HttpHandler::new(HttpSpec::new(Method::POST, args.url.clone()));
    let handler: Arc<dyn Handler> = Arc::new(handler.map_err(failed)?);
    let policy = PolicySpec { max_deferrals: 10_000, ..PolicySpec::default() };
    let queue = Queue::new(QUEUE, handler)
        .with_policy(Policy::new(policy).map_err(failed)?)
        .with_concurrency(CONCURRENCY)
        .with_gates(args.gate.rules()?);
    let (_stopper, stop) = Stopper::new();
    Engine::new(store).with_queue(queue).run(stop, Until::Drained).await.map_err(failed)
}
