//! `redrive why UNIT`: the story of one unit (OPS-3).
//!
//! What it is, each attempt, the rule behind each decision in words, what operators and workers did
//! to it, and what comes next. The ledger keeps what was decided; the policy of the configuration
//! says why, as far as it is still the one that decided.

mod item;
mod next;
mod partition;
mod rule;
mod sample;
mod story;

use clap::Args;
use redrive::{InvalidUnit, ItemId, PartitionKey, RunId, SampleId, Unit};

pub(crate) use next::apart;
pub(crate) use rule::formula;

use crate::{
    commands::dlq::parse_id,
    context::{Context, Missing},
    desk::Desk,
    exit::{Exit, Failure},
    pipeline_desk::PipelineDesk,
};
use item::ItemStory;
use partition::PartitionStory;
use sample::SampleStory;
use story::Story;

/// The arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = "\
With a configuration that declares the queue, source or pipeline, each wait is explained by its policy.

Examples:
  redrive why run:17
  redrive why run:17 -o json
  redrive why item:17
  redrive why sample:17                     over all stages; sample:17/STAGE is one
  redrive why partition:ads/1234567890/campaign_daily/2026-01-31")]
pub(crate) struct Arguments {
    /// The unit: run:ID, item:ID, sample:ID or partition:SOURCE/CUSTOMER/QUERY/DATE
    #[arg(value_parser = parse_asked)]
    unit: Asked,
}

/// What is asked about.
#[derive(Debug, Clone)]
enum Asked {
    Unit(Unit),
    /// A sample at whatever stage.
    Sample(SampleId),
}

fn parse_asked(text: &str) -> Result<Asked, String> {
    match text.strip_prefix("sample:") {
        Some(id) if !id.contains('/') => parse_id(id).map(Asked::Sample),
        _ => text.parse().map(Asked::Unit).map_err(|error: InvalidUnit| error.to_string()),
    }
}

/// Tells the story.
pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    match arguments.unit {
        Asked::Unit(Unit::Run(id)) => of_run(id, context).await,
        Asked::Unit(Unit::Item(id)) => of_item(id, context).await,
        Asked::Unit(Unit::Partition(key)) => of_partition(&key, context).await,
        Asked::Unit(Unit::Sample { id, stage }) => of_sample(id, Some(&stage), context).await,
        Asked::Sample(id) => of_sample(id, None, context).await,
    }
}

async fn of_sample(id: SampleId, stage: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let desk = PipelineDesk::open(context, Missing::Refuse).await?;
    let story = SampleStory::read(id, &desk)
        .await
        .map_err(|error| desk.failure(error))?
        .ok_or_else(|| {
            Failure::new(Exit::Error, format!("there is no sample:{id} in {}", desk.chosen.url))
                .help("`redrive dlq list` shows what died")
        })?;
    story.only(stage)?.print(context)?;
    Ok(Exit::Ok)
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
