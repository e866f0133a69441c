//! What becomes of what a stage answers, and of dead letters that are brought back.

use std::{sync::Arc, time::Duration};

use redrive_core::{
    AttemptNumber, Class, Code, Decision, Failure, History, JitterKey, JitterSeed, PipelineStatus,
    Policy, PolicySpec, Preset, Retriable, SampleId, SampleStatus, Unit, decide,
};
use redrive_engine::{
    Call, Handler, IntoSample, Outcome, Pipeline, PipelineControl, Stage, StageAnswer, handler_fn,
    stage_fn,
};
use redrive_store::{MAX_SAMPLE_BYTES, UnitKind, UnitRow};
use serde_json::{Value, json};

use super::plant::{Counter, Plant, at_once, failing, numbers};

fn answering(answer: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Arc<dyn Handler> {
    handler_fn(move |call: Call| {
        let outcome = answer(&call);
        async move { outcome }
    })
}

fn number(call: &Call) -> u64 {
    call.details["data"]["n"].as_u64().unwrap()
}

// PIP-3, HANDLERS-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_and_one_that_is_too_large_end_in_the_dead_letter_queue_and_say_why() {
    let plant = Plant::new();
    let stage = answering(|call| match number(call) {
        1 => Outcome::Answered { value: None, verdict: None },
        2 => {
            let value = Some("x".repeat(MAX_SAMPLE_BYTES + 1).into());
            Outcome::Answered { value, verdict: None }
        }
        3 => Outcome::Skipped("nothing in it".to_owned()),
        _ => Outcome::Answered { value: Some(call.details["data"].clone()), verdict: None },
    });
    let pipeline = Pipeline::new("p", numbers(4))
        .with_stage(Stage::new("call", stage).with_policy(at_once(2)));
    let tally = plant.run(&pipeline).await.progress.counts;
    assert_eq!((tally.succeeded, tally.skipped, tally.dlq), (1, 1, 2));
    let dead = plant.samples(SampleStatus::Dlq).await;
    let told: Vec<_> =
        dead.iter().map(|s| (s.attempts, s.error_code.as_deref().unwrap())).collect();
    assert_eq!(told, [(2, "bad_reply"), (1, "too_large")], "what is too large stays so");
    assert!(dead[1].error_message.as_ref().unwrap().contains("bytes"), "{dead:?}");
    let skipped = plant.samples(SampleStatus::Skipped).await;
    assert_eq!(skipped[0].skip_reason.as_deref(), Some("nothing in it"));
}

// PIP-7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_that_is_brought_back_can_die_again_and_keeps_its_history() {
    let plant = Plant::new();
    let counter = Arc::new(Counter::default());
    let fails =
        |n: u64, call: u32| (n == 1 && call <= 5).then(|| Failure::http(500, None, "broken"));
    let pipeline = Pipeline::new("p", numbers(3))
        .with_stage(Stage::new("call", failing(&counter, fails)).with_policy(at_once(2)));
    let run = plant.run(&pipeline).await;
    assert_eq!(run.progress.status, PipelineStatus::PartialSuccess);
    let control = PipelineControl::new(plant.store.clone());
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let dead = plant.samples(SampleStatus::Dlq).await;
        attempts.extend(dead.iter().map(|s| (s.attempts, s.retry_count)));
        let by = Plant::operator();
        let ids: Vec<SampleId> = dead.iter().map(|sample| sample.id).collect();
        control.reprocess_by_id(&ids, Some(&by), |_, _, _| {}).await.unwrap();
        assert_eq!(plant.record(run.id).await.progress.status, PipelineStatus::Running);
        plant.drain(&pipeline).await;
    }
    assert_eq!(attempts, [(2, 1), (4, 1)], "counted anew, numbered on; then it is through");
    let unit = UnitRow { kind: UnitKind::Sample, id: 2, stage: "call".to_owned() };
    let ledger = plant.store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
    let outcomes: Vec<_> = ledger.iter().map(|row| row.outcome.name()).collect();
    let expected = ["retrying", "failed", "retrying", "failed", "retrying", "success"];
    assert_eq!(outcomes, expected);
    assert_eq!(plant.record(run.id).await.progress.status, PipelineStatus::Completed);
}

// HANDLERS-4
#[tokio::test]
async fn an_answer_is_put_where_its_stage_says() {
    let cases = [
        ("/answer", json!({ "n": 0 }), Ok(json!({ "n": 0, "answer": 42 }))),
        ("/n", json!({ "n": 0 }), Ok(json!({ "n": 42 }))),
        ("/a/b~1c", json!({}), Ok(json!({ "a": { "b/c": 42 } }))),
        ("/list/1", json!({ "list": [1, 2] }), Ok(json!({ "list": [1, 42] }))),
        ("", json!({ "n": 0 }), Ok(json!(42))),
        ("/list/2", json!({ "list": [1, 2] }), Err("bad_sample")),
        ("/n/deeper", json!({ "n": 0 }), Err("bad_sample")),
    ];
    for (place, data, expected) in cases {
        let answer = answering(|_| Outcome::Answered { value: Some(json!(42)), verdict: None });
        let stage = IntoSample { handler: answer, pointer: place.parse().unwrap() };
        let call = Call {
            unit: Unit::Sample { id: SampleId(1), stage: "s".to_owned() },
            attempt: AttemptNumber(1),
            run_id: None,
            details: serde_json::Map::from_iter([("data".to_owned(), data)]),
            log: redrive_engine::CallLog::default(),
        };
        let (_stopper, stop) = redrive_engine::Stopper::new();
        let made = match stage.handle(&call, Duration::from_secs(1), stop).await {
            Outcome::Answered { value, .. } => Ok(value.unwrap()),
            Outcome::Failed(failure) => Err(failure.code().to_string()),
            other => panic!("{other:?}"),
        };
        assert_eq!(made, expected.map_err(str::to_owned), "{place}");
    }
}

#[derive(serde::Deserialize)]
struct Prompt {
    n: u64,
}

// PIP-3, HANDLERS-1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_typed_stage_refuses_what_it_cannot_read_at_once_and_goes_on_with_the_rest() {
    let plant = Plant::new();
    let source = plant.file("{\"n\":1}\n{\"n\":\"one\"}\n3\n{\"n\":4}\n");
    let double = stage_fn(|prompt: Prompt| async move {
        Ok::<_, Failure>(match prompt.n {
            4 => StageAnswer::Skip("four".to_owned()),
            n => StageAnswer::Sample(json!({ "twice": 2 * n })),
        })
    });
    let pipeline =
        Pipeline::new("p", source).with_stage(Stage::new("double", double).with_policy(at_once(5)));
    plant.run(&pipeline).await;
    assert_eq!(plant.data(SampleStatus::Succeeded).await, [json!({ "twice": 2 })]);
    assert_eq!(plant.samples(SampleStatus::Skipped).await.len(), 1);
    let dead = plant.samples(SampleStatus::Dlq).await;
    let told: Vec<_> =
        dead.iter().map(|s| (s.line, s.attempts, s.error_code.as_deref().unwrap())).collect();
    assert_eq!(told, [(2, 1, "bad_sample"), (3, 1, "bad_sample")]);
}

/// The wait after a failure with so many counted ones before, for a sample.
fn delay(policy: &Policy, sample: i64, counted: u32, failure: &Failure) -> Option<f64> {
    let history = History { counted, ..History::default() };
    let unit = Unit::Sample { id: SampleId(sample), stage: "llm_call".to_owned() };
    let jitter = JitterKey::new(JitterSeed::default(), &unit);
    let now = jiff::Timestamp::UNIX_EPOCH;
    match decide(policy, &history, failure, now, jitter) {
        Decision::RetryAt { delay, .. } => Some(delay.as_secs_f64()),
        Decision::GiveUp { .. } => None,
    }
}

// POL-3, POL-8, PIP-3
#[test]
fn the_waits_of_a_stage_are_those_of_its_preset_within_a_quarter_and_on_average() {
    let policy = Policy::new(PolicySpec { max_attempts: Some(9), ..Preset::Stage.spec() }).unwrap();
    let busy = Failure::http(503, None, "busy");
    for (counted, expected) in [(0, 1.0), (1, 2.0), (2, 4.0), (6, 60.0), (7, 60.0)] {
        let delays: Vec<f64> =
            (1..=1_000).map(|sample| delay(&policy, sample, counted, &busy).unwrap()).collect();
        let outside = delays.iter().find(|d| **d < expected * 0.75 || **d > expected * 1.25);
        assert_eq!(outside, None, "attempt {}", counted + 1);
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean / expected - 1.0).abs() < 0.1, "attempt {}: {mean}", counted + 1);
    }
    let preset = Preset::Stage.policy();
    assert!(delay(&preset, 1, 1, &busy).is_some(), "three attempts by default");
    assert_eq!(delay(&preset, 1, 2, &busy), None);
    let unknown = Failure::reported(None, Code::name("anything"), "whatever it is");
    assert!(delay(&preset, 1, 0, &unknown).is_some(), "all errors are retried by default");
}

// CLS-5, PIP-3
#[test]
fn a_stage_with_a_list_retries_what_is_on_it_and_nothing_else() {
    let listed = [429, 500, 502, 503, 504].map(Code::Number).to_vec();
    let codes = [listed, vec![Code::name("timeout")]].concat();
    let spec = PolicySpec { retriable: Retriable::Codes(codes), ..Preset::Stage.spec() };
    let policy = Policy::new(spec).unwrap();
    let of = |failure: &Failure| delay(&policy, 1, 0, failure).is_some();
    for status in [429, 500, 502, 503, 504] {
        assert!(of(&Failure::http(status, None, "busy")), "{status}");
    }
    for status in [400, 401, 404, 408, 501] {
        assert!(!of(&Failure::http(status, None, "no")), "{status}");
    }
    assert!(of(&Failure::timeout("slow")));
    assert!(!of(&Failure::exit(75, "not on it")));
    assert!(!of(&Failure::reported(Some(Class::Final), Code::Number(503), "never")), "it binds");
    let none = PolicySpec { max_attempts: Some(1), ..Preset::Stage.spec() };
    let none = Policy::new(none).unwrap();
    assert_eq!(delay(&none, 1, 0, &Failure::http(503, None, "busy")), None, "a filter has one try");
}

// PIP-4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stage_depends_on_is_in_the_ledger_as_a_hash() {
    let plant = Plant::new();
    let echo = || {
        answering(|call| Outcome::Answered {
            value: Some(call.details["data"].clone()),
            verdict: None,
        })
    };
    let small = json!({ "model": "small", "heat": 0 });
    let pipeline = Pipeline::new("p", numbers(1))
        .with_stage(Stage::new("plain", echo()))
        .with_stage(Stage::new("small", echo()).with_config(&small));
    plant.run(&pipeline).await;
    let mut hashes = Vec::new();
    for stage in ["plain", "small"] {
        let unit = UnitRow { kind: UnitKind::Sample, id: 1, stage: stage.to_owned() };
        let rows = plant.store.attempts_of(&unit, AttemptNumber(0), 10).await.unwrap();
        hashes.extend(rows.into_iter().map(|row| row.stage_config_hash.unwrap()));
    }
    let same: Value = json!({ "heat": 0, "model": "small" });
    assert_eq!(
        hashes,
        [redrive_engine::config_hash(&Value::Null), redrive_engine::config_hash(&same)]
    );
    assert_ne!(hashes[0], hashes[1]);
}
