//! The invariants of every step of the gate protocol.

use redrive_core::GateStatus;

use super::gates::{GateModel, GateReport, GateStep, GateWorker};

/// The invariant that the step violates, if any.
pub(super) fn broken(
    before: &GateModel,
    step: GateStep,
    after: &GateModel,
    took: bool,
) -> Option<&'static str> {
    use GateStatus as S;
    let (was, is) = (&before.state, &after.state);
    let is_unchanged = is == was;
    let worker = match step {
        GateStep::Report(at, ..) => before.workers.get(at),
        _ => None,
    };
    // A report that is accepted: of a unit that was let through since the gate last closed or opened, or before.
    let accepted = match worker {
        Some(GateWorker::Holds(pass)) => Some(pass.turn == before.turn),
        _ => None,
    };
    let report = match step {
        GateStep::Report(_, report, _) => Some(report),
        _ => None,
    };
    let judges = matches!(report, Some(GateReport::Answered | GateReport::Failed));
    let under_way = after.held().filter(|pass| pass.turn == after.turn).count();
    let most = match is.status {
        S::Probing => 1,
        S::Ramping => is.width as usize,
        S::Open | S::Closed => usize::MAX,
    };
    let is_limited = before.settings.concurrency().map_or(usize::MAX, |most| most as usize);
    let claimed = matches!(step, GateStep::Claim(_));
    let opened = was.status != S::Open && is.status == S::Open;
    let invariants = [
        (!(claimed && took && before.is_closed()), "no claim takes a unit behind a closed gate"),
        (is.status != S::Probing || under_way <= most, "one unit probes at most"),
        (under_way <= most, "a step lets no more units through than it has"),
        (after.held().count() <= is_limited, "no more units run at once than the gate allows"),
        (
            report != Some(GateReport::Refused) || accepted.is_none() || is.status == S::Closed,
            "the transaction of a refused attempt closes the gate",
        ),
        (report.is_none() || accepted.is_some() || is_unchanged, "a stale report changes nothing"),
        (
            !(judges && accepted == Some(false)) || is_unchanged,
            "a result of an earlier epoch changes nothing",
        ),
        (
            !matches!(step, GateStep::Reap(_) | GateStep::Cancel(_) | GateStep::Crash(_))
                && report != Some(GateReport::Released)
                || is_unchanged,
            "a lost or stopped worker says nothing about the service",
        ),
        (
            !opened
                || step == GateStep::Open
                || (was.width >= was.target && matches!(was.status, S::Probing | S::Ramping)),
            "a gate opens in steps, or by command",
        ),
        (
            match step {
                GateStep::Close { .. } => is.status == S::Closed,
                GateStep::Open => is.status == S::Open,
                _ => true,
            },
            "an order has taken effect when the call returns",
        ),
        (
            !claimed
                || took
                || before.is_closed()
                || before.held().any(|pass| pass.turn == before.turn)
                || before.held().count() >= is_limited,
            "a gate that is not closed lets a unit through if none of this epoch is held",
        ),
    ];
    invariants.iter().find(|(holds, _)| !holds).map(|(_, invariant)| *invariant)
}
