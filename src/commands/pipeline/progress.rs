//! Displays the progress of a run: one line per stage on a terminal, or a plain line every few seconds.
//!
//! The display polls the store once a second and does not touch the workers, so it does not slow them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive::{Message, PipelineRunId, PipelineRunRecord};
use redrive_ops::{views::StageCountView, words::human};
use redrive_store::{Result, Store};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::rate::{Rate, expected_total};
use crate::{context::Context, output::Output, screen};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Without a terminal, a line is printed after this many polls.
const POLLS_PER_LOG_LINE: u64 = 5;

pub(super) struct PipelineProgressDisplay {
    watcher: JoinHandle<()>,
    bars: Arc<ProgressBars>,
}

struct ProgressBars {
    is_interactive: bool,
    output: Output,
    lines: Vec<ProgressBar>,
    whole: ProgressBar,
}

impl PipelineProgressDisplay {
    /// Starts the display. `file` is the source, if the source is a file.
    pub(super) fn start(
        run: &PipelineRunRecord,
        file: Option<PathBuf>,
        store: Arc<dyn Store>,
        context: &Context,
    ) -> Self {
        let output = context.output;
        let is_interactive = output.shows_bars();
        let target = if is_interactive {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let screen = MultiProgress::with_draw_target(target);
        let line = || {
            let line = screen.add(ProgressBar::new_spinner());
            // The template is constant. If it were invalid, the default style would do.
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                line.set_style(style);
            }
            line
        };
        let lines = run.stages.iter().map(|_| line()).collect();
        let bars = Arc::new(ProgressBars { is_interactive, output, lines, whole: line() });
        screen::show(&screen);
        let watch = watch(run.id, file, store, bars.clone());
        Self { watcher: tokio::spawn(watch), bars }
    }

    /// Removes the bars.
    pub(super) fn end(self) {
        self.watcher.abort();
        self.bars.clear();
        screen::clear();
    }
}

async fn watch(
    id: PipelineRunId,
    file: Option<PathBuf>,
    store: Arc<dyn Store>,
    bars: Arc<ProgressBars>,
) {
    let mut ticks = interval(POLL_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut rate = Rate::default();
    let start = ticks.tick().await;
    for poll in 0_u64.. {
        let now = ticks.tick().await;
        let plain = poll > 0 && poll.is_multiple_of(POLLS_PER_LOG_LINE);
        if !bars.is_interactive && !plain {
            continue;
        }
        // After an error of the store, the next poll tries again.
        if let Ok(Some((run, counts))) = read_counts(id, &*store).await {
            rate.note(now.duration_since(start), run.progress.counts.ended());
            let bytes = file.as_ref().and_then(|path| Some(path.metadata().ok()?.len()));
            bars.draw(&run, &counts, &rate, bytes);
        }
    }
}

async fn read_counts(
    id: PipelineRunId,
    store: &dyn Store,
) -> Result<Option<(PipelineRunRecord, Vec<StageCountView>)>> {
    let Some(run) = store.pipeline_runs_by_id(&[id]).await?.pop() else { return Ok(None) };
    let counts = StageCountView::read(&run, store).await?;
    Ok(Some((run, counts)))
}

impl ProgressBars {
    fn draw(
        &self,
        run: &PipelineRunRecord,
        counts: &[StageCountView],
        rate: &Rate,
        bytes: Option<u64>,
    ) {
        let whole = whole(run, rate, bytes);
        if !self.is_interactive {
            let sum = |of: fn(&StageCountView) -> u64| counts.iter().map(of).sum::<u64>();
            let (flying, retrying) = (sum(|row| row.in_flight), sum(|row| row.retrying));
            let dead = run.progress.counts.dlq;
            self.output
                .note(&format!("{whole}; {flying} in flight, {retrying} retrying, {dead} dead"));
            return;
        }
        let width = counts.iter().map(|row| row.stage.chars().count()).max().unwrap_or(0);
        for (line, row) in self.lines.iter().zip(counts) {
            line.set_message(stage_line(row, width));
        }
        self.whole.set_message(whole);
    }

    fn clear(&self) {
        self.lines.iter().chain([&self.whole]).for_each(ProgressBar::finish_and_clear);
    }
}

fn stage_line(row: &StageCountView, width: usize) -> String {
    let StageCountView { stage, done, in_flight, retrying, dlq, .. } = row;
    let stage = Message::clean(stage).to_string();
    format!(
        "{stage:width$}  {done:>8} done  {in_flight:>5} in flight  {retrying:>5} retrying  {dlq:>5} dead"
    )
}

/// `score run 3: 1204 of 10000, 412/s, 22s left`
fn whole(run: &PipelineRunRecord, rate: &Rate, bytes: Option<u64>) -> String {
    let (tally, id) = (run.progress.counts, run.id);
    let expected = match bytes {
        _ if tally.source_done => Some(tally.total),
        Some(bytes) => expected_total(tally.total, run.position.bytes, bytes),
        None => None,
    };
    let ended = tally.ended();
    let of = match expected {
        Some(total) if tally.source_done => format!("{ended} of {total}"),
        Some(total) => format!("{ended} of about {total}"),
        None => format!("{ended} of {} so far", tally.total),
    };
    let pace = rate.per_second().map(|rate| format!(", {rate:.0}/s")).unwrap_or_default();
    let left = expected.and_then(|total| rate.time_for(total.saturating_sub(ended)));
    let left = left.map(|left| format!(", {} left", human(left))).unwrap_or_default();
    let name = Message::clean(&run.pipeline);
    format!("{name} run {id}: {of}{pace}{left}")
}
