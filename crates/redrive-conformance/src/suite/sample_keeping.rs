//! Samples that a worker keeps from one stage to the next.

use redrive_core::{AttemptNumber, Epoch, History, PipelineStatus, SampleState, SampleStatus};

use super::{
    Fixture,
    pipeline_samples::{answered, broken, counts, ended, retried, sample_lease, skipped},
    samples::at,
};
use redrive_store::{
    AttemptOutcome, ClaimedSample, LeaseRelease, Leased, SampleCompletion, SampleFinish,
    SampleWritten, WorkerId, Written,
};

/// The end of an attempt at the first stage by one who keeps the sample until a time.
fn kept(sample: &ClaimedSample, until: i64, completion: SampleCompletion) -> SampleFinish {
    SampleFinish { keep_until: Some(at(until)), ..ended(sample, 0, at(3), completion) }
}

/// A sample as its keeper has it at the next stage.
fn next(sample: &ClaimedSample, data: &str) -> ClaimedSample {
    ClaimedSample {
        data: data.to_owned(),
        attempt: AttemptNumber(1),
        epoch: Epoch(sample.epoch.0 + 1),
        history: History::default(),
        ..sample.clone()
    }
}

// PIP-1, PIP-4
pub async fn a_sample_that_is_kept_goes_on_in_the_same_hands(f: &Fixture) {
    let id = f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    let finish = kept(&first, 70, answered("{\"clean\": 1}"));
    let written = f.store.finish_samples(std::slice::from_ref(&finish)).await.expect("answered");
    assert_eq!(written, [SampleWritten::Kept]);
    let sample = f.sample(first.id).await;
    assert_eq!((sample.state(), sample.stage), (SampleState::Running, 1));
    assert_eq!((sample.lease_owner, sample.lease_epoch), (Some(WorkerId("w1".into())), Epoch(2)));
    assert_eq!((sample.lease_until, sample.attempts), (Some(at(70)), 0));
    assert_eq!(sample.data.as_deref(), Some("{\"clean\": 1}"));
    assert_eq!(f.samples_at(1, 9, at(4)).await, [], "nobody else gets it");
    let ledger = f.sample_attempts(first.id, "clean").await;
    assert_eq!((ledger.len(), ledger[0].outcome), (1, AttemptOutcome::Success));

    let again = f.store.finish_samples(&[finish]).await.expect("answered");
    assert_eq!(again, [SampleWritten::Stale], "its attempt has ended");
    assert_eq!(f.sample_attempts(first.id, "clean").await.len(), 1);
    f.end_sample(&next(&first, "{\"clean\": 1}"), 1, at(5), answered("{\"score\": 2}")).await;
    let sample = f.sample(first.id).await;
    assert_eq!((sample.status, sample.lease_epoch), (SampleStatus::Succeeded, Epoch(2)));
    assert_eq!(f.sample_attempts(first.id, "score").await.len(), 1);
    let progress = f.progress(id).await;
    assert_eq!((progress.status, progress.counts.succeeded), (PipelineStatus::Completed, 1));
}

// PIP-3, PIP-5
pub async fn only_what_goes_on_to_another_stage_is_kept(f: &Fixture) {
    let id = f.run_of(6).await;
    let held = f.samples_at(0, 6, at(2)).await;
    let second = std::time::Duration::from_secs(1);
    let mut stale = kept(&held[5], 70, answered("1"));
    stale.epoch = Epoch(0);
    let finishes = [
        kept(&held[0], 70, answered("1")),
        kept(&held[1], 70, skipped()),
        kept(&held[2], 70, retried(at(3), second, true)),
        kept(&held[3], 70, broken()),
        SampleFinish { last_stage: true, ..kept(&held[4], 70, answered("1")) },
        stale,
        ended(&held[5], 0, at(3), answered("1")),
    ];
    let written = f.store.finish_samples(&finishes).await.expect("answered");
    let (stale, applied) = (SampleWritten::Stale, SampleWritten::Applied);
    assert_eq!(written, [SampleWritten::Kept, applied, applied, applied, applied, stale, applied]);
    for sample in &held[1..] {
        let sample = f.sample(sample.id).await;
        assert_eq!((sample.lease_owner, sample.lease_epoch), (None, Epoch(1)));
    }
    assert_eq!(f.samples_at(1, 9, at(4)).await.len(), 1, "what nobody keeps is for everyone");
    assert_eq!(f.progress(id).await.counts, counts([6, 1, 1, 1], true));
}

// PIP-6
pub async fn nobody_keeps_a_sample_of_a_run_that_was_stopped(f: &Fixture) {
    let id = f.run_of(2).await;
    let other = f.run_of(1).await;
    let held = f.samples_at(0, 3, at(2)).await;
    f.cancel_pipeline_run(id).await;
    let finishes: Vec<_> = held.iter().map(|sample| kept(sample, 70, answered("1"))).collect();
    let written = f.store.finish_samples(&finishes).await.expect("answered");
    let applied = SampleWritten::Applied;
    assert_eq!(written, [applied, applied, SampleWritten::Kept], "the other run goes on");
    for sample in held.iter().filter(|sample| sample.run == id) {
        let sample = f.sample(sample.id).await;
        assert_eq!((sample.state(), sample.stage), (SampleState::Ready, 1));
        assert_eq!(sample.lease_epoch, Epoch(1));
    }
    assert_eq!(held[2].run, other);
}

// OPS-6
pub async fn the_lease_of_a_kept_sample_is_like_any_other(f: &Fixture) {
    f.run_of(1).await;
    let first = f.sample_at(0, at(2)).await;
    let written = f.store.finish_samples(&[kept(&first, 70, answered("1"))]).await;
    assert_eq!(written.expect("answered"), [SampleWritten::Kept]);
    let second = next(&first, "1");
    let leases = [sample_lease(&first), sample_lease(&second)];
    let renewed = f.store.renew_leases(Leased::Sample, &leases, at(80)).await.expect("answered");
    assert_eq!(renewed, [Written::Stale, Written::Applied]);
    let expired = f.store.expired_leases(Leased::Sample, at(80), None, 0, 9).await.expect("read");
    assert_eq!(expired.len(), 1);
    assert_eq!((expired[0].lease, expired[0].until), (leases[1], at(80)));
    assert!(
        expired[0].claimed_at.is_some(),
        "its attempt at this stage began when the one before ended"
    );
    let backs = LeaseRelease::each(&leases, &WorkerId("w1".to_owned()), "shutdown");
    let back = f.store.release_leases(Leased::Sample, &backs, at(5)).await.expect("answered");
    assert_eq!(back, [Written::Stale, Written::Applied]);
    let told = f.told_by("sample.handback").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].unit, Some(redrive_store::sample_unit(first.id, "score")));
    let again = f.sample_at(1, at(6)).await;
    assert_eq!(
        (again.attempt, again.epoch, again.data.as_str()),
        (AttemptNumber(1), Epoch(3), "1")
    );
}
