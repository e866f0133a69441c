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
    let mut programs: Vec<(String, &[String])> = Vec::new();
    for queue in &config.queues {
        programs.extend(argv(&queue.handler).map(|argv| (format!("queue {}", queue.name), argv)));
    }
    for source in &config.sources {
        let name = &source.name;
        programs.extend(argv(&source.extract).map(|argv| (format!("source {name}"), argv)));
        let judge = source.validate.handler.as_ref().and_then(argv);
        programs.extend(judge.map(|argv| (format!("the validator of source {name}"), argv)));
    }
    for upload in &config.uploads {
        let ready = upload.ready.as_ref().and_then(argv);
        programs.extend(ready.map(|argv| (format!("upload {}", upload.name), argv)));
    }
    for pipeline in &config.pipelines {
        let name = &pipeline.name;
        if let SampleSourceConfig::Exec(exec) = &pipeline.source {
            programs.push((format!("the source of pipeline {name}"), exec.argv.as_slice()));
        }
        for stage in &pipeline.stages {
            let place = format!("stage {name}/{}", stage.name);
            programs.extend(argv(&stage.handler).map(|argv| (place, argv)));
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

/// The command of a handler that is a program.
fn argv(handler: &HandlerConfig) -> Option<&[String]> {
    match handler {
        HandlerConfig::Exec(exec) => Some(&exec.argv),
        HandlerConfig::Stream(stream) => Some(&stream.program.argv),
        HandlerConfig::Http(_) => None,
    }
}
