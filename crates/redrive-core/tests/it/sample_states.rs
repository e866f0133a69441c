//! The life of a sample, step by step.

use redrive_core::{IllegalTransition, SampleEvent as E, SampleState as S, SampleStatus as Status};

/// Where a sample can go from a state, written without the code's own patterns.
fn legal(state: S) -> &'static [(E, S)] {
    match state {
        S::Ready | S::WaitingForRetry => &[(E::Claim, S::Running)],
        S::Running => &[
            (E::Advance, S::Ready),
            (E::Complete, S::Succeeded),
            (E::Skip, S::Skipped),
            (E::ScheduleRetry, S::WaitingForRetry),
            (E::GiveUp, S::Dead),
            (E::LeaseRelease, S::Ready),
        ],
        S::Succeeded | S::Skipped => &[],
        S::Dead => &[(E::Reprocess, S::Ready)],
    }
}

// PIP-3, PIP-7
#[test]
fn every_step_of_a_sample_is_in_the_table_or_refused_by_name() {
    for state in S::ALL {
        for event in E::ALL {
            let refused =
                IllegalTransition { kind: "sample", state: state.name(), event: event.name() };
            let next = legal(state).iter().find(|(known, _)| *known == event);
            let expected = next.map(|(_, next)| *next).ok_or(refused);
            assert_eq!(state.apply(event), expected, "{state:?} {event:?}");
        }
    }
}

#[test]
fn a_stored_status_with_its_lease_and_retry_tells_the_state() {
    for state in S::ALL {
        let (held, waits) = (state == S::Running, state == S::WaitingForRetry);
        assert_eq!(S::of(state.status(), held, waits), state);
    }
    for status in Status::ALL {
        assert_eq!(Status::from_name(status.name()), Some(status));
        assert_eq!(S::of(status, false, false).status(), status);
    }
    assert_eq!(Status::from_name("dead"), None);
}
