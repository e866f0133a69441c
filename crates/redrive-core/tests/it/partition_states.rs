//! The life of a partition, step by step.

use redrive_core::{
    IllegalTransition, PartitionEvent as E, PartitionState as S, PartitionStatus, TERMINAL_MARK,
};

/// Where a partition can go from a state, written without the code's own patterns.
fn legal(state: S) -> &'static [(E, S)] {
    match state {
        S::Absent => &[(E::Backfill, S::Pending), (E::ForcePending, S::Pending)],
        S::Pending => &[(E::Pass, S::Success), (E::Fail, S::Failed)],
        S::Success => &[(E::Reprocess, S::Reprocessing)],
        S::Reprocessing => &[(E::Pass, S::Success), (E::Fail, S::Success)],
        S::Failed => &[
            (E::Retry, S::Pending),
            (E::ForcePending, S::Pending),
            (E::Fail, S::Failed),
            (E::MarkTerminal, S::Terminal),
        ],
        S::Terminal => &[(E::ClearTerminal, S::Failed), (E::Fail, S::Terminal)],
    }
}

// PAR-5
#[test]
fn every_step_of_a_partition_is_in_the_table_or_refused_by_name() {
    for state in S::ALL {
        for event in E::ALL {
            let refused =
                IllegalTransition { kind: "partition", state: state.name(), event: event.name() };
            let next = legal(state).iter().find(|(known, _)| *known == event);
            let expected = next.map(|(_, next)| *next).ok_or(refused);
            assert_eq!(state.apply(event), expected, "{state:?} {event:?}");
        }
    }
}

// PAR-5, PAR-9
#[test]
fn success_is_never_demoted() {
    for state in [S::Success, S::Reprocessing] {
        for event in E::ALL {
            let after = state.apply(event).map_or(state, |after| after);
            assert_eq!(after.status(), Some(PartitionStatus::Success), "{state:?} {event:?}");
        }
    }
}

// PAR-4, PAR-5
#[test]
fn only_the_validator_says_good_or_bad() {
    for state in S::ALL {
        for event in E::ALL {
            let Ok(after) = state.apply(event) else { continue };
            let verdict = matches!(event, E::Pass | E::Fail);
            let before = state.status();
            if after.status() != before && after != S::Pending {
                assert!(verdict, "{state:?} {event:?}");
            }
            if after == S::Pending {
                assert!(!verdict, "{state:?} {event:?}");
            }
        }
    }
}

// PAR-5, PAR-7
#[test]
fn a_terminal_partition_is_retried_only_after_its_mark_is_cleared() {
    assert!(S::Terminal.apply(E::Retry).is_err());
    assert!(S::Terminal.apply(E::ForcePending).is_err());
    let cleared = S::Terminal.apply(E::ClearTerminal).unwrap();
    assert_eq!(cleared.apply(E::Retry), Ok(S::Pending));
}

#[test]
fn a_stored_row_tells_the_state() {
    for status in PartitionStatus::ALL {
        assert_eq!(PartitionStatus::from_name(status.name()), Some(status));
        for message in [None, Some("no rows"), Some("[terminal] no rows"), Some(TERMINAL_MARK)] {
            for asked in [false, true] {
                assert_eq!(S::of(status, message, asked).status(), Some(status));
            }
        }
    }
    let of = S::of;
    assert_eq!(of(PartitionStatus::Pending, Some(TERMINAL_MARK), false), S::Pending);
    assert_eq!(of(PartitionStatus::Success, None, true), S::Reprocessing);
    assert_eq!(of(PartitionStatus::Success, Some(TERMINAL_MARK), false), S::Success);
    assert_eq!(of(PartitionStatus::Failed, Some("(terminal)"), true), S::Failed);
    assert_eq!(of(PartitionStatus::Failed, Some("a [terminal] b"), false), S::Terminal);
    assert_eq!(S::Absent.status(), None);
    assert_eq!(PartitionStatus::from_name("Success"), None);
}
