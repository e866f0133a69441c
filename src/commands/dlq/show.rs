//! `redrive dlq show`: prints samples with their attempts.

use clap::Args;
use redrive::SampleId;
use redrive_ops::{Resource, views::SampleView};

use super::attempts::StageAttempt;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
};

#[derive(Debug, Args)]
#[command(after_help = "\
`redrive why sample:ID` also shows the rule behind each wait. The command shows samples of any status. Exit code 3
means that some of the samples do not exist, 1 that none does.

Examples:
  redrive dlq show 17
  redrive dlq show 17 18 -o json")]
pub(crate) struct DlqShowArgs {
    /// The ids of the samples
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true, value_parser = SampleView::parse_id)]
    ids: Vec<SampleId>,
}

pub(crate) async fn run(args: DlqShowArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for id in &args.ids {
        match ops.sample(*id).await.map_err(|error| ops.store_error(error))? {
            Some(sample) => found.push(sample),
            None => unknown.push(id.to_string()),
        }
    }
    let unknown =
        (!unknown.is_empty()).then(|| format!("there is no sample {}", unknown.join(", ")));
    if let (Some(unknown), true) = (&unknown, found.is_empty()) {
        return Err(CommandError::new(Exit::Error, unknown)
            .help("`redrive dlq list` shows the dead letters"));
    }
    let output = context.output;
    if output.is_table() {
        for (index, sample) in found.iter().enumerate() {
            output.text(if index > 0 { "\n" } else { "" })?;
            output.details(&[&sample.sample])?;
            let attempts: Vec<_> = sample.ledger.iter().map(StageAttempt).collect();
            output.section("attempts", &attempts)?;
        }
    } else {
        output.details(&found)?;
    }
    let Some(unknown) = unknown else { return Ok(Exit::Ok) };
    output.note(&unknown);
    Ok(Exit::Partial)
}
