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
    let problem = || Content::new(Some(Ref::from_schema_name("ProblemDetails")));
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

/// A run to submit.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "it describes what `read_run` reads")]
pub(super) struct NewRunBody {
    /// The queue.
    queue: String,
    /// A category, for queues that take some and not others.
    category: Option<String>,
    /// What the handler gets: any JSON.
    payload: Option<Value>,
    /// Its place in the queue: older ones go first. Now, unless given.
    submitted_at: Option<String>,
    /// Not to be started before.
    not_before: Option<String>,
    /// Submits once, however often this is said.
    idempotency_key: Option<String>,
}

/// One run, or up to a thousand.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes what the body may be")]
pub(super) enum RunSubmission {
    /// One.
    One(NewRunBody),
    /// Many. A bad one does not stop the rest.
    Many(Vec<NewRunBody>),
}

fn generate() -> Value {
    let mut document = Document::openapi();
    document.merge(Operations::openapi());
    serde_json::to_value(completed(document)).unwrap()
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
