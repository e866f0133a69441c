//! `redrive worker`: does the work of the queues and sources that the configuration declares (OPS-6,
//! OPS-7).

use clap::Args;
use redrive::{
    Engine, HumanDuration, Stopper, Until,
    config::{self, Config},
    declared_queue, declared_source, raw_sink,
};
use redrive_engine::{Pace, Queue, Source, random_worker_id};

use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    signals::Signals,
};

/// The most units of one queue or source at once.
const MAX_CONCURRENCY: i64 = 10_000;

/// The arguments of `worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C or SIGTERM: takes no more work, lets running work end within the grace time, hands the rest
back uncounted, and ends with 130 or 143. A second signal ends at once; what was held then comes back when
its lease ends. Any number of workers share a store; one PostgreSQL database serves many hosts, once
`redrive db migrate` has prepared it.

A source's new days become pending when their time has come, by its schedule in UTC. --drain ignores schedules.

Examples:
  redrive worker
  redrive worker --drain                    end when nothing is due, now or later
  redrive worker --queues verify,notify --concurrency 32
  redrive worker --sources ads              this source, and no queue
  redrive worker --log-format json 2>> worker.log")]
pub(crate) struct Arguments {
    /// These queues, separated by commas [default: all that are declared, unless --sources is given]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    queues: Option<Vec<String>>,

    /// These sources, separated by commas [default: all that are declared, unless --queues is given]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    sources: Option<Vec<String>>,

    /// Units at once in each queue and source [default: as the file says]
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
        return Err(Failure::new(Exit::Error, message).help(
            "it declares queues and sources; `redrive init` writes one, `--config FILE` names one",
        ));
    };
    let (queues, sources) = served(&arguments, &config)?;
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), Missing::Make).await?;
    let mut signals = Signals::new()?;
    let worker = random_worker_id()
        .map_err(|error| Failure::new(Exit::Error, "cannot make a name").because(error))?;
    let names = |names: Vec<&str>| names.join(", ");
    let served_queues = names(queues.iter().map(|queue| queue.name.as_str()).collect());
    let served_sources = names(sources.iter().map(|source| source.name.as_str()).collect());
    let url = chosen.url.to_string();
    tracing::info!(
        worker = worker.0,
        queues = served_queues,
        sources = served_sources,
        store = url,
        "working"
    );

    let engine = Engine::new(store).with_jitter_seed(config.jitter_seed);
    let engine = queues.into_iter().fold(engine, Engine::with_queue);
    let engine = sources.into_iter().fold(engine, Engine::with_source);
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

/// The declared queues and sources that are asked for, ready to be worked on.
fn served(arguments: &Arguments, config: &Config) -> Result<(Vec<Queue>, Vec<Source>), Failure> {
    if config.queues.is_empty() && config.sources.is_empty() {
        return Err(Failure::new(
            Exit::Error,
            "the configuration declares no queues and no sources",
        )
        .help("add a [[queue]] or a [[source]]; `redrive init` shows them"));
    }
    let cannot = |error| Failure::new(Exit::Error, "cannot start").because(error);
    let change = |pace: &mut Pace| {
        pace.concurrency = arguments.concurrency.map_or(pace.concurrency, |many| many as usize);
        pace.grace = arguments.grace.into();
    };
    let mut queues = Vec::new();
    for declared in asked_queues(config, arguments)? {
        let mut queue = declared_queue(declared, &config.folder).map_err(cannot)?;
        change(&mut queue.pace);
        queues.push(queue);
    }
    let declared = asked_sources(config, arguments)?;
    if declared.is_empty() {
        return Ok((queues, Vec::new()));
    }
    let sink = raw_sink(&config.raw.clone().in_folder(&config.folder))
        .map_err(|error| Failure::new(Exit::Error, "cannot keep raw partitions").because(error))?;
    let mut sources = Vec::new();
    for declared in declared {
        let mut source = declared_source(declared, &config.folder, sink.clone()).map_err(cannot)?;
        change(&mut source.pace);
        sources.push(source);
    }
    Ok((queues, sources))
}

/// In the order of the file. Who names sources alone wants no queue.
fn asked_queues<'a>(
    config: &'a Config,
    arguments: &Arguments,
) -> Result<Vec<&'a config::Queue>, Failure> {
    let Some(asked) = &arguments.queues else {
        let all = arguments.sources.is_none();
        return Ok(config.queues.iter().filter(|_| all).collect());
    };
    if let Some(unknown) = asked.iter().find(|name| config.queue(name).is_none()) {
        return Err(Failure::usage(format!("--queues: there is no queue {unknown:?}"))
            .help(config.queue_suggestion(unknown)));
    }
    Ok(config.queues.iter().filter(|queue| asked.contains(&queue.name)).collect())
}

/// In the order of the file. Who names queues alone wants no source.
fn asked_sources<'a>(
    config: &'a Config,
    arguments: &Arguments,
) -> Result<Vec<&'a config::Source>, Failure> {
    let Some(asked) = &arguments.sources else {
        let all = arguments.queues.is_none();
        return Ok(config.sources.iter().filter(|_| all).collect());
    };
    if let Some(unknown) = asked.iter().find(|name| config.source(name).is_none()) {
        return Err(Failure::usage(format!("--sources: there is no source {unknown:?}"))
            .help(config.source_suggestion(unknown)));
    }
    Ok(config.sources.iter().filter(|source| asked.contains(&source.name)).collect())
}
