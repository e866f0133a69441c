//! What handlers logged during the attempts at a unit.

use redrive_core::{AttemptNumber, Unit};
use redrive_store::{AttemptLog, LoggedAttempt, Result, UnitKind, UnitRow};
use serde::Serialize;

use crate::{ExplainTarget, Ops};

/// The attempts whose logs a page names.
const SHOWN_ATTEMPTS: u32 = 100;

/// The log of an attempt.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogView {
    /// The stage, for an attempt at a sample.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    pub attempt: u32,
    pub worker: String,
    /// How many bytes were logged, before anything was left out.
    pub printed: u64,
    pub written_at: String,
    /// The beginning and the end, as plain text; a line between them says how much was left out.
    pub log: String,
}

impl From<AttemptLog> for LogView {
    fn from(log: AttemptLog) -> Self {
        Self {
            stage: log.unit.stage,
            attempt: log.attempt.0,
            worker: log.worker,
            printed: log.printed,
            written_at: log.written_at.to_string(),
            log: log.text,
        }
    }
}

impl Ops {
    /// The rows under which the ledger and the logs have a unit: one, or one for each stage of a sample, the current stage first.
    /// Empty if the unit does not exist.
    pub async fn unit_rows(&self, target: &ExplainTarget) -> Result<Vec<UnitRow>> {
        let store = self.store();
        let one = |kind, id| vec![UnitRow::new(kind, id)];
        Ok(match target {
            ExplainTarget::Unit(Unit::Run(id)) if store.runs_by_id(&[*id]).await?.is_empty() => {
                Vec::new()
            }
            ExplainTarget::Unit(Unit::Run(id)) => one(UnitKind::Run, id.0),
            ExplainTarget::Unit(Unit::Item(id)) => one(UnitKind::Item, id.0),
            ExplainTarget::Unit(Unit::Partition(key)) => self
                .partition(key)
                .await?
                .map_or(Vec::new(), |it| one(UnitKind::Partition, it.id.0)),
            ExplainTarget::Unit(Unit::Sample { id, stage }) => {
                vec![UnitRow { stage: stage.clone(), ..UnitRow::new(UnitKind::Sample, id.0) }]
            }
            ExplainTarget::Sample(id) => {
                let Some(sample) = store.samples_by_id(&[*id]).await?.pop() else {
                    return Ok(Vec::new());
                };
                let Some(run) = self.pipelines().run(sample.run).await? else {
                    return Ok(Vec::new());
                };
                let stages = run.stages.iter().take(sample.stage as usize + 1).rev();
                let row = UnitRow::new(UnitKind::Sample, id.0);
                stages.map(|stage| UnitRow { stage: stage.clone(), ..row.clone() }).collect()
            }
        })
    }

    /// The log of an attempt, or of the newest attempt that has one.
    pub async fn log(
        &self,
        unit: &UnitRow,
        attempt: Option<AttemptNumber>,
    ) -> Result<Option<LogView>> {
        let newest = match attempt {
            None => self.store().logged_attempts(unit, 1).await?.pop().map(|it| it.attempt),
            attempt => attempt,
        };
        let Some(attempt) = newest else { return Ok(None) };
        Ok(self.store().log_of(unit, attempt).await?.map(LogView::from))
    }

    /// The newest attempts at a unit that have a log, the newest first.
    pub async fn logged_attempts(&self, unit: &UnitRow) -> Result<Vec<LoggedAttempt>> {
        self.store().logged_attempts(unit, SHOWN_ATTEMPTS).await
    }

    /// Whether the ledger has an attempt: then its log is complete.
    pub async fn has_ended(&self, unit: &UnitRow, attempt: AttemptNumber) -> Result<bool> {
        let before = AttemptNumber(attempt.0.saturating_sub(1));
        let found = self.store().attempts_of(unit, before, 1).await?;
        Ok(found.iter().any(|found| found.attempt == attempt))
    }
}
