//! Which call a reply is for, and whose time is over first.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::*;

pub(in crate::handlers::stream) fn ask(
    calls: &mut CallTable,
    ticket: u64,
    begins: u64,
    limit: Duration,
    now: Instant,
) {
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let (reply_to, _) = oneshot::channel();
    let request = CallRequest {
        ticket: CallTicket(ticket),
        id: format!("run:{ticket}#1"),
        kind: "run",
        line: "{}\n".to_owned(),
        time_limit: limit,
        reply_to,
        rows: None,
        log: Default::default(),
        permit,
    };
    calls.add(request, begins, now);
}

// HANDLERS-3
#[test]
fn a_reply_to_a_call_that_was_never_written_is_none() {
    let (mut calls, now) = (CallTable::default(), Instant::now());
    ask(&mut calls, 1, 100, Duration::MAX, now);
    assert_eq!(calls.addressed(None, 1, 100), None);
    assert_eq!(calls.addressed(Some("run:1#1"), 1, 100), None);
    assert_eq!(calls.addressed(None, 1, 101), Some(CallTicket(1)));
    assert_eq!(calls.addressed(Some("run:1#1"), 1, 101), Some(CallTicket(1)));
    assert_eq!(calls.addressed(Some("run:2#1"), 1, 101), None, "a wrong id is not forgiven");
    assert_eq!(calls.addressed(None, 2, 101), None, "with several in flight the id is needed");
}

// HANDLERS-3
#[test]
fn the_first_deadline_is_that_of_the_most_urgent_call() {
    let (mut calls, now) = (CallTable::default(), Instant::now());
    assert_eq!(calls.next_deadline(), None);
    ask(&mut calls, 1, 0, Duration::from_secs(9), now);
    ask(&mut calls, 2, 3, Duration::from_secs(5), now);
    ask(&mut calls, 3, 6, Duration::MAX, now);
    assert_eq!(calls.next_deadline(), Some((now + Duration::from_secs(5), CallTicket(2))));
    calls.remove(CallTicket(2)).unwrap();
    assert_eq!(calls.next_deadline(), Some((now + Duration::from_secs(9), CallTicket(1))));
    calls.remove(CallTicket(1)).unwrap();
    assert_eq!(calls.next_deadline(), None, "what no clock can tell is no limit");
    assert_eq!(calls.only_written(7), Some(CallTicket(3)));
    assert_eq!(calls.only_written(6), None, "what was never written is not to blame");
}
