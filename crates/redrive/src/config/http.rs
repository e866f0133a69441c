//! `{ http = { … } }`: sends a request for each unit.

use std::collections::HashSet;

use http::{HeaderName, HeaderValue, Method, Uri};
use redrive_core::Class;
use redrive_engine::{
    BodyTemplate, HeaderSource, HttpSpec, InvalidTemplate, JsonPointer, Paging, ServiceConventions,
};
use serde_json::Value as Json;
use toml::de::DeValue;

use super::{
    handler::{HandlerRole, env_name},
    reader::{Section, Value},
    value::{flag, parsed, shorten, text, word},
};

/// Headers that carry secrets. Their values must come from the environment.
const SECRET_HEADERS: [&str; 8] = [
    "api-key",
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
    "x-goog-api-key",
];

/// Headers that the HTTP client sets from the body and the connection.
const FRAMING_HEADERS: [&str; 7] =
    ["connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"];

#[derive(Debug, Clone, PartialEq)]
pub struct HttpConfig {
    /// The request; its default method is POST.
    pub request: HttpSpec,
    /// The place in the sample that receives the reply; only for stages.
    pub into: Option<JsonPointer>,
    /// Where an extraction finds its rows: `Some` for every extraction, `None` otherwise.
    pub paging: Option<Paging>,
    /// Names that the service states as codes of its failures.
    pub codes: Vec<String>,
}

const CLASSES: [(&str, Class); 3] = [
    ("final", Class::Final),
    ("retryable", Class::Retryable),
    ("rate_limited", Class::RateLimited { retry_after: None }),
];

const METHODS: [(&str, Method); 5] = [
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("GET", Method::GET),
    ("DELETE", Method::DELETE),
];

impl HttpConfig {
    pub(super) fn read(s: &mut Section<'_>, role: HandlerRole) -> Option<Self> {
        let method = s.get("method", word(&METHODS)).unwrap_or(Method::POST);
        let url = s.require("url", http_url);
        let headers = s.get("headers", headers);
        let query = s.get("query", |value| value.named(query));
        let body = s.get("body", |value| match method {
            Method::GET | Method::DELETE => {
                value.refuse("does not belong here", format!("a {method} request has no body"))
            }
            _ => body(value),
        });
        let reply = s.get("reply", |value| match role {
            HandlerRole::Extraction => {
                value.refuse("does not belong here", "`rows` says where the rows are")
            }
            HandlerRole::Sample | HandlerRole::Other => parsed(value),
        });
        let private_addresses = s.get("private-addresses", flag);
        let conventions = conventions(s);
        let into = s.get("into", |value| match role {
            HandlerRole::Sample => parsed(value),
            HandlerRole::Extraction | HandlerRole::Other => {
                value.refuse("does not belong here", "only a stage of a pipeline has a sample")
            }
        });
        let paging = match role {
            HandlerRole::Extraction => {
                let (rows, next) = (s.require("rows", parsed), s.get("next", parsed));
                Some(Paging { rows: rows?, next })
            }
            HandlerRole::Sample | HandlerRole::Other => {
                for key in ["rows", "next"] {
                    s.get(key, |value| {
                        value.refuse::<()>("does not belong here", "only an extractor has rows")
                    });
                }
                None
            }
        };
        let mut request = HttpSpec::new(method, url?);
        request.headers = headers.unwrap_or_default();
        request.query = query.unwrap_or_default();
        request.body = body;
        request.reply = reply;
        request.conventions = conventions;
        request.private_addresses = private_addresses.unwrap_or(request.private_addresses);
        Some(Self { request, into, paging, codes: Vec::new() })
    }
}

/// What the service means by its failed responses: `classes` and `error-code`.
pub(super) fn conventions(s: &mut Section<'_>) -> ServiceConventions {
    let classes = s.get("classes", |value| value.named(class_of_status));
    let error_code = s.get("error-code", parsed);
    ServiceConventions { classes: classes.unwrap_or_default(), error_code }
}

fn class_of_status(status: &str, value: Value<'_>) -> Option<(u16, Class)> {
    match status.parse() {
        Ok(status @ 300..=599) => Some((status, word(&CLASSES)(value)?)),
        _ => value.refuse(
            format!("{:?} is not the status of a failure", shorten(status)),
            "write statuses from 300 to 599, such as 409 = \"retryable\"",
        ),
    }
}

/// An http or https URL. Redrive does not follow redirects.
pub(super) fn http_url(value: Value<'_>) -> Option<Uri> {
    const SHAPE: &str = "write http://HOST/PATH or https://HOST/PATH";
    let written = text(value.clone())?;
    if written.split('/').nth(2).is_some_and(|host| host.contains('@')) {
        return value.refuse_secret(
            "a URL must not carry a user name or a password",
            "remove the part before the @",
            "give secrets as headers: authorization = { env = \"NAME\" }",
        );
    }
    let refuse =
        |allowed: &str| value.refuse(format!("{:?} is not a URL", shorten(&written)), allowed);
    let Ok(url) = written.parse::<Uri>() else {
        return refuse(SHAPE);
    };
    let (Some("http" | "https"), Some(authority)) = (url.scheme_str(), url.authority()) else {
        return refuse(SHAPE);
    };
    let port = authority.as_str().strip_prefix(authority.host());
    let port_is_right = port == Some("") || authority.port_u16().is_some_and(|port| port > 0);
    if authority.host().is_empty() || !port_is_right {
        return refuse("the host is missing, or the port is not from 1 to 65535");
    }
    if written.contains('#') {
        return refuse("the fragment after # is never sent; remove it");
    }
    Some(url)
}

pub(super) fn headers(value: Value<'_>) -> Option<Vec<(HeaderName, HeaderSource)>> {
    let mut seen = HashSet::new();
    value.named(|name, value| header(name, value, &mut seen))
}

fn header(
    name: &str,
    value: Value<'_>,
    seen: &mut HashSet<HeaderName>,
) -> Option<(HeaderName, HeaderSource)> {
    let Ok(name) = name.parse::<HeaderName>() else {
        return value.refuse("is not a header name", "letters, digits and -");
    };
    if FRAMING_HEADERS.contains(&name.as_str()) {
        return value.refuse("cannot be set", "the HTTP client sets this header");
    }
    if !seen.insert(name.clone()) {
        return value.refuse("is given twice", "header names ignore case; remove one");
    }
    if let DeValue::Table(_) = value.node {
        let (variable, prefix) = value.table(|s| {
            let prefix = s.get("prefix", prefix);
            Some((s.require("env", env_name)?, prefix.unwrap_or_default()))
        })?;
        return Some((name, HeaderSource::Env { variable, prefix }));
    }
    if SECRET_HEADERS.contains(&name.as_str()) {
        return value.refuse_secret(
            "a secret must not be in the file",
            "take it from the environment",
            format!(
                "write {name} = {{ env = \"NAME\" }}, with prefix = \"Bearer \" if it needs one"
            ),
        );
    }
    let literal = parsed_header(value)?;
    Some((name, HeaderSource::Literal(literal)))
}

/// Text before a secret, such as `Bearer `.
fn prefix(value: Value<'_>) -> Option<String> {
    parsed_header(value.clone())?;
    text(value)
}

fn parsed_header(value: Value<'_>) -> Option<HeaderValue> {
    let written = text(value.clone())?;
    let header = HeaderValue::from_str(&written).ok();
    header.or_else(|| value.refuse("is not a header value", "printable characters only"))
}

/// A query parameter: a literal, or a JSON pointer into the call.
fn query(name: &str, value: Value<'_>) -> Option<(String, BodyTemplate)> {
    let template = match to_json(value.node) {
        Some(json @ (Json::String(_) | Json::Number(_) | Json::Bool(_))) => BodyTemplate::new(json),
        Some(json @ Json::Object(_)) if json.get("$").is_some() => BodyTemplate::new(json),
        _ => Err(InvalidTemplate(name.to_owned())),
    };
    match template {
        Ok(template) => Some((name.to_owned(), template)),
        Err(_) => value.refuse(
            "is not a query parameter",
            "write text, a number, or {\"$\": \"/a/b\"}, a JSON pointer into the call",
        ),
    }
}

/// A body as a TOML table, or as text that contains JSON.
fn body(value: Value<'_>) -> Option<BodyTemplate> {
    let json = match value.node {
        DeValue::String(written) => match serde_json::from_str(written) {
            Ok(json) => json,
            Err(error) => {
                return value.refuse(format!("is not JSON: {error}"), "write a table, or JSON");
            }
        },
        node => match to_json(node) {
            Some(json) => json,
            None => {
                return value
                    .refuse("has a number that JSON cannot represent", "use finite numbers");
            }
        },
    };
    match BodyTemplate::new(json) {
        Ok(template) => Some(template),
        Err(InvalidTemplate(wrong)) => value.refuse(
            format!("{wrong} does not select a value of the call"),
            "write {\"$\": \"/a/b\"}, a JSON pointer",
        ),
    }
}

fn to_json(node: &DeValue<'_>) -> Option<Json> {
    match node {
        DeValue::String(text) => Some(Json::from(text.as_ref())),
        DeValue::Boolean(flag) => Some(Json::from(*flag)),
        DeValue::Datetime(time) => Some(Json::from(time.to_string())),
        DeValue::Integer(whole) => {
            i64::from_str_radix(whole.as_str(), whole.radix()).ok().map(Json::from)
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse().ok()?;
            serde_json::Number::from_f64(number).map(Json::Number)
        }
        DeValue::Array(list) => list.iter().map(|item| to_json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let entries = table.iter();
            entries
                .map(|(key, value)| Some((key.get_ref().to_string(), to_json(value.get_ref())?)))
                .collect()
        }
    }
}
