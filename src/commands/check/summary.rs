//! The output of `check`: what a valid file declares, or the problems of an invalid file.

use redrive::{
    FileProblem, MissingVariable,
    config::{Config, ConfigReport},
    declared_policies, file_problems, missing_variables,
};
use redrive_ops::views::PolicyView;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    notifiers::NotifierRow,
    rows::{GateRow, PipelineRow, QueueRow, SourceRow, StageRow, UploadRow},
};
use crate::{
    commands::policy::PolicyListRow,
    context::Context,
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

#[derive(Debug, Serialize)]
pub(crate) struct ConfigSummary<'a> {
    config: String,
    valid: bool,
    problems: [(); 0],
    store: String,
    store_from: String,
    synchronous: &'static str,
    raw: String,
    listen: String,
    jitter_seed: u64,
    prune: Value,
    up: Value,
    policies: Vec<PolicyListRow>,
    gates: Vec<GateRow<'a>>,
    queues: Vec<QueueRow<'a>>,
    sources: Vec<SourceRow<'a>>,
    uploads: Vec<UploadRow<'a>>,
    pipelines: Vec<PipelineRow<'a>>,
    notifiers: Vec<NotifierRow<'a>>,
    /// Programs and schemas that cannot be used on this host.
    file_problems: Vec<FileProblemRow>,
    /// A warning: the process that needs these variables may have another environment than this one.
    missing_variables: Vec<MissingVariableRow>,
}

#[derive(Debug, Serialize)]
struct FileProblemRow {
    kind: &'static str,
    place: String,
    problem: String,
}

impl TableRow for FileProblemRow {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("kind"), TableColumn::text("of"), TableColumn::text("problem")];

    fn cells(&self) -> Vec<String> {
        vec![self.kind.to_owned(), self.place.clone(), self.problem.clone()]
    }
}

#[derive(Debug, Serialize)]
struct MissingVariableRow {
    variable: String,
    place: String,
    used_for: String,
}

impl TableRow for MissingVariableRow {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("variable"), TableColumn::text("of"), TableColumn::text("used for")];

    fn cells(&self) -> Vec<String> {
        vec![self.variable.clone(), self.place.clone(), self.used_for.clone()]
    }
}

impl<'a> ConfigSummary<'a> {
    /// `store` is the URL and its origin, in words.
    pub(crate) fn new(name: String, config: &'a Config, store: (String, String)) -> Self {
        let policies = declared_policies(config);
        let files = file_problems(config).into_iter().map(|file| {
            let FileProblem { kind, place, problem } = file;
            FileProblemRow { kind, place, problem }
        });
        let files: Vec<FileProblemRow> = files.collect();
        let variables = missing_variables(config).into_iter().map(|missing| {
            let MissingVariable { variable, place, used_for } = missing;
            MissingVariableRow { variable, place, used_for }
        });
        Self {
            config: name,
            valid: files.is_empty(),
            problems: [],
            store: store.0,
            store_from: store.1,
            synchronous: config.store.synchronous.name(),
            raw: config.raw.clone().in_folder(&config.folder).to_string(),
            listen: config.server.listen.to_string(),
            jitter_seed: config.jitter_seed.0,
            prune: json!({ "export": config.prune.export }),
            up: json!({ "submit": config.up.submit, "pipelines": config.up.pipelines }),
            policies: policies.iter().map(|it| PolicyListRow(PolicyView::new(it))).collect(),
            gates: config.gates.iter().map(GateRow::new).collect(),
            queues: config.queues.iter().map(QueueRow::new).collect(),
            sources: config.sources.iter().map(SourceRow::new).collect(),
            uploads: config.uploads.iter().map(UploadRow::new).collect(),
            pipelines: config.pipelines.iter().map(PipelineRow::new).collect(),
            notifiers: config.notifiers.iter().map(NotifierRow::new).collect(),
            file_problems: files,
            missing_variables: variables.collect(),
        }
    }

    /// Prints one JSON object, or the settings and a table for each kind.
    pub(crate) fn print(&self, context: &Context) -> Result<(), CommandError> {
        let output = context.output;
        output.record(self)?;
        output.section("policies", &self.policies)?;
        output.section("gates", &self.gates)?;
        output.section("queues", &self.queues)?;
        output.section("sources", &self.sources)?;
        output.section("uploads", &self.uploads)?;
        output.section("pipelines", &self.pipelines)?;
        let stages = self.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        let stages: Vec<&StageRow<'_>> = stages.collect();
        output.section("stages", &stages)?;
        output.section("notifiers", &self.notifiers)?;
        output.section("files that cannot be used", &self.file_problems)?;
        let title = "warning: environment variables that are not set here";
        output.section(title, &self.missing_variables)?;
        if self.valid {
            return output.footer(&format!("{} is valid", self.config));
        }
        let message =
            format!("{} names {} files that cannot be used", self.config, self.file_problems.len());
        Err(CommandError::new(Exit::Error, message)
            .help("paths start at the folder of the file; names are searched in PATH"))
    }
}

impl TableRow for ConfigSummary<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("config"),
        TableColumn::text("store"),
        TableColumn::text("raw"),
        TableColumn::text("listen"),
        TableColumn::text("jitter seed"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.config.clone(),
            format!("{} (from {})", self.store, self.store_from),
            self.raw.clone(),
            self.listen.clone(),
            self.jitter_seed.to_string(),
        ]
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct InvalidConfig {
    config: String,
    valid: bool,
    problems: Vec<ConfigProblemRow>,
}

#[derive(Debug, Serialize)]
struct ConfigProblemRow {
    line: usize,
    column: usize,
    key: String,
    message: String,
    label: String,
    help: Option<String>,
}

impl InvalidConfig {
    pub(crate) fn new(name: String, report: &ConfigReport) -> Self {
        let findings = report.problems().iter().map(|problem| {
            let (line, column) = report.position(problem);
            ConfigProblemRow {
                line,
                column,
                key: problem.key.clone(),
                message: problem.message.clone(),
                label: problem.label.clone(),
                help: problem.help.clone(),
            }
        });
        Self { config: name, valid: false, problems: findings.collect() }
    }
}

impl TableRow for InvalidConfig {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("config"), TableColumn::number("problems")];

    fn cells(&self) -> Vec<String> {
        vec![self.config.clone(), self.problems.len().to_string()]
    }
}
