//! `redrive dlq show`.

use clap::Args;
use redrive::SampleId;
use serde::Serialize;

use super::{
    attempts::{AttemptRow, attempts_of},
    parse_id,
    record::SampleRow,
};
use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
    output::{Column, Row},
    pipeline_desk::PipelineDesk,
};

/// The arguments of `dlq show`.
#[derive(Debug, Args)]
#[command(after_help = "\
`redrive why sample:ID` tells the rule behind each attempt besides. Samples that are not dead are shown as well. Ends
with 3 if some of the samples do not exist, with 1 if none does.

Examples:
  redrive dlq show 17
  redrive dlq show 17 18 -o json")]
pub(crate) struct Arguments {
    /// The samples
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true, value_parser = parse_id)]
    ids: Vec<SampleId>,
}

/// A sample with its attempts.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    sample: SampleRow,
    ledger: Vec<AttemptRow>,
}

impl Row for Shown {
    const COLUMNS: &'static [Column] = SampleRow::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.sample.cells()
    }
}

/// Runs `dlq show`.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let desk = PipelineDesk::open(context, Missing::Refuse).await?;
    let (mut shown, mut unknown) = (Vec::new(), Vec::new());
    for id in &arguments.ids {
        match show(*id, &desk).await.map_err(|error| desk.failure(error))? {
            Some(sample) => shown.push(sample),
            None => unknown.push(id.to_string()),
        }
    }
    let unknown =
        (!unknown.is_empty()).then(|| format!("there is no sample {}", unknown.join(", ")));
    if let (Some(unknown), true) = (&unknown, shown.is_empty()) {
        return Err(Failure::new(Exit::Error, unknown).help("`redrive dlq list` shows what died"));
    }
    let output = context.output;
    if output.is_table() {
        for (place, sample) in shown.iter().enumerate() {
            output.text(if place > 0 { "\n" } else { "" })?;
            output.record(sample)?;
            output.remark_list("attempts", &sample.ledger)?;
        }
    } else {
        output.list(shown)?;
    }
    let Some(unknown) = unknown else { return Ok(Exit::Ok) };
    output.note(&unknown);
    Ok(Exit::Partial)
}

async fn show(id: SampleId, desk: &PipelineDesk) -> redrive_store::Result<Option<Shown>> {
    let Some(sample) = desk.store.samples_by_id(&[id]).await?.pop() else { return Ok(None) };
    let run = desk.control.run(sample.run).await?;
    let stages = run.map(|run| run.stages).unwrap_or_default();
    let ledger = attempts_of(&sample, &stages, &*desk.store).await?;
    Ok(Some(Shown { sample: sample.into(), ledger }))
}
