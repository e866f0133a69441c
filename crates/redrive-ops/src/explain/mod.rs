//! The story of one unit (OPS-3): what it is, each attempt, the rule behind each decision in words, what
//! operators and workers did to it, and what comes next.
//!
//! The ledger keeps what was decided; the policy of the configuration says why, as far as it is still the one
//! that decided.

mod item;
mod partition;
mod partition_next;
mod rule;
mod run;
mod run_next;
mod sample;

use jiff::Timestamp;
use redrive_core::{SampleId, Unit};
use redrive_store::Result;
use serde::Serialize;

pub use item::ItemExplanation;
pub use partition::PartitionExplanation;
pub use partition_next::PartitionNext;
pub use run::RunExplanation;
pub use sample::{SampleExplanation, StageExplanation};

use crate::{Ops, words::instant};

/// A unit's story.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Explanation {
    /// That of a run.
    Run(Box<RunExplanation>),
    /// That of an item.
    Item(Box<ItemExplanation>),
    /// That of a partition.
    Partition(Box<PartitionExplanation>),
    /// That of a sample.
    Sample(Box<SampleExplanation>),
}

/// Whose story is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainTarget {
    /// That of a unit.
    Unit(Unit),
    /// That of a sample at whatever stage.
    Sample(SampleId),
}

/// What comes next.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Next {
    /// The state the unit is in.
    pub state: &'static str,
    /// When something happens by itself, if it does.
    pub at: Option<String>,
    /// What, and because of what.
    pub because: String,
}

impl Next {
    fn new(state: &'static str, at: Option<Timestamp>, because: String) -> Self {
        Self { state, at: instant(at), because }
    }
}

impl Ops {
    /// The story of a unit; `None` if there is no such unit. That of a sample at one stage is of all stages:
    /// [`SampleExplanation::only`] picks one.
    pub async fn explain(&self, asked: &ExplainTarget) -> Result<Option<Explanation>> {
        Ok(match asked {
            ExplainTarget::Unit(Unit::Run(id)) => RunExplanation::read(*id, self)
                .await?
                .map(|story| Explanation::Run(Box::new(story))),
            ExplainTarget::Unit(Unit::Item(id)) => ItemExplanation::read(*id, self)
                .await?
                .map(|story| Explanation::Item(Box::new(story))),
            ExplainTarget::Unit(Unit::Partition(key)) => PartitionExplanation::read(key, self)
                .await?
                .map(|it| Explanation::Partition(Box::new(it))),
            ExplainTarget::Unit(Unit::Sample { id, .. }) | ExplainTarget::Sample(id) => {
                SampleExplanation::read(*id, self)
                    .await?
                    .map(|story| Explanation::Sample(Box::new(story)))
            }
        })
    }
}
