//! `redrive why UNIT`: the story of one unit (OPS-3).
//!
//! What it is, each attempt, the rule behind each decision in words, what operators and workers did
//! to it, and what comes next. The ledger keeps what was decided; the policy of the configuration
//! says why, as far as it is still the one that decided.

mod item;
mod next;
mod rule;
mod story;

use clap::Args;
use redrive::Unit;

use crate::{
    context::{Context, Missing},
    exit::{Exit, Failure},
};
use item::ItemStory;
use story::Story;

/// The arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a configuration that declares the queue, each wait is explained by its policy.

Examples:
  redrive why run:17
  redrive why run:17 -o json
  redrive why item:17")]
pub(crate) struct Arguments {
    /// The unit, such as run:17 or item:17
    unit: Unit,
}

/// Tells the story.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let unit = arguments.unit;
    if let Unit::Partition(_) | Unit::Sample { .. } = &unit {
        let message =
            format!("{unit}: only runs and items are kept yet, so only they have a story");
        return Err(Failure::new(Exit::Error, message).help("write run:ID or item:ID"));
    }
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let there_is_none = |list: &str| {
        Failure::new(Exit::Error, format!("there is no {unit} in {}", chosen.url))
            .help(format!("`redrive {list} list` shows what there is"))
    };
    let (store, config) = (&*store, config.as_ref());
    match &unit {
        Unit::Run(id) => {
            let story = Story::read(*id, store, config).await;
            let story = story.map_err(|error| chosen.failure(error))?;
            story.ok_or_else(|| there_is_none("runs"))?.print(context)?;
        }
        Unit::Item(id) => {
            let story = ItemStory::read(*id, store, config).await;
            let story = story.map_err(|error| chosen.failure(error))?;
            story.ok_or_else(|| there_is_none("uploads"))?.print(context)?;
        }
        Unit::Partition(_) | Unit::Sample { .. } => {}
    }
    Ok(Exit::Ok)
}
