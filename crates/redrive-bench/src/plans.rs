//! Plans over given-up runs: how long a list of all takes, how fast plans change runs, and the memory of both, beside a bare
//! loop that writes the same rows in batches of the same size.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use redrive::StoreUrl;
use redrive_core::{Decision, Failure, GiveUpReason, PlanId, PlanSettings, PlanStatus, RunState};
use redrive_engine::{
    Clock, Control, PartitionRules, PlanExecutor, PlanRun, RawSink, SystemClock, freeze_plan,
};
use redrive_store::{
    Categories, ClaimRequest, NewPlan, NewRun, Operator, PlanAction, PlanChange, PlanOrder,
    RunAction, RunCompletion, RunFinish, Selection, Store, WorkerId,
};

use crate::{
    bench_store::BenchStore,
    error::{BenchError, failed},
    measurement::Measurement,
    plan_loop::PlanLoop,
    run_backend::PAYLOAD,
    sizes::scale,
    usage::{median, peak_memory, reset_peak_memory},
};

#[derive(Debug, Args)]
pub(crate) struct PlansBenchArgs {
    /// Amount of work, from 0.001 to 100; 1 is a plan over a million runs
    #[arg(long, default_value = "1", value_name = "X", value_parser = scale)]
    scale: f64,
}

/// Plans and the bare loop take turns, so that a slow minute affects both. Each has its own runs.
const ROUNDS: usize = 4;

/// The bare loop changes a part of what plans change: its rate needs fewer rows.
const BARE_PART: usize = 4;

/// A plan whose memory the one over all runs is compared with.
const SMALL: usize = 10_000;

const BATCH: usize = 1_000;

pub(crate) async fn run(
    args: &PlansBenchArgs,
    store_url: Option<StoreUrl>,
) -> Result<Vec<Measurement>, BenchError> {
    let bench_store = BenchStore::create(store_url, 4).await?;
    bench_store.measure(async |bench_store| measure(args, bench_store).await).await
}

async fn measure(
    args: &PlansBenchArgs,
    bench_store: &BenchStore,
) -> Result<Vec<Measurement>, BenchError> {
    let store = bench_store.open().await?;
    let runs = (1_000_000.0 * args.scale).ceil() as usize;
    let share = runs.div_ceil(ROUNDS);
    for round in 0..ROUNDS {
        give_up_runs(&store, &format!("plan{round}"), share).await?;
        give_up_runs(&store, &format!("bare{round}"), share.div_ceil(BARE_PART)).await?;
    }
    give_up_runs(&store, "small", SMALL.min(runs)).await?;
    let mut bare_loop = PlanLoop::open(bench_store).await?;

    reset_peak_memory();
    apply(&store, make(&store, Some("small")).await?).await?;
    let small_memory = peak_memory();
    reset_peak_memory();
    let begun = Instant::now();
    let all = make(&store, None).await?;
    let made = begun.elapsed().as_secs_f64();
    let listed = store.plans_by_id(&[all]).await.map_err(failed)?.pop();
    let listed = listed.map_or(0, |plan| plan.counts.total);
    let made = made * runs as f64 / listed.max(1) as f64;

    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let plan = make(&store, Some(&format!("bare{round}"))).await?;
        bare.push(bare_loop.apply(plan, BATCH).await?);
        let plan = make(&store, Some(&format!("plan{round}"))).await?;
        ours.push(apply(&store, plan).await?);
    }
    let mut measurements = vec![
        Measurement::alone("a plan over all runs is made", made, "s"),
        Measurement::rate("runs changed by plans", median(ours), median(bare)),
    ];
    let memory =
        [("memory, a small plan", small_memory), ("memory, a plan over all runs", peak_memory())];
    let known = memory.into_iter().filter_map(|(name, megabytes)| Some((name, megabytes?)));
    measurements.extend(known.map(|(name, megabytes)| Measurement::alone(name, megabytes, "MB")));
    Ok(measurements)
}

fn operator() -> Operator {
    Operator { actor: "bench".to_owned(), at: SystemClock.now(), reason: None }
}

/// A plan over all runs that were given up, or over those of one queue.
async fn make(store: &Arc<dyn Store>, queue: Option<&str>) -> Result<PlanId, BenchError> {
    let action = PlanAction::Run(RunAction::Retry);
    let plan = NewPlan {
        action,
        selection: "{}".to_owned(),
        settings: PlanSettings::default(),
        by: operator(),
    };
    let state = Some(RunState::GivenUp.into());
    let selection = Selection { state, queue: queue.map(str::to_owned), ..Selection::default() };
    // Runs have no raw data.
    let control = Control::new(store.clone(), PartitionRules::default(), RawSink::folder("raw"));
    let made = freeze_plan(&control, &plan, &selection, |_| {}).await.map_err(failed)?;
    made.ok_or_else(|| BenchError::new("no run was given up"))
}

/// Applies a plan without a pace, and returns the runs that it changed in a second.
async fn apply(store: &Arc<dyn Store>, id: PlanId) -> Result<f64, BenchError> {
    let order = PlanOrder::Apply(PlanSettings::default());
    let begun = Instant::now();
    let changed = store.change_plan(id, &order, &operator()).await.map_err(failed)?;
    if !matches!(changed, PlanChange::Done(_)) {
        return Err(BenchError::new(format!("plan {id} was not applied: {changed:?}")));
    }
    let executor = PlanExecutor::new(Arc::clone(store), WorkerId(format!("bench-{id}")));
    let ended = executor.run_plan(id, true, |_| {}).await.map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    match ended {
        PlanRun::Ended(plan) if plan.status == PlanStatus::Done && plan.counts.skipped == 0 => {
            Ok(plan.counts.changed as f64 / seconds)
        }
        other => Err(BenchError::new(format!("plan {id} did not change all its runs: {other:?}"))),
    }
}

async fn give_up_runs(store: &Arc<dyn Store>, queue: &str, count: usize) -> Result<(), BenchError> {
    let worker = WorkerId("bench".to_owned());
    let payload = serde_json::from_str(PAYLOAD).map_err(failed)?;
    for batch in 0..count.div_ceil(BATCH) {
        let now = SystemClock.now();
        let run = NewRun::new(queue, &payload, now).map_err(failed)?;
        let size = BATCH.min(count - batch * BATCH);
        store.submit_runs(&vec![run; size], now).await.map_err(failed)?;
        let claim = ClaimRequest {
            queue: queue.to_owned(),
            categories: Categories::All,
            limit: BATCH as u32,
            owner: worker.clone(),
            lease_until: store.now() + Duration::from_secs(3_600),
            now,
            gates: Default::default(),
        };
        let claimed = store.claim_runs(&claim).await.map_err(failed)?;
        let finishes = claimed.into_iter().map(|run| RunFinish {
            id: run.id,
            epoch: run.epoch,
            attempt: run.attempt,
            history: run.history,
            started_at: now,
            ended_at: now,
            worker: worker.clone(),
            completion: RunCompletion::Failed {
                failure: Failure::http(503, None, "the provider is down"),
                decision: Decision::GiveUp { reason: GiveUpReason::AttemptsExhausted },
            },
            gates: None,
        });
        let finishes: Vec<RunFinish> = finishes.collect();
        store.finish_runs(&finishes, now).await.map_err(failed)?;
    }
    Ok(())
}
