//! The raw data of a partition: the first rows, and the rows around the line that the validator rejected.

use axum::{Extension, response::Response};
use maud::{Markup, html};
use redrive_core::{Message, PartitionRunId, Unit};
use redrive_engine::{RawError, RawReader, verdict_code};
use redrive_ops::{ExplainTarget, Explanation, views::AttemptView};
use serde::Deserialize;

use super::{
    PageResult,
    layout::{DashboardPage, NavSection},
    parts::{counted, number, partition_address},
};
use crate::{
    api::{KeyParts, key_of},
    app::AppState,
    extract::{PathParams, QueryParams},
    guard::Caller,
    problem::ProblemDetails,
};

/// Rows from the start.
const FIRST: u64 = 20;
/// Rows before and after the one that was rejected.
const AROUND: u64 = 3;
/// A page reads no further, and shows no more of a row than this.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_ROW_CHARS: usize = 2_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsQuery {
    /// The run; without one, that of the newest attempt.
    run: Option<String>,
}

/// A row with the number of its line.
struct Row {
    line: u64,
    text: String,
}

/// What is read of a run.
struct Excerpt {
    rows: Vec<Row>,
    /// Whether rows may follow.
    is_cut: bool,
}

pub(super) async fn show(
    app: AppState,
    Extension(caller): Extension<Caller>,
    PathParams(parts): PathParams<KeyParts>,
    QueryParams(query): QueryParams<RowsQuery>,
) -> PageResult<Response> {
    let key = key_of(&parts)?;
    let target = ExplainTarget::Unit(Unit::Partition(key.clone()));
    let Some(Explanation::Partition(explanation)) = app.ops.explain(&target).await? else {
        return Err(ProblemDetails::not_found(format!("partition:{key} has no entry")));
    };
    let mut attempts = explanation.attempts.iter().rev().filter(|it| it.run_id.is_some());
    let attempt = attempts.find(|it| query.run.is_none() || it.run_id == query.run);
    let Some((attempt, run)) = attempt.and_then(|it| Some((it, it.run_id.as_ref()?))) else {
        return Err(ProblemDetails::not_found(format!("partition:{key} has no such raw run")));
    };
    let missing = || ProblemDetails::not_found(format!("the raw run {run:?} is not stored"));
    let run_id: PartitionRunId = run.parse().map_err(|_| missing())?;
    let bad = bad_line(attempt);
    let reader = app.ops.partitions().raw().read(&key, &run_id).await;
    let excerpt = match reader {
        Ok(mut reader) => {
            let records = reader.metadata().record_count;
            read(&mut reader, bad).await.map(|excerpt| (records, excerpt))
        }
        Err(error) => Err(error),
    };
    let title = format!("Raw data of {key}");
    let body = html! {
        h1 { (title) }
        p.lead { a href=(partition_address(&key)) { "← Partition" } " · raw run " code { (run) } }
        @if let Some(message) = &attempt.message { p.next.warn { (message) } }
        section { @match &excerpt {
            Ok((records, excerpt)) => (rows(*records, excerpt, bad)),
            Err(error) => p.empty { (unavailable(error)) },
        } }
    };
    Ok(DashboardPage::new(NavSection::Partitions, title, body).not_live().render(&app, &caller))
}

/// The line that a message of the validator names: `line 17: …`, `line 17 is not a JSON object`.
fn bad_line(attempt: &AttemptView) -> Option<u64> {
    let of_rows = [verdict_code::BAD_ROW, verdict_code::SCHEMA];
    attempt.code.as_deref().filter(|code| of_rows.contains(code))?;
    let (_, rest) = attempt.message.as_deref()?.split_once("line ")?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..digits)?.parse().ok()
}

/// The first rows, and those around a line.
async fn read(reader: &mut RawReader, bad: Option<u64>) -> Result<Excerpt, RawError> {
    let is_shown = |line: u64| line <= FIRST || bad.is_some_and(|bad| bad.abs_diff(line) <= AROUND);
    let last = bad.map_or(FIRST, |bad| FIRST.max(bad.saturating_add(AROUND)));
    let (mut rows, mut line, mut text, mut bytes) = (Vec::new(), 1, Vec::new(), 0_u64);
    while let Some(chunk) = reader.next().await? {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            // A character has at most four bytes.
            let room = (MAX_ROW_CHARS * 4).saturating_sub(text.len());
            if is_shown(line) {
                text.extend(piece.iter().take(room));
            }
            if piece.ends_with(b"\n") {
                if is_shown(line) {
                    rows.push(Row { line, text: written(&text) });
                }
                text.clear();
                line += 1;
            }
        }
        bytes += chunk.len() as u64;
        if line > last || bytes >= MAX_BYTES {
            return Ok(Excerpt { rows, is_cut: true });
        }
    }
    if !text.is_empty() {
        rows.push(Row { line, text: written(&text) });
    }
    Ok(Excerpt { rows, is_cut: false })
}

fn written(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\n');
    let mut shown: String = text.chars().take(MAX_ROW_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    Message::clean(&shown).to_string()
}

fn rows(records: u64, excerpt: &Excerpt, bad: Option<u64>) -> Markup {
    let is_bad = |row: &Row| bad == Some(row.line);
    let is_found = excerpt.rows.iter().any(is_bad);
    html! {
        p.total { (counted(records, "row")) @if excerpt.is_cut { ", of which this is a part" } }
        @if let (Some(bad), false) = (bad, is_found) {
            p { "Line " (number(bad)) " is further on: " code { "redrive consume" } " reads all rows of good partitions." }
        }
        @if excerpt.rows.is_empty() { p.empty { "The run has no rows." } } @else {
            div.scroll { table.raw {
                thead { tr { th.number { "Line" } th { "Row" } } }
                tbody { @for row in &excerpt.rows { tr.rejected[is_bad(row)] {
                    td.number { (number(row.line)) @if is_bad(row) { " " span.pill.bad { "✗ rejected" } } }
                    td.text { code { (row.text) } }
                } } }
            } }
        }
    }
}

/// Paths are left out, because they may be confidential; the log has them.
fn unavailable(error: &RawError) -> &'static str {
    match error {
        RawError::NotSealed { .. } => "The attempt stored no complete raw data.",
        RawError::Damaged { .. } => {
            "The raw data differs from its seal: `redrive state verify` says how."
        }
        _ => {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                "cannot read raw data for a page"
            );
            "The raw data is unavailable; the log of the server has the cause."
        }
    }
}
