//! Lists what a configuration declares, for the views of the CLI, the API and the dashboard.

use redrive_core::{InvalidUnit, Policy, PolicySpec};
use redrive_ops::{
    Declarations, DeclaredPipeline, DeclaredPolicy, DeclaredQueue, DeclaredSource, DeclaredUpload,
};

use crate::{
    config::{self, PolicyChoice},
    wiring::build_calendar,
};

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
        max_attempts: upload.policy.policy.spec().max_attempts.filter(|_| !upload.disable_retry),
    });
    let pipelines = config.pipelines.iter().map(|pipeline| {
        let stages = pipeline.stages.iter();
        let stages = stages.map(|stage| (stage.name.clone(), stage.policy.policy.clone()));
        DeclaredPipeline { name: pipeline.name.clone(), stages: stages.collect() }
    });
    Ok(Declarations {
        jitter_seed: config.jitter_seed,
        policies: declared_policies(config),
        queues: queues.collect(),
        sources: sources.collect::<Result<_, InvalidUnit>>()?,
        uploads: uploads.collect(),
        pipelines: pipelines.collect(),
    })
}

/// The policy in force at each place, then the sections that no place uses.
pub fn declared_policies(config: &config::Config) -> Vec<DeclaredPolicy> {
    let mut policies = Vec::new();
    for queue in &config.queues {
        policies.push(place_policy("queue", &queue.name, &queue.policy, None));
    }
    for source in &config.sources {
        policies.push(place_policy("source", &source.name, &source.policy, None));
    }
    for upload in &config.uploads {
        let retries = if upload.disable_retry { 0 } else { upload.max_in_call_retries };
        policies.push(place_policy("upload", &upload.name, &upload.policy, Some(retries)));
    }
    for pipeline in &config.pipelines {
        for stage in &pipeline.stages {
            let name = format!("{}/{}", pipeline.name, stage.name);
            policies.push(place_policy("stage", &name, &stage.policy, None));
        }
    }
    for notifier in &config.notifiers {
        policies.push(place_policy("notifier", &notifier.name, &notifier.queue.policy, None));
    }
    let unused = config.policies.iter().filter_map(|(name, overrides)| {
        let is_used = policies.iter().any(|policy| policy.name == name);
        let policy = Policy::new(overrides.over(PolicySpec::default())).ok()?;
        (!is_used).then(|| DeclaredPolicy {
            name: name.to_owned(),
            place: None,
            preset: None,
            overrides: overrides.clone(),
            policy,
            in_call_retries: None,
        })
    });
    let unused: Vec<DeclaredPolicy> = unused.collect();
    policies.into_iter().chain(unused).collect()
}

/// The policy of a place, such as `queue` and its name.
pub fn place_policy(
    kind: &str,
    name: &str,
    choice: &PolicyChoice,
    in_call_retries: Option<u32>,
) -> DeclaredPolicy {
    DeclaredPolicy {
        name: choice.title().to_owned(),
        place: Some(format!("{kind}:{name}")),
        preset: Some(choice.preset),
        overrides: choice.overrides.clone(),
        policy: choice.policy.clone(),
        in_call_retries,
    }
}
