//! Generates the OpenAPI document from the handlers and compares it with the one that the server serves.

use redrive_ops::{
    ActionDeclaration, Changeable, OptionKind, Resource, TermText,
    views::{DeadCauseView, PartitionView, PipelineRunView, ReadableView, SampleView},
};
use redrive_store::{ItemRecord, Lane, MAX_PAGE, RunRecord, SelectionTerm};
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
    components(schemas(RunRecord, ItemRecord, PipelineRunView, PartitionView, SampleView, DeadCauseView, ReadableView)),
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

/// The paths and schemas of a resource, by its declaration.
struct ResourcePaths<'a> {
    path: &'a str,
    tag: &'a str,
    schema: &'a str,
    document: &'a mut Value,
}

impl ResourcePaths<'_> {
    fn list<R: Resource>(&mut self, more: &[Value]) -> &mut Self {
        let about = format!("Lists {} by id, or by key.", self.tag);
        let mut parameters = terms::<R>();
        parameters.extend(more.iter().cloned());
        parameters.push(parameter("limit", json!({ "type": "integer" }), "Rows of the page."));
        let after = json!({ "type": "string" });
        parameters.push(parameter("after", after, "The `next` of the previous page."));
        let page = format!("ListPage_{}", self.schema);
        self.document["components"]["schemas"][&page] = json!({
            "type": "object",
            "description": "A page of a list. Its size is bounded, so it may have fewer rows than `limit` and still \
                            not be the last.",
            "required": ["items"],
            "properties": {
                "items": { "type": "array", "items": reference(self.schema) },
                "next": {
                    "type": ["string", "null"],
                    "description": "The `after` of the next page; null on the last page.",
                },
            },
        });
        let operation = self.operation("list", &about, &page, &["400"]);
        self.add("", "get", operation, json!({ "parameters": parameters }));
        self
    }

    fn show(&mut self) -> &mut Self {
        let id = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "format": "int64" } });
        let about = format!("Returns one of the {}.", self.tag);
        let operation = self.operation("show", &about, self.schema, &["404"]);
        self.add("/{id}", "get", operation, json!({ "parameters": [id] }));
        self
    }

    fn actions<R: Changeable>(&mut self) {
        let mut shared = serde_json::Map::new();
        let id = json!({ "type": ["integer", "string"] });
        let ids = json!({ "type": "array", "items": id, "description": "Instead of filters." });
        shared.insert("ids".to_owned(), ids);
        for term in terms::<R>() {
            let mut schema = term["schema"].clone();
            schema["description"] = term["description"].clone();
            shared.insert(term["name"].as_str().unwrap().to_owned(), schema);
        }
        for (name, kind, about) in [
            ("all", "boolean", "Required without `ids` and filters: act on all."),
            ("dry_run", "boolean", "Only return the expected outcomes."),
            (
                "keep",
                "boolean",
                "Keep the plan of all that match as a draft, instead of applying it.",
            ),
            (
                "canary",
                "integer",
                "Units that the plan changes first; the others follow if these recover.",
            ),
            ("pace", "string", "Units in a second, minute, hour or day, such as `50/s`."),
            ("ramp", "string", "The time from slow to the full pace, such as `10m`."),
            (
                "abort_if",
                "string",
                "Abort the plan if this share of its units fails again, such as `20%`.",
            ),
            ("reason", "string", "The reason, for the journal."),
        ] {
            shared.insert(name.to_owned(), json!({ "type": kind, "description": about }));
        }
        for action in R::actions() {
            let body = self.body(action, shared.clone());
            let about = format!("{}.", action.about());
            let mut operation = self.operation(action.name, &about, "BulkOutcome", &["400", "422"]);
            let started = operation["responses"]["200"].clone();
            operation["responses"]["201"] = started.clone();
            operation["responses"]["202"] = started;
            let body = json!({ "content": { "application/json": { "schema": reference(&body) } }, "required": true });
            self.add(
                &format!("/{}", action.name),
                "post",
                operation,
                json!({ "requestBody": body }),
            );
        }
    }

    /// The schema of the body of an action. Those without options of their own share one.
    fn body<R: Changeable>(
        &mut self,
        action: &ActionDeclaration<R>,
        mut properties: serde_json::Map<String, Value>,
    ) -> String {
        let mut required = Vec::new();
        for option in action.options {
            let mut schema = match option.kind {
                OptionKind::Flag => json!({ "type": "boolean" }),
                OptionKind::Lane { default } => {
                    json!({ "type": "string", "enum": Lane::ALL.map(Lane::name), "default": default.name() })
                }
                OptionKind::Text => {
                    required.push(option.name);
                    json!({ "type": "string" })
                }
            };
            schema["description"] = format!("{}.", option.help).into();
            properties.insert(option.name.to_owned(), schema);
        }
        let name = match action.options {
            [] => format!("{}Action", self.schema),
            _ => format!("{}_{}", self.schema, action.name.replace('-', "_")),
        };
        self.document["components"]["schemas"][&name] = json!({
            "type": "object",
            "description": "Selects units by `ids`, by filters, or `all`.",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        name
    }

    fn operation(&self, name: &str, about: &str, body: &str, problems: &[&str]) -> Value {
        let problem = json!({ PROBLEM_JSON: { "schema": reference("ProblemDetails") } });
        let mut responses = serde_json::Map::new();
        let success = json!({ "application/json": { "schema": reference(body) } });
        responses.insert("200".to_owned(), json!({ "description": "", "content": success }));
        for status in problems {
            responses
                .insert((*status).to_owned(), json!({ "description": "", "content": problem }));
        }
        let default = json!({ "description": "an error", "content": problem });
        responses.insert("default".to_owned(), default);
        let id = format!("{}_{}", self.tag.replace(' ', "_"), name.replace('-', "_"));
        json!({ "tags": [self.tag], "summary": about, "operationId": id, "responses": responses })
    }

    fn add(&mut self, below: &str, method: &str, mut operation: Value, more: Value) {
        let path = format!("{}{below}", self.path);
        operation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.document["paths"][&path][method] = operation;
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn parameter(name: &str, schema: Value, about: &str) -> Value {
    json!({ "name": name, "in": "query", "required": false, "schema": schema, "description": about })
}

/// The terms of a resource as parameters of a query.
fn terms<R: Resource>() -> Vec<Value> {
    let term = |term: &SelectionTerm| {
        let schema = match term {
            SelectionTerm::Run => json!({ "type": "integer", "format": "int64" }),
            SelectionTerm::LogicalDate | SelectionTerm::Since | SelectionTerm::Until => {
                json!({ "type": "string", "format": "date" })
            }
            _ => json!({ "type": "string" }),
        };
        parameter(term.name(), schema, &format!("{}.", TermText::of(*term).help))
    };
    let mut terms: Vec<Value> = R::TERMS.iter().map(term).collect();
    let names: Vec<&str> = R::STATES.iter().map(|(name, _)| *name).collect();
    let state = json!({ "type": "string", "enum": names });
    terms.push(parameter("state", state, "Only this state."));
    terms
}

/// What only the declarations of resources say.
fn add_resources(document: &mut Value) {
    let mut of = |path, tag, schema, add: &dyn Fn(&mut ResourcePaths<'_>)| {
        add(&mut ResourcePaths { path, tag, schema, document });
    };
    let flag = json!({ "type": "boolean" });
    let data = parameter("data", flag.clone(), "Include payloads and results; default false.");
    let about = "Sort by the time of the last failure, the newest first, up to 1000; `failed_until` selects the next page.";
    let newest = parameter("newest", flag, about);
    of("/v1/runs", "runs", "Run", &|paths| {
        paths.list::<RunRecord>(std::slice::from_ref(&data)).show().actions::<RunRecord>();
    });
    of("/v1/items", "uploads", "Item", &|paths| {
        paths.list::<ItemRecord>(&[]).show().actions::<ItemRecord>();
    });
    of("/v1/pipeline-runs", "pipelines", "PipelineRunView", &|paths| {
        paths.list::<PipelineRunView>(&[]).show();
    });
    of("/v1/partitions", "partitions", "PartitionView", &|paths| {
        paths.list::<PartitionView>(&[]).actions::<PartitionView>();
    });
    of("/v1/dead-letters", "dead letters", "SampleWithReason", &|paths| {
        paths.list::<SampleView>(std::slice::from_ref(&newest)).actions::<SampleView>();
    });
    of("/v1/dead-letters/causes", "dead letters", "DeadCauseView", &|paths| {
        let mut parameters = terms::<SampleView>();
        parameters.push(parameter("limit", json!({ "type": "integer" }), "Rows."));
        let about = "Groups dead letters by cause, most frequent first.";
        let mut operation = paths.operation("causes", about, "DeadCauseView", &["400"]);
        let rows = json!({ "type": "array", "items": reference("DeadCauseView") });
        operation["responses"]["200"]["content"]["application/json"]["schema"] = rows;
        paths.add("", "get", operation, json!({ "parameters": parameters }));
    });
    of("/v1/readable", "partitions", "ReadableView", &|paths| {
        paths.list::<PartitionView>(&[]);
        let operation = &mut paths.document["paths"]["/v1/readable"]["get"];
        operation["operationId"] = "partitions_readable".into();
        operation["parameters"].as_array_mut().unwrap().retain(|it| it["name"] != "state");
    });
}

fn generate() -> Value {
    let mut document = Document::openapi();
    document.merge(Operations::openapi());
    let mut document = serde_json::to_value(complete(document)).unwrap();
    add_resources(&mut document);
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
    fn actions<R: Changeable>(path: &str) -> impl Iterator<Item = (&'static str, String)> {
        R::actions().map(move |action| ("post", format!("{path}/{}", action.name)))
    }
    let generic: Vec<(&str, String)> = [
        "/v1/runs",
        "/v1/runs/{id}",
        "/v1/items",
        "/v1/items/{id}",
        "/v1/pipeline-runs",
        "/v1/pipeline-runs/{id}",
        "/v1/partitions",
        "/v1/dead-letters",
        "/v1/dead-letters/causes",
        "/v1/readable",
    ]
    .map(|path| ("get", path.to_owned()))
    .into_iter()
    .chain(actions::<RunRecord>("/v1/runs"))
    .chain(actions::<ItemRecord>("/v1/items"))
    .chain(actions::<PartitionView>("/v1/partitions"))
    .chain(actions::<SampleView>("/v1/dead-letters"))
    .collect();
    let mut routes = ROUTES.to_vec();
    routes.extend(generic.iter().map(|(method, path)| (*method, path.as_str())));
    described.sort_unstable();
    routes.sort_unstable();
    assert_eq!(described, routes);
}
