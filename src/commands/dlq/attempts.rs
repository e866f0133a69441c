//! The attempts at a sample, over all stages.

use redrive::{AttemptNumber, SampleRecord, store::AttemptRecord};
use redrive_store::{MAX_PAGE, Result, Store, UnitKind, UnitRow};
use serde::Serialize;
use serde_json::Value;

use crate::{
    commands::policy::rounded,
    output::{Column, Row, seconds},
};

/// An attempt, as the ledger has it.
#[derive(Debug, Serialize)]
pub(super) struct AttemptRow {
    stage: String,
    stage_config_hash: Option<String>,
    attempt: u32,
    started_at: String,
    ended_at: String,
    took_s: Value,
    outcome: &'static str,
    class: Option<String>,
    code: Option<String>,
    message: Option<String>,
    counted: bool,
    delay_s: Option<Value>,
    worker: String,
    #[serde(skip)]
    took: String,
}

/// The attempts at a sample, in the order of its stages.
pub(super) async fn attempts_of(
    sample: &SampleRecord,
    stages: &[String],
    store: &dyn Store,
) -> Result<Vec<AttemptRow>> {
    let mut rows = Vec::new();
    for stage in stages {
        let unit = UnitRow { kind: UnitKind::Sample, id: sample.id.0, stage: stage.clone() };
        let attempts = store.attempts_of(&unit, AttemptNumber(0), MAX_PAGE).await?;
        rows.extend(attempts.into_iter().map(AttemptRow::from));
    }
    Ok(rows)
}

impl From<AttemptRecord> for AttemptRow {
    fn from(attempt: AttemptRecord) -> Self {
        let took = attempt.ended_at.duration_since(attempt.started_at);
        let took = took.try_into().unwrap_or_default();
        Self {
            stage: attempt.unit.stage,
            stage_config_hash: attempt.stage_config_hash,
            attempt: attempt.attempt.0,
            started_at: attempt.started_at.to_string(),
            ended_at: attempt.ended_at.to_string(),
            took_s: seconds(took),
            outcome: attempt.outcome.name(),
            class: attempt.class,
            code: attempt.code,
            message: attempt.message,
            counted: attempt.counted,
            delay_s: attempt.delay.map(seconds),
            worker: attempt.worker,
            took: rounded(took),
        }
    }
}

impl Row for AttemptRow {
    const COLUMNS: &'static [Column] = &[
        Column::text("stage"),
        Column::number("attempt"),
        Column::text("started at"),
        Column::number("took"),
        Column::text("outcome"),
        Column::text("code"),
        Column::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.stage.clone(),
            self.attempt.to_string(),
            self.started_at.clone(),
            self.took.clone(),
            self.outcome.to_owned(),
            self.code.clone().unwrap_or_default(),
            self.message.clone().unwrap_or_default(),
        ]
    }
}
