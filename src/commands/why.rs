//! `redrive why UNIT`: the story of one unit (OPS-3).
//!
//! What it is, each attempt, the rule behind each decision in words, what operators and workers did
//! to it, and what comes next. The ledger keeps what was decided; the policy of the configuration
//! says why, as far as it is still the one that decided.

mod next;
mod rule;
mod story;

use clap::Args;
use redrive::{RunId, Unit};

use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
};
use story::Story;

/// The arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a configuration that declares the queue, each wait is explained by its policy.

Examples:
  redrive why run:17
  redrive why run:17 -o json")]
pub(crate) struct Arguments {
    /// The unit, such as run:17
    unit: Unit,
}

/// Tells the story.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let unit = arguments.unit;
    let id: RunId = match &unit {
        Unit::Run(id) => *id,
        Unit::Partition(_) | Unit::Item(_) | Unit::Sample { .. } => {
            let message = format!("{unit}: only runs are kept yet, so only they have a story");
            return Err(Failure::new(Exit::Error, message).help("write run:ID"));
        }
    };
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let story = Story::read(id, &*store, config.as_ref())
        .await
        .map_err(|error| chosen.failure(error))?
        .ok_or_else(|| {
            Failure::new(Exit::Error, format!("there is no {unit} in {}", chosen.url))
                .help("`redrive runs list` shows what there is")
        })?;
    story.print(context)?;
    Ok(Exit::Ok)
}
