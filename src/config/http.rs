//! `{ http = { … } }`: a request for each unit.

use http::{HeaderName, HeaderValue, Method, Uri};
use serde_json::Value as Json;
use toml::de::DeValue;

use super::{
    handler::{Work, env_name},
    reader::{Section, Value},
    value::{shorten, text, word},
};

/// Headers that carry secrets. Their values come from the environment, never from the file.
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

/// An HTTP endpoint that does the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The method; POST unless given.
    pub method: Method,
    /// Where the request goes.
    pub url: Uri,
    /// What it carries besides the body.
    pub headers: Vec<(HeaderName, HeaderSource)>,
    /// The body, in which `{"$": "/pointer"}` takes a value of the call; `None` is the whole call.
    pub body: Option<Json>,
    /// A JSON pointer to the part of the answer that is the reply.
    pub reply: Option<String>,
    /// A JSON pointer to where a sample gets the reply.
    pub into: Option<String>,
}

/// Where the value of a header comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderSource {
    /// The file.
    Literal(HeaderValue),
    /// An environment variable of this name.
    Env(String),
}

const METHODS: [(&str, Method); 5] = [
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("PATCH", Method::PATCH),
    ("GET", Method::GET),
    ("DELETE", Method::DELETE),
];

impl Http {
    pub(super) fn read(s: &mut Section<'_>, work: Work) -> Option<Self> {
        let method = s.get("method", word(&METHODS)).unwrap_or(Method::POST);
        let url = s.require("url", http_url);
        let headers = s.get("headers", |value| value.named(header));
        let body = s.get("body", |value| match method {
            Method::GET => value.refuse("does not belong here", "a GET request has no body"),
            _ => body(value),
        });
        let reply = s.get("reply", pointer);
        let into = s.get("into", |value| match work {
            Work::Sample => pointer(value),
            Work::Other => value.refuse("does not belong here", "only a stage has a sample"),
        });
        Some(Self { method, url: url?, headers: headers.unwrap_or_default(), body, reply, into })
    }
}

/// An address of the web. Redrive does not follow where it redirects.
pub(super) fn http_url(value: Value<'_>) -> Option<Uri> {
    const SHAPE: &str = "write http://HOST/PATH or https://HOST/PATH";
    let written = text(value.clone())?;
    if written.split('/').nth(2).is_some_and(|host| host.contains('@')) {
        return value.refuse_secret(
            "a URL must not carry a user name or a password",
            "leave out what stands before the @",
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
        return refuse("what follows a # is never sent; leave it out");
    }
    Some(url)
}

fn header(name: &str, value: Value<'_>) -> Option<(HeaderName, HeaderSource)> {
    let Ok(name) = name.parse::<HeaderName>() else {
        return value.refuse("not the name of a header", "letters, digits and -");
    };
    if let DeValue::Table(_) = value.node {
        let env = value.table(|s| s.require("env", env_name))?;
        return Some((name, HeaderSource::Env(env)));
    }
    if SECRET_HEADERS.contains(&name.as_str()) {
        return value.refuse_secret(
            "a secret must not stand in the file",
            "take it from the environment",
            format!("write {name} = {{ env = \"NAME\" }}"),
        );
    }
    let literal = parsed_header(value)?;
    Some((name, HeaderSource::Literal(literal)))
}

fn parsed_header(value: Value<'_>) -> Option<HeaderValue> {
    let written = text(value.clone())?;
    let header = HeaderValue::from_str(&written).ok();
    header.or_else(|| value.refuse("not the value of a header", "printable characters only"))
}

/// A body as TOML, or as text that holds JSON.
fn body(value: Value<'_>) -> Option<Json> {
    let json = match value.node {
        DeValue::String(written) => match serde_json::from_str(written) {
            Ok(json) => json,
            Err(error) => {
                return value.refuse(format!("not JSON: {error}"), "write a table, or JSON");
            }
        },
        node => match to_json(node) {
            Some(json) => json,
            None => return value.refuse("holds a number JSON cannot", "finite numbers only"),
        },
    };
    match wrong_pointer(&json) {
        None => Some(json),
        Some(wrong) => value.refuse(
            format!("{wrong} takes no value of the call"),
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

/// A `{"$": …}` that is not a pointer, if there is one.
fn wrong_pointer(json: &Json) -> Option<&Json> {
    match json {
        Json::Array(items) => items.iter().find_map(wrong_pointer),
        Json::Object(entries) => match entries.get("$") {
            Some(Json::String(path)) if entries.len() == 1 && is_pointer(path) => None,
            Some(_) => Some(json),
            None => entries.values().find_map(wrong_pointer),
        },
        _ => None,
    }
}

fn pointer(value: Value<'_>) -> Option<String> {
    let written = text(value.clone())?;
    if is_pointer(&written) {
        return Some(written);
    }
    value.refuse(
        format!("{:?} is not a JSON pointer", shorten(&written)),
        "write /key/0/key; ~1 stands for / and ~0 for ~",
    )
}

/// RFC 6901: empty for the whole, or `/` before every step; `~` only as `~0` and `~1`.
fn is_pointer(text: &str) -> bool {
    let begins_well = text.is_empty() || text.starts_with('/');
    begins_well && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}
