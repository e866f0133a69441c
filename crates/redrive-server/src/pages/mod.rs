//! The dashboard. Pages are rendered on the server and work without scripts; the script keeps them up to date.

mod activity;
mod causes;
mod charts;
mod dead_letters;
mod filter_bar;
mod gates;
mod journal;
mod layout;
mod list;
pub(crate) mod live;
mod login;
mod logs;
mod months;
mod notice;
mod overview;
mod partition;
mod partitions;
mod parts;
mod pipelines;
mod place;
mod place_parts;
mod plan_form;
mod plan_parts;
mod plans;
mod preview;
mod raw_rows;
mod resource;
mod runs;
mod selections;
mod timeline;
mod uploads;
mod workers;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};

pub(crate) use layout::{list_of, login_address, problem_page};
pub(crate) use notice::{NOTICE, Notice};
use redrive_ops::{
    Changeable,
    views::{PartitionView, PipelineRunView, SampleView},
};
use redrive_store::{ItemRecord, RunRecord};
use resource::Listed;

use crate::{app::App, problem::ProblemDetails};

const MAX_FORM_BYTES: usize = 64 * 1024;

type PageResult<T> = Result<T, ProblemDetails>;

/// The list of a resource, and its actions.
fn listed<R: Listed + Changeable>() -> Router<Arc<App>> {
    changed::<R>().route(R::PATH, get(list::list::<R>))
}

fn changed<R: Listed + Changeable>() -> Router<Arc<App>> {
    let path = R::PATH;
    Router::new()
        .route(&format!("{path}/preview"), get(preview::preview::<R>))
        .route(&format!("{path}/act/{{action}}"), post(preview::act::<R>))
}

pub(crate) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(overview::show))
        .route("/causes", get(causes::list))
        .route("/causes/{fingerprint}", get(causes::show).post(causes::change))
        .merge(listed::<RunRecord>())
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/edit", post(runs::edit))
        .route("/queues/{name}", get(place::queue).post(runs::act_on_queue))
        .route("/sources/{name}", get(place::source))
        .route("/partitions", get(partitions::list))
        .merge(changed::<PartitionView>())
        .route(
            "/partitions/{source}/{customer_id}/{query_name}/{logical_date}",
            get(partition::show),
        )
        .route(
            "/partitions/{source}/{customer_id}/{query_name}/{logical_date}/rows",
            get(raw_rows::show),
        )
        .merge(listed::<ItemRecord>())
        .route("/uploads/send", post(uploads::send))
        .route("/uploads/{id}", get(uploads::show))
        .route("/uploads/{id}/replace", post(uploads::replace))
        .route("/pipelines", get(list::list::<PipelineRunView>))
        .route("/pipelines/start", post(pipelines::start))
        .route("/pipelines/{id}", get(pipelines::show))
        .route("/pipelines/{id}/{action}", post(pipelines::act))
        .merge(listed::<SampleView>())
        .route("/dead-letters/{id}", get(dead_letters::show))
        .route("/dead-letters/{id}/edit", post(dead_letters::edit))
        .route("/plans", get(plans::list))
        .route("/plans/{id}", get(plans::show))
        .route("/plans/{id}/units", get(plans::units))
        .route("/plans/{id}/{action}", post(plans::act))
        .route("/gates", get(gates::list))
        .route("/gates/{action}", post(gates::act))
        .route("/workers", get(workers::list))
        .route("/journal", get(journal::list))
        .route("/events", get(live::events))
        .route("/login", get(login::show).post(login::sign_in))
        .route("/logout", post(login::sign_out))
        .route("/assets/style.css", get(|| asset("text/css; charset=utf-8", STYLE)))
        .route("/assets/live.js", get(|| asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/assets/keys.js", get(|| asset("text/javascript; charset=utf-8", KEYS_SCRIPT)))
        .route("/assets/events.js", get(|| asset("text/javascript; charset=utf-8", EVENTS_SCRIPT)))
        .route("/assets/icon.svg", get(|| asset("image/svg+xml", ICON)))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
}

const STYLE: &str = include_str!("../../assets/style.css");
const SCRIPT: &str = include_str!("../../assets/live.js");
const KEYS_SCRIPT: &str = include_str!("../../assets/keys.js");
const EVENTS_SCRIPT: &str = include_str!("../../assets/events.js");
const ICON: &str = include_str!("../../assets/icon.svg");

async fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("max-age=300")),
    ];
    (headers, text).into_response()
}
