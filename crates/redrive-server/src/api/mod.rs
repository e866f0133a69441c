//! The API under `/v1`: the reads and actions of the command line, for programs.
//!
//! The table of [`routes!`] makes the router. Tests make the OpenAPI document from the same table and compare it with
//! `assets/openapi.json`, which is what the server serves: a build of the server needs no generator.

mod activity;
mod backfill;
mod bulk;
mod causes;
mod dead_letters;
mod doctor;
mod gates;
mod journal;
mod logs;
#[cfg(test)]
mod openapi;
mod overview;
mod page;
mod partitions;
mod pipelines;
mod plans;
mod policies;
mod prune;
mod queues;
mod readable;
mod resource;
mod runs;
mod submit;
mod uploads;
mod why;
mod workers;

use std::sync::Arc;

use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::header,
    routing::{get, post, put},
};

pub(crate) use activity::ActivityQuery;
pub(crate) use bulk::{BulkOutcome, data_token};
pub(crate) use causes::{
    CauseListQuery, CauseNote, change_cause, find as find_cause, read as read_causes,
};
pub(crate) use dead_letters::{NO_DATA, edit_sample};
pub(crate) use gates::{CloseGateRequest, OpenGateRequest, close_gate, open_gate};
pub(crate) use partitions::{KeyParts, key_of};
pub(crate) use pipelines::{cancel_run, find_run, resume_run, start_run};
pub(crate) use plans::{
    PlanApplyRequest, find as find_plan, order as order_plan, outcome as plan_outcome,
};
pub(crate) use queues::change_queue;
pub(crate) use resource::change;
pub(crate) use runs::edit_run;
pub(crate) use uploads::{SendRequest, group_view, item_view, replace_item, send_group};

use redrive_ops::views::{PartitionView, PipelineRunView, SampleView};
use redrive_store::{ItemRecord, RunRecord};
use resource::{changeable, listed_and_shown};

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
    get "/v1/activity" => activity::show;
    get "/v1/workers" => workers::list;
    get "/v1/causes" => causes::list;
    get "/v1/causes/{fingerprint}" => causes::show;
    post "/v1/causes/{fingerprint}" => causes::change;
    post "/v1/runs" => submit::submit [MAX_SUBMISSION_BYTES];
    post "/v1/runs/{id}/edit" => runs::edit;
    get "/v1/queues" => queues::list;
    get "/v1/queues/stats" => queues::stats;
    post "/v1/queues/{queue}/pause" => queues::pause;
    post "/v1/queues/{queue}/resume" => queues::resume;
    get "/v1/gates" => gates::list;
    get "/v1/gates/{gate}" => gates::show;
    post "/v1/gates/{gate}/close" => gates::close;
    post "/v1/gates/{gate}/open" => gates::open;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}" => partitions::show;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/history" => partitions::history;
    get "/v1/gaps" => partitions::gaps;
    post "/v1/partitions/backfill" => backfill::backfill;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/rows" => readable::rows;
    get "/v1/uploads/{upload}/groups/{group}" => uploads::show_group;
    post "/v1/uploads/{upload}/groups/{group}/send" => uploads::send;
    put "/v1/uploads/{upload}/groups/{group}/items/{name}" => uploads::add;
    get "/v1/pipeline-runs/{id}/stats" => pipelines::stats;
    get "/v1/pipeline-runs/{id}/output" => pipelines::output;
    post "/v1/pipelines/{pipeline}/runs" => pipelines::start;
    post "/v1/pipeline-runs/{id}/resume" => pipelines::resume;
    post "/v1/pipeline-runs/{id}/cancel" => pipelines::cancel;
    get "/v1/samples/{id}" => dead_letters::show;
    post "/v1/samples/{id}/edit" => dead_letters::edit;
    get "/v1/plans" => plans::list;
    post "/v1/plans" => plans::new;
    get "/v1/plans/{id}" => plans::show;
    get "/v1/plans/{id}/units" => plans::units;
    post "/v1/plans/{id}/apply" => plans::apply;
    post "/v1/plans/{id}/pause" => plans::pause;
    post "/v1/plans/{id}/resume" => plans::resume;
    post "/v1/plans/{id}/abort" => plans::abort;
    post "/v1/plans/{id}/undo" => plans::undo;
    get "/v1/runs/{id}/attempts/{attempt}/log" => logs::of_run;
    get "/v1/partitions/{source}/{customer_id}/{query_name}/{logical_date}/attempts/{attempt}/log" => logs::of_partition;
    get "/v1/samples/{id}/stages/{stage}/attempts/{attempt}/log" => logs::of_sample;
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

/// The lists, units and actions of every resource.
fn resources() -> Router<Arc<App>> {
    listed_and_shown::<RunRecord>("/v1/runs")
        .merge(changeable::<RunRecord>("/v1/runs"))
        .merge(listed_and_shown::<ItemRecord>("/v1/items"))
        .merge(changeable::<ItemRecord>("/v1/items"))
        .merge(listed_and_shown::<PipelineRunView>("/v1/pipeline-runs"))
        .route("/v1/partitions", get(resource::list::<PartitionView>))
        .merge(changeable::<PartitionView>("/v1/partitions"))
        .route("/v1/readable", get(self::readable::readable))
        .route("/v1/dead-letters", get(dead_letters::list))
        .route("/v1/dead-letters/causes", get(dead_letters::causes))
        .merge(changeable::<SampleView>("/v1/dead-letters"))
}

pub(crate) fn router() -> Router<Arc<App>> {
    let document = || async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) };
    routes()
        .merge(resources())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .route("/openapi.json", get(document))
}
