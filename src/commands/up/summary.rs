//! What `redrive up` prints after the start: lines on a terminal, or one log line.

use std::{
    io::{self, IsTerminal},
    net::SocketAddr,
};

use redrive::HumanDuration;
use redrive_store::WorkerId;

use crate::{
    context::{ChosenStore, Context},
    worker_set::WorkerNames,
};

pub(super) struct StartupSummary<'a> {
    pub(super) config: String,
    pub(super) store: &'a ChosenStore,
    pub(super) raw: String,
    pub(super) names: WorkerNames,
    pub(super) interval: HumanDuration,
    pub(super) address: SocketAddr,
    pub(super) process: &'a WorkerId,
}

impl StartupSummary<'_> {
    pub(super) fn print(&self, context: &Context) {
        if io::stderr().is_terminal() {
            self.lines().iter().for_each(|line| context.output.note(line));
        } else {
            self.log();
        }
    }

    fn lines(&self) -> Vec<String> {
        let WorkerNames { queues, sources, pipelines, notifiers } = &self.names;
        let or_none = |names: &String| match names.as_str() {
            "" => "none".to_owned(),
            names => names.to_owned(),
        };
        let facts = [
            ("store", format!("{} (from {})", self.store.url, self.store.chosen_by)),
            ("raw", self.raw.clone()),
            ("queues", or_none(queues)),
            ("sources", or_none(sources)),
            ("pipelines", or_none(pipelines)),
            ("notifiers", or_none(notifiers)),
            ("retries", format!("failed partitions are checked every {}", self.interval)),
            ("open", format!("http://{}", self.address)),
        ];
        let first = format!("redrive is up with {}; Ctrl-C stops it", self.config);
        let fact = |(name, fact)| format!("  {name:<9}  {fact}");
        [first].into_iter().chain(facts.map(fact)).collect()
    }

    fn log(&self) {
        let WorkerNames { queues, sources, pipelines, notifiers } = &self.names;
        let (store, interval) = (self.store.url.to_string(), self.interval.to_string());
        tracing::info!(
            config = self.config,
            worker = self.process.0,
            queues,
            sources,
            pipelines,
            notifiers,
            store,
            raw = self.raw,
            interval,
            url = %format_args!("http://{}", self.address),
            "up"
        );
    }
}
