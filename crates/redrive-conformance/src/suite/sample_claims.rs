//! Claiming samples: selection, order and leases.

use std::{collections::HashSet, time::Duration};

use redrive_core::{AttemptNumber, Epoch, PipelineRunId, SampleId, SampleState};

use super::{
    Fixture,
    pipeline_samples::{
        answered, broken, claim_at, feed_claim, lines, new_run, retried, sample_lease, served,
    },
    samples::{at, before, operator},
};
use redrive_store::{
    Backlog, ClaimedSample, LeaseRef, LeaseRelease, Leased, NewPipelineRun, PipelineAction,
    SampleClaim, Served, WorkerId, Written,
};

const SECOND: Duration = Duration::from_secs(1);

fn line_of(sample: &ClaimedSample) -> u64 {
    let data: serde_json::Value = serde_json::from_str(&sample.data).expect("JSON");
    data["n"].as_u64().expect("a number")
}

fn lines_of(samples: &[ClaimedSample]) -> Vec<u64> {
    samples.iter().map(line_of).collect()
}

fn release_leases(lease: LeaseRef) -> LeaseRelease {
    LeaseRelease { lease, owner: WorkerId("w1".to_owned()), why: "shutdown".to_owned() }
}

// PIP-1
pub async fn samples_are_claimed_in_their_order_and_no_more_than_the_limit(f: &Fixture) {
    let id = f.run_of(5).await;
    let first = f.samples_at(0, 2, at(2)).await;
    assert_eq!(lines_of(&first), [1, 2]);
    assert_eq!(f.samples_at(0, 0, at(2)).await, []);
    assert_eq!(lines_of(&f.samples_at(0, 9, at(2)).await), [3, 4, 5]);
    assert_eq!(f.samples_at(0, 9, at(2)).await, []);
    let claimed = &first[0];
    assert_eq!((claimed.run, claimed.attempt, claimed.epoch), (id, AttemptNumber(1), Epoch(1)));
    assert_eq!((claimed.history.counted, claimed.history.first_attempt_at), (0, None));
    let stored = f.sample(claimed.id).await;
    assert_eq!(stored.state(), SampleState::Running);
    assert_eq!(
        (stored.lease_owner, stored.lease_until),
        (Some(WorkerId("w1".into())), Some(at(62)))
    );
}

// PIP-3
pub async fn due_retries_come_before_what_is_new_and_none_before_its_time(f: &Fixture) {
    f.run_of(6).await;
    let first = f.samples_at(0, 4, at(2)).await;
    f.end_sample(&first[3], 0, at(3), retried(at(3), SECOND, true)).await;
    f.end_sample(&first[1], 0, at(3), retried(at(3), 2 * SECOND, true)).await;
    f.end_sample(&first[0], 0, at(3), retried(at(3), 60 * SECOND, true)).await;
    assert_eq!(lines_of(&f.samples_at(0, 1, at(3)).await), [5], "nothing is due");
    let both = f.samples_at(0, 9, at(5)).await;
    assert_eq!(lines_of(&both), [2, 4, 6], "what is due, by id, and then the rest");
    let second = &both[0];
    assert_eq!(
        (second.attempt, second.epoch, second.history.counted),
        (AttemptNumber(2), Epoch(2), 1)
    );
    assert_eq!(second.history.first_attempt_at, Some(at(2)));
    assert_eq!(f.sample(second.id).await.next_retry_at, None);
    assert_eq!(f.samples_at(0, 9, at(62)).await, []);
    assert_eq!(lines_of(&f.samples_at(0, 9, at(63)).await), [1]);
}

// PIP-3
pub async fn the_longest_waiting_retries_are_taken_first(f: &Fixture) {
    f.run_of(4).await;
    for (sample, delay) in f.samples_at(0, 4, at(2)).await.iter().zip([9, 3, 6, 1]) {
        f.end_sample(sample, 0, at(2), retried(at(2), delay * SECOND, true)).await;
    }
    assert_eq!(lines_of(&f.samples_at(0, 2, at(20)).await), [2, 4]);
    assert_eq!(lines_of(&f.samples_at(0, 2, at(20)).await), [1, 3]);
}

// PIP-1, PIP-6
pub async fn a_claim_leaves_other_stages_pipelines_and_stopped_runs_alone(f: &Fixture) {
    let stopped = f.run_of(2).await;
    f.cancel_pipeline_run(stopped).await;
    let shorter = NewPipelineRun { stages: vec!["clean".to_owned()], ..new_run() };
    let reversed: Vec<String> = new_run().stages.into_iter().rev().collect();
    for other in [
        NewPipelineRun { pipeline: "p%".to_owned(), ..new_run() },
        NewPipelineRun { stages: reversed, ..new_run() },
        shorter,
    ] {
        let feed = f.reading(&other).await;
        f.feed(feed, &lines(1..=2), true).await;
    }
    assert_eq!(f.samples_at(0, 9, at(2)).await, []);
    let id = f.run_of(2).await;
    assert_eq!(f.samples_at(1, 9, at(2)).await, [], "nothing has got so far");
    let claimed = f.samples_at(0, 9, at(2)).await;
    assert!(claimed.len() == 2 && claimed.iter().all(|sample| sample.run == id), "{claimed:?}");
    f.end_sample(&claimed[0], 0, at(3), retried(at(3), SECOND, true)).await;
    f.cancel_pipeline_run(id).await;
    assert_eq!(f.samples_at(0, 9, at(60)).await, [], "a due retry of a stopped run");
}

// PIP-1
pub async fn runs_are_served_one_after_the_other_or_one_alone(f: &Fixture) {
    let (first, second) = (f.run_of(3).await, f.run_of(3).await);
    let early = f.samples_at(0, 1, at(2)).await;
    f.end_sample(&early[0], 0, at(2), retried(at(2), SECOND, true)).await;
    let of = |samples: &[ClaimedSample]| {
        samples.iter().map(|sample| (sample.run, line_of(sample))).collect::<Vec<_>>()
    };
    let claimed = f.samples_at(0, 4, at(9)).await;
    assert_eq!(of(&claimed), [(first, 1), (first, 2), (first, 3), (second, 1)]);
    let third = f.run_of(2).await;
    let only = |run| SampleClaim {
        served: Served { run: Some(run), ..served() },
        ..claim_at(0, 9, at(9))
    };
    let claimed = f.store.claim_samples(&only(third)).await.expect("claimed");
    assert_eq!(of(&claimed), [(third, 1), (third, 2)]);
    let none = f.store.claim_samples(&only(PipelineRunId(99))).await.expect("claimed");
    assert_eq!(none, []);
}

// PIP-1
pub async fn claims_at_once_never_share_a_sample(f: &Fixture) {
    f.run_of(150).await;
    f.run_of(50).await;
    for sample in f.samples_at(0, 40, at(2)).await {
        f.end_sample(&sample, 0, at(2), retried(at(2), SECOND, true)).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let store = f.store.clone();
        tasks.spawn(async move {
            let owner = WorkerId(format!("w{worker}"));
            let mut mine = Vec::new();
            // Enough rounds for any one worker to take everything.
            for _ in 0..40 {
                let claim = SampleClaim { owner: owner.clone(), ..claim_at(0, 7, at(9)) };
                let claimed = store.claim_samples(&claim).await.expect("claimed");
                assert!(claimed.len() <= 7);
                mine.extend(claimed.into_iter().map(|sample| sample.id));
            }
            mine
        });
    }
    let taken: Vec<SampleId> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: HashSet<SampleId> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (200, 200));
}

// PIP-1
pub async fn leases_of_samples_are_renewed_and_lost(f: &Fixture) {
    f.run_of(4).await;
    let next = async |now| f.store.next_lease_end(Leased::Sample, at(now)).await.expect("read");
    let ended = async |now, after, limit| {
        let page = f.store.expired_leases(Leased::Sample, at(now), None, after, limit).await;
        page.expect("read").into_iter().map(|expired| expired.lease).collect::<Vec<_>>()
    };
    assert_eq!((next(0).await, ended(900, 0, 9).await), (None, Vec::new()));
    let held = f.samples_at(0, 4, at(2)).await;
    f.end_sample(&held[3], 0, at(3), broken()).await;
    let older = LeaseRef { epoch: before(held[0].epoch), ..sample_lease(&held[0]) };
    let leases = [older, sample_lease(&held[3]), sample_lease(&held[1]), sample_lease(&held[1])];
    let renewed = f.store.renew_leases(Leased::Sample, &leases, at(500)).await.expect("answered");
    let (stale, applied) = (Written::Stale, Written::Applied);
    assert_eq!(renewed, [stale, stale, applied, applied]);
    assert_eq!(
        (next(2).await, next(62).await, next(500).await),
        (Some(at(62)), Some(at(500)), None)
    );
    assert_eq!(ended(61, 0, 9).await, []);
    let (first, third) = (sample_lease(&held[0]), sample_lease(&held[2]));
    assert_eq!(ended(62, 0, 1).await, [first]);
    assert_eq!(ended(62, first.id, 9).await, [third]);
    let page = f.store.expired_leases(Leased::Sample, at(62), None, 0, 1).await.expect("read");
    assert_eq!((page[0].owner.0.as_str(), page[0].until), ("w1", at(62)));
    f.owners_find_their_leases(Leased::Sample).await;
}

// PIP-1
pub async fn a_released_sample_is_claimable_at_once_and_uncounted(f: &Fixture) {
    f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    f.end_sample(&first, 0, at(3), answered("{\"n\": 7}")).await;
    let second = f.sample_at(1, at(4)).await;
    f.end_sample(&second, 1, at(5), retried(at(5), SECOND, true)).await;
    let third = f.sample_at(1, at(9)).await;
    let back = [release_leases(sample_lease(&third)), release_leases(sample_lease(&third))];
    let written = f.store.release_leases(Leased::Sample, &back, at(10)).await.expect("answered");
    assert_eq!(written, [Written::Applied, Written::Stale]);
    let stored = f.sample(third.id).await;
    assert_eq!((stored.state(), stored.attempts, stored.retry_count), (SampleState::Ready, 1, 1));
    assert_eq!(f.sample_attempts(third.id, "score").await.len(), 1, "a hand-back is no attempt");
    let told = f.told_by("sample.handback").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].unit, Some(redrive_store::sample_unit(third.id, "score")));
    let again = f.sample_at(1, at(10)).await;
    assert_eq!((again.attempt, again.epoch.0), (AttemptNumber(2), third.epoch.0 + 1));
    assert_eq!((again.history.counted, again.data.as_str()), (1, "{\"n\": 7}"));
}

// PIP-2
pub async fn the_lease_on_a_source_is_renewed_lost_and_released(f: &Fixture) {
    let feed = f.reading(&new_run()).await;
    let id = PipelineRunId(feed.id);
    let renew = async |lease| {
        f.store.renew_leases(Leased::Feed, &[lease], at(500)).await.expect("answered")[0]
    };
    let older = LeaseRef { epoch: before(feed.epoch), ..feed };
    assert_eq!((renew(older).await, renew(feed).await), (Written::Stale, Written::Applied));
    let next = f.store.next_lease_end(Leased::Feed, at(0)).await.expect("read");
    assert_eq!(next, Some(at(500)));
    let page = async |now, after| {
        f.store.expired_leases(Leased::Feed, at(now), None, after, 9).await.expect("read")
    };
    assert_eq!(page(499, 0).await, []);
    assert_eq!(page(500, 0).await[0].lease, feed);
    assert_eq!(page(500, feed.id).await, []);
    f.owners_find_their_leases(Leased::Feed).await;
    let back = f
        .store
        .release_leases(Leased::Feed, &[release_leases(older), release_leases(feed)], at(9))
        .await;
    assert_eq!(back.expect("answered"), [Written::Stale, Written::Applied]);
    let told = f.told_by("pipeline.handback").await;
    assert_eq!((told.len(), told[0].at, told[0].actor.as_str()), (1, at(9), "w1"));
    let again = f.store.claim_feeds(&feed_claim(at(10))).await.expect("claimed");
    assert_eq!(again[0].0, LeaseRef { epoch: Epoch(2), ..feed });
    f.cancel_pipeline_run(id).await;
    assert_eq!(renew(again[0].0).await, Written::Stale, "a stopped run is read no further");
}

// PIP-1
pub async fn the_backlog_of_a_pipeline_is_what_its_runs_have_to_do(f: &Fixture) {
    let look = async || f.store.pipeline_backlog(&served()).await.expect("read");
    let due = async |stage| f.store.next_sample_due(&served(), stage).await.expect("read");
    let nothing = Backlog::default();
    assert_eq!(look().await, nothing);
    let id = f.store.start_pipeline_run(&new_run(), &operator(at(0))).await.expect("started");
    assert_eq!(look().await, Backlog { ready: true, ..nothing }, "a source is to be read");
    let feed = f.store.claim_feeds(&feed_claim(at(1))).await.expect("claimed")[0].0;
    assert_eq!(look().await, Backlog { held: true, ..nothing }, "someone reads it");
    f.feed(feed, &lines(1..=2), true).await;
    let back = f.store.release_leases(Leased::Feed, &[release_leases(feed)], at(2)).await;
    assert_eq!(back.expect("answered"), [Written::Applied]);
    assert_eq!(look().await, Backlog { ready: true, ..nothing });
    let held = f.samples_at(0, 2, at(2)).await;
    assert_eq!(look().await, Backlog { held: true, ..nothing });
    f.end_sample(&held[0], 0, at(3), retried(at(3), 9 * SECOND, true)).await;
    f.end_sample(&held[1], 0, at(3), retried(at(3), 7 * SECOND, true)).await;
    assert_eq!(look().await, Backlog { next_due: Some(at(10)), ..nothing });
    assert_eq!((due(0).await, due(1).await), (Some(at(10)), None));
    for other in [
        Served { pipeline: "q".to_owned(), ..served() },
        Served { stages: vec!["clean".to_owned()], ..served() },
        Served { run: Some(PipelineRunId(id.0 + 1)), ..served() },
    ] {
        assert_eq!(f.store.pipeline_backlog(&other).await.expect("read"), nothing);
        assert_eq!(f.store.next_sample_due(&other, 0).await.expect("read"), None);
    }
    f.cancel_pipeline_run(id).await;
    assert_eq!((look().await, due(0).await), (nothing, None), "a stopped run has nothing to do");
}

// PIP-1
pub async fn whatever_sample_may_be_claimed_wakes_who_listens(f: &Fixture) {
    let mut wakes = f.store.wakes();
    let mut woken = |what: &str| {
        assert!(wakes.has_changed().expect("the store is there"), "{what}");
        wakes.mark_unchanged();
    };
    let feed = f.reading(&new_run()).await;
    woken("a run that begins");
    f.feed(feed, &lines(1..=3), true).await;
    woken("samples that were read");
    let held = f.samples_at(0, 3, at(2)).await;
    f.end_sample(&held[0], 0, at(3), answered("1")).await;
    woken("a sample that goes on to the next stage");
    f.end_sample(&held[1], 0, at(3), retried(at(3), SECOND, true)).await;
    woken("a retry that was scheduled");
    let back = release_leases(sample_lease(&held[2]));
    f.store.release_leases(Leased::Sample, &[back], at(4)).await.map(drop).expect("answered");
    woken("a sample that was released");
    let dies = f.sample_at(0, at(5)).await;
    f.end_sample(&dies, 0, at(5), broken()).await;
    f.store.reprocess_samples(&[dies.id], &operator(at(6))).await.expect("answered");
    woken("a dead letter that was brought back");
    let id = PipelineRunId(feed.id);
    f.cancel_pipeline_run(id).await;
    f.change_run(id, PipelineAction::Resume(new_run().rules)).await;
    woken("a run that goes on");
}
