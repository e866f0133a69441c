//! The declarations of the configuration that views and explanations need.

use redrive_core::{JitterSeed, Policy};
use redrive_engine::{DailyCalendar, nearest::suggestion};

#[derive(Debug, Clone, Default)]
pub struct Declarations {
    pub jitter_seed: JitterSeed,
    /// Named policies in addition to the presets.
    pub policies: Vec<(String, Policy)>,
    pub queues: Vec<DeclaredQueue>,
    pub sources: Vec<DeclaredSource>,
    pub uploads: Vec<DeclaredUpload>,
    pub pipelines: Vec<DeclaredPipeline>,
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
