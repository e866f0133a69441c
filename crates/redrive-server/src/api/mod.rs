//! The API under `/v1`: what the command line can see and do, for programs.
//!
//! Routes and document come from the same lines, so they cannot differ.

mod bulk;
mod dead_letters;
mod doctor;
mod items;
mod journal;
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

use axum::{Json, Router, extract::DefaultBodyLimit, routing::get};
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self, Content, Ref, RefOr, ResponseBuilder,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use bulk::Changes;
pub(crate) use dead_letters::{LetterAction, reprocess_letters};
pub(crate) use items::{ItemAction, reset_items};
pub(crate) use page::named;
pub(crate) use partition_actions::{PartitionActionRequest, change_partitions};
pub(crate) use partitions::{KeyParts, key_of};
pub(crate) use pipelines::{cancel_run, find_run, resume_run, start_run};
pub(crate) use queues::switch_queue;
pub(crate) use runs::{RunActionRequest, change_runs, status_names as run_status_names};
pub(crate) use uploads::{group_shown, send_group};

use crate::{app::App, problem::PROBLEM_JSON};

/// What a body may have that is no submission.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// What a submission may have.
const MAX_SUBMISSION_BYTES: usize = 32 * 1024 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Redrive",
        description = "Everything that the command line can see and do. Lists come in pages: `next` is \
                       what to give as `after` for the next one. Errors are those of RFC 9457."
    ),
    modifiers(&Bearer),
    security(("bearer" = [])),
)]
struct Document;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        document.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// Every operation has a name of its own and can be refused, and every refusal is a problem.
fn completed(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let problem = || Content::new(Some(Ref::from_schema_name("Problem")));
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put];
        for operation in operations.into_iter().flatten() {
            // Functions are called alike in different modules; the names of operations are known to clients.
            let tag = operation.tags.iter().flatten().next().map(|tag| tag.replace(' ', "_"));
            operation.operation_id = match (tag, operation.operation_id.take()) {
                (Some(tag), Some(name)) if tag != name => Some(format!("{tag}_{name}")),
                (_, name) => name,
            };
            let responses = &mut operation.responses.responses;
            for (status, response) in responses.iter_mut() {
                if let (RefOr::T(response), true) = (response, status.starts_with(['4', '5'])) {
                    response.content.clear();
                    response.content.insert(PROBLEM_JSON.to_owned(), problem().into());
                }
            }
            let refused = ResponseBuilder::new()
                .description("what was refused, and why")
                .content(PROBLEM_JSON, problem())
                .build();
            responses.insert("default".to_owned(), RefOr::T(refused));
        }
    }
    document
}

/// The routes, and the document that describes them.
fn documented() -> (Router<Arc<App>>, openapi::OpenApi) {
    let submissions = OpenApiRouter::new()
        .routes(routes!(submit::submit))
        .layer(DefaultBodyLimit::max(MAX_SUBMISSION_BYTES));
    let (routes, document) = OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(overview::show))
        .routes(routes!(runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::retry))
        .routes(routes!(runs::cancel))
        .routes(routes!(queues::list))
        .routes(routes!(queues::stats))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(partitions::list))
        .routes(routes!(partitions::show))
        .routes(routes!(partitions::history))
        .routes(routes!(partitions::gaps))
        .routes(routes!(partition_actions::change))
        .routes(routes!(partition_actions::backfill))
        .routes(routes!(readable::readable))
        .routes(routes!(readable::rows))
        .routes(routes!(items::list))
        .routes(routes!(items::show))
        .routes(routes!(items::reset))
        .routes(routes!(uploads::show_group))
        .routes(routes!(uploads::send))
        .routes(routes!(uploads::add))
        .routes(routes!(pipelines::list))
        .routes(routes!(pipelines::show))
        .routes(routes!(pipelines::stats))
        .routes(routes!(pipelines::output))
        .routes(routes!(pipelines::start))
        .routes(routes!(pipelines::resume))
        .routes(routes!(pipelines::cancel))
        .routes(routes!(dead_letters::list))
        .routes(routes!(dead_letters::causes))
        .routes(routes!(dead_letters::show))
        .routes(routes!(dead_letters::reprocess))
        .routes(routes!(journal::list))
        .routes(routes!(why::why))
        .routes(routes!(policies::list))
        .routes(routes!(policies::show))
        .routes(routes!(policies::schedule))
        .routes(routes!(doctor::doctor))
        .routes(routes!(doctor::verify))
        .routes(routes!(doctor::db))
        .routes(routes!(prune::prune))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .merge(submissions)
        .split_for_parts();
    (routes, completed(document))
}

/// The routes.
pub(crate) fn router() -> Router<Arc<App>> {
    let (router, document) = documented();
    let document = Arc::new(document);
    router.route("/openapi.json", get(move || async move { Json((*document).clone()) }))
}

/// The document that describes the API.
pub fn openapi() -> openapi::OpenApi {
    documented().1
}
