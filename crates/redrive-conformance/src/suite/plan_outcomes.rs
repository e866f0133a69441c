//! What became of the units of a plan, over time.

use redrive_core::GiveUpReason;
use redrive_store::{PlanOutcome, PlanOutcomeCount};

use super::{
    Fixture,
    plans::RETRY,
    samples::{at, claim_of, give_up, passed},
};

// PLN-4, PLN-5
pub async fn outcomes_are_counted_by_period(f: &Fixture) {
    f.dead_runs(6).await;
    let id = f.plan(RETRY).await;
    let other = f.plan(RETRY).await;
    let lease = f.apply_plan(id).await;
    f.step(lease, 5, 21).await.expect("stepped");
    let read = async |periods| f.store.plan_outcomes(id, periods).await.expect("read");
    assert_eq!(read(60).await, [], "no unit has ended");

    let claimed = f.claim(&claim_of(5, at(30))).await;
    let mut ended = claimed.iter();
    for (second, passes) in [(50, [true, true]), (53, [true, false])] {
        for passes in passes {
            let completion = if passes { passed() } else { give_up(GiveUpReason::Final) };
            f.end(ended.next().expect("claimed"), at(second), completion).await;
        }
        f.store.settle_plan(lease, 0, 10, at(second)).await.expect("settled");
    }
    f.end(ended.next().expect("claimed"), at(111), passed()).await;
    f.store.settle_plan(lease, 0, 10, at(111)).await.expect("settled");

    let count = |from, seconds, outcome, units| PlanOutcomeCount {
        from: at(from),
        seconds,
        outcome,
        units,
    };
    use PlanOutcome::{Recovered, SameCause};
    let of_two_seconds = [
        count(50, 2, Recovered, 2),
        count(52, 2, Recovered, 1),
        count(52, 2, SameCause, 1),
        count(110, 2, Recovered, 1),
    ];
    assert_eq!(read(60).await, of_two_seconds);
    assert_eq!(read(1).await, [count(50, 61, Recovered, 4), count(50, 61, SameCause, 1)]);
    assert_eq!(f.store.plan_outcomes(other, 60).await.expect("read"), []);
}
