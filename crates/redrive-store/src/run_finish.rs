//! The columns that a finished run attempt writes, computed once for every database.
//!
//! A store binds these values and decides nothing. So SQLite and PostgreSQL cannot differ on what a
//! retry clears or a success keeps.

use jiff::Timestamp;
use redrive_core::{Cause, Decision, RunEvent, RunState, RunStatus, Unit};

use crate::{
    AttemptEnd, AttemptOutcome, AttemptRecord, JournalEntry, RunCompletion, RunFinish, UnitKind,
    UnitRow, Verdict,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunColumns<'a> {
    pub status: RunStatus,
    /// Counted retries since the last reset.
    pub retry_count: u32,
    /// Waits for a server's hint in a row.
    pub deferrals: u32,
    pub next_retry_at: Option<Timestamp>,
    /// Whether a claim may take the run now. A retry that is already due is ready at once.
    pub ready: bool,
    /// When the run becomes ready, if later than now.
    pub due_at: Option<Timestamp>,
    /// When the first attempt since the last reset began.
    pub first_attempt_at: Timestamp,
    pub error_class: Option<&'static str>,
    pub error_message: Option<&'a str>,
    pub result: Option<&'a str>,
}

impl RunFinish {
    pub fn event(&self) -> RunEvent {
        match &self.completion {
            RunCompletion::Judged { verdict: Verdict::Passed, .. } => RunEvent::Pass,
            RunCompletion::Judged { verdict: Verdict::NeedsReview, .. } => RunEvent::AskForReview,
            RunCompletion::Judged { verdict: Verdict::Failed, .. } => RunEvent::Fail,
            RunCompletion::Failed { decision: Decision::RetryAt { .. }, .. } => {
                RunEvent::ScheduleRetry
            }
            RunCompletion::Failed { decision: Decision::GiveUp { .. }, .. } => RunEvent::GiveUp,
        }
    }

    pub fn schedules_retry(&self) -> bool {
        self.event() == RunEvent::ScheduleRetry
    }

    /// The columns as of `now`, which decides whether a retry is ready at once.
    pub fn columns(&self, now: Timestamp) -> RunColumns<'_> {
        let status = RunState::Processing
            .apply(self.event())
            .map_or(RunStatus::Processing, RunState::status);
        let first_attempt_at = self.history.first_attempt_at.unwrap_or(self.started_at);
        match &self.completion {
            RunCompletion::Judged { result, .. } => RunColumns {
                status,
                retry_count: 0,
                deferrals: 0,
                next_retry_at: None,
                ready: false,
                due_at: None,
                first_attempt_at,
                error_class: None,
                error_message: None,
                result: result.as_deref(),
            },
            RunCompletion::Failed { failure, decision } => {
                let after = self.history.after(failure, decision);
                let (retry_count, next_retry_at) = match decision {
                    Decision::RetryAt { at, .. } => (after.counted, Some(*at)),
                    Decision::GiveUp { .. } => (self.history.counted, None),
                };
                RunColumns {
                    status,
                    retry_count,
                    deferrals: after.deferrals,
                    next_retry_at,
                    ready: next_retry_at.is_some_and(|at| at <= now),
                    due_at: next_retry_at.filter(|at| *at > now),
                    first_attempt_at,
                    error_class: Some(failure.class().name()),
                    error_message: Some(failure.message().as_str()),
                    result: None,
                }
            }
        }
    }

    pub fn attempt_end(&self) -> AttemptEnd {
        let outcome = match &self.completion {
            RunCompletion::Judged { .. } => AttemptOutcome::Success,
            RunCompletion::Failed { decision, .. } => decision.into(),
        };
        AttemptEnd { outcome, started_at: self.started_at, ended_at: self.ended_at }
    }

    pub fn ledger_row(&self) -> AttemptRecord {
        let row = AttemptRecord::success(
            UnitRow::new(UnitKind::Run, self.id.0),
            self.attempt,
            self.started_at,
            self.ended_at,
            &self.worker.0,
        );
        match &self.completion {
            RunCompletion::Judged { .. } => row,
            RunCompletion::Failed { failure, decision } => {
                row.with_failure(failure).with_decision(decision)
            }
        }
    }

    /// A give-up with its reason, and a lost worker.
    pub fn journal_rows(&self) -> Vec<JournalEntry> {
        let RunCompletion::Failed { failure, decision } = &self.completion else {
            return Vec::new();
        };
        let entry = |action: &str, details: serde_json::Value| JournalEntry {
            at: self.ended_at,
            actor: self.worker.0.clone(),
            action: action.to_owned(),
            unit: Some(Unit::Run(self.id).to_string()),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        };
        let mut rows = Vec::new();
        if failure.cause() == Cause::LostWorker {
            let details = serde_json::json!({ "attempt": self.attempt.0, "epoch": self.epoch.0 });
            rows.push(entry("run.lease_lost", details));
        }
        if let Decision::GiveUp { reason } = decision {
            let details =
                serde_json::json!({ "reason": reason.name(), "attempts": self.attempt.0 });
            rows.push(entry("run.giveup", details));
        }
        rows
    }
}
