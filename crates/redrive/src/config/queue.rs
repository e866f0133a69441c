//! `[[queue]]`: runs and who handles them.

use redrive_core::Preset;
use redrive_engine::RESERVED_QUEUES;

use super::{
    HandlerConfig, LimitsConfig, Policies, PolicyChoice,
    handler::HandlerRole,
    log::UniqueNames,
    reader::Section,
    value::{name, set, unique_name},
};

/// A queue of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// Its name.
    pub name: String,
    /// Who does the work.
    pub handler: HandlerConfig,
    /// When to try again; the preset `run` unless given.
    pub policy: PolicyChoice,
    /// The categories that are processed: `None` for all, an empty list for none.
    pub categories: Option<Vec<String>>,
    /// What it may use.
    pub limits: LimitsConfig,
}

impl QueueConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let queue_name = s.require("name", |value| {
            let name = unique_name("queues", names)(value.clone())?;
            if name.starts_with(RESERVED_QUEUES) {
                let allowed = format!("names that begin with {RESERVED_QUEUES} are Redrive's own");
                return value.refuse("is reserved", allowed);
            }
            Some(name)
        });
        let handler = s.require("handler", |value| HandlerConfig::read(value, HandlerRole::Other));
        let policy = policies.choice(s, Preset::Run);
        let categories = s.get("categories", set(name));
        let limits = LimitsConfig::read(s);
        Some(Self { name: queue_name?, handler: handler?, policy: policy?, categories, limits })
    }
}
