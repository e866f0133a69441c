//! The queues, sources, pipelines and notifiers that a process runs.

use std::sync::Arc;

use redrive::{
    Engine, HumanDuration, build_notifier, build_pipeline, build_queue, build_source,
    config::{Config, PlansConfig},
    declared_gates, open_raw_sink,
};
use redrive_engine::{
    Control, Notifier, Pipeline, PlanExecutor, Queue, Source, WorkerLimits, random_worker_id,
};
use redrive_store::{Store, WorkerId};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

/// Default time that running work has to finish after a signal.
pub(crate) const DEFAULT_GRACE: &str = "10s";

/// Selects what to run. If any kind has names, unnamed kinds are not run.
#[derive(Debug)]
pub(crate) struct WorkerSelection<'a> {
    pub(crate) queues: Option<&'a [String]>,
    pub(crate) sources: Option<&'a [String]>,
    pub(crate) pipelines: Option<&'a [String]>,
    pub(crate) notifiers: Option<&'a [String]>,
    /// Overrides the concurrency of the configuration.
    pub(crate) concurrency: Option<u32>,
    /// The time that running work has to finish after a signal.
    pub(crate) grace: HumanDuration,
}

pub(crate) struct WorkerSet {
    queues: Vec<Queue>,
    sources: Vec<Source>,
    pipelines: Vec<Pipeline>,
    notifiers: Vec<Notifier>,
}

/// Names for the log, separated by commas.
#[derive(Debug)]
pub(crate) struct WorkerNames {
    pub(crate) queues: String,
    pub(crate) sources: String,
    pub(crate) pipelines: String,
    pub(crate) notifiers: String,
}

/// A unique id for this process.
pub(crate) fn new_worker_id() -> Result<WorkerId, CommandError> {
    random_worker_id().map_err(|error| {
        CommandError::new(Exit::Error, "cannot generate a worker id").caused_by(error)
    })
}

/// Executes plans with the lease of `[plans]`.
pub(crate) fn plan_executor(
    partitions: Control,
    process: WorkerId,
    config: Option<&Config>,
) -> PlanExecutor {
    let plans = config.map_or_else(PlansConfig::default, |config| config.plans);
    let sources = config.into_iter().flat_map(|config| &config.sources);
    PlanExecutor::new(partitions.store().clone(), process)
        .with_partitions(partitions)
        .with_sources(sources.map(|source| source.name.clone()))
        .with_lease(plans.lease)
}

impl WorkerSet {
    /// Builds what is declared and selected.
    pub(crate) fn new(
        config: &Config,
        selection: &WorkerSelection<'_>,
    ) -> Result<Self, CommandError> {
        let WorkerSelection { queues, sources, pipelines, notifiers, .. } = *selection;
        let named = [queues, sources, pipelines, notifiers];
        let all = named.iter().all(|names| names.is_none());
        let build_error = |error| CommandError::new(Exit::Error, "cannot start").caused_by(error);
        let change = |limits: &mut WorkerLimits| {
            limits.concurrency =
                selection.concurrency.map_or(limits.concurrency, |many| many as usize);
            limits.grace = selection.grace.into();
        };
        let queues = select(
            "queue",
            queues,
            all,
            &config.queues,
            |it| &it.name,
            |unknown| config.queue_suggestion(unknown),
        )?;
        let queues = queues.into_iter().map(|declared| {
            let mut queue = build_queue(declared, &config.folder).map_err(build_error)?;
            change(&mut queue.limits);
            Ok(queue)
        });
        let pipelines = select(
            "pipeline",
            pipelines,
            all,
            &config.pipelines,
            |it| &it.name,
            |unknown| config.pipeline_suggestion(unknown),
        )?;
        let pipelines = pipelines.into_iter().map(|declared| {
            let mut pipeline = build_pipeline(declared, &config.folder).map_err(build_error)?;
            pipeline.stages.iter_mut().for_each(|stage| change(&mut stage.limits));
            Ok(pipeline)
        });
        let notifiers = select(
            "notifier",
            notifiers,
            all,
            &config.notifiers,
            |it| &it.name,
            |unknown| config.notifier_suggestion(unknown),
        )?;
        let notifiers = notifiers.into_iter().map(|declared| {
            let mut notifier = build_notifier(declared, &config.folder).map_err(build_error)?;
            change(&mut notifier.queue.limits);
            Ok(notifier)
        });
        let declared = select(
            "source",
            sources,
            all,
            &config.sources,
            |it| &it.name,
            |unknown| config.source_suggestion(unknown),
        )?;
        let mut sources = Vec::new();
        if !declared.is_empty() {
            let sink =
                open_raw_sink(&config.raw.clone().in_folder(&config.folder)).map_err(|error| {
                    CommandError::new(Exit::Error, "cannot use the raw sink").caused_by(error)
                })?;
            for declared in declared {
                let source = build_source(declared, &config.folder, sink.clone());
                let mut source = source.map_err(build_error)?;
                change(&mut source.limits);
                sources.push(source);
            }
        }
        let queues = queues.collect::<Result<_, CommandError>>()?;
        let pipelines = pipelines.collect::<Result<_, CommandError>>()?;
        let notifiers = notifiers.collect::<Result<_, CommandError>>()?;
        Ok(Self { queues, sources, pipelines, notifiers })
    }

    pub(crate) fn names(&self) -> WorkerNames {
        let join = |names: Vec<&str>| names.join(", ");
        WorkerNames {
            queues: join(self.queues.iter().map(|queue| queue.name.as_str()).collect()),
            sources: join(self.sources.iter().map(|source| source.name.as_str()).collect()),
            pipelines: join(self.pipelines.iter().map(|it| it.name.as_str()).collect()),
            notifiers: join(self.notifiers.iter().map(|it| it.name.as_str()).collect()),
        }
    }

    pub(crate) fn pipeline(&self, name: &str) -> Option<&Pipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }

    pub(crate) fn engine(
        self,
        store: Arc<dyn Store>,
        config: &Config,
        context: &Context,
    ) -> Engine {
        let engine = Engine::new(store)
            .with_jitter_seed(config.jitter_seed)
            .with_traces(context.traces())
            .with_gates(declared_gates(config))
            .with_write_times(context.write_times.clone());
        let engine = self.queues.into_iter().fold(engine, Engine::with_queue);
        let engine = self.sources.into_iter().fold(engine, Engine::with_source);
        let engine = self.pipelines.into_iter().fold(engine, Engine::with_pipeline);
        self.notifiers.into_iter().fold(engine, Engine::with_notifier)
    }
}

/// The declared entries of a kind that `names` selects, in the order of the file; all of them where no name of any
/// kind is given.
fn select<'a, T>(
    kind: &str,
    names: Option<&[String]>,
    select_all: bool,
    declared: &'a [T],
    name: impl Fn(&T) -> &String,
    suggestion: impl Fn(&str) -> String,
) -> Result<Vec<&'a T>, CommandError> {
    let Some(names) = names else {
        return Ok(declared.iter().filter(|_| select_all).collect());
    };
    let is_declared = |selected: &&String| declared.iter().any(|it| name(it) == *selected);
    if let Some(unknown) = names.iter().find(|selected| !is_declared(selected)) {
        let message = format!("--{kind}s: there is no {kind} {unknown:?}");
        return Err(CommandError::usage(message).help(suggestion(unknown)));
    }
    Ok(declared.iter().filter(|it| names.contains(name(it))).collect())
}
