//! `redrive up`: everything that a configuration declares, in one process (OPS-1, OPS-6).
//!
//! What can be found wrong is found before anything begins: handlers, the files of `[up]`, the store and the
//! address come first, work last. So a port that is taken leaves nothing half started.

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
    worker_set::{DEFAULT_GRACE, WorkerSelection, WorkerSet, new_worker_id},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Runs in one process what `redrive worker`, `redrive daemon` and `redrive serve` run apart: workers for all queues,
sources and pipelines, schedules, retries, the API and the dashboard. A PostgreSQL database is migrated first. With
[up] in the file, runs are submitted and pipelines started, each once. Several may share a store, each with an
address of its own. On a terminal the last line says how things stand, and the log scrolls above it.

Ctrl-C or SIGTERM: takes no more work and no more requests, lets what is running end within the grace time, hands
the rest back uncounted, and ends with 130 or 143. A second signal ends at once.

Examples:
  redrive up                                from redrive.toml, here or in a folder above
  redrive up examples/quickstart
  redrive up --listen 127.0.0.1:0           on any free port
  redrive up --store postgres://redrive@db.example/redrive --log-format json 2>> up.log")]
pub(crate) struct UpArgs {
    /// The folder of the redrive.toml [default: here or a folder above, or as --config says]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Where to listen; port 0 takes any free one [default: as the file says, else 127.0.0.1:7878]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// How often failed partitions are looked at
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    interval: HumanDuration,

    /// How long running work may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_GRACE, allow_hyphen_values = true)]
    grace: HumanDuration,
}

/// Runs `up` until a signal.
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
    crate::spans::start(&chosen).await?;
    let server = listen(&ops, args.listen, &process).await?;
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
    let engine = workers.engine(ops.store().clone(), &config);
    let daemon = Daemon::new(ops.partitions().clone(), daemon_name(&process));
    let (stopper, stop) = Stopper::new();
    let mut work = Box::pin(async {
        tokio::join!(
            engine.run_as(process, stop.clone(), Until::Stopped),
            daemon.run(interval, stop.clone())
        )
    });
    let ended = tokio::select! {
        exit = signals.next() => Ok(exit),
        failure = serving.ended() => Err(failure),
        // It looks at partitions until it is told to stop.
        _ = &mut work => return Err(CommandError::new(Exit::Error, "the daemon ended by itself")),
    };
    drop(status);
    stopper.stop();
    tracing::info!("stopping: running work may end, the rest is handed back");
    let closing = async {
        match ended {
            Ok(exit) => {
                let (_, served) = tokio::join!(&mut work, serving.stop());
                served.map(|()| exit)
            }
            Err(failure) => {
                (&mut work).await;
                Err(failure)
            }
        }
    };
    // Dropping the work ends every handler that is still running.
    tokio::select! {
        ended = closing => ended,
        again = signals.next() => Ok(again),
    }
}
