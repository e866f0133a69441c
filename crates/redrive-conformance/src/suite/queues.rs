//! Queues: pauses, statistics, backlog and wake-ups.

use std::time::Duration;

use redrive_core::{GiveUpReason, RunId, RunState, RunStatus};

use super::{
    Fixture,
    samples::{at, claim_of, give_up, operator, passed, retry, run},
};
use redrive_store::{
    Backlog, Categories, ClaimRequest, Error, LeaseRef, LeaseRelease, Leased, NewRun, Operator,
    PausedQueue, QueueStats, RunChange, WorkerId, Written,
};

fn only(categories: &[&str]) -> Categories {
    Categories::Only(categories.iter().map(|&name| name.to_owned()).collect())
}

impl Fixture {
    async fn pause(&self, queue: &str) {
        assert!(self.store.pause_queue(queue, &operator(at(5))).await.expect("answered"));
    }

    async fn resume(&self, queue: &str) {
        assert!(self.store.resume_queue(queue, &operator(at(6))).await.expect("answered"));
    }

    async fn backlog(&self, queue: &str, categories: &Categories) -> Backlog {
        let backlog = self.store.backlog(queue, categories).await.expect("read");
        let next_due = self.store.next_due(queue, categories).await.expect("read");
        assert_eq!(next_due, backlog.next_due, "asked for alone");
        backlog
    }
}

// RUN-6
pub async fn nothing_is_claimed_from_a_paused_queue(f: &Fixture) {
    let ids = f.submit(&[run("q", "fast", at(0)), run("other", "", at(0))], at(0)).await;
    let waiting = f.submit(&[run("q", "slow", at(1))], at(1)).await[0];
    let request = ClaimRequest { categories: only(&["slow"]), ..claim_of(1, at(2)) };
    let claimed = f.claim(&request).await;
    f.end(&claimed[0], at(2), retry(at(2), Duration::from_secs(10), true)).await;

    f.pause("q").await;
    for categories in [Categories::All, only(&["fast"]), only(&["fast", "slow"])] {
        let request = ClaimRequest { categories, ..claim_of(10, at(20)) };
        assert_eq!(f.claim(&request).await, [], "{:?}", request.categories);
    }
    assert_eq!(f.run(ids[0]).await.status, RunStatus::Discovered);
    assert_eq!(f.claim_from("other", at(20)).await.id, ids[1], "other queues go on");
    let more = f.submit(&[run("q", "fast", at(3))], at(20)).await[0];
    assert_eq!(f.claim(&claim_of(10, at(20))).await, [], "what is submitted waits as well");

    f.resume("q").await;
    let claimed: Vec<RunId> =
        f.claim(&claim_of(10, at(20))).await.into_iter().map(|run| run.id).collect();
    assert_eq!(claimed, [ids[0], waiting, more]);
}

// RUN-6
pub async fn what_is_running_in_a_paused_queue_goes_on(f: &Fixture) {
    let new: Vec<_> = (0..3).map(|n| run("q", "", at(n))).collect();
    f.submit(&new, at(3)).await;
    let held = f.claim(&claim_of(3, at(4))).await;
    f.pause("q").await;
    let leases: Vec<_> =
        held.iter().map(|run| LeaseRef { id: run.id.0, epoch: run.epoch }).collect();
    let renewed = f.store.renew_leases(Leased::Run, &leases, at(99)).await.expect("answered");
    assert_eq!(renewed, [Written::Applied; 3]);
    f.end(&held[0], at(6), passed()).await;
    f.end(&held[1], at(6), retry(at(6), Duration::from_secs(1), true)).await;
    let back = LeaseRelease {
        lease: leases[2],
        owner: WorkerId("w1".to_owned()),
        why: "paused".to_owned(),
    };
    let back = f.store.release_leases(Leased::Run, &[back], at(6)).await.expect("answered");
    assert_eq!(back, [Written::Applied]);
    assert_eq!(f.claim(&claim_of(3, at(9))).await, []);
}

// RUN-6, OPS-3
pub async fn a_queue_is_paused_once_and_resumed_once(f: &Fixture) {
    let (first, second) = (operator(at(5)), Operator { reason: None, ..operator(at(7)) });
    assert!(!f.store.resume_queue("q", &first).await.expect("answered"), "it was not paused");
    assert!(f.store.pause_queue("q", &first).await.expect("answered"));
    assert!(!f.store.pause_queue("q", &second).await.expect("answered"));
    let paused = PausedQueue { queue: "q".to_owned(), by: first.clone() };
    assert_eq!(f.store.paused_queues().await.expect("read"), [paused], "the first one stays");
    assert!(f.store.resume_queue("q", &second).await.expect("answered"));
    assert!(!f.store.resume_queue("q", &second).await.expect("answered"));
    assert_eq!(f.store.paused_queues().await.expect("read"), []);
    assert!(f.store.pause_queue("q", &second).await.expect("answered"), "and once more");

    let told = f.told(None).await;
    let actions: Vec<_> = told.iter().map(|entry| (entry.action.as_str(), entry.at)).collect();
    let expected = [("queue.pause", at(5)), ("queue.resume", at(7)), ("queue.pause", at(7))];
    assert_eq!(actions, expected);
    assert!(told.iter().all(|entry| entry.actor == "ada" && entry.unit.is_none()));
    assert_eq!(told[0].details, r#"{"queue":"q","reason":"looks wrong"}"#);
    assert_eq!(told[1].details, r#"{"queue":"q","reason":null}"#);
}

// RUN-6
pub async fn paused_queues_are_listed_by_name(f: &Fixture) {
    let names = ["b", "é", "B", "%", "a\nb", "_", "'; DROP TABLE runs; --"];
    for name in names {
        f.pause(name).await;
    }
    let odd = Operator {
        actor: "\x1b[31m".to_owned(),
        at: at(5),
        reason: Some("NUL \0 inside".to_owned()),
    };
    assert!(f.store.pause_queue("z", &odd).await.expect("answered"));
    let paused = f.store.paused_queues().await.expect("read");
    let listed: Vec<&str> = paused.iter().map(|paused| paused.queue.as_str()).collect();
    let mut expected = [names.as_slice(), &["z"]].concat();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let by = &paused.iter().find(|paused| paused.queue == "z").expect("listed").by;
    assert_eq!(*by, odd.cleaned(), "foreign text is cleaned");

    f.submit(&[run("x", "", at(0))], at(0)).await;
    assert_eq!(f.claim_from("x", at(1)).await.category, "", "names match exactly");
}

// RUN-6
pub async fn a_name_that_no_queue_can_have_is_refused(f: &Fixture) {
    for name in ["", "a\0b", &"x".repeat(redrive_store::MAX_NAME_BYTES + 1)] {
        let paused = f.store.pause_queue(name, &operator(at(5))).await;
        assert!(matches!(paused, Err(Error::Misuse { .. })), "{paused:?}");
        let resumed = f.store.resume_queue(name, &operator(at(5))).await;
        assert!(matches!(resumed, Err(Error::Misuse { .. })), "{resumed:?}");
    }
    assert_eq!(f.store.paused_queues().await.expect("read"), []);
    assert_eq!(f.told(None).await, []);
}

// RUN-6, OPS-3
pub async fn stats_tell_how_every_queue_stands(f: &Fixture) {
    assert_eq!(f.store.queue_stats().await.expect("read"), []);
    let new: Vec<NewRun> = (0..9).map(|n| run("q", ["a", "b"][n % 2], at(n as i64))).collect();
    f.submit(&new, at(9)).await;
    let late = run("q", "a", at(0)).with_not_before(at(900));
    f.submit(&[late, run("A", "", at(3))], at(9)).await;
    let held = f.claim(&claim_of(6, at(10))).await;
    f.end(&held[0], at(11), passed()).await;
    f.end(&held[1], at(11), give_up(GiveUpReason::Final)).await;
    f.end(&held[2], at(11), retry(at(11), Duration::from_secs(50), true)).await;
    f.end(&held[3], at(11), retry(at(11), Duration::from_secs(40), true)).await;
    let cancelled = f.store.cancel_runs(&[held[4].id], &operator(at(12))).await;
    assert_eq!(cancelled.expect("answered"), [RunChange::Done(RunState::Processing)]);
    f.pause("q").await;
    f.pause("empty").await;

    let stats = |queue: &str, runs: &[(RunState, u64)]| QueueStats {
        queue: queue.to_owned(),
        runs: runs.to_vec(),
        oldest_ready: None,
        next_due: None,
        paused_at: None,
    };
    let counts = [
        (RunState::Discovered, 4),
        (RunState::Processing, 1),
        (RunState::WaitingForRetry, 2),
        (RunState::GivenUp, 1),
        (RunState::Passed, 1),
        (RunState::Cancelled, 1),
    ];
    let expected = [
        QueueStats { oldest_ready: Some(at(3)), ..stats("A", &[(RunState::Discovered, 1)]) },
        QueueStats { paused_at: Some(at(5)), ..stats("empty", &[]) },
        QueueStats {
            oldest_ready: Some(at(6)),
            next_due: Some(at(51)),
            paused_at: Some(at(5)),
            ..stats("q", &counts)
        },
    ];
    assert_eq!(f.store.queue_stats().await.expect("read"), expected);
}

// OPS-7
pub async fn the_backlog_is_what_a_queue_has_to_do(f: &Fixture) {
    let nothing = Backlog::default();
    assert_eq!(f.backlog("q", &Categories::All).await, nothing);
    f.submit(&[run("q", "", at(0)), run("q", "", at(1))], at(1)).await;
    let ready = Backlog { ready: true, ..nothing };
    assert_eq!(f.backlog("q", &Categories::All).await, ready);
    assert_eq!(f.backlog("other", &Categories::All).await, nothing);
    f.pause("q").await;
    assert_eq!(f.backlog("q", &Categories::All).await, nothing, "a paused queue");
    f.resume("q").await;

    let held = f.claim(&claim_of(2, at(2))).await;
    assert_eq!(f.backlog("q", &Categories::All).await, Backlog { held: true, ..nothing });
    assert_eq!(f.backlog("other", &Categories::All).await, nothing);
    f.end(&held[0], at(3), retry(at(3), Duration::from_secs(50), true)).await;
    let both = Backlog { held: true, next_due: Some(at(53)), ..nothing };
    assert_eq!(f.backlog("q", &Categories::All).await, both);
    f.end(&held[1], at(3), retry(at(3), Duration::from_secs(40), true)).await;
    f.pause("q").await;
    let due = Backlog { next_due: Some(at(43)), ..nothing };
    assert_eq!(f.backlog("q", &Categories::All).await, due, "pausing stops no clock");
    f.resume("q").await;

    for second in [100, 101] {
        let claimed = f.claim_one(at(second)).await;
        f.end(&claimed, at(second), passed()).await;
    }
    assert_eq!(f.backlog("q", &Categories::All).await, nothing, "everything is done");
}

// OPS-7
pub async fn the_backlog_sees_the_named_categories_alone(f: &Fixture) {
    let new = ["ready", "held", "due", "late"].map(|category| run("q", category, at(0)));
    f.submit(&new, at(0)).await;
    for (category, delay) in [("due", Some(10)), ("late", Some(90)), ("held", None)] {
        let request = ClaimRequest { categories: only(&[category]), ..claim_of(1, at(1)) };
        let claimed = f.claim(&request).await.pop().expect("a run to claim");
        if let Some(delay) = delay {
            f.end(&claimed, at(1), retry(at(1), Duration::from_secs(delay), true)).await;
        }
    }
    let nothing = Backlog::default();
    let cases: [(&[&str], Backlog); 7] = [
        (&[], nothing),
        (&["%", "_", "READY"], nothing),
        (&["ready", "ready"], Backlog { ready: true, ..nothing }),
        (&["held"], Backlog { held: true, ..nothing }),
        (&["late"], Backlog { next_due: Some(at(91)), ..nothing }),
        (&["late", "due"], Backlog { next_due: Some(at(11)), ..nothing }),
        (&["held", "late", "ready"], Backlog { ready: true, held: true, next_due: Some(at(91)) }),
    ];
    for (categories, expected) in cases {
        assert_eq!(f.backlog("q", &only(categories)).await, expected, "{categories:?}");
    }
    f.pause("q").await;
    let paused = f.backlog("q", &only(&["ready", "held"])).await;
    assert_eq!(paused, Backlog { held: true, ..nothing });
}

/// Who listens has heard of a change when the call that made it returns.
pub async fn whatever_may_be_claimed_wakes_who_listens(f: &Fixture) {
    let mut wakes = f.store.wakes();
    let mut woken = |what: &str| {
        assert!(wakes.has_changed().expect("the store is there"), "{what}");
        wakes.mark_unchanged();
    };
    let ids = f.submit(&[run("q", "", at(0)), run("q", "", at(1))], at(1)).await;
    woken("a submission");
    let held = f.claim(&claim_of(2, at(2))).await;
    f.end(&held[0], at(3), retry(at(3), Duration::from_secs(1), true)).await;
    woken("a retry that was scheduled");
    let lease = LeaseRef { id: held[1].id.0, epoch: held[1].epoch };
    let back = LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() };
    let back = f.store.release_leases(Leased::Run, &[back], at(4)).await.expect("answered");
    assert_eq!(back, [Written::Applied]);
    woken("a run that was released");
    f.store.cancel_runs(&[ids[0]], &operator(at(5))).await.expect("answered");
    f.store.retry_runs(&[ids[0]], &operator(at(5))).await.expect("answered");
    woken("a run that was sent back");
    f.pause("q").await;
    f.resume("q").await;
    woken("a queue that was resumed");
}
