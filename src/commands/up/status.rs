//! How things stand, while everything runs: the last line of a terminal, or a line of the log now and then.
//!
//! It looks at the store and never at the work. Counting reads every run once, so with a million of them it looks
//! more seldom: it may take a twentieth of the time.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive_desk::{Desk, words::between};
use redrive_engine::{Clock, SteadyClock};
use tokio::{task::JoinHandle, time::sleep};

use super::figures::Figures;
use crate::{context::Context, screen};

/// How long it rests between two looks on a terminal.
const REST: Duration = Duration::from_secs(1);

/// How long it rests where a look becomes a line of a log.
const LOG_REST: Duration = Duration::from_secs(60);

/// It rests so many times as long as it looked.
const REST_FACTOR: u32 = 20;

/// Shows how things stand, as long as it lives.
pub(super) struct Status {
    watcher: JoinHandle<()>,
    line: Option<ProgressBar>,
}

impl Status {
    /// Begins.
    pub(super) fn start(desk: &Desk, address: SocketAddr, context: &Context) -> Self {
        let watched = io::stderr().is_terminal() && context.output.is_talkative();
        let line = watched.then(line);
        let shown = line.clone();
        let desk = desk.clone();
        let watcher = tokio::spawn(async move {
            match shown {
                Some(line) => draw(&desk, address, &line).await,
                None => log(&desk).await,
            }
        });
        Self { watcher, line }
    }
}

impl Drop for Status {
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

async fn draw(desk: &Desk, address: SocketAddr, line: &ProgressBar) {
    let clock = SteadyClock::default();
    loop {
        let began = clock.now();
        let said = match Figures::read(desk).await {
            Ok(figures) => figures.in_words(desk.now()),
            Err(error) => format!("the store does not answer: {error}"),
        };
        // The address comes last: a narrow terminal cuts the end off.
        line.set_message(format!("{said} · http://{address}"));
        sleep(REST.max(between(began, clock.now()) * REST_FACTOR)).await;
    }
}

async fn log(desk: &Desk) {
    let mut last = None;
    loop {
        sleep(LOG_REST).await;
        // A store that does not answer is told of by those who need it.
        let Ok(figures) = Figures::read(desk).await else { continue };
        if last.as_ref() != Some(&figures) {
            let Figures { waiting, running, retrying, given_up, dead, .. } = figures;
            tracing::info!(waiting, running, retrying, given_up, dead_letters = dead, "status");
        }
        last = Some(figures);
    }
}
