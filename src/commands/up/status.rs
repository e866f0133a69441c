//! Shows the status of `redrive up`: on the last line of a terminal, or as a log line once a minute.
//!
//! The status comes from the store and shares its queries with the dashboard. A query counts every run, so the pause
//! between two queries grows with their duration: they take at most a twentieth of the time.

use std::{net::SocketAddr, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use redrive_engine::{Clock, SteadyClock, SystemClock};
use redrive_ops::{
    Watch,
    views::OverviewView,
    words::{apart, between},
};
use tokio::{task::JoinHandle, time::sleep};

use crate::{context::Context, screen};

/// The pause between two log lines.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// Shows the status until it is dropped.
pub(super) struct StatusLine {
    watcher: JoinHandle<()>,
    line: Option<ProgressBar>,
}

impl StatusLine {
    pub(super) fn start(watch: Watch, address: SocketAddr, context: &Context) -> Self {
        let is_interactive = context.output.shows_bars();
        let line = is_interactive.then(line);
        let shown = line.clone();
        let watcher = tokio::spawn(async move {
            match shown {
                Some(line) => draw(&watch, address, &line).await,
                None => log(&watch).await,
            }
        });
        Self { watcher, line }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.watcher.abort();
        if let Some(line) = &self.line {
            line.finish_and_clear();
            screen::clear();
        }
    }
}

fn line() -> ProgressBar {
    let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let line = bars.add(ProgressBar::new_spinner());
    // The template is constant. If it were invalid, the default style would do.
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        line.set_style(style);
    }
    screen::show(&bars);
    line
}

async fn draw(watch: &Watch, address: SocketAddr, line: &ProgressBar) {
    let clock = SteadyClock::default();
    loop {
        let started = clock.now();
        let status = match watch.newest().await {
            Ok(overview) => describe(&overview, SystemClock.now()),
            Err(error) => format!("cannot read the store: {error}"),
        };
        // The address comes last, because a narrow terminal cuts off the end.
        line.set_message(format!("{status} · http://{address}"));
        sleep(screen::pause_after(between(started, clock.now()))).await;
    }
}

async fn log(watch: &Watch) {
    let mut last = None;
    loop {
        sleep(LOG_PAUSE).await;
        // The workers log errors of the store.
        let Ok(overview) = watch.newest().await else { continue };
        let failed: u64 = overview.failed().iter().map(|(count, _)| count).sum();
        let figures @ (to_do, to_retry, failed) = (to_do(&overview), to_retry(&overview), failed);
        if last != Some(figures) {
            tracing::info!(to_do, to_retry, failed, "status");
        }
        last = Some(figures);
    }
}

/// Units that wait for a worker or are in progress.
fn to_do(overview: &OverviewView) -> u64 {
    let open = [
        ("run", "discovered"),
        ("run", "processing"),
        ("partition", "pending"),
        ("sample", "pending"),
    ];
    open.iter().map(|(kind, state)| overview.count(kind, state)).sum()
}

fn to_retry(overview: &OverviewView) -> u64 {
    overview.count("run", "waiting_for_retry")
}

/// `12 to do · 2 to retry · next in 4s · 1 run given up · 1 dead letter`
fn describe(overview: &OverviewView, now: Timestamp) -> String {
    let mut parts = vec![format!("{} to do", to_do(overview))];
    match to_retry(overview) {
        0 => {}
        many => parts.push(format!("{many} to retry")),
    }
    let next: Option<Timestamp> = overview.due.first().and_then(|due| due.at.parse().ok());
    if let Some(at) = next {
        parts.push(match between(now, at).is_zero() {
            true => "next now".to_owned(),
            false => format!("next in {}", apart(now, at)),
        });
    }
    parts.extend(overview.failed().iter().map(|(count, what)| format!("{count} {what}")));
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use redrive_ops::views::{DueView, UnitCountView};

    use super::*;

    fn overview(units: &[(&'static str, &'static str, u64)], due: Option<&str>) -> OverviewView {
        let units = units.iter().map(|&(kind, state, count)| UnitCountView { kind, state, count });
        let due = due.map(|at| DueView {
            at: at.to_owned(),
            kind: "queue",
            name: "work".to_owned(),
            what: "a run is tried again".to_owned(),
        });
        OverviewView {
            version: 1,
            at: String::new(),
            units: units.collect(),
            queues: Vec::new(),
            unattended: Vec::new(),
            sources: Vec::new(),
            pipeline_runs: Vec::new(),
            activity: Vec::new(),
            plans: Vec::new(),
            gates: Vec::new(),
            causes: Vec::new(),
            due: due.into_iter().collect(),
        }
    }

    #[test]
    fn zero_counts_are_omitted() {
        let now = Timestamp::UNIX_EPOCH;
        let ended = [("run", "passed", 7), ("partition", "success", 3), ("sample", "succeeded", 2)];
        assert_eq!(describe(&overview(&ended, None), now), "0 to do");
        let much = [
            ("run", "discovered", 5),
            ("run", "processing", 3),
            ("run", "waiting_for_retry", 2),
            ("run", "given_up", 1),
            ("partition", "pending", 3),
            ("partition", "failed", 6),
            ("sample", "pending", 1),
            ("sample", "dlq", 1),
        ];
        assert_eq!(
            describe(&overview(&much, Some("1970-01-01T00:00:04Z")), now),
            "12 to do · 2 to retry · next in 4s · 6 failed partitions · 1 run given up · 1 dead letter"
        );
        let due = overview(&[("sample", "dlq", 2)], Some("1970-01-01T00:00:00Z"));
        assert_eq!(describe(&due, now), "0 to do · next now · 2 dead letters");
    }
}
