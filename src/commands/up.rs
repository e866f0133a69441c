//! `redrive up`: runs everything that a configuration declares, in one process (OPS-1, OPS-6).
//!
//! The command validates the handlers and the files of `[up]`, opens the store and binds the address before it
//! starts any work. So a port that is in use leaves nothing half started.

mod seed;
mod status;
mod summary;

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use redrive::{Daemon, HumanDuration, Stopper, StoreUrl, Until};

use self::{seed::Seed, status::StatusLine, summary::StartupSummary};
use super::daemon::{checked_interval, daemon_name};
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    server_setup::{RunningServer, listen},
    signals::Signals,
    worker_set::{DEFAULT_GRACE, WorkerSelection, WorkerSet, new_worker_id, plan_executor},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Runs `redrive worker`, `redrive daemon` and `redrive serve` in one process: workers for all queues, sources and
pipelines, schedules, retries, the API and the dashboard. The command first migrates a PostgreSQL database, and then
submits the runs and starts the pipelines of [up], each once. Several processes may share a store, each with its own
address. On a terminal the last line shows the status, and the log scrolls above it.

On Ctrl-C or SIGTERM the process claims no more work, accepts no more requests, waits for running work within the grace
time, releases the rest uncounted, and exits with 130 or 143. A second signal ends the process at once.

Examples:
  redrive up                                use redrive.toml of this folder or of a folder above
  redrive up examples/quickstart
  redrive up --listen 127.0.0.1:0           listen on any free port
  redrive up --store postgres://redrive@db.example/redrive --log-format json 2>> up.log")]
pub(crate) struct UpArgs {
    /// The folder of redrive.toml [default: this folder or a folder above, or --config]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// The address to listen on; port 0 takes any free port [default: `listen` in [server], else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// The time between two checks of failed partitions
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    interval: HumanDuration,

    /// The time that running work has to finish after a signal
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_GRACE, allow_hyphen_values = true)]
    grace: HumanDuration,
}

pub(crate) async fn run(args: UpArgs, context: &Context) -> Result<Exit, CommandError> {
    let within = args.folder.as_deref().map(|folder| context.in_folder(folder)).transpose()?;
    let context = within.as_ref().unwrap_or(context);
    let interval = checked_interval(args.interval)?;
    let config = context.require_config()?;
    let all = WorkerSelection {
        queues: None,
        sources: None,
        pipelines: None,
        notifiers: None,
        concurrency: None,
        grace: args.grace,
    };
    let workers = WorkerSet::new(&config, &all)?;
    let seed = Seed::read(&config, &workers).await?;
    let mut signals = Signals::new()?;
    let process = new_worker_id()?;
    let chosen = context.store(Some(&config))?;
    // SQLite is migrated when it is opened.
    if let StoreUrl::Postgres(_) = &chosen.url {
        for step in chosen.migrate().await? {
            tracing::info!(
                version = step.migration.version,
                name = step.migration.name,
                "migrated"
            );
        }
    }
    let ops = OpenStore::open(context, IfMissing::Create).await?;
    #[cfg(feature = "otel")]
    crate::spans::start(&chosen, context).await?;
    let server = listen(&ops, args.listen, &process, context).await?;
    seed.apply(&ops).await?;

    let summary = StartupSummary {
        config: context.config_name()?,
        store: &chosen,
        raw: config.raw.clone().in_folder(&config.folder).to_string(),
        names: workers.names(),
        interval: args.interval,
        address: server.address(),
        process: &process,
    };
    summary.print(context);
    let status = StatusLine::start(server.watch(), server.address(), context);
    let mut serving = RunningServer::start(server);
    let engine = workers.engine(ops.store().clone(), &config, context);
    let daemon = Daemon::new(ops.partitions().clone(), daemon_name(&process));
    let plans = plan_executor(ops.partitions().clone(), process.clone(), Some(&config));
    let (stopper, stop) = Stopper::new();
    let mut work = Box::pin(async {
        tokio::join!(
            engine.run_as(process, stop.clone(), Until::Stopped),
            daemon.run(interval, stop.clone()),
            plans.run(stop.clone()),
        )
    });
    let ended = tokio::select! {
        exit = signals.next() => Ok(exit),
        error = serving.ended() => Err(error),
        // The daemon runs until it is stopped.
        _ = &mut work => return Err(CommandError::new(Exit::Error, "the daemon stopped unexpectedly")),
    };
    drop(status);
    stopper.stop();
    tracing::info!("stopping: waiting for running work; units not finished in time are released");
    let closing = async {
        match ended {
            Ok(exit) => {
                let (_, served) = tokio::join!(&mut work, serving.stop());
                served.map(|()| exit)
            }
            Err(error) => {
                (&mut work).await;
                Err(error)
            }
        }
    };
    // Dropping the future kills every handler that is still running.
    tokio::select! {
        ended = closing => ended,
        again = signals.next() => Ok(again),
    }
}
