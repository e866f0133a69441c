//! Reads samples and what else their invariants need.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use redrive_core::{PipelineRunId, SampleId, SampleState};
use redrive_store::{
    AttemptRecord, JournalFilter, PipelineRunRecord, Result, SampleRecord, Selection, Store,
    UnitKind, sample_unit,
};

use crate::checks::{
    checker::{Finding, Invariant, Report},
    ledger_reader::PAGE,
    sample_invariants::check_sample,
    unit_checks::{CheckedUnit, missing_give_up},
};

/// A sample and its pipeline run. The run is read after the sample, so the row of the run includes every
/// change of the sample.
pub(crate) struct SampleOfRun {
    sample: SampleRecord,
    run: Arc<PipelineRunRecord>,
}

/// Compares the sample alone: its run changes all the time.
impl PartialEq for SampleOfRun {
    fn eq(&self, other: &Self) -> bool {
        self.sample == other.sample
    }
}

impl SampleOfRun {
    async fn with_runs(store: &dyn Store, samples: Vec<SampleRecord>) -> Result<Vec<Self>> {
        let mut ids: Vec<PipelineRunId> = samples.iter().map(|sample| sample.run).collect();
        ids.sort_unstable();
        ids.dedup();
        let runs = store.pipeline_runs_by_id(&ids).await?;
        let runs: BTreeMap<_, _> = runs.into_iter().map(|run| (run.id, Arc::new(run))).collect();
        let with_run = |sample: SampleRecord| {
            let run = runs.get(&sample.run)?.clone();
            Some(Self { sample, run })
        };
        Ok(samples.into_iter().filter_map(with_run).collect())
    }
}

#[async_trait]
impl CheckedUnit for SampleOfRun {
    const KIND: UnitKind = UnitKind::Sample;

    fn id(&self) -> i64 {
        self.sample.id.0
    }

    fn count(report: &mut Report) -> &mut u64 {
        &mut report.samples
    }

    async fn page(store: &dyn Store, after: i64) -> Result<Vec<Self>> {
        let page = store.samples_page(&Selection::default(), SampleId(after), PAGE.into()).await?;
        Self::with_runs(store, page).await
    }

    async fn find(store: &dyn Store, id: i64) -> Result<Option<Self>> {
        let sample = store.samples_by_id(&[SampleId(id)]).await?;
        Ok(Self::with_runs(store, sample).await?.pop())
    }

    async fn check(&self, store: &dyn Store, attempts: &[AttemptRecord]) -> Result<Vec<Finding>> {
        let Self { sample, run } = self;
        let mut findings = check_sample(sample, run, attempts);
        if sample.state() == SampleState::Dead {
            let unit = sample_unit(sample.id, &sample.stage_name);
            findings.extend(missing_give_up(store, unit, "sample.dead").await?);
        }
        findings.extend(self.releases(store, attempts.len()).await?);
        Ok(findings)
    }
}

impl SampleOfRun {
    /// Every claim ends in a ledger row or in a release, except a current one.
    async fn releases(&self, store: &dyn Store, rows: usize) -> Result<Option<Finding>> {
        let Self { sample, run } = self;
        let current = i64::from(sample.lease_owner.is_some());
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let untried = sample.lease_epoch.0.saturating_sub(rows).saturating_sub(current);
        if untried <= 0 {
            return Ok(None);
        }
        let mut recorded = 0;
        for stage in &run.stages {
            let unit = Some(sample_unit(sample.id, stage));
            let filter = JournalFilter { unit, action: Some("sample.handback".to_owned()) };
            let mut after = 0;
            loop {
                let page = store.journal_page(&filter, after, PAGE).await?;
                let Some(last) = page.last() else { break };
                after = last.id;
                recorded += page.len() as i64;
            }
        }
        Ok((recorded != untried).then(|| Finding {
            invariant: Invariant::ReleaseRecorded,
            unit: sample_unit(sample.id, &sample.stage_name),
            problem: format!(
                "{untried} claims ended without an attempt, but the journal has {recorded} releases"
            ),
        }))
    }
}
