//! Generates the OpenAPI document from the handlers and compares it with the one that the server serves.

use serde::Deserialize;
use serde_json::Value;
use utoipa::{
    Modify, OpenApi, ToSchema,
    openapi::{
        self, Content, Ref, RefOr, ResponseBuilder,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::{OPENAPI, Operations, ROUTES};
use crate::problem::PROBLEM_JSON;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Redrive",
        description = "The reads and actions of the command line. Lists are paged: `next` is the `after` of the \
                       next page. Errors are RFC 9457 problem details."
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

/// Makes operation ids unique, and gives every operation a default problem response.
fn complete(mut document: openapi::OpenApi) -> openapi::OpenApi {
    let problem = || Content::new(Some(Ref::from_schema_name("ProblemDetails")));
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put];
        for operation in operations.into_iter().flatten() {
            // Handlers of different modules share names; clients depend on unique operation ids.
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
            let default = ResponseBuilder::new()
                .description("an error")
                .content(PROBLEM_JSON, problem())
                .build();
            responses.insert("default".to_owned(), RefOr::T(default));
        }
    }
    document
}

/// A run to submit.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "describes the input of `read_run`")]
pub(super) struct NewRunBody {
    queue: String,
    /// For queues that accept only some categories.
    category: Option<String>,
    /// Any JSON; the input of the handler.
    payload: Option<Value>,
    /// The order in the queue: older runs go first; default: now.
    submitted_at: Option<String>,
    /// The earliest start.
    not_before: Option<String>,
    /// A second submission with the same key is a duplicate.
    idempotency_key: Option<String>,
    /// Submit even if the configuration does not declare the queue; default: false.
    allow_unknown: Option<bool>,
}

/// One run, or an array of up to 1000.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the body")]
pub(super) enum RunSubmission {
    One(NewRunBody),
    /// An invalid run does not prevent the others.
    Many(Vec<NewRunBody>),
}

fn generate() -> Value {
    let mut document = Document::openapi();
    document.merge(Operations::openapi());
    serde_json::to_value(complete(document)).unwrap()
}

#[test]
fn the_served_document_describes_the_handlers() {
    let generated = generate();
    if std::env::var_os("REDRIVE_BLESS").is_some_and(|value| value == "1") {
        let text = serde_json::to_string_pretty(&generated).unwrap() + "\n";
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/openapi.json"), text).unwrap();
        return;
    }
    let served: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(
        served, generated,
        "the handlers have changed; rewrite the document: REDRIVE_BLESS=1 cargo test -p redrive-server --lib openapi"
    );
}

#[test]
fn every_route_is_described_and_every_description_has_its_route() {
    let document = generate();
    let paths = document["paths"].as_object().unwrap().iter();
    let mut described: Vec<(&str, &str)> = paths
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(|method| (method.as_str(), path.as_str()))
        })
        .collect();
    let mut routes = ROUTES.to_vec();
    described.sort_unstable();
    routes.sort_unstable();
    assert_eq!(described, routes);
}
