//! `redrive runs show`: prints runs.

use std::collections::HashMap;

use clap::Args;
use redrive::RunId;
use redrive_ops::views::RunView;
use redrive_store::MAX_BATCH;

use super::parse_id;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
`redrive why run:ID` explains the attempts of a run. Exit code 3 means that some of the runs do not
exist, 1 that none does.

Examples:
  redrive runs show 17
  redrive runs show 17 18 -o json")]
pub(crate) struct RunsShowArgs {
    /// The ids of the runs
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true, value_parser = parse_id)]
    ids: Vec<RunId>,
}

pub(crate) async fn run(args: RunsShowArgs, context: &Context) -> Result<Exit, CommandError> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), IfMissing::Refuse).await?;
    let mut found = HashMap::new();
    for ids in args.ids.chunks(MAX_BATCH) {
        let runs = store.runs_by_id(ids).await.map_err(|error| chosen.store_error(error))?;
        found.extend(runs.into_iter().map(|run| (run.id, run)));
    }
    let mut rows = Vec::new();
    let mut unknown = Vec::new();
    for id in &args.ids {
        match found.get(id) {
            Some(run) => rows.push(RunView::from(run.clone())),
            None => unknown.push(id.to_string()),
        }
    }
    if rows.is_empty() {
        return Err(CommandError::new(
            Exit::Error,
            format!("there is no run {}", unknown.join(", ")),
        ));
    }
    context.output.records(&rows)?;
    if unknown.is_empty() {
        return Ok(Exit::Ok);
    }
    context.output.note(&format!("there is no run {}", unknown.join(", ")));
    Ok(Exit::Partial)
}
