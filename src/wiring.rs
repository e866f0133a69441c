//! From what a configuration declares to what the engine runs.

use std::{path::Path, sync::Arc};

use redrive_engine::{
    ExecHandler, ExecSpec, Handler, HttpHandler, InvalidHttp, InvalidProgram, Pace, Queue,
    StreamHandler, StreamSpec,
};
use redrive_store::Categories;

use crate::config;

/// A declared queue that this program cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnservableQueue {
    /// Its program can never be started.
    #[error("the handler of queue {queue:?} cannot be started")]
    Program {
        /// The queue.
        queue: String,
        /// Why.
        #[source]
        source: InvalidProgram,
    },
    /// Its request can never be sent.
    #[error("the handler of queue {queue:?} cannot send its request")]
    Request {
        /// The queue.
        queue: String,
        /// Why.
        #[source]
        source: InvalidHttp,
    },
}

/// The queue that a declaration describes. Relative programs count from `folder`, the folder of the
/// configuration.
pub fn declared_queue(declared: &config::Queue, folder: &Path) -> Result<Queue, UnservableQueue> {
    let limits = declared.limits;
    let pace =
        Pace { concurrency: limits.concurrency as usize, lease: limits.lease, ..Pace::default() };
    let mut queue = Queue::new(declared.name.as_str(), handler(declared, folder)?)
        .with_policy(declared.policy.policy.clone());
    queue.categories = match &declared.categories {
        None => Categories::All,
        Some(names) => Categories::Only(names.clone()),
    };
    queue.time_limit = limits.timeout;
    queue.pace = pace;
    Ok(queue)
}

fn handler(declared: &config::Queue, folder: &Path) -> Result<Arc<dyn Handler>, UnservableQueue> {
    let queue = || declared.name.clone();
    let unfit = |source| UnservableQueue::Program { queue: queue(), source };
    match &declared.handler {
        config::Handler::Exec(program) => {
            let mut spec = ExecSpec::new(program.argv.clone(), folder);
            spec.env.clone_from(&program.env);
            spec.grace = program.grace;
            Ok(Arc::new(ExecHandler::new(spec).map_err(unfit)?))
        }
        config::Handler::Stream(stream) => {
            let mut spec = StreamSpec::new(stream.program.argv.clone(), folder);
            spec.env.clone_from(&stream.program.env);
            spec.grace = stream.program.grace;
            spec.processes = stream.processes as usize;
            spec.in_flight = stream.in_flight as usize;
            Ok(Arc::new(StreamHandler::new(spec).map_err(unfit)?))
        }
        config::Handler::Http(http) => {
            let handler = HttpHandler::new(http.request.clone())
                .map_err(|source| UnservableQueue::Request { queue: queue(), source })?;
            Ok(Arc::new(handler))
        }
    }
}
