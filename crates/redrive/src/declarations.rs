//! Lists what a configuration declares, for the views of the CLI, the API and the dashboard.

use redrive_core::InvalidUnit;
use redrive_ops::{Declarations, DeclaredPipeline, DeclaredQueue, DeclaredSource, DeclaredUpload};

use crate::{config, wiring::build_calendar};

/// Lists the declared policies, queues, sources, uploads and pipelines. Fails if a schedule starts on a
/// date that no partition key can have.
pub fn build_declarations(config: &config::Config) -> Result<Declarations, InvalidUnit> {
    let notifier_queues = config.notifiers.iter().map(|notifier| &notifier.queue);
    let queues = config.queues.iter().chain(notifier_queues).map(|queue| DeclaredQueue {
        name: queue.name.clone(),
        policy: queue.policy.policy.clone(),
        categories: queue.categories.clone(),
    });
    let sources = config.sources.iter().map(|source| {
        Ok(DeclaredSource {
            name: source.name.clone(),
            customers: source.customers.clone(),
            queries: source.queries.clone(),
            calendar: source.schedule.as_ref().map(build_calendar).transpose()?,
        })
    });
    let uploads = config.uploads.iter().map(|upload| DeclaredUpload {
        name: upload.name.clone(),
        max_attempts: upload.policy.spec().max_attempts.filter(|_| !upload.disable_retry),
    });
    let pipelines = config.pipelines.iter().map(|pipeline| {
        let stages = pipeline.stages.iter();
        let stages = stages.map(|stage| (stage.name.clone(), stage.policy.policy.clone()));
        DeclaredPipeline { name: pipeline.name.clone(), stages: stages.collect() }
    });
    let policies = config.policies.of_file();
    Ok(Declarations {
        jitter_seed: config.jitter_seed,
        policies: policies.map(|(name, policy)| (name.to_owned(), policy.clone())).collect(),
        queues: queues.collect(),
        sources: sources.collect::<Result<_, InvalidUnit>>()?,
        uploads: uploads.collect(),
        pipelines: pipelines.collect(),
    })
}
