//! Charts, rendered on the server as SVG.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use redrive_ops::{
    Waits,
    views::{
        ActivityColumnView, ActivityRange, ActivityView, HistogramView, PipelineRunView,
        PlanPeriodView,
    },
    words::{human, percent, rounded},
};

use super::parts::number;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
/// The parts of the axis of values.
const LINES: i64 = 4;

/// Attempts over time, with a link from each column to what failed in it. `failures` is the list of what failed between two
/// times.
pub(super) fn activity(
    activity: &ActivityView,
    failures: impl Fn(Timestamp, Timestamp) -> String,
) -> Markup {
    let columns = activity.columns.iter();
    let most = columns.map(|column| column.good + column.retrying + column.failed).max();
    let top = axis_top(most.unwrap_or(0));
    let words = format!(
        "In the last {}, {} attempts succeeded, {} are followed by a retry, {} failed.",
        activity.span.in_words(),
        number(activity.good),
        number(activity.retrying),
        number(activity.failed)
    );
    let step = WIDTH / activity.width() as f64;
    let length = human(Duration::from_secs(activity.column_s.unsigned_abs()));
    html! {
        // Labels are outside of the SVG, which is stretched and would distort them.
        div.scale { "attempts in " (length) }
        div.plot {
            div.values aria-hidden="true" { span { (number(top)) } span { (number(top / 2)) } span { "0" } }
            svg.stretched viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="group" aria-label=(words) {
                @for line in 0..LINES {
                    @let y = round(HEIGHT * line as f64 / LINES as f64);
                    line.axis x1="0" y1=(y) x2=(WIDTH) y2=(y) {}
                }
                @for tick in 1..ticks(activity) {
                    @let x = round(WIDTH * tick as f64 / ticks(activity) as f64);
                    line.axis x1=(x) y1="0" x2=(x) y2=(HEIGHT) {}
                }
                @for column in &activity.columns {
                    @let x = activity.place_of(column) as f64 * step;
                    @let words = column_in_words(activity, column);
                    @let bars = html! {
                        title { (words) }
                        rect.hit x=(round(x)) y="0" width=(round(step)) height=(HEIGHT) {}
                        (bar(x, step * 0.84, &[column.good, column.retrying, column.failed], top))
                    };
                    @if column.retrying + column.failed > 0 {
                        // The table below has the same links, for keyboards.
                        a href=(failures(column.since, activity.end_of(column))) tabindex="-1" aria-label=(words) { (bars) }
                    } @else { g { (bars) } }
                }
            }
            div.scale.times { @for tick in 0..=ticks(activity) { span { (tick_time(activity, tick)) } } }
        }
        div.legend {
            span { span.pill.good { "✓ " (number(activity.good)) } " succeeded" }
            span { span.pill.retry { "↻ " (number(activity.retrying)) } " to be retried" }
            span { span.pill.bad { "✗ " (number(activity.failed)) } " failed" }
        }
        @if !activity.columns.is_empty() { (activity_table(activity, failures)) }
    }
}

fn activity_table(
    activity: &ActivityView,
    failures: impl Fn(Timestamp, Timestamp) -> String,
) -> Markup {
    html! {
        details {
            summary { "As a table" }
            div.scroll { table {
                thead { tr { th { "From (UTC)" } th.number { "Succeeded" } th.number { "To be retried" } th.number { "Failed" } } }
                tbody { @for column in &activity.columns { tr {
                    td.nowrap {
                        @let from = column.since.strftime("%Y-%m-%d %H:%M");
                        @if column.retrying + column.failed > 0 { a href=(failures(column.since, activity.end_of(column))) { (from) } }
                        @else { (from) }
                    }
                    td.number { (number(column.good)) }
                    td.number { (number(column.retrying)) }
                    td.number { (number(column.failed)) }
                } } }
            } }
        }
    }
}

/// `2026-03-01 12:00 to 12:10: 5 succeeded, 1 to be retried, 0 failed`.
fn column_in_words(activity: &ActivityView, column: &ActivityColumnView) -> String {
    format!(
        "{} to {} UTC: {} succeeded, {} to be retried, {} failed",
        column.since.strftime("%Y-%m-%d %H:%M"),
        activity.end_of(column).strftime("%H:%M"),
        number(column.good),
        number(column.retrying),
        number(column.failed)
    )
}

/// The parts of the axis of time: of 10 minutes, 4 hours, 1 day or 5 days.
fn ticks(activity: &ActivityView) -> i64 {
    if activity.span == ActivityRange::Week { 7 } else { 6 }
}

fn tick_time(activity: &ActivityView, tick: i64) -> String {
    let seconds = activity.width() * activity.column_s * tick / ticks(activity);
    let at = activity.since.checked_add(SignedDuration::from_secs(seconds));
    let format = match activity.span {
        ActivityRange::Hour | ActivityRange::Day => "%H:%M",
        ActivityRange::Week | ActivityRange::Month => "%m-%d",
    };
    at.map(|at| at.strftime(format).to_string()).unwrap_or_default()
}

/// A round number that is not less, and can be halved.
fn axis_top(most: u64) -> u64 {
    let mut unit = 1;
    loop {
        for step in [2, 4, 6, 10] {
            let top = unit * step;
            if top >= most {
                return top;
            }
        }
        unit *= 10;
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

/// The wait after each failed attempt, and the time that has passed by then.
pub(super) fn waits(waits: &Waits) -> Markup {
    const ROW: f64 = 20.0;
    const WIDE: f64 = 150.0;
    let longest = waits.waits.iter().map(|wait| wait.delay).max().unwrap_or_default();
    let height = ROW * waits.waits.len() as f64 + 4.0;
    let mut passed = Duration::ZERO;
    let rows: Vec<(u32, Duration, Duration)> = waits
        .waits
        .iter()
        .map(|wait| {
            passed += wait.delay;
            (wait.attempt, wait.delay, passed)
        })
        .collect();
    html! {
        svg.waits viewBox=(format!("0 0 400 {height}")) role="img" aria-label="Wait after each failed attempt" {
            @for (row, (attempt, delay, passed)) in rows.iter().enumerate() {
                @let y = ROW * row as f64 + 3.0;
                @let width = (delay.as_secs_f64() / longest.as_secs_f64().max(0.001) * WIDE).max(1.5);
                text x="70" y=(round(y + 12.0)) text-anchor="end" { "after " (attempt) }
                rect.retry x="78" y=(round(y)) height="15" width=(round(width)) {}
                text x=(round(84.0 + width)) y=(round(y + 12.0)) { (rounded(*delay)) ", " (rounded(*passed)) " in all" }
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
