//! Sources that are read on, and those that cannot be.

use std::sync::Arc;

use redrive_core::{
    Class, Code, Failure, FailureBudget, PipelineRules, PipelineStatus, SampleStatus,
};
use redrive_engine::{
    CommandSource, ExecHandler, ExecSpec, Pipeline, PipelineControl, ResumeError, SampleSource,
    Stage,
};
use serde_json::json;

use super::plant::{Counter, Plant, add, at_once, failing};

/// A pipeline that is stopped by its first failure, with one sample at a time.
fn touchy(source: Arc<dyn SampleSource>) -> Pipeline {
    let counter = Arc::new(Counter::default());
    // Only the first call for the second sample fails, and that for good.
    let fails = |n: u64, call: u32| {
        let never = Failure::reported(Some(Class::Final), Code::Number(400), "never");
        (n == 2 && call == 1).then_some(never)
    };
    let budget = FailureBudget { every: 1, ..FailureBudget::default() };
    Pipeline::new("p", source)
        .with_stage(Stage::new("call", failing(&counter, fails)).with_policy(at_once(1)))
        .with_rules(PipelineRules { budget, ..PipelineRules::default() })
        .with_read_ahead(1)
}

fn lines(numbers: impl IntoIterator<Item = u64>) -> String {
    numbers.into_iter().map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

// PIP-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_on_only_if_what_was_read_is_as_it_was() {
    let plant = Plant::new();
    let pipeline = touchy(plant.file(&lines(1..=5)));
    let control = PipelineControl::new(plant.store.clone());
    let stopped = plant.run(&pipeline).await;
    assert_eq!((stopped.progress.status, stopped.position.lines), (PipelineStatus::Aborted, 2));
    let write =
        |text: &str| std::fs::write(plant.folder.path().join("samples.jsonl"), text).unwrap();
    for changed in [lines([1, 3, 3, 4, 5]), lines([1]), "{\"n\":1}\n{\"n\": 2}\n".to_owned()] {
        write(&changed);
        let refused = control.resume(stopped.id, &pipeline, &Plant::operator()).await.unwrap_err();
        let ResumeError::Source { why, .. } = refused else { panic!("{refused}") };
        assert_eq!(why.code().to_string(), redrive_engine::SOURCE_CHANGED);
        assert_eq!(plant.record(stopped.id).await, stopped, "nothing was changed");
    }
    write(&lines(1..=7));
    control.resume(stopped.id, &pipeline, &Plant::operator()).await.unwrap();
    plant.drain(&pipeline).await;
    let tally = plant.record(stopped.id).await.progress.counts;
    assert_eq!((tally.total, tally.succeeded, tally.dlq), (7, 6, 1));
    let through: Vec<u64> =
        plant.samples(SampleStatus::Succeeded).await.iter().map(|s| s.line).collect();
    assert_eq!(through, [1, 3, 4, 5, 6, 7]);
}

/// The lines of a shell script, which leaves a word for each time it runs.
fn printed(plant: &Plant, script: &str) -> Arc<dyn SampleSource> {
    std::fs::write(plant.folder.path().join("source.sh"), script).unwrap();
    let argv = ["/bin/sh", "source.sh"].map(str::to_owned).to_vec();
    let program = ExecHandler::new(ExecSpec::new(argv, plant.folder.path())).unwrap();
    Arc::new(CommandSource::new(program, "sh source.sh"))
}

// PIP-2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_run_again_and_what_was_read_is_passed_over() {
    let plant = Plant::new();
    let script = "echo run >> runs; for n in 1 2 3 4 5; do echo \"{\\\"n\\\":$n}\"; done";
    let pipeline = touchy(printed(&plant, script));
    let stopped = plant.run(&pipeline).await;
    assert_eq!((stopped.progress.status, stopped.position.lines), (PipelineStatus::Aborted, 2));
    let control = PipelineControl::new(plant.store.clone());
    // A command that prints less than was read has nothing to go on with.
    printed(&plant, "echo '{\"n\":1}'");
    control.resume(stopped.id, &pipeline, &Plant::operator()).await.unwrap();
    plant.drain(&pipeline).await;
    let run = plant.record(stopped.id).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted);
    let why = run.stop_reason.unwrap();
    assert!(why.contains("printed 1 lines, but 2 lines were read before"), "{why}");

    printed(&plant, script);
    control.resume(stopped.id, &pipeline, &Plant::operator()).await.unwrap();
    plant.drain(&pipeline).await;
    let run = plant.record(stopped.id).await;
    assert_eq!((run.progress.counts.total, run.progress.counts.succeeded), (5, 4));
    assert_eq!(std::fs::read_to_string(plant.folder.path().join("runs")).unwrap(), "run\nrun\n");
}

// PIP-2, PIP-6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_fails_in_the_middle_stops_its_run_which_can_be_resumed() {
    let plant = Plant::new();
    let source = printed(&plant, "echo '{\"n\":1}'; echo '{\"n\":2}'; echo 'no disk' >&2; exit 3");
    let pipeline = Pipeline::new("p", source).with_stage(Stage::new("a", add("a")));
    let run = plant.run(&pipeline).await;
    assert_eq!(run.progress.status, PipelineStatus::Aborted);
    assert!(!run.position.done && run.stop_reason.unwrap().contains("no disk"));
    let early = run.progress.counts;
    assert_eq!(early.total, 2, "what was printed before is kept");
    printed(&plant, "for n in 1 2 3; do echo \"{\\\"n\\\":$n}\"; done");
    let control = PipelineControl::new(plant.store.clone());
    control.resume(run.id, &pipeline, &Plant::operator()).await.unwrap();
    plant.drain(&pipeline).await;
    assert_eq!(plant.record(run.id).await.progress.status, PipelineStatus::Completed);
    let expected = [1, 2, 3].map(|n| json!({ "n": n, "a": 1 }));
    assert_eq!(plant.data(SampleStatus::Succeeded).await, expected);
}
