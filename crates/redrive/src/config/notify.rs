//! `[[notify]]`: sends CloudEvents about give-ups, aborts and dead letters to a URL.

use http::{
    Method,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
};
use redrive_core::Preset;
use redrive_engine::{BodyTemplate, HeaderSource, HttpSpec, Notifier};
use redrive_store::MAX_NAME_BYTES;
use serde_json::json;

use super::{
    HandlerConfig, HttpConfig, LimitsConfig, Policies, QueueConfig,
    http::{headers, http_url},
    log::UniqueNames,
    reader::{Section, Value},
    value::{flag, list, text, unique_name, whole, word},
};

/// Default number of dead letters per event.
const DEFAULT_EVERY: u64 = 100;

/// The content type of CloudEvents in structured mode.
const CLOUD_EVENT: &str = "application/cloudevents+json";

/// Default `source` of the events.
const DEFAULT_SOURCE: &str = "/redrive";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotifyEvent {
    /// A run, partition or item was given up.
    Giveup,
    /// A pipeline run was aborted.
    Abort,
    /// The number of dead letters of a pipeline run passed a multiple of `dead-letters.every`.
    DeadLetters,
    /// A cause that was marked as fixed came back.
    CauseReturn,
    /// A gate closed or opened.
    Gate,
}

const EVENTS: [(&str, NotifyEvent); 5] = [
    ("giveup", NotifyEvent::Giveup),
    ("abort", NotifyEvent::Abort),
    ("dead-letters", NotifyEvent::DeadLetters),
    ("cause-return", NotifyEvent::CauseReturn),
    ("gate", NotifyEvent::Gate),
];

#[derive(Debug, Clone, PartialEq)]
pub struct NotifierConfig {
    pub name: String,
    /// The `source` attribute of the CloudEvents.
    pub source: String,
    pub events: Vec<NotifyEvent>,
    /// An event is sent each time this many more samples became dead letters.
    pub dead_letters_every: u64,
    /// The queue of the events; its handler is the request that delivers them.
    pub queue: QueueConfig,
}

impl NotifyEvent {
    pub fn name(self) -> &'static str {
        EVENTS.iter().find(|(_, event)| *event == self).map_or("", |(name, _)| name)
    }
}

impl NotifierConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let name = s.require("name", |value| {
            let name = unique_name("notifiers", names)(value.clone())?;
            if Notifier::queue_name(&name).len() > MAX_NAME_BYTES {
                return value.refuse("is too long", "the name becomes part of a queue name");
            }
            Some(name)
        });
        let url = s.require("url", http_url);
        let given = s.get("headers", event_headers);
        let private_addresses = s.get("private-addresses", flag);
        let source = s.get("source", source).unwrap_or_else(|| DEFAULT_SOURCE.to_owned());
        let events = s.get("events", list(word(&EVENTS)));
        let events = events.unwrap_or_else(|| EVENTS.map(|(_, event)| event).to_vec());
        let every = s.get("dead-letters", |value| {
            if !events.contains(&NotifyEvent::DeadLetters) {
                return value.refuse("does not belong here", "`events` does not name dead-letters");
            }
            value.table(|s| s.require("every", whole(1..=u64::MAX)))
        });
        let policy = policies.choice(s, Preset::Run, &[]);
        let limits = LimitsConfig::read(s);
        let mut request = HttpSpec::new(Method::POST, url?);
        request.headers = given.unwrap_or_default();
        let kind = HeaderSource::Literal(HeaderValue::from_static(CLOUD_EVENT));
        request.headers.push((CONTENT_TYPE, kind));
        request.private_addresses = private_addresses.unwrap_or(request.private_addresses);
        request.body = BodyTemplate::new(json!({ "$": "/payload" })).ok();
        let name = name?;
        let queue = QueueConfig {
            name: Notifier::queue_name(&name),
            handler: HandlerConfig::Http(Box::new(HttpConfig {
                request,
                into: None,
                paging: None,
                codes: Vec::new(),
            })),
            policy: policy?,
            categories: None,
            limits,
            gates: Vec::new(),
        };
        let dead_letters_every = every.unwrap_or(DEFAULT_EVERY);
        Some(Self { name, source, events, dead_letters_every, queue })
    }
}

/// Headers by name. The content type is fixed.
fn event_headers(value: Value<'_>) -> Option<Vec<(HeaderName, HeaderSource)>> {
    let given = headers(value.clone())?;
    if given.iter().any(|(name, _)| name == CONTENT_TYPE) {
        return value
            .refuse("must not set content-type", format!("events have the type {CLOUD_EVENT}"));
    }
    Some(given)
}

/// A URI reference, as CloudEvents requires.
fn source(value: Value<'_>) -> Option<String> {
    let written = text(value.clone())?;
    if written.is_empty() || written.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let allowed = "write a URI or a path, such as urn:example:shop or /shop";
        return value.refuse("is not an event source", allowed);
    }
    Some(written)
}
