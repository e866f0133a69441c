//! The logs of attempts on the page of their unit.

use maud::{Markup, html};
use redrive_ops::{ExplainTarget, LogView};
use serde::Deserialize;

use super::{
    PageResult,
    parts::{address, counted, pill, when_text},
};
use crate::app::App;

/// The log that a page shows: of the newest attempt that has one, unless named.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    /// The number of the attempt.
    log: Option<u32>,
    /// Of a sample.
    stage: Option<String>,
}

/// The logs of a unit.
pub(super) struct UnitLogs {
    /// The page of the unit.
    path: String,
    /// The stage and the attempts that have a log.
    logged: Vec<(String, Vec<u32>)>,
    shown: Option<LogView>,
    /// Whether the attempt is not over.
    is_open: bool,
}

impl UnitLogs {
    pub(super) async fn read(
        app: &App,
        unit: &ExplainTarget,
        path: String,
        query: &LogQuery,
    ) -> PageResult<Self> {
        let mut logs = Self { path, logged: Vec::new(), shown: None, is_open: false };
        for row in app.ops.unit_rows(unit).await? {
            let numbers = app.ops.logged_attempts(&row).await?;
            let is_asked = query.stage.as_ref().is_none_or(|stage| *stage == row.stage);
            if let (None, true, Some(newest)) = (&logs.shown, is_asked, numbers.first()) {
                let asked = numbers.iter().find(|it| Some(it.attempt.0) == query.log);
                let attempt = asked.unwrap_or(newest).attempt;
                logs.shown = app.ops.log(&row, Some(attempt)).await?;
                logs.is_open = !app.ops.has_ended(&row, attempt).await?;
            }
            logs.logged.push((row.stage, numbers.iter().map(|it| it.attempt.0).collect()));
        }
        Ok(logs)
    }

    /// Whether an attempt at a stage has a log. The stage is empty unless the unit is a sample.
    pub(super) fn has(&self, stage: &str, attempt: u32) -> bool {
        let mut of_stage = self.logged.iter().filter(|(known, _)| known == stage);
        of_stage.any(|(_, attempts)| attempts.contains(&attempt))
    }

    pub(super) fn link(&self, stage: &str, attempt: u32) -> Markup {
        let number = attempt.to_string();
        let stage = Some(("stage", stage)).filter(|(_, stage)| !stage.is_empty());
        let to = address(&self.path, stage.into_iter().chain([("log", number.as_str())]));
        html! { a href=(format!("{to}#log")) aria-label=(format!("Log of attempt {attempt}")) { "Log" } }
    }

    pub(super) fn section(&self, now: jiff::Timestamp) -> Markup {
        html! {
            @if let Some(log) = &self.shown {
                section id="log" {
                    h2 { "Log of attempt " (log.attempt)
                        @if !log.stage.is_empty() { " at stage " (log.stage) }
                        @if self.is_open { " " (pill("running")) }
                    }
                    p.lead { (counted(log.printed, "byte")) " on " (log.worker) ", written " (when_text(&log.written_at, now)) }
                    pre tabindex="0" aria-label=(format!("Log of attempt {}", log.attempt)) { (log.log) }
                }
            }
        }
    }
}
