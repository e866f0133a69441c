//! The attempts at a unit and the waits between them, drawn.

use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::{TimelineStep, timeline, views::AttemptView};

use super::parts::style_of;

const TALL: f64 = 34.0;

/// Attempts as bars, waits as lines. Lengths grow with the logarithm of the time: seconds beside hours.
pub(super) fn drawn(
    attempts: &[AttemptView],
    next_at: Option<Timestamp>,
    now: Timestamp,
) -> Markup {
    let steps = timeline(attempts, next_at, now);
    if attempts.len() < 2 && steps.len() < 2 {
        return html! {};
    }
    let widths: Vec<f64> = steps.iter().map(width).collect();
    let starts = widths.iter().scan(0.0, |end, width| {
        *end += width;
        Some(*end - width)
    });
    let total: f64 = widths.iter().sum();
    let words = TimelineStep::line(&steps);
    html! {
        svg.timeline viewBox=(format!("0 0 {total:.1} {TALL}")) preserveAspectRatio="none" role="img" aria-label=(words) {
            @for ((step, start), width) in steps.iter().zip(starts).zip(&widths) {
                @match step.attempt {
                    Some(attempt) => {
                        rect.(style_of(attempt.outcome).0) x=(format!("{start:.1}")) y="4" width=(format!("{width:.1}")) height=(TALL - 8.0) {
                            title { (step.about) }
                        }
                    }
                    None => {
                        rect.rest x=(format!("{start:.1}")) y=(TALL / 2.0 - 2.0) width=(format!("{width:.1}")) height="4" {
                            title { (step.about) }
                        }
                    }
                }
            }
        }
        p.lead { (words) }
    }
}

fn width(step: &TimelineStep) -> f64 {
    6.0 + 8.0 * (1.0 + step.length.as_secs_f64() * 1_000.0).log10()
}
