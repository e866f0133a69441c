//! `[[queue]]`: a queue of runs and its handler.

use redrive_core::Preset;
use redrive_engine::RESERVED_QUEUES;

use super::{
    GateConfig, HandlerConfig, LimitsConfig, Policies, PolicyChoice, gate,
    handler::{HandlerRole, codes_of},
    log::UniqueNames,
    reader::Section,
    value::{name, set, unique_name},
};

#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    pub name: String,
    pub handler: HandlerConfig,
    /// Default: the preset `run`.
    pub policy: PolicyChoice,
    /// The categories to process: `None` for all, an empty list for none.
    pub categories: Option<Vec<String>>,
    pub limits: LimitsConfig,
    /// The gates that the runs pass.
    pub gates: Vec<GateConfig>,
}

impl QueueConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        gates: &[GateConfig],
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let queue_name = s.require("name", |value| {
            let name = unique_name("queues", names)(value.clone())?;
            if name.starts_with(RESERVED_QUEUES) {
                let allowed =
                    format!("names that begin with {RESERVED_QUEUES} are reserved for Redrive");
                return value.refuse("is reserved", allowed);
            }
            Some(name)
        });
        let handler = s.require("handler", |value| HandlerConfig::read(value, HandlerRole::Other));
        let policy = policies.choice(s, Preset::Run, codes_of(handler.as_ref()));
        let categories = s.get("categories", set(name));
        let limits = LimitsConfig::read(s);
        let gates = gate::gates(s, gates);
        Some(Self {
            name: queue_name?,
            handler: handler?,
            policy: policy?,
            categories,
            limits,
            gates,
        })
    }
}
