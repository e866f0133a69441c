//! `[up]`: the runs and pipelines that `redrive up` submits when it starts.

use std::path::PathBuf;

use super::{
    PipelineConfig,
    reader::{Section, Value},
    source::file_path,
    value::{set, shorten, text},
};
use crate::nearest::suggestion;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpConfig {
    /// Files of runs as JSON lines, each with an idempotency key; paths as written.
    pub submit: Vec<PathBuf>,
    /// Pipelines to start, unless they were started before.
    pub pipelines: Vec<String>,
}

impl UpConfig {
    pub(super) fn read(s: &mut Section<'_>, pipelines: &[PipelineConfig]) -> Option<Self> {
        let submit = s.get("submit", set(file_path)).unwrap_or_default();
        let pipelines = s.get("pipelines", set(|value| pipeline_name(value, pipelines)));
        Some(Self {
            submit: submit.into_iter().map(PathBuf::from).collect(),
            pipelines: pipelines.unwrap_or_default(),
        })
    }
}

/// The name of a declared pipeline.
fn pipeline_name(value: Value<'_>, pipelines: &[PipelineConfig]) -> Option<String> {
    let name = text(value.clone())?;
    if pipelines.iter().any(|pipeline| pipeline.name == name) {
        return Some(name);
    }
    let message = format!("there is no pipeline {:?}", shorten(&name));
    let help = suggestion(&name, pipelines.iter().map(|pipeline| pipeline.name.as_str()));
    match pipelines {
        [] => value.refuse(message, "the file declares no pipelines"),
        _ => value.refuse_with_help(message, "name a [[pipeline]] of this file", help),
    }
}
