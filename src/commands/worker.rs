//! `redrive worker`: does the work of the queues, sources and pipelines that the configuration declares
//! (OPS-6, OPS-7).

use clap::Args;
use redrive::{HumanDuration, Stopper, Until};

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    signals::Signals,
    worker_set::{DEFAULT_GRACE, WorkerSelection, WorkerSet, new_worker_id},
};

/// The most units of one queue, source or stage at once.
const MAX_CONCURRENCY: i64 = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C or SIGTERM: takes no more work, lets running work end within the grace time, hands the rest
back uncounted, and ends with 130 or 143. A second signal ends at once; what was held then comes back when
its lease ends. Any number of workers share a store; one PostgreSQL database serves many hosts, once
`redrive db migrate` has prepared it.

A source's new days become pending when their time has come, by its schedule in UTC. --drain ignores schedules.
Whoever a [[notify]] names is told of give-ups, aborts and dead letters (docs/notifications.md).
Runs of pipelines are those that `redrive pipeline run --detach` started, and all others that go on.

Examples:
  redrive worker
  redrive worker --drain                    end when nothing is due, now or later
  redrive worker --queues verify,notify --concurrency 32
  redrive worker --sources ads              this source, and no queue or pipeline
  redrive worker --pipelines score          the runs of this pipeline alone
  redrive worker --log-format json 2>> worker.log")]
pub(crate) struct WorkerArgs {
    /// These queues, separated by commas [default: all, unless sources or pipelines are named]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// These sources, separated by commas [default: all, unless queues or pipelines are named]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sources: Option<Vec<String>>,

    /// These pipelines, separated by commas [default: all, unless queues or sources are named]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pipelines: Option<Vec<String>>,

    /// These notifiers, separated by commas [default: all, unless anything else is named]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    notifiers: Option<Vec<String>>,

    /// Units at once in each queue, source and stage [default: as the file says]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: Option<u32>,

    /// How long running work may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_GRACE, allow_hyphen_values = true)]
    grace: HumanDuration,

    /// End, with 0, when nothing is due, now or later
    #[arg(long)]
    drain: bool,
}

/// Runs `worker` until a signal, or until there is nothing left.
pub(crate) async fn run(args: WorkerArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.require_config()?;
    let nothing = config.queues.is_empty() && config.sources.is_empty();
    if nothing && config.pipelines.is_empty() && config.notifiers.is_empty() {
        let message = "the configuration declares no queues, no sources and no pipelines";
        return Err(CommandError::new(Exit::Error, message)
            .help("add a [[queue]], a [[source]] or a [[pipeline]]; `redrive init` shows them"));
    }
    let selection = WorkerSelection {
        queues: args.queues.as_deref(),
        sources: args.sources.as_deref(),
        pipelines: args.pipelines.as_deref(),
        notifiers: args.notifiers.as_deref(),
        concurrency: args.concurrency,
        grace: args.grace,
    };
    let workers = WorkerSet::new(&config, &selection)?;
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), IfMissing::Create).await?;
    let mut signals = Signals::new()?;
    let worker = new_worker_id()?;
    let names = workers.names();
    let url = chosen.url.to_string();
    tracing::info!(
        worker = worker.0,
        queues = names.queues,
        sources = names.sources,
        pipelines = names.pipelines,
        notifiers = names.notifiers,
        store = url,
        "working"
    );

    #[cfg(feature = "otel")]
    crate::spans::start(&chosen).await?;
    let engine = workers.engine(store, &config);
    let until = if args.drain { Until::Drained } else { Until::Stopped };
    let (stopper, stop) = Stopper::new();
    let mut work = Box::pin(engine.run_as(worker, stop, until));
    let exit = tokio::select! {
        () = &mut work => return Ok(Exit::Ok),
        exit = signals.next() => exit,
    };
    stopper.stop();
    tracing::info!("stopping: running work may end, the rest is handed back");
    // Dropping the work ends every handler that is still running.
    tokio::select! {
        () = &mut work => Ok(exit),
        again = signals.next() => Ok(again),
    }
}
