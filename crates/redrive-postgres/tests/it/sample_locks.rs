//! A plan locks all its samples before their pipeline runs, as workers do: they cannot deadlock.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use redrive_core::{PlanBatch, PlanSettings};
use redrive_store::{
    NewPlan, Operator, PlanAction, PlanClaim, PlanOrder, PlannedUnit, Plans, UnitKind, WorkerId,
};

use crate::{faults::until_blocked, server::Database};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

// PLN-3
#[tokio::test]
async fn a_plan_that_waits_for_a_sample_holds_no_pipeline_run() {
    let database = Database::migrated().await;
    let store = Arc::new(database.store().await);
    // The first sample is skipped, so that a step of two reads further ones.
    let samples = "
        INSERT INTO redrive.pipeline_runs
            (pipeline, stages, rules, read_ahead, source, started_at, started_by, source_done)
        VALUES ('p', '{a}', '{}', 10000, 's', 'epoch', 'me', true);
        INSERT INTO redrive.samples (run_id, line, data, stage, claim_stage, status, error_message)
        SELECT 1, n, '{}', 0, 0, CASE n WHEN 1 THEN 'succeeded' ELSE 'dlq' END, CASE WHEN n > 1 THEN 'broken' END
        FROM generate_series(1, 4) AS n";
    database.raw().await.batch_execute(samples).await.unwrap();

    let (action, settings) = (PlanAction::ReprocessSample, PlanSettings::default());
    let by = Operator { actor: "ada".to_owned(), at: NOW, reason: None };
    let plan = NewPlan { action, selection: "{}".to_owned(), settings, by: by.clone() };
    let id = store.create_plan(&plan).await.unwrap();
    let units = store.units_by_id(UnitKind::Sample, &[1, 2, 3, 4]).await.unwrap();
    let units: Vec<_> = units.iter().map(|unit| PlannedUnit::new(action, unit)).collect();
    let _ = store.add_plan_units(id, &units).await.unwrap();
    let _ = store.freeze_plan(id, NOW).await.unwrap();
    store.change_plan(id, &PlanOrder::Apply(settings), &by).await.unwrap();
    let claim = PlanClaim {
        owner: WorkerId("e".to_owned()),
        lease_until: NOW + Duration::from_secs(60),
        now: NOW,
        only: None,
        except: Vec::new(),
        limit: 1,
    };
    let lease = store.claim_plans(&claim).await.unwrap()[0].lease();

    let worker = database.raw().await;
    let sample = "BEGIN; SELECT FROM redrive.samples WHERE id = 4 FOR UPDATE";
    worker.batch_execute(sample).await.unwrap();
    let stepping = Arc::clone(&store);
    let step = tokio::spawn(async move {
        let batch = PlanBatch { units: 2, position: 0, interval: Duration::ZERO, ramp_from: None };
        stepping.step_plan(lease, &batch, NOW).await
    });
    until_blocked(&database.raw().await).await;
    let run = "SELECT FROM redrive.pipeline_runs WHERE id = 1 FOR UPDATE NOWAIT; COMMIT";
    worker.batch_execute(run).await.expect("a worker finishes its sample");
    let stepped = step.await.unwrap().unwrap().expect("held");
    assert_eq!((stepped.counts.changed, stepped.counts.skipped), (2, 1));
}
