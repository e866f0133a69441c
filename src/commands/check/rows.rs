//! The declared queues, sources, uploads, pipelines and stages as rows.

use redrive::GateTrip;
use redrive::config::{
    GateConfig, PipelineConfig, QueueConfig, SampleSourceConfig, SourceConfig, StageConfig,
    UploadConfig,
};
use redrive_ops::{
    views::PolicyView,
    words::{human, seconds},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::shared_fields::{
    HandlerView, LimitFields, clock_time, program, schedule, validate, view,
};
use crate::output::{TableColumn, TableRow};

#[derive(Debug, Serialize)]
pub(crate) struct GateRow<'a> {
    name: &'a str,
    per: Option<&'a str>,
    key: Option<&'a str>,
    rate: Option<String>,
    concurrency: Option<u32>,
    trip: Option<Value>,
    base_s: Value,
    cap_s: Value,
    pauses_max_age: bool,
    #[serde(skip)]
    gate: &'a GateConfig,
}

impl<'a> GateRow<'a> {
    pub(crate) fn new(gate: &'a GateConfig) -> Self {
        let settings = &gate.settings;
        let trip = settings.trip().map(|trip| {
            json!({ "failures": trip.failures, "of": trip.of, "within_s": seconds(trip.within) })
        });
        Self {
            name: &gate.name,
            per: gate.per.as_deref(),
            key: gate.key.as_deref(),
            rate: settings.rate().map(|rate| rate.to_string()),
            concurrency: settings.concurrency(),
            trip,
            base_s: seconds(settings.period(1)),
            cap_s: seconds(settings.period(u32::MAX)),
            pauses_max_age: settings.pauses_max_age(),
            gate,
        }
    }
}

fn names_of(gates: &[GateConfig]) -> Vec<&str> {
    gates.iter().map(|gate| gate.name.as_str()).collect()
}

impl TableRow for GateRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("per"),
        TableColumn::text("rate"),
        TableColumn::text("concurrency"),
        TableColumn::text("trips"),
        TableColumn::text("closed for"),
    ];

    fn cells(&self) -> Vec<String> {
        let settings = &self.gate.settings;
        let trip = settings.trip().map(|trip| {
            let GateTrip { failures, of, within } = trip;
            format!("above {failures} of {of} within {}", human(within))
        });
        vec![
            self.name.to_owned(),
            self.per.unwrap_or_default().to_owned(),
            self.rate.clone().unwrap_or_default(),
            self.concurrency.map(|many| many.to_string()).unwrap_or_default(),
            trip.unwrap_or_default(),
            format!("{} to {}", human(settings.period(1)), human(settings.period(u32::MAX))),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueRow<'a> {
    name: &'a str,
    handler: HandlerView<'a>,
    policy: PolicyView,
    gates: Vec<&'a str>,
    categories: Option<&'a [String]>,
    #[serde(flatten)]
    limits: LimitFields,
    #[serde(skip)]
    queue: &'a QueueConfig,
}

impl<'a> QueueRow<'a> {
    pub(crate) fn new(queue: &'a QueueConfig) -> Self {
        Self {
            name: &queue.name,
            handler: HandlerView(&queue.handler),
            policy: view("queue", &queue.name, &queue.policy),
            gates: names_of(&queue.gates),
            categories: queue.categories.as_deref(),
            limits: queue.limits.into(),
            queue,
        }
    }
}

impl TableRow for QueueRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("handler"),
        TableColumn::text("policy"),
        TableColumn::text("gates"),
        TableColumn::text("categories"),
        TableColumn::number("concurrency"),
        TableColumn::number("timeout"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.handler.to_string(),
            self.queue.policy.title().to_owned(),
            self.gates.join(", "),
            match self.categories {
                None => "all".to_owned(),
                Some([]) => "none".to_owned(),
                Some(names) => names.join(", "),
            },
            self.queue.limits.concurrency.to_string(),
            human(self.queue.limits.timeout),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct SourceRow<'a> {
    name: &'a str,
    customers: &'a [String],
    queries: &'a [String],
    extract: HandlerView<'a>,
    schema_version: Option<&'a str>,
    validate: Value,
    policy: PolicyView,
    gates: Vec<&'a str>,
    schedule: Option<Value>,
    backfill_share: f64,
    #[serde(flatten)]
    limits: LimitFields,
    #[serde(skip)]
    source: &'a SourceConfig,
}

impl<'a> SourceRow<'a> {
    pub(crate) fn new(source: &'a SourceConfig) -> Self {
        Self {
            name: &source.name,
            customers: &source.customers,
            queries: &source.queries,
            extract: HandlerView(&source.extract),
            schema_version: source.schema_version.as_deref(),
            validate: validate(&source.validate),
            policy: view("source", &source.name, &source.policy),
            gates: names_of(&source.gates),
            schedule: source.schedule.as_ref().map(schedule),
            backfill_share: source.backfill_share,
            limits: source.limits.into(),
            source,
        }
    }
}

impl TableRow for SourceRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::number("customers"),
        TableColumn::number("queries"),
        TableColumn::text("extract"),
        TableColumn::text("policy"),
        TableColumn::text("gates"),
        TableColumn::text("scheduled from"),
        TableColumn::text("daily at (utc)"),
    ];

    fn cells(&self) -> Vec<String> {
        let (from, at) = match self.source.schedule {
            Some(daily) => (daily.start.to_string(), clock_time(daily.at)),
            None => ("never".to_owned(), String::new()),
        };
        vec![
            self.name.to_owned(),
            self.customers.len().to_string(),
            self.queries.len().to_string(),
            self.extract.to_string(),
            self.source.policy.title().to_owned(),
            self.gates.join(", "),
            from,
            at,
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct UploadRow<'a> {
    name: &'a str,
    url: String,
    headers: Vec<&'a str>,
    private_addresses: bool,
    ready: Option<HandlerView<'a>>,
    concurrency: u32,
    timeout_s: Value,
    lease_s: Value,
    giveup_file: Option<String>,
    disable_retry: bool,
    max_in_call_retries: u32,
    policy: PolicyView,
    gates: Vec<&'a str>,
}

impl<'a> UploadRow<'a> {
    pub(crate) fn new(upload: &'a UploadConfig) -> Self {
        Self {
            name: &upload.name,
            url: upload.request.url.to_string(),
            headers: upload.request.headers.iter().map(|(name, _)| name.as_str()).collect(),
            private_addresses: upload.request.private_addresses,
            ready: upload.ready.as_ref().map(HandlerView),
            concurrency: upload.concurrency,
            timeout_s: seconds(upload.timeout),
            lease_s: seconds(upload.lease),
            giveup_file: upload.giveup_file.as_ref().map(|path| path.display().to_string()),
            disable_retry: upload.disable_retry,
            max_in_call_retries: upload.max_in_call_retries,
            policy: view("upload", &upload.name, &upload.policy),
            gates: names_of(&upload.gates),
        }
    }
}

impl TableRow for UploadRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("url"),
        TableColumn::number("retries in a call"),
        TableColumn::number("attempts of an item"),
        TableColumn::text("backoff"),
        TableColumn::text("gates"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.url.clone(),
            match self.disable_retry {
                true => "off".to_owned(),
                false => self.max_in_call_retries.to_string(),
            },
            self.policy.attempts_in_words(),
            self.policy.backoff_in_words(),
            self.gates.join(", "),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct PipelineRow<'a> {
    name: &'a str,
    source: Value,
    completed_at: f64,
    partial_at: f64,
    failure_budget: Value,
    read_ahead: u32,
    pub(crate) stages: Vec<StageRow<'a>>,
    #[serde(skip)]
    pipeline: &'a PipelineConfig,
}

impl<'a> PipelineRow<'a> {
    pub(crate) fn new(pipeline: &'a PipelineConfig) -> Self {
        let budget = &pipeline.rules.budget;
        let stages = pipeline.stages.iter();
        Self {
            name: &pipeline.name,
            source: match &pipeline.source {
                SampleSourceConfig::Jsonl(path) => json!({ "jsonl": path }),
                SampleSourceConfig::Exec(exec) => program(exec),
            },
            completed_at: pipeline.rules.completed_at,
            partial_at: pipeline.rules.partial_at,
            failure_budget: json!({
                "rate": budget.rate,
                "every": budget.every,
                "min_samples": budget.min_samples,
                "exclude": budget.exclude,
            }),
            read_ahead: pipeline.read_ahead,
            stages: stages.map(|stage| StageRow::new(&pipeline.name, stage)).collect(),
            pipeline,
        }
    }
}

impl TableRow for PipelineRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::number("stages"),
        TableColumn::number("completed at"),
        TableColumn::number("partial at"),
        TableColumn::number("failure budget"),
        TableColumn::number("read ahead"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.stages.len().to_string(),
            self.completed_at.to_string(),
            self.partial_at.to_string(),
            self.pipeline.rules.budget.rate.to_string(),
            self.read_ahead.to_string(),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct StageRow<'a> {
    name: &'a str,
    handler: HandlerView<'a>,
    policy: PolicyView,
    gates: Vec<&'a str>,
    #[serde(flatten)]
    limits: LimitFields,
    #[serde(skip)]
    pipeline: &'a str,
    #[serde(skip)]
    stage: &'a StageConfig,
}

impl<'a> StageRow<'a> {
    fn new(pipeline: &'a str, stage: &'a StageConfig) -> Self {
        Self {
            name: &stage.name,
            handler: HandlerView(&stage.handler),
            policy: view("stage", &format!("{pipeline}/{}", stage.name), &stage.policy),
            gates: names_of(&stage.gates),
            limits: stage.limits.into(),
            pipeline,
            stage,
        }
    }
}

impl TableRow for StageRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("pipeline"),
        TableColumn::text("stage"),
        TableColumn::text("handler"),
        TableColumn::text("policy"),
        TableColumn::text("gates"),
        TableColumn::number("concurrency"),
        TableColumn::number("timeout"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.pipeline.to_owned(),
            self.name.to_owned(),
            self.handler.to_string(),
            self.stage.policy.title().to_owned(),
            self.gates.join(", "),
            self.stage.limits.concurrency.to_string(),
            human(self.stage.limits.timeout),
        ]
    }
}
