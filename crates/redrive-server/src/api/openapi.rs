//! Generates the OpenAPI document from the handlers and compares it with the one that the server serves.

use redrive_store::MAX_PAGE;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::{
    Modify, OpenApi, ToSchema,
    openapi::{
        self, Content, Ref, RefOr, ResponseBuilder,
        security::{Http, HttpAuthScheme, SecurityScheme},
    },
};

use super::{OPENAPI, Operations, ROUTES, page::DEFAULT_LIMIT};
use crate::{problem::PROBLEM_JSON, problem_kind::ProblemKind};

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

/// A single run that was submitted before, or the outcomes of an array.
#[derive(serde::Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the response")]
pub(super) enum SubmissionOutcome {
    Many(super::submit::SubmissionView),
    One(super::submit::SubmittedView),
}

fn generate() -> Value {
    let mut document = Document::openapi();
    document.merge(Operations::openapi());
    let mut document = serde_json::to_value(complete(document)).unwrap();
    for item in document["paths"].as_object_mut().unwrap().values_mut() {
        for operation in item.as_object_mut().unwrap().values_mut() {
            describe_operation(operation);
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object_mut().unwrap() {
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (property, schema) in properties.into_iter().flatten() {
            refer_to_items(name, property, schema);
            let description = schema["description"].as_str().map(str::to_owned);
            enumerate(schema, description.as_deref());
        }
    }
    let kinds: Vec<&str> = ProblemKind::ALL.iter().map(|kind| kind.urn()).collect();
    document["components"]["schemas"]["ProblemDetails"]["properties"]["type"]["enum"] =
        kinds.into();
    document
}

/// Every response has a description; parameters have bounds and values.
fn describe_operation(operation: &mut Value) {
    for (status, response) in operation["responses"].as_object_mut().unwrap() {
        if response["description"].as_str().is_none_or(str::is_empty) {
            response["description"] = describe_status(status).into();
        }
    }
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        if parameter["name"] == "limit" {
            parameter["schema"]["minimum"] = 1.into();
            parameter["schema"]["maximum"] = MAX_PAGE.into();
            parameter["schema"]["default"] = DEFAULT_LIMIT.into();
        }
        let description = parameter["description"].as_str().map(str::to_owned);
        enumerate(&mut parameter["schema"], description.as_deref());
    }
}

fn describe_status(status: &str) -> &'static str {
    match status {
        "200" => "success",
        "201" => "created",
        "202" => "started",
        "400" => "a parameter or the body is invalid",
        "404" => "there is no such unit",
        "408" => "the request did not arrive in time",
        "409" => "the state of the unit does not allow this, or has changed",
        "413" => "the body is too large",
        "415" => "the body has another content type",
        "422" => "nothing matches, or too much",
        "428" => "the token of a dry run is missing",
        "503" => "the store or the server is busy; try again",
        other => panic!("describe the response {other}"),
    }
}

/// A description that only lists lower-case names in backquotes, perhaps with a remark after them, is an enumeration.
fn enumerate(schema: &mut Value, description: Option<&str>) {
    let list = description.and_then(|text| text.strip_suffix('.')?.split("; ").next());
    let Some(list) = list else { return };
    let names: Vec<&str> = list.split(", ").flat_map(|part| part.split(" or ")).collect();
    let name = |part: &&str| {
        let name = part.strip_prefix('`')?.strip_suffix('`')?;
        let is_word = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'_' | b' ');
        name.bytes().all(is_word).then(|| name.to_owned())
    };
    let Some(names) = names.iter().map(name).collect::<Option<Vec<String>>>() else { return };
    if names.len() < 2 {
        return;
    }
    let is_nullable = schema["type"].is_array();
    let mut values: Vec<Value> = names.into_iter().map(Value::from).collect();
    values.extend(is_nullable.then_some(Value::Null));
    schema["enum"] = values.into();
}

/// Generic types inline their items, so that a client would have each type twice.
fn refer_to_items(name: &str, property: &str, schema: &mut Value) {
    if let ("items" | "changes", Some((_, item))) = (property, name.split_once('_')) {
        schema["items"] = json!({ "$ref": format!("#/components/schemas/{item}") });
    }
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
