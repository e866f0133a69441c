//! What operators may do, and what queues add up to.

use std::collections::HashMap;

use jiff::Timestamp;
use redrive_core::{RunId, RunState};
use redrive_store::{QueueCount, QueueStats, RunAction, RunChange};

// RUN-6
#[test]
fn one_call_changes_a_run_once() {
    for action in RunAction::ALL {
        for state in RunState::ALL {
            let ids = [RunId(1), RunId(2), RunId(1)];
            let changes = action.changes(&ids, HashMap::from([(RunId(1), state)]));
            let done = changes.iter().filter(|(_, change)| matches!(change, RunChange::Done(_)));
            let legal = state.apply(action.event()).is_ok();
            assert_eq!(done.count(), usize::from(legal), "{action:?} of {}", state.name());
            assert_eq!(changes[1], (RunId(2), RunChange::Unknown));
        }
    }
}

// RUN-6
#[test]
fn counts_add_up_to_queues_by_name_with_states_in_the_order_of_life() {
    let second = |second| Some(Timestamp::from_second(second).unwrap());
    let count = |queue: &str, runs, oldest_ready, paused_at| QueueCount {
        queue: queue.to_owned(),
        runs,
        oldest_ready,
        next_due: oldest_ready,
        paused_at,
    };
    let stats = QueueStats::gather([
        count("b", None, None, second(9)),
        count("a", Some((RunState::Passed, 1)), None, None),
        count("a", Some((RunState::Discovered, 2)), second(7), None),
        count("a", Some((RunState::Passed, 3)), second(5), None),
    ]);
    let expected = QueueStats {
        queue: "a".to_owned(),
        runs: vec![(RunState::Discovered, 2), (RunState::Passed, 4)],
        oldest_ready: second(5),
        next_due: second(5),
        paused_at: None,
    };
    assert_eq!(stats[0], expected);
    assert_eq!((stats[1].queue.as_str(), stats[1].paused_at), ("b", second(9)));
    assert_eq!((stats.len(), stats[1].runs.len()), (2, 0));
}
