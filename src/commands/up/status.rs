//! How things stand, while everything runs: the last line of a terminal, or a line of the log now and then.
//!
//! It looks at the store and never at the work, together with whoever looks at the dashboard. Counting reads every run once,
//! so with a million of them it looks more seldom: it may take a twentieth of the time.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
    time::Duration,
};

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

/// How long it rests between two looks on a terminal.
const REST: Duration = Duration::from_secs(1);

/// How long it rests where a look becomes a line of a log.
const LOG_REST: Duration = Duration::from_secs(60);

/// It rests so many times as long as it looked.
const REST_FACTOR: u32 = 20;

/// Shows how things stand, as long as it lives.
pub(super) struct StatusLine {
    watcher: JoinHandle<()>,
    line: Option<ProgressBar>,
}

impl StatusLine {
    /// Begins.
    pub(super) fn start(watch: Watch, address: SocketAddr, context: &Context) -> Self {
        let watched = io::stderr().is_terminal() && context.output.shows_notes();
        let line = watched.then(line);
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
    /// Takes what is drawn away.
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
    // A wrong template would be a slip in the program; the default does as well.
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        line.set_style(style);
    }
    screen::show(&bars);
    line
}

async fn draw(watch: &Watch, address: SocketAddr, line: &ProgressBar) {
    let clock = SteadyClock::default();
    loop {
        let began = clock.now();
        let said = match watch.newest().await {
            Ok(overview) => in_words(&overview, SystemClock.now()),
            Err(error) => format!("the store does not answer: {error}"),
        };
        // The address comes last: a narrow terminal cuts the end off.
        line.set_message(format!("{said} · http://{address}"));
        sleep(REST.max(between(began, clock.now()) * REST_FACTOR)).await;
    }
}

async fn log(watch: &Watch) {
    let mut last = None;
    loop {
        sleep(LOG_REST).await;
        // A store that does not answer is told of by those who need it.
        let Ok(overview) = watch.newest().await else { continue };
        let failed: u64 = overview.failed().iter().map(|(count, _)| count).sum();
        let figures @ (to_do, to_retry, failed) = (to_do(&overview), to_retry(&overview), failed);
        if last != Some(figures) {
            tracing::info!(to_do, to_retry, failed, "status");
        }
        last = Some(figures);
    }
}

/// What is for workers, or with them.
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
fn in_words(overview: &OverviewView, now: Timestamp) -> String {
    let mut said = vec![format!("{} to do", to_do(overview))];
    match to_retry(overview) {
        0 => {}
        many => said.push(format!("{many} to retry")),
    }
    let next: Option<Timestamp> = overview.due.first().and_then(|due| due.at.parse().ok());
    if let Some(at) = next {
        said.push(match between(now, at).is_zero() {
            true => "next now".to_owned(),
            false => format!("next in {}", apart(now, at)),
        });
    }
    said.extend(overview.failed().iter().map(|(count, what)| format!("{count} {what}")));
    said.join(" · ")
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
            sources: Vec::new(),
            pipeline_runs: Vec::new(),
            activity: Vec::new(),
            causes: Vec::new(),
            due: due.into_iter().collect(),
        }
    }

    #[test]
    fn only_what_there_is_is_said() {
        let now = Timestamp::UNIX_EPOCH;
        let ended = [("run", "passed", 7), ("partition", "success", 3), ("sample", "succeeded", 2)];
        assert_eq!(in_words(&overview(&ended, None), now), "0 to do");
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
            in_words(&overview(&much, Some("1970-01-01T00:00:04Z")), now),
            "12 to do · 2 to retry · next in 4s · 6 failed partitions · 1 run given up · 1 dead letter"
        );
        let due = overview(&[("sample", "dlq", 2)], Some("1970-01-01T00:00:00Z"));
        assert_eq!(in_words(&due, now), "0 to do · next now · 2 dead letters");
    }
}
