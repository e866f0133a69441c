//! `redrive worker`: does the work of the queues, sources and pipelines that the configuration declares
//! (OPS-6, OPS-7).

use clap::Args;
use redrive::{
    Engine, HumanDuration, Stopper, Until,
    config::{self, Config},
    declared_notifier, declared_pipeline, declared_queue, declared_source, raw_sink,
};
use redrive_engine::{Notifier, Pace, Pipeline, Queue, Source, random_worker_id};

use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    signals::Signals,
};

/// The most units of one queue, source or stage at once.
const MAX_CONCURRENCY: i64 = 10_000;

/// The arguments of `worker`.
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
pub(crate) struct Arguments {
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
            "it declares queues, sources and pipelines; `redrive init` writes one, `--config FILE` \
             names one",
        ));
    };
    let Served { queues, sources, pipelines, notifiers } = served(&arguments, &config)?;
    let chosen = context.store(Some(&config))?;
    let store = chosen.open(Some(&config), Missing::Make).await?;
    let mut signals = Signals::new()?;
    let worker = random_worker_id()
        .map_err(|error| Failure::new(Exit::Error, "cannot make a name").because(error))?;
    let names = |names: Vec<&str>| names.join(", ");
    let served_queues = names(queues.iter().map(|queue| queue.name.as_str()).collect());
    let served_sources = names(sources.iter().map(|source| source.name.as_str()).collect());
    let served_pipelines = names(pipelines.iter().map(|it| it.name.as_str()).collect());
    let served_notifiers = names(notifiers.iter().map(|it| it.name.as_str()).collect());
    let url = chosen.url.to_string();
    tracing::info!(
        worker = worker.0,
        queues = served_queues,
        sources = served_sources,
        pipelines = served_pipelines,
        notifiers = served_notifiers,
        store = url,
        "working"
    );

    let engine = Engine::new(store).with_jitter_seed(config.jitter_seed);
    let engine = queues.into_iter().fold(engine, Engine::with_queue);
    let engine = sources.into_iter().fold(engine, Engine::with_source);
    let engine = pipelines.into_iter().fold(engine, Engine::with_pipeline);
    let engine = notifiers.into_iter().fold(engine, Engine::with_notifier);
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

/// What is worked on.
struct Served {
    queues: Vec<Queue>,
    sources: Vec<Source>,
    pipelines: Vec<Pipeline>,
    notifiers: Vec<Notifier>,
}

/// All that is declared and asked for, ready to be worked on.
fn served(arguments: &Arguments, config: &Config) -> Result<Served, Failure> {
    let nothing = config.queues.is_empty() && config.sources.is_empty();
    if nothing && config.pipelines.is_empty() && config.notifiers.is_empty() {
        let message = "the configuration declares no queues, no sources and no pipelines";
        return Err(Failure::new(Exit::Error, message)
            .help("add a [[queue]], a [[source]] or a [[pipeline]]; `redrive init` shows them"));
    }
    let Arguments { queues, sources, pipelines, notifiers, .. } = arguments;
    // Who names some wants nothing else.
    let all = queues.is_none() && sources.is_none() && pipelines.is_none() && notifiers.is_none();
    let asked = Asked { all };
    let cannot = |error| Failure::new(Exit::Error, "cannot start").because(error);
    let change = |pace: &mut Pace| {
        pace.concurrency = arguments.concurrency.map_or(pace.concurrency, |many| many as usize);
        pace.grace = arguments.grace.into();
    };
    let queues = asked.of(
        "queue",
        queues.as_deref(),
        &config.queues,
        |it| &it.name,
        |unknown| config.queue_suggestion(unknown),
    )?;
    let queues = queues.into_iter().map(|declared| {
        let mut queue = declared_queue(declared, &config.folder).map_err(cannot)?;
        change(&mut queue.pace);
        Ok(queue)
    });
    let pipelines = asked.of(
        "pipeline",
        pipelines.as_deref(),
        &config.pipelines,
        |it| &it.name,
        |unknown| config.pipeline_suggestion(unknown),
    )?;
    let pipelines = pipelines.into_iter().map(|declared| {
        let mut pipeline = declared_pipeline(declared, &config.folder).map_err(cannot)?;
        pipeline.stages.iter_mut().for_each(|stage| change(&mut stage.pace));
        Ok(pipeline)
    });
    let notifiers = asked.of(
        "notifier",
        notifiers.as_deref(),
        &config.notifiers,
        |it| &it.name,
        |unknown| config.notifier_suggestion(unknown),
    )?;
    let notifiers = notifiers.into_iter().map(|declared| {
        let mut notifier = declared_notifier(declared, &config.folder).map_err(cannot)?;
        change(&mut notifier.queue.pace);
        Ok(notifier)
    });
    let declared = asked.of(
        "source",
        sources.as_deref(),
        &config.sources,
        |it| &it.name,
        |unknown| config.source_suggestion(unknown),
    )?;
    let mut sources = Vec::new();
    if !declared.is_empty() {
        let sink = raw_sink(&config.raw.clone().in_folder(&config.folder)).map_err(|error| {
            Failure::new(Exit::Error, "cannot keep raw partitions").because(error)
        })?;
        for declared in declared {
            let source = declared_source(declared, &config.folder, sink.clone());
            let mut source = source.map_err(cannot)?;
            change(&mut source.pace);
            sources.push(source);
        }
    }
    let queues = queues.collect::<Result<_, Failure>>()?;
    let pipelines = pipelines.collect::<Result<_, Failure>>()?;
    let notifiers = notifiers.collect::<Result<_, Failure>>()?;
    Ok(Served { queues, sources, pipelines, notifiers })
}

/// Chooses among what is declared.
struct Asked {
    /// Nothing was named, so all of it is meant.
    all: bool,
}

impl Asked {
    /// Those of a kind that are named, in the order of the file.
    fn of<'a, T>(
        &self,
        kind: &str,
        names: Option<&[String]>,
        declared: &'a [T],
        name: impl Fn(&T) -> &String,
        suggestion: impl Fn(&str) -> String,
    ) -> Result<Vec<&'a T>, Failure> {
        let Some(names) = names else {
            return Ok(declared.iter().filter(|_| self.all).collect());
        };
        let is_declared = |asked: &&String| declared.iter().any(|it| name(it) == *asked);
        if let Some(unknown) = names.iter().find(|asked| !is_declared(asked)) {
            let message = format!("--{kind}s: there is no {kind} {unknown:?}");
            return Err(Failure::usage(message).help(suggestion(unknown)));
        }
        Ok(declared.iter().filter(|it| names.contains(name(it))).collect())
    }
}
