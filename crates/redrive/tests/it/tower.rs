//! Policies as a layer of tower services, in virtual time, over a service that answers as told.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use jiff::Timestamp;
use redrive::{
    Backoff, Class, Clock, Failure, Jitter, JitterKey, JitterSeed, Policy, PolicySpec, Preset,
    Retriable, schedule,
};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder, ServiceExt};

fn steady(max_attempts: u32) -> PolicySpec {
    PolicySpec {
        max_attempts: Some(max_attempts),
        backoff: Backoff::Fixed,
        base: Duration::from_secs(1),
        jitter: Jitter::None,
        ..PolicySpec::default()
    }
}

fn policy(spec: PolicySpec) -> Policy {
    Policy::new(spec).unwrap()
}

/// Answers as told, in order, and notes how long after the start it was called.
struct Script<A> {
    start: Instant,
    told: Arc<Mutex<(VecDeque<A>, Vec<Duration>)>>,
}

impl<A> Clone for Script<A> {
    fn clone(&self) -> Self {
        Self { start: self.start, told: self.told.clone() }
    }
}

impl<A> Script<A> {
    fn new(answers: impl IntoIterator<Item = A>) -> Self {
        let told = (answers.into_iter().collect(), Vec::new());
        Self { start: Instant::now(), told: Arc::new(Mutex::new(told)) }
    }

    fn seconds(&self) -> Vec<u64> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.1.iter().map(Duration::as_secs).collect()
    }
}

impl<Res, E> Service<Request<()>> for Script<Result<Res, E>> {
    type Response = Res;
    type Error = E;
    type Future = std::future::Ready<Result<Res, E>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut told = self.told.lock().unwrap();
        told.1.push(self.start.elapsed());
        std::future::ready(told.0.pop_front().expect("an answer for every call"))
    }
}

type Answer = Result<Response<()>, Infallible>;

fn answer(status: u16, retry_after: &str) -> Answer {
    let mut answer = Response::builder().status(status);
    if !retry_after.is_empty() {
        answer = answer.header("retry-after", retry_after);
    }
    Ok(answer.body(()).unwrap())
}

/// Calls once; the status it ends with, and when the attempts were made.
async fn called(spec: PolicySpec, answers: Vec<Answer>) -> (u16, Vec<u64>) {
    let script = Script::new(answers);
    let client =
        ServiceBuilder::new().layer(redrive::tower::retry(policy(spec))).service(script.clone());
    let Ok(last) = client.oneshot(Request::new(())).await;
    (last.status().as_u16(), script.seconds())
}

// CLS-2, CLS-3, POL-7
#[tokio::test(start_paused = true)]
async fn answers_are_classified_by_status_and_retry_after() {
    let all = PolicySpec { retriable: Retriable::All, ..steady(3) };
    let cases = [
        (steady(3), vec![answer(200, "")], (200, vec![0])),
        (steady(3), vec![answer(302, "")], (302, vec![0])),
        (all, vec![answer(304, "")], (304, vec![0])),
        (steady(3), vec![answer(404, "")], (404, vec![0])),
        (steady(3), vec![answer(501, "")], (501, vec![0])),
        (steady(3), vec![answer(500, ""), answer(200, "")], (200, vec![0, 1])),
        (steady(3), vec![answer(503, ""), answer(404, "")], (404, vec![0, 1])),
        (steady(3), (0..3).map(|_| answer(502, "")).collect(), (502, vec![0, 1, 2])),
        (
            steady(2),
            vec![answer(429, "7"), answer(503, "20"), answer(500, ""), answer(200, "")],
            (200, vec![0, 7, 27, 28]),
        ),
        (steady(2), vec![answer(429, "-3"), answer(200, "")], (200, vec![0, 1])),
        (steady(2), vec![answer(500, "30"), answer(200, "")], (200, vec![0, 30])),
        (steady(2), vec![answer(403, "30"), answer(200, "")], (200, vec![0, 30])),
        (steady(2), vec![answer(503, "0"), answer(200, "")], (200, vec![0, 1])),
    ];
    for (spec, answers, expected) in cases {
        assert_eq!(called(spec, answers).await, expected);
    }
}

struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}

// CLS-3, OPS-5
#[tokio::test(start_paused = true)]
async fn a_date_is_read_by_the_clock_that_was_given() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let script = Script::new([answer(503, "Thu, 01 Jan 2026 00:01:00 GMT"), answer(200, "")]);
    let layer = redrive::tower::retry(policy(steady(2))).clock(Arc::new(Stopped(now)));
    let Ok(last) = layer.layer(script.clone()).oneshot(Request::new(())).await;
    assert_eq!((last.status().as_u16(), script.seconds()), (200, vec![0, 60]));
}

// POL-2, POL-4
#[tokio::test(start_paused = true)]
async fn every_call_through_one_service_has_its_own_count_and_age() {
    let spec = PolicySpec { max_age: Some(Duration::from_secs(10)), ..steady(3) };
    let script = Script::new((0..6).map(|_| answer(500, "")));
    let mut client = redrive::tower::retry(policy(spec)).layer(script.clone());
    for _ in 0..2 {
        let Ok(last) = client.ready().await.unwrap().call(Request::new(())).await;
        assert_eq!(last.status(), 500);
        tokio::time::advance(Duration::from_secs(100)).await;
    }
    assert_eq!(script.seconds(), [0, 1, 2, 102, 103, 104], "three attempts each");
}

// POL-1
#[tokio::test(start_paused = true)]
async fn a_call_that_is_too_old_is_given_up() {
    let spec = PolicySpec { max_age: Some(Duration::from_secs(2)), ..steady(9) };
    let (status, seconds) = called(spec, (0..9).map(|_| answer(500, "")).collect()).await;
    assert_eq!((status, seconds), (500, vec![0, 1, 2]));
}

// POL-4
#[tokio::test(start_paused = true)]
async fn the_waits_of_a_named_unit_are_those_of_the_schedule() {
    let policy = Preset::Stage.policy();
    let key = JitterKey::written(JitterSeed(5), "run:7");
    let waits: Duration = schedule(&policy, key, 2).map(|row| row.delay).sum();
    let script = Script::new([answer(500, ""), answer(500, ""), answer(200, "")]);
    let layer = redrive::tower::retry(policy).unit("run:7").jitter_seed(JitterSeed(5));
    let start = Instant::now();
    let Ok(_) = layer.layer(script).oneshot(Request::new(())).await;
    let late = start.elapsed().checked_sub(waits).unwrap();
    assert!(late < Duration::from_millis(10), "tokio counts in milliseconds: {late:?}");
}

// CLS-2, CLS-5
#[tokio::test(start_paused = true)]
async fn services_that_are_not_http_are_judged_as_told() {
    let errors = [Err(io::ErrorKind::ConnectionRefused), Ok(7), Err(io::ErrorKind::NotFound)];
    let script = Script::new(errors.map(|answer| answer.map_err(io::Error::from)));
    let mut client = redrive::tower::retry(policy(steady(3))).errors_only().layer(script.clone());
    assert_eq!(client.ready().await.unwrap().call(Request::new(())).await.unwrap(), 7);
    client.ready().await.unwrap().call(Request::new(())).await.unwrap_err();
    assert_eq!(script.seconds(), [0, 1, 1], "a missing file stays missing");

    let script = Script::new([Ok(1), Err("lost"), Ok(2), Err("gone")]);
    let mut client = redrive::tower::retry(policy(steady(9)))
        .when_response(|answer: &i32| (*answer == 1).then(|| Failure::http(503, None, "one")))
        .when(|error: &&str| if *error == "gone" { Class::Final } else { Class::Retryable })
        .layer(script.clone());
    assert_eq!(client.ready().await.unwrap().call(Request::new(())).await, Ok(2));
    assert_eq!(client.ready().await.unwrap().call(Request::new(())).await, Err("gone"));
    assert_eq!(script.seconds(), [0, 1, 2, 2]);

    let script = Script::new([Err("no idea"), Ok(3)]);
    let client = redrive::tower::retry(policy(steady(9))).errors_only().any_error();
    assert_eq!(client.layer(script).oneshot(Request::new(())).await, Ok(3));
}
