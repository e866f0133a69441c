//! `redrive worker`: does the work of the queues that the configuration declares (OPS-6, OPS-7).

use std::collections::BTreeSet;

use clap::Args;
use redrive::{
    Engine, HumanDuration, Stopper, Until,
    config::{self, Config},
    declared_queue,
};
use redrive_engine::random_worker_id;

use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    signals::Signals,
};

/// The most runs of one queue at once.
const MAX_CONCURRENCY: i64 = 10_000;

/// The arguments of `worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C or SIGTERM: takes no more work, lets running work end within the grace time, hands the rest
back uncounted, and ends with 130 or 143. A second signal ends at once; what was held then comes back when
its lease ends. Any number of workers share a store; one PostgreSQL database serves many hosts, once
`redrive db migrate` has prepared it.

Examples:
  redrive worker
  redrive worker --drain                    end when nothing is due, now or later
  redrive worker --queues verify,notify --concurrency 32
  redrive worker --log-format json 2>> worker.log")]
pub(crate) struct Arguments {
    /// These queues alone, separated by commas [default: all that are declared]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// Runs at once in each queue [default: as the file says]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=MAX_CONCURRENCY))]
    concurrency: Option<u32>,

    /// How long running work may go on after a signal
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true)]
    grace: HumanDuration,

    /// End, with 0, when nothing is due, now or later
    #[arg(long)]
    drain: bool,
}

/// Runs `worker` until a signal, or until there is nothing left.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let Some(config) = context.config()? else {
        let message = format!("there is no {} here or in a folder above", config::FILE_NAME);
        return Err(Failure::new(Exit::Error, message)
            .help("it declares the queues; `redrive init` writes one, `--config FILE` names one"));
    };
    let mut queues = Vec::new();
    for declared in selected(&config, arguments.queues.as_deref())? {
        let queue = declared_queue(declared, &config.folder)
            .map_err(|error| Failure::new(Exit::Error, "cannot start").because(error))?;
        let mut queue = match arguments.concurrency {
            Some(concurrency) => queue.with_concurrency(concurrency as usize),
            None => queue,
        };
        queue.pace.grace = arguments.grace.into();
        queues.push(queue);
    }
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), Missing::Make).await?;
    let mut signals = Signals::new()?;
    let worker = random_worker_id()
        .map_err(|error| Failure::new(Exit::Error, "cannot make a name").because(error))?;
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    let (queues_served, url) = (names.join(", "), chosen.url.to_string());
    tracing::info!(worker = worker.0, queues = queues_served, store = url, "working");

    let engine = Engine::new(store).with_jitter_seed(config.jitter_seed);
    let engine = queues.into_iter().fold(engine, Engine::with_queue);
    let until = if arguments.drain { Until::Drained } else { Until::Stopped };
    let (stopper, stop) = Stopper::new();
    let mut work = Box::pin(engine.run_as(worker, stop, until));
    let exit = tokio::select! {
        () = &mut work => return Ok(Exit::Ok),
        exit = signals.next() => exit,
    };
    tracing::info!("stopping: running work may end, the rest is handed back");
    stopper.stop();
    // Dropping the work ends every handler that is still running.
    tokio::select! {
        () = &mut work => Ok(exit),
        again = signals.next() => Ok(again),
    }
}

/// The declared queues that are asked for, in the order of the file.
fn selected<'a>(
    config: &'a Config,
    asked: Option<&[String]>,
) -> Result<Vec<&'a config::Queue>, Failure> {
    if config.queues.is_empty() {
        return Err(Failure::new(Exit::Error, "the configuration declares no queues")
            .help("add a [[queue]] with a name and a handler; `redrive init` shows one"));
    }
    let Some(asked) = asked else { return Ok(config.queues.iter().collect()) };
    if let Some(unknown) = asked.iter().find(|name| config.queue(name).is_none()) {
        return Err(Failure::usage(format!("--queues: there is no queue {unknown:?}"))
            .help(config.queue_suggestion(unknown)));
    }
    let asked: BTreeSet<&str> = asked.iter().map(String::as_str).collect();
    Ok(config.queues.iter().filter(|queue| asked.contains(queue.name.as_str())).collect())
}
