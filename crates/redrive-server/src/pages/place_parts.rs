//! The parts of the page of a place: its figures, its states and its policies.

use jiff::Timestamp;
use maud::{Markup, html};
use redrive_core::{RunId, Unit};
use redrive_ops::{
    DeclaredPolicy, Waits,
    views::{ActivityPlace, ActivityView, OverviewView, PolicyView, WorkerPlaceView, WorkerView},
    words::{human, rounded},
};
use redrive_store::UnitKind;

use super::{
    charts,
    parts::{address, number, pill, when_text},
};
use crate::app::App;

/// The longest plot of waits.
const WAITS_SHOWN: u32 = 12;

/// What a worker serves of a place.
pub(super) fn serving<'a>(
    worker: &'a WorkerView,
    place: &'a ActivityPlace,
) -> impl Iterator<Item = &'a WorkerPlaceView> {
    worker.places.iter().filter(move |served| match place.kind {
        UnitKind::Sample => {
            let pipeline = served.place.split('/').next();
            served.kind == UnitKind::Sample.place() && pipeline == Some(&place.name)
        }
        kind => served.kind == kind.place() && served.place == place.name,
    })
}

/// Rate, duration and backlog of a place.
pub(super) struct PlaceFigures<'a> {
    pub(super) place: &'a ActivityPlace,
    pub(super) overview: &'a OverviewView,
    pub(super) activity: &'a ActivityView,
    pub(super) workers: &'a [WorkerView],
    pub(super) now: Timestamp,
}

impl PlaceFigures<'_> {
    pub(super) fn show(&self) -> Markup {
        let Self { place, activity, now, .. } = *self;
        let mut queues = self.overview.queues.iter();
        let queue = queues.find(|it| place.kind == UnitKind::Run && it.queue == place.name);
        let served = self.workers.iter().filter(|worker| worker.state != "not_heard_from");
        let served = served.flat_map(|worker| serving(worker, place));
        let (slots, in_flight, claimed) = served.fold((0, 0, 0), |sums, it| {
            (sums.0 + it.concurrency, sums.1 + it.in_flight, sums.2 + it.claimed)
        });
        html! {
            dl {
                dt { "Rate" } dd { (format!("{:.1}", activity.per_minute(now))) " attempts a minute" }
                @if let Some(mean) = activity.mean() { dt { "Mean duration" } dd { (rounded(mean)) } }
                @if slots > 0 {
                    dt { "In flight" } dd { (number(in_flight.into())) " of " (number(slots.into())) @if claimed > 0 { ", " (number(claimed.into())) " claimed ahead" } }
                }
                @if let Some(at) = queue.and_then(|queue| queue.oldest_ready_at.as_ref()) {
                    dt { "Oldest ready run" } dd { (when_text(at, now)) }
                }
                @if let Some(at) = queue.and_then(|queue| queue.next_due_at.as_ref()) {
                    dt { "Next retry or start" } dd { (when_text(at, now)) }
                }
            }
        }
    }
}

/// Units by state, as far as they are counted without reading them.
pub(super) fn states(place: &ActivityPlace, overview: &OverviewView) -> Markup {
    let name = place.name.as_str();
    let mut queues = overview.queues.iter().filter(|queue| queue.queue == name);
    let mut sources = overview.sources.iter().filter(|source| source.source == name);
    let (path, term) = match place.kind {
        UnitKind::Run => ("/runs", "queue"),
        UnitKind::Partition => ("/partitions", "source"),
        UnitKind::Item => ("/uploads", "upload"),
        UnitKind::Sample => return html! {},
    };
    let counts: Vec<(String, Option<u64>)> = match place.kind {
        UnitKind::Run => {
            let runs = queues.next().into_iter().flat_map(|queue| &queue.runs);
            let runs = runs.map(|(state, count)| (state.clone(), count.as_u64()));
            runs.filter(|(_, count)| *count != Some(0)).collect()
        }
        UnitKind::Partition => sources.next().map_or_else(Vec::new, |it| {
            let counts = [("pending", it.pending), ("success", it.success), ("failed", it.failed)];
            counts.map(|(state, count)| (state.to_owned(), Some(count))).into()
        }),
        _ => ["pending", "uploaded", "upload_giveup"].map(|it| (it.to_owned(), None)).into(),
    };
    html! {
        div.tiles { @for (state, count) in counts {
            @let filter = if state == "waiting_for_retry" { "waiting" } else { state.as_str() };
            a.tile href=(address(path, [(term, name), ("state", filter)])) {
                @if let Some(count) = count { b { (number(count)) } } (pill(&state))
            }
        } }
    }
}

/// The policies in force, each with a plot of its waits.
pub(super) fn policies(app: &App, place: &ActivityPlace) -> Vec<Markup> {
    let (own, stages) = (place.to_string(), format!("stage:{}/", place.name));
    let known = app.ops.policies();
    let is_here = |it: &&DeclaredPolicy| {
        let at = it.place.as_deref().unwrap_or_default();
        at == own || (place.kind == UnitKind::Sample && at.starts_with(&stages))
    };
    known.0.iter().filter(is_here).map(|declared| policy(app, place, declared)).collect()
}

fn policy(app: &App, place: &ActivityPlace, declared: &DeclaredPolicy) -> Markup {
    let view = PolicyView::new(declared);
    let spec = declared.policy.spec();
    let stage = view.place.as_deref().and_then(|at| at.rsplit_once('/')).map(|(_, stage)| stage);
    let stage = stage.filter(|_| place.kind == UnitKind::Sample);
    let unit = Unit::Run(RunId(1));
    let shown = spec.max_attempts.map(|max| max.saturating_sub(1).clamp(1, WAITS_SHOWN));
    let waits = Waits::new(
        &declared.policy,
        declared.in_call_retries,
        app.ops.jitter_seed(),
        &unit,
        shown.or(Some(WAITS_SHOWN)),
    );
    html! {
        h2 { "Policy " (view.name) @if let Some(stage) = stage { " of stage " (stage) } }
        @if stage.is_some() {
            p { a href=(address("/", [("place", view.place.as_deref().unwrap_or_default())])) { "Attempts of the stage" } }
        }
        dl {
            dt { "Attempts" } dd { (view.attempts_in_words()) }
            @if let Some(age) = spec.max_age { dt { "For at most" } dd { (human(age)) } }
            dt { "Waits" } dd { (view.backoff_in_words()) ", jitter " (view.jitter) }
            @if !view.rules.is_empty() { dt { "Other settings" } dd { "for some failures: " code { "redrive policy show " (view.name) } } }
        }
        @if spec.max_attempts != Some(1) {
            h3 { "When a unit that always fails is retried" }
            (charts::waits(&waits))
        }
    }
}
