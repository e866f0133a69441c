//! The declared notifiers as rows.

use redrive::config::{HandlerConfig, NotifierConfig, NotifyEvent};
use redrive_ops::views::PolicyView;
use serde::Serialize;

use super::shared_fields::{LimitFields, view};
use crate::output::{TableColumn, TableRow};

#[derive(Debug, Serialize)]
pub(crate) struct NotifierRow<'a> {
    name: &'a str,
    url: String,
    headers: Vec<&'a str>,
    source: &'a str,
    events: Vec<&'static str>,
    dead_letters_every: Option<u64>,
    queue: &'a str,
    policy: PolicyView,
    #[serde(flatten)]
    limits: LimitFields,
    #[serde(skip)]
    notify: &'a NotifierConfig,
}

impl<'a> NotifierRow<'a> {
    pub(crate) fn new(notify: &'a NotifierConfig) -> Self {
        let queue = &notify.queue;
        let (url, headers) = match &queue.handler {
            HandlerConfig::Http(http) => {
                let names = http.request.headers.iter().map(|(name, _)| name.as_str());
                (http.request.url.to_string(), names.collect())
            }
            HandlerConfig::Exec(_) | HandlerConfig::Stream(_) => Default::default(),
        };
        let counts = notify.events.contains(&NotifyEvent::DeadLetters);
        Self {
            name: &notify.name,
            url,
            headers,
            source: &notify.source,
            events: notify.events.iter().map(|event| event.name()).collect(),
            dead_letters_every: counts.then_some(notify.dead_letters_every),
            queue: &queue.name,
            policy: view("notifier", &notify.name, &queue.policy),
            limits: queue.limits.into(),
            notify,
        }
    }
}

impl TableRow for NotifierRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("name"),
        TableColumn::text("url"),
        TableColumn::text("events"),
        TableColumn::text("queue"),
        TableColumn::text("policy"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.to_owned(),
            self.url.clone(),
            self.events.join(", "),
            self.queue.to_owned(),
            self.notify.queue.policy.title().to_owned(),
        ]
    }
}
