//! The state of a gate in JSON. Stores compare nothing but its status, which has a column of its own.

use jiff::Timestamp;
use redrive_core::{GateState, GateStatus, RecentAttempts};
use serde_json::{Value, json};

pub(crate) fn state_to_json(state: &GateState) -> Value {
    let time = |at: &Option<Timestamp>| at.map(|at| at.to_string());
    let failures = state.recent.failures.iter();
    let failures: Vec<Value> =
        failures.map(|(number, at)| json!([number, at.to_string()])).collect();
    json!({
        "status": state.status.name(),
        "epoch": state.epoch,
        "closed_at": time(&state.closed_at),
        "closed_until": time(&state.closed_until),
        "closed_by": state.closed_by,
        "reason": state.reason,
        "closings": state.closings,
        "target": state.target,
        "width": state.width,
        "answered": state.answered,
        "failed": state.failed,
        "ended": state.recent.ended,
        "failures": failures,
        "next_start": time(&state.next_start),
    })
}

pub(crate) fn state_from_json(text: &str) -> Option<GateState> {
    let stored: Value = serde_json::from_str(text).ok()?;
    let number = |name: &str| stored.get(name)?.as_u64();
    let count = |name: &str| u32::try_from(number(name)?).ok();
    let text = |name: &str| Some(stored.get(name)?.as_str().map(str::to_owned));
    let time = |name: &str| {
        text(name)?.map_or(Some(None), |at: String| at.parse::<Timestamp>().ok().map(Some))
    };
    let failures = stored.get("failures")?.as_array()?.iter();
    let failures = failures.map(|failure| {
        let at = failure.get(1)?.as_str()?.parse().ok()?;
        Some((failure.get(0)?.as_u64()?, at))
    });
    Some(GateState {
        status: GateStatus::from_name(stored.get("status")?.as_str()?)?,
        epoch: number("epoch")?,
        closed_at: time("closed_at")?,
        closed_until: time("closed_until")?,
        closed_by: text("closed_by")?,
        reason: text("reason")?,
        closings: count("closings")?,
        target: count("target")?,
        width: count("width")?,
        answered: count("answered")?,
        failed: count("failed")?,
        recent: RecentAttempts {
            ended: number("ended")?,
            failures: failures.collect::<Option<_>>()?,
        },
        next_start: time("next_start")?,
    })
}
