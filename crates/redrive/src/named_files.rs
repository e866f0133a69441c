//! Checks the files that a configuration names: programs, their scripts, and JSON Schemas.

use std::error::Error;

use redrive_engine::program_problem;

use crate::{
    build_validation_rules,
    config::{Config, HandlerConfig, SampleSourceConfig},
};

/// A program or a schema that cannot be used as the configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// `program` or `schema of rows`.
    pub kind: &'static str,
    /// What names the file, such as `queue verify`.
    pub place: String,
    pub problem: String,
}

/// The named files that are missing or cannot be used on this host.
pub fn file_problems(config: &Config) -> Vec<FileProblem> {
    let programs = handlers(config).into_iter();
    let mut programs: Vec<(String, &[String])> =
        programs.filter_map(|(place, handler)| Some((place, argv(handler)?))).collect();
    for pipeline in &config.pipelines {
        if let SampleSourceConfig::Exec(exec) = &pipeline.source {
            let place = format!("the source of pipeline {}", pipeline.name);
            programs.push((place, exec.argv.as_slice()));
        }
    }
    let of_program = |(place, argv): (String, &[String])| {
        let problem = program_problem(argv, &config.folder)?;
        Some(FileProblem { kind: "program", place, problem })
    };
    let mut problems: Vec<FileProblem> = programs.into_iter().filter_map(of_program).collect();
    for source in &config.sources {
        if let Err(error) = build_validation_rules(&source.validate, &config.folder) {
            let mut problem = error.to_string();
            let mut cause = error.source();
            while let Some(error) = cause {
                problem.push_str(&format!(": {error}"));
                cause = error.source();
            }
            let place = format!("source {}", source.name);
            problems.push(FileProblem { kind: "schema of rows", place, problem });
        }
    }
    problems
}

/// Every handler and what declares it, such as `queue verify`.
pub(crate) fn handlers(config: &Config) -> Vec<(String, &HandlerConfig)> {
    let mut handlers = Vec::new();
    for queue in &config.queues {
        handlers.push((format!("queue {}", queue.name), &queue.handler));
    }
    for source in &config.sources {
        let name = &source.name;
        handlers.push((format!("source {name}"), &source.extract));
        let judge = source.validate.handler.as_ref();
        handlers.extend(judge.map(|judge| (format!("the validator of source {name}"), judge)));
    }
    for upload in &config.uploads {
        let ready = upload.ready.as_ref();
        handlers.extend(ready.map(|ready| (format!("upload {}", upload.name), ready)));
    }
    for pipeline in &config.pipelines {
        for stage in &pipeline.stages {
            let place = format!("stage {}/{}", pipeline.name, stage.name);
            handlers.push((place, &stage.handler));
        }
    }
    for notifier in &config.notifiers {
        handlers.push((format!("notifier {}", notifier.name), &notifier.queue.handler));
    }
    handlers
}

/// The command of a handler that is a program.
fn argv(handler: &HandlerConfig) -> Option<&[String]> {
    match handler {
        HandlerConfig::Exec(exec) => Some(&exec.argv),
        HandlerConfig::Stream(stream) => Some(&stream.program.argv),
        HandlerConfig::Http(_) => None,
    }
}
