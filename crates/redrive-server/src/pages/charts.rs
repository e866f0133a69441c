//! Charts, rendered on the server as SVG.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use redrive_ops::{
    views::{HistogramView, MinuteView, PipelineRunView, PlanPeriodView},
    words::{human, percent},
};

use super::parts::number;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
const MINUTES: i64 = 60;

/// Attempts of the last hour by minute.
pub(super) fn activity(minutes: &[MinuteView], now: Timestamp) -> Markup {
    let mut sums: BTreeMap<i64, [u64; 3]> = BTreeMap::new();
    for minute in minutes {
        let Ok(at) = minute.minute.parse::<Timestamp>() else { continue };
        let ago = now.duration_since(at).as_secs().div_euclid(60);
        let column = MINUTES - 1 - ago;
        if !(0..MINUTES).contains(&column) {
            continue;
        }
        let sum = sums.entry(column).or_default();
        let counts = [minute.good, minute.retrying, minute.failed];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let most = sums.values().map(|sum| sum.iter().sum::<u64>()).max().unwrap_or(0);
    let total = |part: usize| -> u64 { sums.values().filter_map(|sum| sum.get(part)).sum() };
    let (good, retrying, failed) = (total(0), total(1), total(2));
    let words = format!(
        "In the last hour {} attempts succeeded, {} are followed by a retry, {} failed.",
        number(good),
        number(retrying),
        number(failed)
    );
    let step = WIDTH / MINUTES as f64;
    let begin = now.checked_sub(SignedDuration::from_mins(MINUTES - 1)).unwrap_or(now);
    html! {
        // Labels are outside of the SVG, which is stretched and would distort them.
        div.scale { "up to " (number(most)) " per minute" }
        svg.stretched viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(words) {
            @for (column, sum) in &sums {
                (bar(*column as f64 * step, step - 2.0, sum, most))
            }
        }
        div.scale { span { (begin.strftime("%H:%M")) } span { (now.strftime("%H:%M")) " UTC" } }
        div.legend {
            span { span.pill.good { "✓ " (number(good)) } " succeeded" }
            span { span.pill.retry { "↻ " (number(retrying)) } " to be retried" }
            span { span.pill.bad { "✗ " (number(failed)) } " failed" }
        }
    }
}

/// Counts of the last hours as bars, the current hour last.
pub(super) fn sparkline(hours: &[u64]) -> Markup {
    const STEP: f64 = 5.0;
    const TALL: f64 = 28.0;
    let most = hours.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = STEP * hours.len() as f64;
    let words = format!(
        "{} failed attempts in the last {} hours, up to {} in one hour",
        number(hours.iter().sum()),
        hours.len(),
        number(hours.iter().copied().max().unwrap_or(0)),
    );
    html! {
        svg.sparkline viewBox=(format!("0 0 {width} {TALL}")) role="img" aria-label=(words) {
            line.axis x1="0" y1=(TALL) x2=(width) y2=(TALL) {}
            @for (column, count) in hours.iter().enumerate().filter(|(_, count)| **count > 0) {
                @let height = (*count as f64 / most * TALL).max(2.0);
                rect.bad x=(round(column as f64 * STEP)) y=(round(TALL - height)) width=(STEP - 1.0) height=(round(height)) {}
            }
        }
    }
}

/// A stacked bar, failures on top.
fn bar(x: f64, width: f64, parts: &[u64; 3], most: u64) -> Markup {
    let scale = HEIGHT / most.max(1) as f64;
    let mut base = HEIGHT;
    let mut drawn = Vec::new();
    for (class, count) in ["good", "retry", "bad"].into_iter().zip(parts) {
        if *count == 0 {
            continue;
        }
        let height = (*count as f64 * scale).max(1.5);
        base -= height;
        drawn.push((class, base, height));
    }
    html! {
        @for (class, y, height) in drawn {
            rect class=(class) x=(round(x)) y=(round(y)) width=(round(width)) height=(round(height)) {}
        }
    }
}

fn round(value: f64) -> String {
    format!("{value:.1}")
}

/// Number of samples by number of retries.
pub(super) fn histogram(stage: &str, rows: &[HistogramView]) -> Markup {
    const ROW: f64 = 22.0;
    let height = ROW * rows.len() as f64 + 4.0;
    let label = format!("Retries at stage {stage}");
    html! {
        svg viewBox=(format!("0 0 400 {height}")) role="img" aria-label=(label) {
            @for (index, row) in rows.iter().enumerate() {
                @let y = ROW * index as f64 + 3.0;
                text x="70" y=(round(y + 13.0)) text-anchor="end" { (row.retries) @if row.retries == 1 { " retry" } @else { " retries" } }
                rect class=(if row.retries == 0 { "good" } else { "retry" }) x="78" y=(round(y)) height="17"
                    width=(round((row.share * 240.0).max(1.5))) {}
                text x=(round(84.0 + (row.share * 240.0).max(1.5))) y=(round(y + 13.0)) { (number(row.samples)) }
            }
        }
    }
}

/// Samples of a pipeline run by outcome.
pub(super) fn progress(run: &PipelineRunView) -> Markup {
    let words = format!(
        "{} of {} succeeded, {} skipped, {} dead, {} pending",
        run.succeeded, run.total, run.skipped, run.dlq, run.pending
    );
    segments(&[("good", run.succeeded), ("wait", run.skipped), ("bad", run.dlq)], run.total, &words)
}

/// Parts of a whole as a bar; the rest of the bar is empty.
pub(super) fn segments(parts: &[(&str, u64)], whole: u64, words: &str) -> Markup {
    const WIDE: f64 = 400.0;
    let whole = whole.max(1) as f64;
    let mut x = 0.0;
    let mut drawn = Vec::new();
    for (class, count) in parts.iter().filter(|(_, count)| *count > 0) {
        // A few of many are seen, too.
        let width = (*count as f64 / whole * WIDE).max(2.0);
        drawn.push((*class, x, width));
        x += width;
    }
    html! {
        svg.segments viewBox=(format!("0 0 {} 10", x.max(WIDE))) preserveAspectRatio="none" role="img" aria-label=(words) {
            rect.rest x="0" y="0" width=(x.max(WIDE)) height="10" {}
            @for (class, x, width) in drawn {
                rect class=(class) x=(round(x)) y="0" width=(round(width)) height="10" {}
            }
        }
    }
}

/// Units of a plan that were tried again, by the time of their outcome.
pub(super) fn outcomes(periods: &[PlanPeriodView]) -> Markup {
    const MIN_COLUMNS: i64 = 24;
    let (Some(first), Some(last)) = (periods.first(), periods.last()) else {
        return html! { p.empty { "No unit has ended yet." } };
    };
    let seconds = i64::try_from(first.seconds).unwrap_or(i64::MAX).max(1);
    let column = |at: Timestamp| at.duration_since(first.from).as_secs() / seconds;
    let columns = (column(last.from) + 1).max(MIN_COLUMNS);
    let step = WIDTH / columns as f64;
    let length = SignedDuration::from_secs(seconds.saturating_mul(columns));
    let end = first.from.checked_add(length).unwrap_or(last.from);
    let parts = |period: &PlanPeriodView| [period.recovered, period.other_cause, period.same_cause];
    let most = periods.iter().map(|period| parts(period).iter().sum::<u64>()).max().unwrap_or(0);
    let total =
        |part: usize| -> u64 { periods.iter().filter_map(|it| parts(it).get(part).copied()).sum() };
    let (recovered, other_cause, same_cause) = (total(0), total(1), total(2));
    let period = human(Duration::from_secs(first.seconds));
    // A day alone says little where all is in one day.
    let format = if length.as_hours() < 24 { "%H:%M:%S" } else { "%Y-%m-%d %H:%M" };
    let words = format!(
        "From {} to {} UTC, {} units recovered, {} failed of the same cause, {} failed of another cause.",
        first.from.strftime("%Y-%m-%d %H:%M:%S"),
        end.strftime("%Y-%m-%d %H:%M:%S"),
        number(recovered),
        number(same_cause),
        number(other_cause)
    );
    html! {
        div.scale { "up to " (number(most)) " units in " (period) }
        svg.stretched.low viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(words) {
            @for it in periods { (bar(column(it.from) as f64 * step, step - 2.0, &parts(it), most)) }
        }
        div.scale {
            span { (first.from.strftime("%Y-%m-%d")) " " (first.from.strftime("%H:%M:%S")) }
            span { (end.strftime(format)) " UTC" }
        }
        div.legend {
            span { span.pill.good { "✓ " (number(recovered)) } " recovered" }
            span { span.pill.bad { "✗ " (number(same_cause)) } " failed again, same cause" }
            span { span.pill.retry { "✗ " (number(other_cause)) } " failed again, other cause" }
        }
        details {
            summary { "As a table" }
            div.scroll { table {
                thead { tr { th { "From" } th.number { "Recovered" } th.number { "Same cause" } th.number { "Other cause" } } }
                tbody { @for it in periods { tr {
                    td.nowrap { (it.from.strftime("%Y-%m-%d %H:%M:%S")) }
                    td.number { (number(it.recovered)) }
                    td.number { (number(it.same_cause)) }
                    td.number { (number(it.other_cause)) }
                } } }
            } }
        }
    }
}

pub(super) fn budget(run: &PipelineRunView) -> Markup {
    let rate = match run.budget_processed {
        0 => 0.0,
        processed => run.budget_failed as f64 / processed as f64,
    };
    let full = (run.failure_budget * 2.0).clamp(0.000_001, 1.0).max(run.failure_budget);
    let at = |share: f64| (share / full).clamp(0.0, 1.0) * 400.0;
    let verdict = if run.budget_exceeded { "exceeded" } else { "not exceeded" };
    let words = format!(
        "Failure budget {verdict}: {} of {} failed, {} allowed",
        run.budget_failed,
        run.budget_processed,
        percent(run.failure_budget)
    );
    let class = if run.budget_exceeded { "bad" } else { "good" };
    html! {
        svg viewBox="0 0 400 26" role="img" aria-label=(words) {
            line.axis x1="0" y1="13" x2="400" y2="13" {}
            rect class=(class) x="0" y="2" width=(round(at(rate).max(1.0))) height="10" {}
            line.axis x1=(round(at(run.failure_budget))) y1="0" x2=(round(at(run.failure_budget))) y2="14" {}
            text x=(round(at(run.failure_budget))) y="25" text-anchor="middle" { (percent(run.failure_budget)) }
        }
        p { (words) "." }
    }
}
