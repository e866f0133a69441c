//! Every step of every state machine, and the document that shows them.

use std::{fmt::Write, fs, path::PathBuf};

use redrive_core::{
    GateEvent, GateStatus, IllegalTransition, ItemEvent, ItemStatus, PartitionEvent,
    PartitionState, PipelineEvent, PipelineStatus, PlanEvent, PlanStatus, RunEvent, RunState,
    RunStatus, SampleEvent, SampleState,
};

const INTRO: &str = "\
# State machines

What can happen to a unit, and what becomes of it. A row is a state, a column an event, a cell the
next state; `–` is a step that is refused.

This page is generated from the code by a test, which fails when the two differ. Do not edit it;
refresh it with

```sh
REDRIVE_BLESS=1 cargo test -p redrive-core state_machines
```
";

/// A table of all pairs, in the order of the code.
fn table<S: Copy, E: Copy>(
    states: &[S],
    events: &[E],
    state_name: fn(S) -> &'static str,
    event_name: fn(E) -> &'static str,
    apply: fn(S, E) -> Result<S, IllegalTransition>,
) -> String {
    let mut table = String::from("| state |");
    for event in events {
        write!(table, " {} |", event_name(*event)).unwrap();
    }
    table.push_str("\n| --- |");
    table.push_str(&" --- |".repeat(events.len()));
    for state in states {
        write!(table, "\n| **{}** |", state_name(*state)).unwrap();
        for event in events {
            let next = apply(*state, *event).map_or("–", state_name);
            write!(table, " {next} |").unwrap();
        }
    }
    table.push('\n');
    table
}

fn document() -> String {
    let runs =
        table(&RunState::ALL, &RunEvent::ALL, RunState::name, RunEvent::name, RunState::apply);
    let items = table(
        &ItemStatus::ALL,
        &ItemEvent::ALL,
        ItemStatus::name,
        ItemEvent::name,
        ItemStatus::apply,
    );
    let samples = table(
        &SampleState::ALL,
        &SampleEvent::ALL,
        SampleState::name,
        SampleEvent::name,
        SampleState::apply,
    );
    let pipelines = table(
        &PipelineStatus::ALL,
        &PipelineEvent::ALL,
        PipelineStatus::name,
        PipelineEvent::name,
        PipelineStatus::apply,
    );
    let plans = table(
        &PlanStatus::ALL,
        &PlanEvent::ALL,
        PlanStatus::name,
        PlanEvent::name,
        PlanStatus::apply,
    );
    let gates = table(
        &GateStatus::ALL,
        &GateEvent::ALL,
        GateStatus::name,
        GateEvent::name,
        GateStatus::apply,
    );
    let partitions = table(
        &PartitionState::ALL,
        &PartitionEvent::ALL,
        PartitionState::name,
        PartitionEvent::name,
        PartitionState::apply,
    );
    format!(
        "{INTRO}\n## Partitions\n\n\
         Three statuses are stored: `pending`, `success`, `failed`. A success that is being reprocessed \
         keeps its\nstatus and its data whatever becomes of the attempt; a failed partition is terminal \
         while its message\nhas an operator's `[terminal]`. Passes and fails are the validator's, \
         everything else the control plane's.\n\n{partitions}\n## Runs\n\n\
         The stored status `error` is two states: with a `next_retry_at` the run waits for a retry, \
         without one\nit was given up.\n\n{runs}\n## Items\n\n{items}\n\
         ## Samples\n\n\
         The stored status `pending` is three states: ready for its stage, held by a worker, waiting \
         for a retry.\n\n{samples}\n## Pipeline runs\n\n{pipelines}\n## Plans\n\n\
         An undo returns the units that the plan made pending and that no worker has started to the state \
         in which\nthe plan found them.\n\n{plans}\n## Gates\n\n\
         A gate that is not divided has one state, a divided gate one for each key.\n\n{gates}"
    )
}

#[test]
fn the_document_shows_every_step_of_the_state_machines() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machines.md");
    let expected = document();
    if std::env::var_os("REDRIVE_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/state-machines.md is out of date; refresh it with \
         REDRIVE_BLESS=1 cargo test -p redrive-core state_machines"
    );
}

/// Where a run can go from a state, written without the code's own patterns.
fn legal_for_a_run(state: RunState) -> &'static [(RunEvent, RunState)] {
    use RunEvent as E;
    use RunState as S;
    match state {
        S::Discovered => &[(E::Claim, S::Processing), (E::Cancel, S::Cancelled)],
        S::Processing => &[
            (E::Pass, S::Passed),
            (E::AskForReview, S::NeedsReview),
            (E::Fail, S::Failed),
            (E::ScheduleRetry, S::WaitingForRetry),
            (E::GiveUp, S::GivenUp),
            (E::LeaseRelease, S::Discovered),
            (E::Cancel, S::Cancelled),
        ],
        S::WaitingForRetry => {
            &[(E::Claim, S::Processing), (E::Retry, S::Discovered), (E::Cancel, S::Cancelled)]
        }
        S::GivenUp => &[(E::Retry, S::Discovered), (E::Cancel, S::Cancelled)],
        S::Passed => &[],
        S::NeedsReview | S::Failed | S::Cancelled => &[(E::Retry, S::Discovered)],
    }
}

fn legal_for_an_item(status: ItemStatus) -> &'static [(ItemEvent, ItemStatus)] {
    use ItemEvent as E;
    use ItemStatus as S;
    match status {
        S::Pending => &[
            (E::Acknowledge, S::Uploaded),
            (E::RejectAttempt, S::Pending),
            (E::GiveUp, S::UploadGiveup),
            (E::Replace, S::Pending),
        ],
        S::Uploaded => &[(E::Trust, S::Trusted), (E::Refuse, S::Rejected)],
        S::Trusted | S::Rejected => &[],
        S::UploadGiveup => &[(E::Reset, S::Pending)],
    }
}

fn next<E: PartialEq, S: Copy>(legal: &[(E, S)], event: &E) -> Option<S> {
    legal.iter().find(|(known, _)| known == event).map(|(_, next)| *next)
}

#[test]
fn every_step_of_a_run_is_in_the_table_or_refused_by_name() {
    for state in RunState::ALL {
        for event in RunEvent::ALL {
            let refused =
                IllegalTransition { kind: "run", state: state.name(), event: event.name() };
            let expected = next(legal_for_a_run(state), &event).ok_or(refused);
            assert_eq!(state.apply(event), expected, "{state:?} {event:?}");
        }
    }
}

#[test]
fn every_step_of_an_item_is_in_the_table_or_refused_by_name() {
    for status in ItemStatus::ALL {
        for event in ItemEvent::ALL {
            let refused =
                IllegalTransition { kind: "item", state: status.name(), event: event.name() };
            let expected = next(legal_for_an_item(status), &event).ok_or(refused);
            assert_eq!(status.apply(event), expected, "{status:?} {event:?}");
        }
    }
}

#[test]
fn the_success_of_a_run_is_never_taken_back() {
    for event in RunEvent::ALL {
        let error = RunState::Passed.apply(event).unwrap_err();
        let shown = format!("{} is not allowed for a run that is passed", event.name());
        assert_eq!(error.to_string(), shown);
    }
}

#[test]
fn an_acknowledged_item_is_never_sent_again() {
    for status in [ItemStatus::Uploaded, ItemStatus::Trusted, ItemStatus::Rejected] {
        for event in
            [ItemEvent::Acknowledge, ItemEvent::RejectAttempt, ItemEvent::GiveUp, ItemEvent::Reset]
        {
            assert!(status.apply(event).is_err(), "{status} {event:?}");
        }
    }
}

#[test]
fn only_a_run_held_by_a_worker_gets_a_verdict() {
    let verdicts = [
        RunEvent::Pass,
        RunEvent::AskForReview,
        RunEvent::Fail,
        RunEvent::ScheduleRetry,
        RunEvent::GiveUp,
        RunEvent::LeaseRelease,
    ];
    for state in RunState::ALL {
        for event in verdicts {
            let held = state == RunState::Processing;
            assert_eq!(state.apply(event).is_ok(), held, "{state:?} {event:?}");
        }
    }
}

#[test]
fn a_run_held_by_one_worker_is_not_claimed_by_another() {
    assert!(RunState::Processing.apply(RunEvent::Claim).is_err());
}

#[test]
fn only_an_operator_brings_back_what_was_given_up() {
    for event in RunEvent::ALL {
        let operator = matches!(event, RunEvent::Retry | RunEvent::Cancel);
        assert_eq!(RunState::GivenUp.apply(event).is_ok(), operator, "{event:?}");
    }
    for event in ItemEvent::ALL {
        let operator = event == ItemEvent::Reset;
        assert_eq!(ItemStatus::UploadGiveup.apply(event).is_ok(), operator, "{event:?}");
    }
}

#[test]
fn a_stored_status_and_its_next_retry_tell_the_state() {
    for state in RunState::ALL {
        let waits = state == RunState::WaitingForRetry;
        assert_eq!(RunState::of(state.status(), waits), state);
    }
    for status in RunStatus::ALL {
        assert_eq!(RunStatus::from_name(status.name()), Some(status));
        assert_eq!(RunState::of(status, false).status(), status);
        assert_eq!(RunState::of(status, true).status(), status);
    }
    for status in ItemStatus::ALL {
        assert_eq!(ItemStatus::from_name(status.name()), Some(status));
    }
    assert_eq!(RunStatus::from_name("Passed"), None);
    assert_eq!(ItemStatus::from_name(""), None);
}
