//! Displays the progress of an upload: a bar on a terminal, plain lines elsewhere.

use std::sync::Arc;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use redrive::{HumanDuration, UploadEvent, UploadObserver};

use crate::{
    context::Context,
    logging::one_line,
    output::{Output, excerpt},
    screen,
};

pub(super) struct UploadProgressDisplay {
    bar: ProgressBar,
    is_interactive: bool,
    output: Output,
}

impl UploadProgressDisplay {
    pub(super) fn new(pending: u64, context: &Context) -> Arc<Self> {
        let output = context.output;
        let is_interactive = output.shows_bars();
        let target = if is_interactive {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bars = MultiProgress::with_draw_target(target);
        let bar = bars.add(ProgressBar::new(pending));
        // The template is constant. If it were invalid, the default style would do.
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} uploaded  {msg}") {
            bar.set_style(style);
        }
        screen::show(&bars);
        Arc::new(Self { bar, is_interactive, output })
    }

    pub(super) fn observer(self: &Arc<Self>) -> UploadObserver {
        let this = self.clone();
        Arc::new(move |event| this.show(event))
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
        screen::clear();
    }

    fn show(&self, event: UploadEvent<'_>) {
        match event {
            UploadEvent::Uploaded(item) => {
                let name = one_line(&item.name);
                self.bar.inc(1);
                if !self.is_interactive {
                    self.output.note(&format!("uploaded {name}"));
                }
                self.bar.set_message(name);
            }
            UploadEvent::Rejected(item, failure) => {
                let (name, reason) = (one_line(&item.name), excerpt(failure.message().as_str()));
                self.output.note(&format!("rejected {name}: {reason}"));
            }
            UploadEvent::GaveUp { item, attempts, .. } => {
                let name = one_line(&item.name);
                self.output.note(&format!("gave up {name} after {attempts} attempts"));
            }
            UploadEvent::Retrying { retry, sleep, pending } => {
                let sleep = HumanDuration::from(sleep);
                let line = format!("retry {retry} in {sleep}: {pending} pending");
                self.bar.set_message(line.clone());
                self.output.note(&line);
            }
        }
    }
}
