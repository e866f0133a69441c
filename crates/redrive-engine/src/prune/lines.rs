//! The lines of export files: every column that holds information, under its name.

use std::mem;

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

/// A run, with what its record leaves out or writes in another way.
#[derive(Debug, Serialize)]
pub(super) struct RunLine {
    #[serde(flatten)]
    run: RunRecord,
    payload: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    lease_epoch: i64,
}

pub(super) fn run_line(mut run: RunRecord) -> RunLine {
    let (payload, result) = (mem::take(&mut run.payload), run.result.take());
    let (payload, result) = (json(&payload), result.as_deref().and_then(json));
    RunLine { payload, result, lease_epoch: run.lease_epoch.0, run }
}

#[derive(Debug, Serialize)]
pub(super) struct SampleLine {
    #[serde(flatten)]
    sample: SampleRecord,
    data: Option<Box<RawValue>>,
    lease_epoch: i64,
}

pub(super) fn sample_line(mut sample: SampleRecord) -> SampleLine {
    let data = sample.data.take().as_deref().and_then(json);
    SampleLine { data, lease_epoch: sample.lease_epoch.0, sample }
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
