//! Builds what the engine runs from what a configuration declares.
//!
//! Relative programs and files are resolved from `folder`, the folder of the configuration file.

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
use redrive_store::{
    Categories, DeclaredGate, GateDeclarations, GatePlace, GateRule, Store, UnitKind, WorkerId,
};
use serde_json::{Map, Value, json};

use crate::{
    config,
    raw_sinks::{SchemaFileError, build_validation_rules},
};

/// A declared queue, source, upload or pipeline that cannot run in this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    #[error("{owner} cannot be started")]
    Program {
        /// Such as `the handler of queue "verify"`.
        owner: String,
        #[source]
        source: InvalidProgram,
    },
    #[error("{owner} cannot send its request")]
    Request {
        /// Such as `the handler of queue "verify"`.
        owner: String,
        #[source]
        source: InvalidHttp,
    },
    /// No partition key can have the first day of the schedule.
    #[error("the schedule of source {name:?} cannot be used")]
    Schedule {
        name: String,
        #[source]
        source: InvalidUnit,
    },
    #[error("the row schema of source {name:?} cannot be used")]
    Schema {
        name: String,
        #[source]
        source: SchemaFileError,
    },
}

pub fn build_queue(declared: &config::QueueConfig, folder: &Path) -> Result<Queue, BuildError> {
    let owner = format!("the handler of queue {:?}", declared.name);
    let handler = HandlerBuilder { folder, owner }.handler(&declared.handler)?;
    let mut queue =
        Queue::new(declared.name.as_str(), handler).with_policy(declared.policy.policy.clone());
    queue.categories = match &declared.categories {
        None => Categories::All,
        Some(names) => Categories::Only(names.clone()),
    };
    queue.time_limit = declared.limits.timeout;
    queue.limits = limits(declared.limits);
    Ok(queue.with_gates(declared.gates.iter().map(gate_rule).collect()))
}

fn gate_rule(declared: &config::GateConfig) -> GateRule {
    GateRule {
        name: declared.name.clone(),
        is_keyed: declared.per.is_some(),
        settings: declared.settings,
    }
}

/// The gates of a configuration, with all places whose units pass them.
pub fn declared_gates(config: &config::Config) -> GateDeclarations {
    let place = |kind, place: &str| GatePlace { kind, place: place.to_owned() };
    let queues = config.queues.iter().map(|it| (place(UnitKind::Run, &it.name), &it.gates));
    let sources = config.sources.iter().map(|it| (place(UnitKind::Partition, &it.name), &it.gates));
    let stages = config.pipelines.iter().flat_map(|pipeline| {
        let named = |stage: &config::StageConfig| format!("{}/{}", pipeline.name, stage.name);
        let stages = pipeline.stages.iter();
        stages.map(move |it| (place(UnitKind::Sample, &named(it)), &it.gates))
    });
    let uploads = config.uploads.iter().map(|it| (place(UnitKind::Item, &it.name), &it.gates));
    let places: Vec<_> = queues.chain(sources).chain(stages).chain(uploads).collect();
    let declare = |gate: &config::GateConfig| {
        let passed = places.iter().filter(|(_, gates)| gates.contains(gate));
        DeclaredGate {
            name: gate.name.clone(),
            per: gate.per.clone(),
            key: gate.key.clone(),
            limits: gate.settings.limits_in_words(),
            places: passed.map(|(place, _)| place.clone()).collect(),
        }
    };
    let gates = config.gates.iter().map(declare).collect();
    GateDeclarations { gates, places: places.into_iter().map(|(place, _)| place).collect() }
}

pub fn build_notifier(
    declared: &config::NotifierConfig,
    folder: &Path,
) -> Result<Notifier, BuildError> {
    let notifies = |event| declared.events.contains(&event);
    let dead_letters = notifies(config::NotifyEvent::DeadLetters);
    Ok(Notifier {
        name: declared.name.clone(),
        source: declared.source.clone(),
        events: NotifyEvents {
            giveups: notifies(config::NotifyEvent::Giveup),
            aborts: notifies(config::NotifyEvent::Abort),
            dead_letters: dead_letters.then_some(declared.dead_letters_every),
            cause_returns: notifies(config::NotifyEvent::CauseReturn),
            gates: notifies(config::NotifyEvent::Gate),
        },
        queue: build_queue(&declared.queue, folder)?,
    })
}

pub fn build_source(
    declared: &config::SourceConfig,
    folder: &Path,
    sink: RawSink,
) -> Result<Source, BuildError> {
    let name = &declared.name;
    let extractor = HandlerBuilder { folder, owner: format!("the extractor of source {name:?}") };
    let judge = HandlerBuilder { folder, owner: format!("the judge of source {name:?}") };
    let judge = declared.validate.handler.as_ref().map(|handler| judge.handler(handler));
    let rules = build_validation_rules(&declared.validate, folder)
        .map_err(|source| BuildError::Schema { name: name.clone(), source })?;
    let time_limit = declared.limits.timeout;
    let judge = judge.transpose()?.map(|handler| ValidationHandler { handler, time_limit });
    let mut source = Source::new(name.as_str(), extractor.extractor(&declared.extract)?, sink)
        .with_rules(ValidationRules { handler: judge, ..rules });
    source.schema_version.clone_from(&declared.schema_version);
    source.backfill_share = declared.backfill_share;
    if let Some(schedule) = &declared.schedule {
        let calendar = build_calendar(schedule)
            .map_err(|source| BuildError::Schedule { name: name.clone(), source })?;
        let (customers, queries) = (declared.customers.clone(), declared.queries.clone());
        source.schedule = Some(DaySchedule { customers, queries, calendar });
    }
    source.time_limit = time_limit;
    source.limits = limits(declared.limits);
    Ok(source.with_gates(declared.gates.iter().map(gate_rule).collect()))
}

/// Builds the sender of an upload's groups, with retries unless `disable-retry` is set.
pub fn build_upload(
    declared: &config::UploadConfig,
    config: &config::Config,
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    worker: WorkerId,
    observer: Option<UploadObserver>,
    traces: Traces,
) -> Result<GroupUpload, BuildError> {
    let (name, folder) = (&declared.name, config.folder.as_path());
    let check = HandlerBuilder { folder, owner: format!("the check of upload {name:?}") };
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
        retry: RetrySettings::new(declared.policy.policy.clone(), declared.max_in_call_retries),
        disable_retry: declared.disable_retry,
        giveup_file: giveup_file.clone(),
        observer,
        traces,
        gates: declared.gates.iter().map(gate_rule).collect(),
        declared_gates: declared_gates(config),
    };
    let uploader = build_uploader(plan, store.clone(), content).map_err(|source| {
        let owner = format!("upload {name:?}");
        BuildError::Request { owner, source }
    })?;
    Ok(GroupUpload::new(uploader, store, worker, declared.lease)
        .with_cap(declared.policy.policy.spec().cap)
        .with_giveup_file(giveup_file))
}

pub fn build_pipeline(
    declared: &config::PipelineConfig,
    folder: &Path,
) -> Result<Pipeline, BuildError> {
    let name = &declared.name;
    let source: Arc<dyn SampleSource> = match &declared.source {
        config::SampleSourceConfig::Jsonl(path) => Arc::new(JsonlSource::new(folder.join(path))),
        config::SampleSourceConfig::Exec(program) => {
            let builder =
                HandlerBuilder { folder, owner: format!("the source of pipeline {name:?}") };
            Arc::new(CommandSource::new(builder.exec(program)?, program.argv.join(" ")))
        }
    };
    let pipeline = Pipeline::new(name.as_str(), source)
        .with_rules(declared.rules.clone())
        .with_read_ahead(declared.read_ahead);
    declared.stages.iter().try_fold(pipeline, |pipeline, declared| {
        let owner = format!("stage {:?} of pipeline {name:?}", declared.name);
        let mut handler = HandlerBuilder { folder, owner }.handler(&declared.handler)?;
        if let config::HandlerConfig::Http(http) = &declared.handler
            && let Some(place) = http.into.clone()
        {
            handler = Arc::new(IntoSample { handler, pointer: place });
        }
        let mut stage = Stage::new(declared.name.as_str(), handler)
            .with_policy(declared.policy.policy.clone())
            .with_config(&stage_definition(&declared.handler));
        stage.time_limit = declared.limits.timeout;
        stage.limits = limits(declared.limits);
        let gates = declared.gates.iter().map(gate_rule).collect();
        let stage = stage.with_gates(gates, declared.gate_key().map(str::to_owned));
        Ok(pipeline.with_stage(stage))
    })
}

/// What the results of a stage depend on: the program or request with its arguments. Concurrency,
/// timeout, policy and the values of secrets are not part of the definition, so that changing them
/// does not make a run incompatible.
fn stage_definition(handler: &config::HandlerConfig) -> Value {
    let program = |kind: &str, program: &config::ProgramConfig| {
        let mut env = program.env.clone();
        env.sort_unstable();
        json!({ kind: program.argv, "env": env })
    };
    match handler {
        config::HandlerConfig::Exec(exec) => program("exec", exec),
        config::HandlerConfig::Stream(stream) => program("stream", &stream.program),
        config::HandlerConfig::Http(http) => {
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

/// The rules for failed partitions, with the policy of every declared source.
pub fn build_partition_rules(config: &config::Config) -> PartitionRules {
    let rules = PartitionRules::new(config.jitter_seed);
    config.sources.iter().fold(rules, |rules, source| {
        rules.with_policy(source.name.as_str(), source.policy.policy.clone())
    })
}

pub fn build_calendar(schedule: &config::ScheduleConfig) -> Result<DailyCalendar, InvalidUnit> {
    let start = schedule.start.try_into()?;
    Ok(DailyCalendar { start, at: schedule.at, lag_days: schedule.lag_days })
}

fn limits(limits: config::LimitsConfig) -> WorkerLimits {
    WorkerLimits {
        concurrency: limits.concurrency as usize,
        lease: limits.lease,
        log: limits.log,
        ..WorkerLimits::default()
    }
}

/// Builds handlers; errors name their owner.
struct HandlerBuilder<'a> {
    folder: &'a Path,
    owner: String,
}

impl HandlerBuilder<'_> {
    fn handler(&self, declared: &config::HandlerConfig) -> Result<Arc<dyn Handler>, BuildError> {
        Ok(match declared {
            config::HandlerConfig::Exec(program) => Arc::new(self.exec(program)?),
            config::HandlerConfig::Stream(stream) => Arc::new(self.stream(stream)?),
            config::HandlerConfig::Http(http) => Arc::new(
                HttpHandler::new(http.request.clone())
                    .map_err(|error| self.request_error(error))?,
            ),
        })
    }

    fn extractor(
        &self,
        declared: &config::HandlerConfig,
    ) -> Result<Arc<dyn Extractor>, BuildError> {
        Ok(match declared {
            config::HandlerConfig::Exec(program) => Arc::new(self.exec(program)?),
            config::HandlerConfig::Stream(stream) => Arc::new(self.stream(stream)?),
            config::HandlerConfig::Http(http) => {
                // The configuration requires `rows` for every extraction. Without paging, the
                // response itself is the list of rows.
                let paging = http.paging.clone().unwrap_or_default();
                let extractor = HttpExtractor::new(http.request.clone(), paging);
                Arc::new(extractor.map_err(|error| self.request_error(error))?)
            }
        })
    }

    fn exec(&self, program: &config::ProgramConfig) -> Result<ExecHandler, BuildError> {
        let mut spec = ExecSpec::new(program.argv.clone(), self.folder);
        spec.env.clone_from(&program.env);
        spec.grace = program.grace;
        ExecHandler::new(spec).map_err(|source| self.program_error(source))
    }

    fn stream(&self, stream: &config::StreamConfig) -> Result<StreamHandler, BuildError> {
        let mut spec = StreamSpec::new(stream.program.argv.clone(), self.folder);
        spec.env.clone_from(&stream.program.env);
        spec.grace = stream.program.grace;
        spec.processes = stream.processes as usize;
        spec.in_flight = stream.in_flight as usize;
        StreamHandler::new(spec).map_err(|source| self.program_error(source))
    }

    fn program_error(&self, source: InvalidProgram) -> BuildError {
        BuildError::Program { owner: self.owner.clone(), source }
    }

    fn request_error(&self, source: InvalidHttp) -> BuildError {
        BuildError::Request { owner: self.owner.clone(), source }
    }
}
