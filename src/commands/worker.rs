//! `redrive worker`: processes the declared queues, sources, pipelines and notifiers (OPS-6, OPS-7).

use clap::Args;
use redrive::{
    Control, Daemon, HumanDuration, RunMode, Stopper, Unreadable, Until, build_partition_rules,
};
use redrive_ops::GapFilter;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    signals::Signals,
    worker_set::{DEFAULT_GRACE, WorkerSelection, WorkerSet, new_worker_id, plan_executor},
};

const MAX_CONCURRENCY: i64 = 10_000;

#[derive(Debug, Args)]
#[command(after_help = "\
On Ctrl-C or SIGTERM the worker claims no more work, waits for running work within the grace time, releases the
rest uncounted, and exits with 130 or 143. A second signal ends the worker at once; other workers claim its units
when their leases expire. Any number of workers can share a store, and workers on many hosts can share a
PostgreSQL database, which `redrive db migrate` must have migrated.

New days of a source become pending by its schedule, in UTC; --drain ignores schedules and failed partitions that the
daemon retries, and says how many there are. Notifiers send events about
give-ups, aborts and dead letters (docs/notifications.md). The worker processes every running pipeline run,
including those that `redrive pipeline run --detach` started.

Examples:
  redrive worker
  redrive worker --drain                    exit when no work is left, now or later
  redrive worker --queues verify,notify --concurrency 32
  redrive worker --sources ads              only this source, no queues or pipelines
  redrive worker --pipelines score          only this pipeline
  redrive worker --log-format json 2>> worker.log")]
pub(crate) struct WorkerArgs {
    /// The queues to process, separated by commas [default: all, or none if another kind is selected]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// The sources to process, separated by commas [default: all, or none if another kind is selected]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sources: Option<Vec<String>>,

    /// The pipelines to process, separated by commas [default: all, or none if another kind is selected]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pipelines: Option<Vec<String>>,

    /// The notifiers to run, separated by commas [default: all, or none if another kind is selected]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    notifiers: Option<Vec<String>>,

    /// The units in progress at once in each queue, source and stage [default: `concurrency` of each]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: Option<u32>,

    /// The time that running work has to finish after a signal
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_GRACE, allow_hyphen_values = true)]
    grace: HumanDuration,

    /// Exit with 0 when no work is left, now or later
    #[arg(long)]
    drain: bool,
}

pub(crate) async fn run(args: WorkerArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.require_config()?;
    let is_empty = config.queues.is_empty() && config.sources.is_empty();
    if is_empty && config.pipelines.is_empty() && config.notifiers.is_empty() {
        let message = "the configuration declares no queues, sources, pipelines or notifiers";
        return Err(CommandError::new(Exit::Error, message).help(
            "add a [[queue]], a [[source]] or a [[pipeline]]; `redrive init` writes examples",
        ));
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
    crate::spans::start(&chosen, context).await?;
    let engine = workers.engine(store.clone(), &config, context);
    let until = if args.drain { Until::Drained } else { Until::Stopped };
    let (stopper, stop) = Stopper::new();
    let raw = context.raw(Some(&config))?;
    let partitions = Control::new(store.clone(), build_partition_rules(&config), raw);
    let plans = plan_executor(partitions, worker.clone(), Some(&config));
    let mut work = Box::pin(async {
        let work = engine.run_as(worker, stop.clone(), until);
        match until {
            Until::Stopped => _ = tokio::join!(work, plans.run(stop)),
            Until::Drained => {
                work.await;
                if let Err(error) = plans.settle_once(None).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot note what became of the units of plans");
                }
            }
        }
    });
    let exit = tokio::select! {
        () = &mut work => {
            if !names.sources.is_empty() {
                let ops = OpenStore::over(store, chosen, Some(config), context)?;
                note_ignored(&ops, context).await.map_err(|error| ops.store_error(error))?;
            }
            return Ok(Exit::Ok);
        }
        exit = signals.next() => exit,
    };
    stopper.stop();
    tracing::info!("stopping: waiting for running work; units not finished in time are released");
    // Dropping the future kills every handler that is still running.
    tokio::select! {
        () = &mut work => Ok(exit),
        again = signals.next() => Ok(again),
    }
}

/// Says what `--drain` left undone, because only a schedule or the daemon requests it (OPS-7).
async fn note_ignored(ops: &OpenStore, context: &Context) -> redrive_store::Result<()> {
    for source in ops.declared().into_iter().flat_map(|declared| &declared.sources) {
        let Some(calendar) = &source.calendar else { continue };
        let gaps = ops.gaps(source, &GapFilter::default()).await?;
        let missing =
            gaps.iter().flat_map(|(_, gaps)| gaps).filter(|gap| gap.why == Unreadable::Missing);
        let missing: u64 = missing.map(|gap| gap.days.days()).sum();
        if let Some(due) = calendar.due(ops.now()).filter(|_| missing > 0) {
            let (name, since, until) = (&source.name, due.since(), due.until());
            context.output.note(&format!(
                "--drain ignores schedules: {missing} partitions of source {name:?} are due and not requested; \
                 `redrive worker` without --drain requests them, or \
                 `redrive state backfill --source {name} --since {since} --until {until}`"
            ));
        }
    }
    let daemon = Daemon::new(ops.partitions().clone(), "").with_mode(RunMode::DryRun);
    let tick = daemon.tick_reporting(|_, _| {}).await?;
    if tick.retried + tick.waiting > 0 {
        context.output.note(&format!(
            "--drain ignores failed partitions: {} are due for a retry now, {} later; \
             `redrive daemon` retries them",
            tick.retried, tick.waiting
        ));
    }
    Ok(())
}
