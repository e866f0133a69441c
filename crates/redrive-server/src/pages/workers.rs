//! Workers: which processes are present, what they hold, and what nobody serves.

use axum::{Extension, response::Response};
use jiff::Timestamp;
use maud::{Markup, html};
use redrive_ops::views::{ActivityPlace, UnattendedView, WorkerPlaceView, WorkerView};

use super::{
    PageResult,
    layout::{DashboardPage, NavSection},
    parts::{counted, number, pill, when},
    place::place_address,
    place_parts::serving,
};
use crate::{app::AppState, guard::Caller};

/// With more workers, what each one serves is closed at first.
const OPEN: usize = 4;

pub(super) async fn list(
    app: AppState,
    Extension(caller): Extension<Caller>,
) -> PageResult<Response> {
    let (overview, workers) = (app.watch.overview().await?, app.ops.workers().await?);
    let now = app.ops.store().now();
    let body = html! {
        h1 { "Workers" }
        p.lead { "The processes that work on units, by their own report at a third of their lease." }
        (unattended(&overview.unattended))
        section {
            @if workers.is_empty() { p.empty { "No worker is running: `redrive worker` or `redrive up` starts one." } }
            @else { (table(&workers, now)) }
        }
        @for worker in &workers { (places(worker, workers.len() <= OPEN)) }
    };
    let page = DashboardPage::new(NavSection::Workers, "Workers", body);
    Ok(page.with_overview_version(overview.version).render(&app, &caller))
}

fn place_page(kind: &str, name: &str) -> String {
    let place = ActivityPlace::parse(&format!("{kind}:{name}"));
    place.map_or_else(|| "/".to_owned(), |place| place_address(&place))
}

/// A warning if units wait that no worker serves.
pub(super) fn unattended(places: &[UnattendedView]) -> Markup {
    html! {
        @if !places.is_empty() {
            div.next.warn role="status" {
                strong { "No worker serves what waits here:" }
                ul.plain { @for it in places {
                    li { a href=(place_page(it.kind, &it.name)) { (it.what) } }
                }  }
            }
        }
    }
}

fn table(workers: &[WorkerView], now: Timestamp) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { "Worker" } th { "State" } th { "Host" } th { "Version" } th { "Started" } th { "Heard from" }
                th.number { "In flight" } th.number { "Claimed ahead" }
            } }
            tbody { @for worker in workers { tr {
                td.text { a href=(format!("#{}", worker.worker)) { code { (worker.worker) } } }
                td { (pill(worker.state)) }
                td.text data-label="Host" { (worker.host) ", process " (worker.process) }
                td data-label="Version" { (worker.version) }
                td data-label="Started" { (when(worker.started_at, now)) }
                td data-label="Heard from" { (when(worker.heard_at, now)) }
                td.number data-label="In flight" { (number(worker.in_flight)) }
                td.number data-label="Claimed ahead" { (number(worker.claimed)) }
            } } }
        } }
    }
}

/// The workers of one place, with what each holds of it.
pub(super) fn serving_table(
    workers: &[WorkerView],
    place: &ActivityPlace,
    now: Timestamp,
) -> Markup {
    html! {
        div.scroll { table.cards {
            thead { tr {
                th { "Worker" } th { "State" } th { "Heard from" } th.number { "In flight" } th.number { "Slots" }
                th.number { "Claimed ahead" } th.number { "Restarts" }
            } }
            tbody { @for worker in workers {
                @let sum = |of: fn(&WorkerPlaceView) -> u64| serving(worker, place).map(of).sum::<u64>();
                tr {
                    td.text { a href=(format!("/workers#{}", worker.worker)) { (worker.host) ", process " (worker.process) } }
                    td { (pill(worker.state)) }
                    td data-label="Heard from" { (when(worker.heard_at, now)) }
                    td.number data-label="In flight" { (number(sum(|it| it.in_flight.into()))) }
                    td.number data-label="Slots" { (number(sum(|it| it.concurrency.into()))) }
                    td.number data-label="Claimed ahead" { (number(sum(|it| it.claimed.into()))) }
                    td.number data-label="Restarts" { (number(sum(|it| it.restarts))) }
                }
            } }
        } }
    }
}

/// What a worker serves, and holds of each place.
fn places(worker: &WorkerView, is_open: bool) -> Markup {
    html! {
        section id=(worker.worker) {
            h2 { (worker.host) ", process " (worker.process) }
            details open[is_open] { summary { (counted(worker.places.len() as u64, "place")) }
            div.scroll { table.cards {
                thead { tr {
                    th { "Serves" } th.number { "In flight" } th.number { "Slots" } th.number { "Claimed ahead" } th.number { "Restarts" }
                } }
                tbody { @for place in &worker.places { tr {
                    td.text { span.lead { (place.kind) " " } a href=(place_page(place.kind, &place.place)) { (place.place) } }
                    td.number data-label="In flight" { (number(place.in_flight.into())) }
                    td.number data-label="Slots" { (number(place.concurrency.into())) }
                    td.number data-label="Claimed ahead" { (number(place.claimed.into())) }
                    td.number data-label="Restarts" {
                        @if place.restarts > 0 { span.pill.retry title="Programs that were started again after a failure" { "↻ " (number(place.restarts)) } }
                        @else { "0" }
                    }
                } } }
            } } }
        }
    }
}
