//! The declarations of the configuration that views and explanations need.

use redrive_core::{JitterSeed, Policy, PolicyOverrides, Preset};
use redrive_engine::{DEFAULT_IN_CALL_RETRIES, DailyCalendar, nearest::suggestion};

#[derive(Debug, Clone, Default)]
pub struct Declarations {
    pub jitter_seed: JitterSeed,
    /// The policy in force at each place, then those that no place uses.
    pub policies: Vec<DeclaredPolicy>,
    pub queues: Vec<DeclaredQueue>,
    pub sources: Vec<DeclaredSource>,
    pub uploads: Vec<DeclaredUpload>,
    pub pipelines: Vec<DeclaredPipeline>,
}

/// The name of a policy that is written where it applies.
pub const INLINE: &str = "inline";

/// A policy, and where each of its settings is from.
#[derive(Debug, Clone)]
pub struct DeclaredPolicy {
    /// The name of the section or the preset, or `inline`.
    pub name: String,
    /// Where it applies, such as `queue:orders` or `stage:llm/score`.
    pub place: Option<String>,
    /// Where the other settings are from; `None` for the defaults.
    pub preset: Option<Preset>,
    pub overrides: PolicyOverrides,
    pub policy: Policy,
    /// How often one call retries; uploads only. The next call comes after the cap at the earliest.
    pub in_call_retries: Option<u32>,
}

impl DeclaredPolicy {
    /// A preset by itself.
    pub fn of_preset(preset: Preset) -> Self {
        Self {
            name: preset.name().to_owned(),
            place: None,
            preset: Some(preset),
            overrides: PolicyOverrides::default(),
            policy: preset.policy(),
            in_call_retries: (preset == Preset::Upload).then_some(DEFAULT_IN_CALL_RETRIES),
        }
    }

    /// Where a setting is from, in words; `setting` as the configuration writes it.
    pub fn origin(&self, setting: &str) -> String {
        let said = self.overrides.settings().contains(&setting);
        match self.preset {
            _ if said && self.name == INLINE => "inline".to_owned(),
            _ if said => format!("policy {}", self.name),
            Some(preset) => format!("preset {}", preset.name()),
            None => "default".to_owned(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct DeclaredQueue {
    pub name: String,
    pub policy: Policy,
    /// The categories that the queue accepts; `None` accepts all.
    pub categories: Option<Vec<String>>,
}

#[derive(Debug, Clone)]
pub struct DeclaredSource {
    pub name: String,
    pub customers: Vec<String>,
    pub queries: Vec<String>,
    /// The expected days; `None` when the source has no schedule.
    pub calendar: Option<DailyCalendar>,
}

#[derive(Debug, Clone)]
pub struct DeclaredUpload {
    pub name: String,
    /// Rejections before an item is given up; `None` means no limit.
    pub max_attempts: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct DeclaredPipeline {
    pub name: String,
    /// The stages in order, each with its policy.
    pub stages: Vec<(String, Policy)>,
}

/// A name that the configuration does not declare, although it declares others of the kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration declares no {kind} {name:?}; {help}")]
pub struct UndeclaredName {
    pub kind: &'static str,
    pub name: String,
    /// The nearest declared name, or all of them.
    pub help: String,
}

impl Declarations {
    /// Refuses a queue that no worker of this configuration serves.
    pub fn expect_queue(&self, name: &str) -> Result<(), UndeclaredName> {
        expect("queue", name, self.queues.iter().map(|queue| queue.name.as_str()))
    }

    /// Refuses partitions of a source, customer or query that the configuration does not declare.
    pub fn expect_series(
        &self,
        source: &str,
        customers: &[String],
        queries: &[String],
    ) -> Result<(), UndeclaredName> {
        expect("source", source, self.sources.iter().map(|source| source.name.as_str()))?;
        let Some(declared) = self.source(source) else { return Ok(()) };
        for customer in customers {
            let known = declared.customers.iter().map(String::as_str);
            expect("customer", customer, known)?;
        }
        for query in queries {
            expect("query", query, declared.queries.iter().map(String::as_str))?;
        }
        Ok(())
    }

    pub fn queue(&self, name: &str) -> Option<&DeclaredQueue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    pub fn source(&self, name: &str) -> Option<&DeclaredSource> {
        self.sources.iter().find(|source| source.name == name)
    }

    pub fn upload(&self, name: &str) -> Option<&DeclaredUpload> {
        self.uploads.iter().find(|upload| upload.name == name)
    }

    pub fn pipeline(&self, name: &str) -> Option<&DeclaredPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.name == name)
    }
}

fn expect<'a>(
    kind: &'static str,
    name: &str,
    mut declared: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), UndeclaredName> {
    let all = declared.clone();
    if all.clone().next().is_none() || declared.any(|it| it == name) {
        return Ok(());
    }
    Err(UndeclaredName { kind, name: name.to_owned(), help: suggestion(name, all) })
}
