//! Submitting and reading runs.

use jiff::SignedDuration;
use redrive_core::{Epoch, RunId, RunState, RunStatus};
use serde_json::json;

use super::{
    Fixture,
    samples::{at, claim_of, operator, passed, run},
};
use redrive_store::{
    MAX_PAGE_BYTES, MAX_PAYLOAD_BYTES, NewRun, PageLimit, PageOrder, Selection, StateFilter,
    SubmittedRun,
};

pub async fn submitted_runs_get_ids_that_grow_with_their_order(f: &Fixture) {
    let ids =
        f.submit(&[run("q", "", at(2)), run("q", "", at(1)), run("r", "", at(0))], at(3)).await;
    assert!(ids.is_sorted() && ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

// RUN-1
pub async fn a_submitted_run_reads_back_as_it_was_given(f: &Fixture) {
    let payload = json!({ "text": "naïve\u{0}\u{1b}[31m", "big": 9_007_199_254_740_993_i64 });
    let new = NewRun::new("q", &payload, at(1))
        .and_then(|run| run.with_category("käse"))
        .and_then(|run| run.with_idempotency_key("key"))
        .expect("a valid run")
        .with_not_before(at(60));
    let id = f.submit(&[new], at(2)).await[0];

    let run = f.run(id).await;
    assert_eq!(run.queue, "q");
    assert_eq!(run.category, "käse");
    assert_eq!(run.payload, payload.to_string());
    assert_eq!(run.submitted_at, at(1));
    assert_eq!(run.not_before, Some(at(60)));
    assert_eq!(run.idempotency_key.as_deref(), Some("key"));
    assert_eq!(run.status, RunStatus::Discovered);
    assert_eq!((run.attempts, run.attempts_at_reset), (0, 0));
    assert_eq!((run.retry_count, run.deferrals), (0, 0));
    assert_eq!((run.next_retry_at, run.first_attempt_at), (None, None));
    assert_eq!((run.error_class, run.error_message, run.result), (None, None, None));
    assert_eq!((run.lease_owner, run.lease_epoch, run.lease_until), (None, Epoch(0), None));
    assert_eq!((run.ready, run.due_at), (false, Some(at(60))));
}

fn keyed(queue: &str, category: &str, payload: i64) -> NewRun {
    NewRun::new(queue, &json!(payload), at(0))
        .and_then(|run| run.with_category(category))
        .and_then(|run| run.with_idempotency_key("once"))
        .expect("a valid run")
}

// RUN-6
pub async fn the_same_content_under_an_idempotency_key_is_a_no_op(f: &Fixture) {
    let id = f.submit(&[keyed("q", "a", 1)], at(0)).await[0];
    let again = f.store.submit_runs(&[keyed("q", "a", 1)], at(9)).await.expect("submitted");
    assert_eq!(again, [SubmittedRun::Duplicate(id)]);
    assert_eq!(
        f.store.runs_page(&Selection::default(), RunId(0), 10.into()).await.expect("read").len(),
        1
    );
}

// RUN-6
pub async fn other_content_under_an_idempotency_key_is_refused(f: &Fixture) {
    let id = f.submit(&[keyed("q", "a", 1)], at(0)).await[0];
    for other in [keyed("q", "a", 2), keyed("q", "b", 1)] {
        let refused = f.store.submit_runs(&[other], at(0)).await.expect("answered");
        assert_eq!(refused, [SubmittedRun::Conflict(id)]);
    }
    assert_eq!(f.run(id).await.payload, "1");
}

// RUN-6
pub async fn an_idempotency_key_is_unique_per_queue_alone(f: &Fixture) {
    let ids = f.submit(&[keyed("q", "a", 1), keyed("r", "a", 2)], at(0)).await;
    assert_eq!(ids.len(), 2);
}

// RUN-6
pub async fn one_batch_may_repeat_a_key(f: &Fixture) {
    let batch = [keyed("q", "", 1), run("q", "", at(0)), keyed("q", "", 1), keyed("q", "", 2)];
    let answers = f.store.submit_runs(&batch, at(0)).await.expect("submitted");
    let SubmittedRun::Accepted(first) = answers[0] else { panic!("{answers:?}") };
    assert!(matches!(answers[1], SubmittedRun::Accepted(_)));
    assert_eq!(answers[2..], [SubmittedRun::Duplicate(first), SubmittedRun::Conflict(first)]);
}

// RUN-6
pub async fn two_submitters_of_one_key_make_one_run(f: &Fixture) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = f.store.clone();
        tasks.spawn(async move { store.submit_runs(&[keyed("q", "", 1)], at(0)).await });
    }
    let mut accepted = 0;
    for answer in tasks.join_all().await {
        match answer.expect("submitted")[..] {
            [SubmittedRun::Accepted(_)] => accepted += 1,
            [SubmittedRun::Duplicate(_)] => {}
            ref other => panic!("{other:?}"),
        }
    }
    assert_eq!(accepted, 1);
}

pub async fn unknown_ids_are_left_out(f: &Fixture) {
    let id = f.submit(&[run("q", "", at(0))], at(0)).await[0];
    let unknown = [RunId(id.0 + 1), id, RunId(i64::MAX), RunId(-1)];
    let found = f.store.runs_by_id(&unknown).await.expect("read");
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [id]);
}

impl Fixture {
    /// The runs that match, read in pages of ten.
    async fn listed_runs(&self, filter: &Selection, order: PageOrder) -> Vec<RunId> {
        let (limit, mut seen) = (PageLimit::from(10).ordered(order), Vec::new());
        loop {
            let after = seen.last().copied().unwrap_or(RunId(order.start()));
            let page = self.store.runs_page(filter, after, limit).await.expect("read");
            assert!(page.len() <= 10);
            if page.is_empty() {
                return seen;
            }
            seen.extend(page.into_iter().map(|run| run.id));
        }
    }
}

pub async fn pages_cover_every_run_once_in_both_orders(f: &Fixture) {
    let new: Vec<_> =
        (0..35).map(|n| run("q", "", at(0) + SignedDuration::from_secs(-n))).collect();
    let ids = f.submit(&new, at(0)).await;
    let claimed = f.claim(&claim_of(11, at(1))).await;
    f.end(&claimed[0], at(2), passed()).await;
    let states = RunState::ALL.map(|state| Some(StateFilter::from(state)));
    let mut in_states = 0;
    for state in states.into_iter().chain([None]) {
        let filter = Selection { state, ..Selection::default() };
        let mut seen = f.listed_runs(&filter, PageOrder::Descending).await;
        seen.reverse();
        assert_eq!(seen, f.listed_runs(&filter, PageOrder::Ascending).await, "{filter:?}");
        match state {
            Some(_) => in_states += seen.len(),
            None => assert_eq!(seen, ids),
        }
    }
    assert_eq!(in_states, ids.len(), "24 are ready, 10 are held and one has passed");
}

pub async fn pages_of_runs_are_bounded_in_bytes(f: &Fixture) {
    let large = json!("x".repeat(MAX_PAYLOAD_BYTES - 2));
    let new: Vec<_> =
        (0..10).map(|_| NewRun::new("q", &large, at(0)).expect("a valid run")).collect();
    let ids = f.submit(&new, at(0)).await;
    let (limit, mut after, mut seen) = (PageLimit::from(100), RunId(0), Vec::new());
    loop {
        let page = f.store.runs_page(&Selection::default(), after, limit).await.expect("read");
        let bytes: usize = page.iter().map(|run| run.payload.len()).sum();
        assert!(bytes < MAX_PAGE_BYTES + MAX_PAYLOAD_BYTES, "{bytes}");
        assert!(!page.is_empty(), "every page goes on");
        after = page[page.len() - 1].id;
        let is_reached = limit.is_reached(&page);
        seen.extend(page.into_iter().map(|run| run.id));
        if !is_reached {
            break;
        }
    }
    assert_eq!(seen, ids);
    let limit = PageLimit::without_data(100);
    let all = f.store.runs_page(&Selection::default(), RunId(0), limit).await.expect("read");
    assert_eq!(all.iter().map(|run| run.id).collect::<Vec<_>>(), ids);
    assert!(all.iter().all(|run| run.payload.is_empty() && run.result.is_none()));
    assert!(!limit.is_reached(&all));
}

// RUN-6
pub async fn filters_match_exactly(f: &Fixture) {
    let names = ["%", "_", "q", "Q", "q ", "qq"];
    let mut new = Vec::new();
    for queue in names {
        new.extend(["", "%", "_", "c"].map(|category| run(queue, category, at(0))));
    }
    let ids = f.submit(&new, at(0)).await;
    let claimed = f.claim(&claim_of(1, at(1))).await;
    f.end(&claimed[0], at(2), passed()).await;

    let filter =
        |queue: Option<&str>, category: Option<&str>, status: Option<RunStatus>| Selection {
            queue: queue.map(str::to_owned),
            category: category.map(str::to_owned),
            state: status.map(Into::into),
            ..Selection::default()
        };
    let found = async |filter: Selection| -> Vec<RunId> {
        let page = f.store.runs_page(&filter, RunId(0), 100.into()).await.expect("read");
        page.into_iter().map(|run| run.id).collect()
    };
    for (n, queue) in names.iter().enumerate() {
        let own = &ids[n * 4..n * 4 + 4];
        assert_eq!(found(filter(Some(queue), None, None)).await, own, "queue {queue:?}");
        assert_eq!(found(filter(Some(queue), Some("%"), None)).await, own[1..2]);
        assert_eq!(found(filter(Some(queue), Some(""), None)).await, own[..1], "no category");
    }
    assert_eq!(found(filter(None, Some("_"), None)).await.len(), names.len());
    assert_eq!(found(filter(None, None, Some(RunStatus::Passed))).await, [claimed[0].id]);
    let rest = filter(Some("q"), None, Some(RunStatus::Discovered));
    assert_eq!(found(rest.clone()).await.len(), 3);
    assert_eq!(found(filter(Some("none"), None, None)).await, []);
    let page = f.store.runs_page(&rest, ids[9], 1.into()).await.expect("read");
    assert_eq!(page.iter().map(|run| run.id).collect::<Vec<_>>(), [ids[10]], "pages go on by id");
}

pub async fn empty_batches_do_nothing(f: &Fixture) {
    assert_eq!(f.store.submit_runs(&[], at(0)).await.expect("answered"), []);
    assert_eq!(f.store.finish_runs(&[], at(0)).await.expect("answered"), []);
    assert_eq!(f.store.runs_by_id(&[]).await.expect("answered"), []);
    assert_eq!(f.store.retry_runs(&[], &operator(at(0))).await.expect("answered"), []);
    assert_eq!(f.store.cancel_runs(&[], &operator(at(0))).await.expect("answered"), []);
    assert_eq!(f.store.move_items(&[]).await.expect("answered"), []);
    assert_eq!(f.store.append_journal(&[]).await.expect("answered"), Vec::<bool>::new());
    f.store.append_attempts(&[]).await.expect("answered");
}

// RUN-1
pub async fn a_run_whose_time_has_come_is_ready_and_keeps_the_time(f: &Fixture) {
    let keyless = run("q", "", at(1)).with_not_before(at(2));
    let keyed = keyless.clone().with_idempotency_key("k").expect("valid");
    for new in [keyless, keyed] {
        let id = f.submit(&[new], at(3)).await[0];
        let stored = f.run(id).await;
        assert_eq!((stored.not_before, stored.due_at, stored.ready), (Some(at(2)), None, true));
    }
}
