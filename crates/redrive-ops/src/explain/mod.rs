//! Explains one unit (OPS-3): its record, each attempt, the rule behind each decision in words, its journal, and what
//! happens next.
//!
//! The ledger stores the decisions. The policy of the configuration explains them, unless the policy has changed since.

mod item;
mod journal;
mod partition;
mod partition_next;
mod rule;
mod run;
mod run_next;
mod sample;
mod timeline;

use jiff::Timestamp;
use redrive_core::{InvalidUnit, SampleId, Unit};
use redrive_store::Result;
use serde::Serialize;

pub use item::ItemExplanation;
pub use partition::PartitionExplanation;
pub use partition_next::PartitionNext;
pub use run::RunExplanation;
pub use sample::{SampleExplanation, StageExplanation};
pub use timeline::{TimelineAttempt, TimelineStep, timeline};

use crate::{Ops, Resource, views::SampleView, words::instant};

/// The explanation of a unit.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Explanation {
    Run(Box<RunExplanation>),
    Item(Box<ItemExplanation>),
    Partition(Box<PartitionExplanation>),
    Sample(Box<SampleExplanation>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExplainTarget {
    Unit(Unit),
    /// A sample at all stages.
    Sample(SampleId),
}

impl ExplainTarget {
    /// A unit as users write it. The name of the kind may be left out before the key of a partition. An error says
    /// what is allowed.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let invalid = |error: InvalidUnit| error.to_string();
        match text.split_once(':') {
            Some(("plan", id)) => Err(format!(
                "a plan is no unit: `redrive plan show {id}` shows it, and `redrive plan units {id}` its units"
            )),
            Some(("sample", id)) if !id.contains('/') => SampleView::parse_id(id).map(Self::Sample),
            None if text.contains('/') => {
                text.parse().map(|key| Self::Unit(Unit::Partition(key))).map_err(invalid)
            }
            _ => text.parse().map(Self::Unit).map_err(invalid),
        }
    }
}

/// What happens next to a unit.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Next {
    /// The current state.
    pub state: &'static str,
    /// When the next step happens without an operator; null if none does.
    pub at: Option<String>,
    /// The next step and its reason, in words.
    pub because: String,
}

impl Next {
    fn new(state: &'static str, at: Option<Timestamp>, because: String) -> Self {
        Self { state, at: instant(at), because }
    }

    pub fn instant(&self) -> Option<Timestamp> {
        self.at.as_deref().and_then(|at| at.parse().ok())
    }
}

impl Ops {
    /// Returns `None` when the unit does not exist. A sample is explained at all stages;
    /// [`SampleExplanation::only`] selects one.
    pub async fn explain(&self, target: &ExplainTarget) -> Result<Option<Explanation>> {
        Ok(match target {
            ExplainTarget::Unit(Unit::Run(id)) => {
                RunExplanation::read(*id, self).await?.map(|it| Explanation::Run(Box::new(it)))
            }
            ExplainTarget::Unit(Unit::Item(id)) => {
                ItemExplanation::read(*id, self).await?.map(|it| Explanation::Item(Box::new(it)))
            }
            ExplainTarget::Unit(Unit::Partition(key)) => PartitionExplanation::read(key, self)
                .await?
                .map(|it| Explanation::Partition(Box::new(it))),
            ExplainTarget::Unit(Unit::Sample { id, .. }) | ExplainTarget::Sample(id) => {
                SampleExplanation::read(*id, self)
                    .await?
                    .map(|it| Explanation::Sample(Box::new(it)))
            }
        })
    }
}
