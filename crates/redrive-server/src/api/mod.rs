//! The API under `/v1`: the reads and actions of the command line, for programs.
//!
//! The table of [`routes!`] makes the router. Tests make the OpenAPI document from the same table and compare it with
//! `assets/openapi.json`, which is what the server serves: a build of the server needs no generator.

mod bulk;
mod dead_letters;
mod doctor;
mod items;
mod journal;
#[cfg(test)]
mod openapi;
mod overview;
mod page;
mod partition_actions;
mod partitions;
mod pipelines;
mod policies;
mod prune;
mod queues;
mod readable;
mod runs;
mod submit;
mod uploads;
mod why;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::header,
    routing::{get, post, put},
};

pub(crate) use bulk::BulkOutcome;
pub(crate) use dead_letters::{DeadLetterActionRequest, edit_sample, reprocess_dead_letters};
pub(crate) use items::{ItemActionRequest, change_items};
pub(crate) use page::named;
pub(crate) use partition_actions::{PartitionActionRequest, change_partitions};
pub(crate) use partitions::{KeyParts, key_of};
pub(crate) use pipelines::{cancel_run, find_run, resume_run, start_run};
pub(crate) use queues::change_queue;
pub(crate) use runs::{RunActionRequest, change_runs, edit_run, status_names as run_status_names};
pub(crate) use uploads::{group_view, send_group};

use crate::app::App;

/// The longest body of a request that submits no runs.
const MAX_BODY_BYTES: usize = 256 * 1024;

const MAX_SUBMISSION_BYTES: usize = 32 * 1024 * 1024;

const OPENAPI: &str = include_str!("../../assets/openapi.json");

macro_rules! routes {
    ($($method:ident $path:literal => $module:ident::$handler:ident $([$max_bytes:ident])?;)*) => {
        fn routes() -> Router<Arc<App>> {
            Router::new()$(
                .route($path, $method($module::$handler)$(.layer(DefaultBodyLimit::max($max_bytes)))?)
            )*
        }

        #[cfg(test)]
        const ROUTES: &[(&str, &str)] = &[$((stringify!($method), $path)),*];

        #[cfg(test)]
        #[derive(utoipa::OpenApi)]
        #[openapi(paths($($module::$handler),*))]
        struct Operations;
    };
}

routes! {
    get "/v1/overview" => overview::show;
    get "/v1/runs" => runs::list;
    post "/v1/runs" => submit::submit [MAX_SUBMISSION_BYTES];
    get "/v1/runs/{id}" => runs::show;
    post "/v1/runs/{id}/edit" => runs::edit;
    post "/v1/runs/retry" => runs::retry;
    post "/v1/runs/cancel" => runs::cancel;
    get "/v1/queues" => queues::list;
    get "/v1/queues/stats" => queues::stats;
    post "/v1/queues/{queue}/pause" => queues::pause;
    post "/v1/queues/{queue}/resume" => queues::resume;
    get "/v1/partitions" => partitions::list;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}" => partitions::show;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history" => partitions::history;
    get "/v1/gaps" => partitions::gaps;
    post "/v1/partitions/{action}" => partition_actions::change;
    post "/v1/partitions/backfill" => partition_actions::backfill;
    get "/v1/readable" => readable::readable;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/rows" => readable::rows;
    get "/v1/items" => items::list;
    get "/v1/items/{id}" => items::show;
    post "/v1/items/reset" => items::reset;
    post "/v1/items/drop" => items::drop;
    post "/v1/items/trust" => items::trust;
    post "/v1/items/refuse" => items::refuse;
    get "/v1/uploads/{upload}/groups/{group}" => uploads::show_group;
    post "/v1/uploads/{upload}/groups/{group}/send" => uploads::send;
    put "/v1/uploads/{upload}/groups/{group}/items/{name}" => uploads::add;
    get "/v1/pipeline-runs" => pipelines::list;
    get "/v1/pipeline-runs/{id}" => pipelines::show;
    get "/v1/pipeline-runs/{id}/stats" => pipelines::stats;
    get "/v1/pipeline-runs/{id}/output" => pipelines::output;
    post "/v1/pipelines/{pipeline}/runs" => pipelines::start;
    post "/v1/pipeline-runs/{id}/resume" => pipelines::resume;
    post "/v1/pipeline-runs/{id}/cancel" => pipelines::cancel;
    get "/v1/dead-letters" => dead_letters::list;
    get "/v1/dead-letters/causes" => dead_letters::causes;
    get "/v1/samples/{id}" => dead_letters::show;
    post "/v1/samples/{id}/edit" => dead_letters::edit;
    post "/v1/dead-letters/reprocess" => dead_letters::reprocess;
    get "/v1/journal" => journal::list;
    get "/v1/why" => why::why;
    get "/v1/policies" => policies::list;
    get "/v1/policies/{policy}" => policies::show;
    get "/v1/schedule" => policies::schedule;
    get "/v1/doctor" => doctor::doctor;
    get "/v1/verify" => doctor::verify;
    get "/v1/db" => doctor::db;
    post "/v1/prune" => prune::prune;
}

pub(crate) fn router() -> Router<Arc<App>> {
    let document = || async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) };
    routes().layer(DefaultBodyLimit::max(MAX_BODY_BYTES)).route("/openapi.json", get(document))
}
