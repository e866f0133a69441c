//! How units ended first, though others acted on them before the plan looked.

use redrive_core::{GiveUpReason, PartitionKey, PartitionState};
use redrive_store::{PlanAction, PlanOutcome};

use super::{
    Fixture,
    partition_samples::{RETRY as RETRY_PARTITION, accepted, day, rejected},
    pipeline_samples::{answered, broken},
    plans::RETRY,
    samples::{at, claim_of, give_up, operator, passed},
};

// PLN-2, PLN-5
pub async fn a_failure_counts_though_the_run_was_retried_and_passed(f: &Fixture) {
    let ids = f.dead_runs(5).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 5, 21).await.expect("stepped");
    let claimed = f.claim(&claim_of(5, at(30))).await;
    for (run, fails) in claimed.iter().zip([true, true, true, true, false]) {
        let completion = if fails { give_up(GiveUpReason::Final) } else { passed() };
        f.end(run, at(31), completion).await;
    }
    // All happens before the plan looks.
    f.store.retry_runs(&ids[..3], &operator(at(32))).await.expect("retried");
    f.store.cancel_runs(&ids[2..4], &operator(at(33))).await.expect("cancelled");
    let again = f.claim(&claim_of(1, at(34))).await;
    f.end(&again[0], at(35), passed()).await;

    let settled = f.settle(lease).await;
    let counts = settled.counts;
    assert_eq!((counts.same_cause, counts.recovered, counts.pending), (4, 1, 0));
    use PlanOutcome::{Recovered, SameCause};
    assert_eq!(
        f.outcomes(id).await,
        [SameCause, SameCause, SameCause, SameCause, Recovered].map(Some)
    );
}

// PLN-5
pub async fn a_run_that_others_began_anew_before_it_ended_has_no_outcome_yet(f: &Fixture) {
    let ids = f.dead_runs(2).await;
    let id = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 2, 21).await.expect("stepped");
    f.store.cancel_runs(&ids, &operator(at(30))).await.expect("cancelled");
    f.store.retry_runs(&ids[..1], &operator(at(31))).await.expect("retried");
    let settled = f.settle(lease).await;
    assert_eq!((settled.superseded, settled.counts.pending, settled.counts.failed()), (1, 1, 0));
}

// PLN-5
pub async fn a_failure_counts_though_the_partition_was_retried_and_is_good(f: &Fixture) {
    let keys: Vec<PartitionKey> = (1..=3).map(day).collect();
    for key in &keys {
        f.partition_in(PartitionState::Failed, key).await;
    }
    let action = PlanAction::Partition(RETRY_PARTITION);
    let plan = f.plan_over(action, &f.partition_units(&keys).await).await;
    let lease = f.apply_plan(plan).await;
    f.step(lease, 10, 21).await.expect("stepped");
    for judged in [rejected("no rows"), rejected("17 columns, expected 3"), accepted(3)] {
        let claimed = f.take(at(30)).await;
        f.judge(&claimed, at(31), judged).await;
    }
    f.change_one(RETRY_PARTITION, &keys[0], at(32)).await;
    f.change_one(RETRY_PARTITION, &keys[1], at(33)).await;
    let claimed = f.take(at(34)).await;
    f.judge(&claimed, at(35), accepted(3)).await;
    f.settle(lease).await;
    use PlanOutcome::{OtherCause, Recovered, SameCause};
    assert_eq!(f.outcomes(plan).await, [SameCause, OtherCause, Recovered].map(Some));
}

// PLN-5
pub async fn a_failure_counts_though_the_sample_was_reprocessed(f: &Fixture) {
    f.run_of(2).await;
    f.end_each(at(2), vec![broken(), broken()]).await;
    let units = f.sample_units(2).await;
    let plan = f.plan_over(PlanAction::ReprocessSample, &units).await;
    let lease = f.apply_plan(plan).await;
    f.step(lease, 10, 21).await.expect("stepped");
    f.end_each(at(30), vec![broken(), answered("2")]).await;
    let ids = [redrive_core::SampleId(1)];
    f.store.reprocess_samples(&ids, &operator(at(31))).await.expect("reprocessed");
    f.end_each(at(32), vec![answered("1")]).await;
    f.settle(lease).await;
    use PlanOutcome::{Recovered, SameCause};
    assert_eq!(f.outcomes(plan).await, [SameCause, Recovered].map(Some));
}
