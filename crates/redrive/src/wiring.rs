//! From what a configuration declares to what the engine runs.

use std::{path::Path, sync::Arc};

use http::HeaderName;
use redrive_core::InvalidUnit;
use redrive_engine::{
    BodyTemplate, CommandSource, Content, DailyCalendar, DaySchedule, ExecHandler, ExecSpec,
    Extractor, GiveupFile, GroupUpload, Handler, HeaderSource, HttpExtractor, HttpHandler,
    HttpSpec, HttpUpload, IntoSample, InvalidHttp, InvalidProgram, JsonPointer, JsonlSource,
    Notifier, NotifyEvents, PartitionRules, Pipeline, Queue, RawSink, RetrySettings, SampleSource,
    Source, Stage, StreamHandler, StreamSpec, UploadObserver, UploadPlan, ValidationHandler,
    ValidationRules, WorkerLimits, build_uploader, traces::Traces,
};
use redrive_store::{Categories, Store, WorkerId};
use serde_json::{Map, Value, json};

use crate::{
    config,
    raw_sinks::{UnusableSchema, declared_rules},
};

/// Something declared that this program cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unservable {
    /// A program can never be started.
    #[error("{whose} cannot be started")]
    Program {
        /// Whose, such as `the handler of queue "verify"`.
        whose: String,
        /// Why.
        #[source]
        source: InvalidProgram,
    },
    /// A request can never be sent.
    #[error("{whose} cannot send its request")]
    Request {
        /// Whose, such as `the handler of queue "verify"`.
        whose: String,
        /// Why.
        #[source]
        source: InvalidHttp,
    },
    /// The first day of a source is none that a partition can have.
    #[error("the schedule of source {name:?} cannot be used")]
    Schedule {
        /// The source.
        name: String,
        /// Why.
        #[source]
        source: InvalidUnit,
    },
    /// The schema of a source's rows is none.
    #[error("source {name:?} has no schema to judge its rows by")]
    Schema {
        /// The source.
        name: String,
        /// Why.
        #[source]
        source: UnusableSchema,
    },
}

/// The queue that a declaration describes. Relative programs count from `folder`, the folder of the
/// configuration.
pub fn declared_queue(declared: &config::Queue, folder: &Path) -> Result<Queue, Unservable> {
    let whose = format!("the handler of queue {:?}", declared.name);
    let handler = Maker { folder, whose }.handler(&declared.handler)?;
    let mut queue =
        Queue::new(declared.name.as_str(), handler).with_policy(declared.policy.policy.clone());
    queue.categories = match &declared.categories {
        None => Categories::All,
        Some(names) => Categories::Only(names.clone()),
    };
    queue.time_limit = declared.limits.timeout;
    queue.limits = limits(declared.limits);
    Ok(queue)
}

/// The notifier that a declaration describes.
pub fn declared_notifier(declared: &config::Notify, folder: &Path) -> Result<Notifier, Unservable> {
    let tells = |event| declared.events.contains(&event);
    let dead_letters = tells(config::NotifyEvent::DeadLetters);
    Ok(Notifier {
        name: declared.name.clone(),
        source: declared.source.clone(),
        events: NotifyEvents {
            giveups: tells(config::NotifyEvent::Giveup),
            aborts: tells(config::NotifyEvent::Abort),
            dead_letters: dead_letters.then_some(declared.dead_letters_every),
        },
        queue: declared_queue(&declared.queue, folder)?,
    })
}

/// The source that a declaration describes, whose raw partitions are in a sink. Relative programs and
/// files count from `folder`, the folder of the configuration.
pub fn declared_source(
    declared: &config::Source,
    folder: &Path,
    sink: RawSink,
) -> Result<Source, Unservable> {
    let name = &declared.name;
    let extractor = Maker { folder, whose: format!("the extractor of source {name:?}") };
    let judge = Maker { folder, whose: format!("the judge of source {name:?}") };
    let judge = declared.validate.handler.as_ref().map(|handler| judge.handler(handler));
    let rules = declared_rules(&declared.validate, folder)
        .map_err(|source| Unservable::Schema { name: name.clone(), source })?;
    let time_limit = declared.limits.timeout;
    let judge = judge.transpose()?.map(|handler| ValidationHandler { handler, time_limit });
    let mut source = Source::new(name.as_str(), extractor.extractor(&declared.extract)?, sink)
        .with_rules(ValidationRules { handler: judge, ..rules });
    source.schema_version.clone_from(&declared.schema_version);
    source.backfill_share = declared.backfill_share;
    if let Some(schedule) = &declared.schedule {
        let calendar = declared_calendar(schedule)
            .map_err(|source| Unservable::Schedule { name: name.clone(), source })?;
        let (customers, queries) = (declared.customers.clone(), declared.queries.clone());
        source.schedule = Some(DaySchedule { customers, queries, calendar });
    }
    source.time_limit = time_limit;
    source.limits = limits(declared.limits);
    Ok(source)
}

/// What sends the groups of a declared upload, as a worker: with retries, unless it disables them. Relative
/// paths count from `folder`, the folder of the configuration.
pub fn declared_upload(
    declared: &config::Upload,
    folder: &Path,
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    worker: WorkerId,
    observer: Option<UploadObserver>,
    traces: Traces,
) -> Result<GroupUpload, Unservable> {
    let name = &declared.name;
    let check = Maker { folder, whose: format!("the check of upload {name:?}") };
    let ready = declared.ready.as_ref().map(|ready| check.handler(ready));
    let http = HttpUpload {
        name: name.clone(),
        spec: declared.request.clone(),
        concurrency: declared.concurrency as usize,
        time_limit: declared.timeout,
        ready: ready.transpose()?,
        worker: worker.0.clone(),
    };
    let path = declared.giveup_file.as_ref().map(|path| folder.join(path));
    let giveup_file = path.map(|path| GiveupFile::new(path, name.as_str()));
    let plan = UploadPlan {
        http,
        retry: RetrySettings::new(declared.policy.clone(), declared.max_in_call_retries),
        disable_retry: declared.disable_retry,
        giveup_file: giveup_file.clone(),
        observer,
        traces,
    };
    let uploader = build_uploader(plan, store.clone(), content).map_err(|source| {
        let whose = format!("upload {name:?}");
        Unservable::Request { whose, source }
    })?;
    Ok(GroupUpload::new(uploader, store, worker, declared.lease).with_giveup_file(giveup_file))
}

/// The pipeline that a declaration describes. Relative programs and files count from `folder`, the
/// folder of the configuration.
pub fn declared_pipeline(
    declared: &config::Pipeline,
    folder: &Path,
) -> Result<Pipeline, Unservable> {
    let name = &declared.name;
    let source: Arc<dyn SampleSource> = match &declared.source {
        config::SampleSource::Jsonl(path) => Arc::new(JsonlSource::new(folder.join(path))),
        config::SampleSource::Exec(program) => {
            let maker = Maker { folder, whose: format!("the source of pipeline {name:?}") };
            Arc::new(CommandSource::new(maker.exec(program)?, program.argv.join(" ")))
        }
    };
    let pipeline = Pipeline::new(name.as_str(), source)
        .with_rules(declared.rules.clone())
        .with_read_ahead(declared.read_ahead);
    declared.stages.iter().try_fold(pipeline, |pipeline, declared| {
        let whose = format!("stage {:?} of pipeline {name:?}", declared.name);
        let mut handler = Maker { folder, whose }.handler(&declared.handler)?;
        if let config::Handler::Http(http) = &declared.handler
            && let Some(place) = http.into.clone()
        {
            handler = Arc::new(IntoSample { handler, pointer: place });
        }
        let mut stage = Stage::new(declared.name.as_str(), handler)
            .with_policy(declared.policy.policy.clone())
            .with_config(&stage_definition(&declared.handler));
        stage.time_limit = declared.limits.timeout;
        stage.limits = limits(declared.limits);
        Ok(pipeline.with_stage(stage))
    })
}

/// What the results of a stage depend on: which program or request, with which arguments. Not: how
/// many at once, how long it may take, when it is tried again, and no value of a secret.
fn stage_definition(handler: &config::Handler) -> Value {
    let program = |kind: &str, program: &config::Program| {
        let mut env = program.env.clone();
        env.sort_unstable();
        json!({ kind: program.argv, "env": env })
    };
    match handler {
        config::Handler::Exec(exec) => program("exec", exec),
        config::Handler::Stream(stream) => program("stream", &stream.program),
        config::Handler::Http(http) => {
            let HttpSpec { method, url, query, headers, body, reply, .. } = &http.request;
            let named =
                |(name, value): &(String, BodyTemplate)| (name.clone(), value.as_json().clone());
            let header = |(name, source): &(HeaderName, HeaderSource)| {
                let source = match source {
                    HeaderSource::Literal(value) => {
                        json!(String::from_utf8_lossy(value.as_bytes()))
                    }
                    HeaderSource::Env { variable, prefix } => {
                        json!({ "env": variable, "prefix": prefix })
                    }
                };
                (name.to_string(), source)
            };
            json!({
                "http": method.as_str(),
                "url": url.to_string(),
                "query": Map::from_iter(query.iter().map(named)),
                "headers": Map::from_iter(headers.iter().map(header)),
                "body": body.as_ref().map(BodyTemplate::as_json),
                "reply": reply.as_ref().map(JsonPointer::as_str),
                "into": http.into.as_ref().map(JsonPointer::as_str),
            })
        }
    }
}

/// What decides about failed partitions, as the sources are declared.
pub fn declared_partition_rules(config: &config::Config) -> PartitionRules {
    let rules = PartitionRules::new(config.jitter_seed);
    config.sources.iter().fold(rules, |rules, source| {
        rules.with_policy(source.name.as_str(), source.policy.policy.clone())
    })
}

/// The days that a schedule makes due.
pub fn declared_calendar(schedule: &config::Schedule) -> Result<DailyCalendar, InvalidUnit> {
    let start = schedule.start.try_into()?;
    Ok(DailyCalendar { start, at: schedule.at, lag_days: schedule.lag_days })
}

fn limits(limits: config::Limits) -> WorkerLimits {
    WorkerLimits {
        concurrency: limits.concurrency as usize,
        lease: limits.lease,
        ..WorkerLimits::default()
    }
}

/// Makes handlers, and knows whose they are.
struct Maker<'a> {
    folder: &'a Path,
    whose: String,
}

impl Maker<'_> {
    fn handler(&self, declared: &config::Handler) -> Result<Arc<dyn Handler>, Unservable> {
        Ok(match declared {
            config::Handler::Exec(program) => Arc::new(self.exec(program)?),
            config::Handler::Stream(stream) => Arc::new(self.stream(stream)?),
            config::Handler::Http(http) => Arc::new(
                HttpHandler::new(http.request.clone()).map_err(|error| self.unsendable(error))?,
            ),
        })
    }

    fn extractor(&self, declared: &config::Handler) -> Result<Arc<dyn Extractor>, Unservable> {
        Ok(match declared {
            config::Handler::Exec(program) => Arc::new(self.exec(program)?),
            config::Handler::Stream(stream) => Arc::new(self.stream(stream)?),
            config::Handler::Http(http) => {
                // The configuration has it for every extraction; an API may answer with a bare list.
                let paging = http.paging.clone().unwrap_or_default();
                let extractor = HttpExtractor::new(http.request.clone(), paging);
                Arc::new(extractor.map_err(|error| self.unsendable(error))?)
            }
        })
    }

    fn exec(&self, program: &config::Program) -> Result<ExecHandler, Unservable> {
        let mut spec = ExecSpec::new(program.argv.clone(), self.folder);
        spec.env.clone_from(&program.env);
        spec.grace = program.grace;
        ExecHandler::new(spec).map_err(|source| self.unstartable(source))
    }

    fn stream(&self, stream: &config::Stream) -> Result<StreamHandler, Unservable> {
        let mut spec = StreamSpec::new(stream.program.argv.clone(), self.folder);
        spec.env.clone_from(&stream.program.env);
        spec.grace = stream.program.grace;
        spec.processes = stream.processes as usize;
        spec.in_flight = stream.in_flight as usize;
        StreamHandler::new(spec).map_err(|source| self.unstartable(source))
    }

    fn unstartable(&self, source: InvalidProgram) -> Unservable {
        Unservable::Program { whose: self.whose.clone(), source }
    }

    fn unsendable(&self, source: InvalidHttp) -> Unservable {
        Unservable::Request { whose: self.whose.clone(), source }
    }
}
