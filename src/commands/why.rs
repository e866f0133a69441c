//! `redrive why UNIT`: the story of one unit (OPS-3).
//!
//! What it is, each attempt, the rule behind each decision in words, what operators and workers did
//! to it, and what comes next. The ledger keeps what was decided; the policy of the configuration
//! says why, as far as it is still the one that decided.

mod item;
mod next;
mod partition;
mod rule;
mod story;

use clap::Args;
use redrive::{ItemId, PartitionKey, RunId, Unit};

pub(crate) use next::apart;
pub(crate) use rule::formula;

use crate::{
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
};
use item::ItemStory;
use partition::PartitionStory;
use story::Story;

/// The arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a configuration that declares the queue or the source, each wait is explained by its policy.

Examples:
  redrive why run:17
  redrive why run:17 -o json
  redrive why item:17
  redrive why partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct Arguments {
    /// The unit: run:ID, item:ID or partition:SOURCE/CUSTOMER/QUERY/DATE
    unit: Unit,
}

/// Tells the story.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.unit {
        Unit::Run(id) => of_run(id, context).await,
        Unit::Item(id) => of_item(id, context).await,
        Unit::Partition(key) => of_partition(&key, context).await,
        unit @ Unit::Sample { .. } => {
            let message = format!("{unit}: samples are not kept yet, so they have no story");
            Err(Failure::new(Exit::Error, message)
                .help("write run:ID, item:ID or partition:SOURCE/CUSTOMER/QUERY/DATE"))
        }
    }
}

async fn of_item(id: ItemId, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let story = ItemStory::read(id, &*store, config.as_ref())
        .await
        .map_err(|error| chosen.failure(error))?
        .ok_or_else(|| {
            Failure::new(Exit::Error, format!("there is no item:{id} in {}", chosen.url))
                .help("`redrive uploads list` shows what there is")
        })?;
    story.print(context)?;
    Ok(Exit::Ok)
}

async fn of_run(id: RunId, context: &Context) -> Result<Exit, Failure> {
    let config = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let story = Story::read(id, &*store, config.as_ref())
        .await
        .map_err(|error| chosen.failure(error))?
        .ok_or_else(|| {
            Failure::new(Exit::Error, format!("there is no run:{id} in {}", chosen.url))
                .help("`redrive runs list` shows what there is")
        })?;
    story.print(context)?;
    Ok(Exit::Ok)
}

async fn of_partition(key: &PartitionKey, context: &Context) -> Result<Exit, Failure> {
    let desk = Desk::open(context, Missing::Refuse).await?;
    let story = PartitionStory::read(key, &desk)
        .await
        .map_err(|error| desk.failure(error))?
        .ok_or_else(|| {
            let message = format!("partition:{key} has no entry in {}", desk.chosen.url);
            Failure::new(Exit::Error, message).help("`redrive state inspect` shows what there is")
        })?;
    story.print(context)?;
    Ok(Exit::Ok)
}
