//! The lines of export files: every column that holds information, under its name.

use std::mem;

use redrive_core::{Cause, PlanId};
use redrive_store::{AttemptRecord, PlanRecord, PlanUnitRecord, RunRecord, SampleRecord};
use serde::Serialize;
use serde_json::{
    Value, json as value,
    value::{RawValue, to_raw_value},
};

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

pub(super) fn plan_line(plan: &PlanRecord) -> Value {
    let counts = &plan.counts;
    let time = |at: Option<jiff::Timestamp>| at.map(|at| at.to_string());
    value!({
        "id": plan.id.0,
        "action": plan.action.name(),
        "options": plan.action.options(),
        "selection": json(&plan.selection),
        "settings": json(&plan.settings_json()),
        "status": plan.status.name(),
        "created_at": plan.created_at.to_string(),
        "created_by": plan.created_by,
        "reason": plan.reason,
        "ordered_by": plan.ordered_by,
        "ordered_reason": plan.ordered_reason,
        "frozen_at": time(plan.frozen_at),
        "started_at": time(plan.started_at),
        "ended_at": time(plan.ended_at),
        "stop_reason": plan.stop_reason,
        "total": counts.total,
        "changed": counts.changed,
        "skipped": counts.skipped,
        "recovered": counts.recovered,
        "same_cause": counts.same_cause,
        "other_cause": counts.other_cause,
        "superseded": plan.superseded,
        "undone": plan.undone,
        "lease_epoch": plan.lease_epoch.0,
    })
}

#[derive(Debug, Serialize)]
pub(super) struct PlanUnitLine<'a> {
    plan_id: i64,
    unit_id: i64,
    state: &'a str,
    version: i64,
    cause: Option<&'a str>,
    refusal: Option<&'a str>,
    outcome: Option<&'static str>,
    reason: Option<&'a str>,
    outcome_at: Option<String>,
    new_cause: Option<&'a str>,
    undo: Option<Box<RawValue>>,
}

pub(super) fn plan_unit_line(plan: PlanId, unit: &PlanUnitRecord) -> PlanUnitLine<'_> {
    PlanUnitLine {
        plan_id: plan.0,
        unit_id: unit.unit_id,
        state: &unit.state,
        version: unit.version,
        cause: unit.cause.as_deref(),
        refusal: unit.refusal.as_deref(),
        outcome: unit.outcome.map(|outcome| outcome.name()),
        reason: unit.reason.as_deref(),
        outcome_at: unit.outcome_at.map(|at| at.to_string()),
        new_cause: unit.new_cause.as_deref(),
        undo: unit.undo.as_deref().and_then(json),
    }
}
