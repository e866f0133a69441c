//! The lines of export files: every column that holds information, under its name.

use redrive_core::Cause;
use redrive_store::{AttemptRecord, RunRecord, SampleRecord};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Stored JSON as it is, so that no number loses a digit, but on one line: line breaks can only stand between
/// tokens. Text that is not JSON becomes a JSON string.
fn json(text: &str) -> Option<Box<RawValue>> {
    let value = RawValue::from_string(text.replace(['\n', '\r'], " "));
    value.or_else(|_| to_raw_value(text)).ok()
}

#[derive(Debug, Serialize)]
pub(super) struct RunLine<'a> {
    id: i64,
    queue: &'a str,
    category: &'a str,
    payload: Option<Box<RawValue>>,
    submitted_at: String,
    not_before: Option<String>,
    idempotency_key: Option<&'a str>,
    status: &'static str,
    attempts: u32,
    attempts_at_reset: u32,
    retry_count: u32,
    deferrals: u32,
    first_attempt_at: Option<String>,
    error_class: Option<&'a str>,
    error_code: Option<&'a str>,
    error_message: Option<&'a str>,
    fingerprint: Option<&'a str>,
    last_failure_at: Option<String>,
    result: Option<Box<RawValue>>,
    lease_epoch: i64,
}

pub(super) fn run_line(run: &RunRecord) -> RunLine<'_> {
    RunLine {
        id: run.id.0,
        queue: &run.queue,
        category: &run.category,
        payload: json(&run.payload),
        submitted_at: run.submitted_at.to_string(),
        not_before: run.not_before.map(|at| at.to_string()),
        idempotency_key: run.idempotency_key.as_deref(),
        status: run.status.name(),
        attempts: run.attempts,
        attempts_at_reset: run.attempts_at_reset,
        retry_count: run.retry_count,
        deferrals: run.deferrals,
        first_attempt_at: run.first_attempt_at.map(|at| at.to_string()),
        error_class: run.error_class.as_deref(),
        error_code: run.error_code.as_deref(),
        error_message: run.error_message.as_deref(),
        fingerprint: run.fingerprint.as_deref(),
        last_failure_at: run.last_failure_at.map(|at| at.to_string()),
        result: run.result.as_deref().and_then(json),
        lease_epoch: run.lease_epoch.0,
    }
}

#[derive(Debug, Serialize)]
pub(super) struct SampleLine<'a> {
    id: i64,
    run_id: i64,
    pipeline: &'a str,
    line: u64,
    status: &'static str,
    stage: &'a str,
    data: Option<Box<RawValue>>,
    attempts: u32,
    attempts_at_reset: u32,
    retry_count: u32,
    deferrals: u32,
    first_attempt_at: Option<String>,
    last_attempt_at: Option<String>,
    error_class: Option<&'a str>,
    error_code: Option<&'a str>,
    error_message: Option<&'a str>,
    fingerprint: Option<&'a str>,
    last_failure_at: Option<String>,
    skip_reason: Option<&'a str>,
    lease_epoch: i64,
}

pub(super) fn sample_line(sample: &SampleRecord) -> SampleLine<'_> {
    SampleLine {
        id: sample.id.0,
        run_id: sample.run.0,
        pipeline: &sample.pipeline,
        line: sample.line,
        status: sample.status.name(),
        stage: &sample.stage_name,
        data: sample.data.as_deref().and_then(json),
        attempts: sample.attempts,
        attempts_at_reset: sample.attempts_at_reset,
        retry_count: sample.retry_count,
        deferrals: sample.deferrals,
        first_attempt_at: sample.first_attempt_at.map(|at| at.to_string()),
        last_attempt_at: sample.last_attempt_at.map(|at| at.to_string()),
        error_class: sample.error_class.as_deref(),
        error_code: sample.error_code.as_deref(),
        error_message: sample.error_message.as_deref(),
        fingerprint: sample.fingerprint.as_deref(),
        last_failure_at: sample.last_failure_at.map(|at| at.to_string()),
        skip_reason: sample.skip_reason.as_deref(),
        lease_epoch: sample.lease_epoch.0,
    }
}

#[derive(Debug, Serialize)]
pub(super) struct AttemptLine<'a> {
    kind: &'static str,
    unit_id: i64,
    stage: &'a str,
    stage_config_hash: Option<&'a str>,
    attempt: u32,
    counted: bool,
    started_at: String,
    ended_at: String,
    outcome: &'static str,
    class: Option<&'a str>,
    code: Option<&'a str>,
    message: Option<&'a str>,
    fingerprint: Option<&'a str>,
    cause: Option<&'static str>,
    delay_us: Option<u128>,
    worker: &'a str,
}

pub(super) fn attempt_line(attempt: &AttemptRecord) -> AttemptLine<'_> {
    AttemptLine {
        kind: attempt.unit.kind.name(),
        unit_id: attempt.unit.id,
        stage: &attempt.unit.stage,
        stage_config_hash: attempt.stage_config_hash.as_deref(),
        attempt: attempt.attempt.0,
        counted: attempt.counted,
        started_at: attempt.started_at.to_string(),
        ended_at: attempt.ended_at.to_string(),
        outcome: attempt.outcome.name(),
        class: attempt.class.as_deref(),
        code: attempt.code.as_deref(),
        message: attempt.message.as_deref(),
        fingerprint: attempt.fingerprint.as_deref(),
        cause: attempt.cause.map(Cause::name),
        delay_us: attempt.delay.map(|delay| delay.as_micros()),
        worker: &attempt.worker,
    }
}
