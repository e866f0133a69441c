//! From what a configuration declares to what the engine runs.

use std::{path::Path, sync::Arc};

use redrive_core::InvalidUnit;
use redrive_engine::{
    Content, DailyCalendar, ExecHandler, ExecSpec, FolderContent, GiveupFile, Handler, HttpHandler,
    HttpUpload, InvalidHttp, InvalidProgram, Pace, PartitionRules, Queue, RetrySettings,
    StreamHandler, StreamSpec, UploadObserver, UploadPlan, Uploader, build_uploader,
};
use redrive_store::{Categories, Store, WorkerId};

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

/// A declared upload that this program cannot make.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnservableUpload {
    /// The program of its check can never be started.
    #[error("the check of upload {upload:?} cannot be started")]
    Program {
        /// The upload.
        upload: String,
        /// Why.
        #[source]
        source: InvalidProgram,
    },
    /// Its requests can never be sent.
    #[error("upload {upload:?} cannot send its requests")]
    Request {
        /// The upload.
        upload: String,
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
    let queue = || declared.name.clone();
    let handler = handler(&declared.handler, folder).map_err(|unfit| match unfit {
        Unfit::Program(source) => UnservableQueue::Program { queue: queue(), source },
        Unfit::Request(source) => UnservableQueue::Request { queue: queue(), source },
    })?;
    let mut queue =
        Queue::new(declared.name.as_str(), handler).with_policy(declared.policy.policy.clone());
    queue.categories = match &declared.categories {
        None => Categories::All,
        Some(names) => Categories::Only(names.clone()),
    };
    queue.time_limit = limits.timeout;
    queue.pace = pace;
    Ok(queue)
}

/// The uploader that a declaration describes: with retries, unless it disables them. Relative paths
/// count from `folder`, the folder of the configuration.
pub fn declared_upload(
    declared: &config::Upload,
    folder: &Path,
    store: Arc<dyn Store>,
    content: Arc<dyn Content>,
    worker: &WorkerId,
    observer: Option<UploadObserver>,
) -> Result<Arc<dyn Uploader>, UnservableUpload> {
    let upload = || declared.name.clone();
    let unfit = |unfit| match unfit {
        Unfit::Program(source) => UnservableUpload::Program { upload: upload(), source },
        Unfit::Request(source) => UnservableUpload::Request { upload: upload(), source },
    };
    let ready = declared.ready.as_ref().map(|ready| handler(ready, folder));
    let http = HttpUpload {
        name: upload(),
        spec: declared.request.clone(),
        concurrency: declared.concurrency as usize,
        time_limit: declared.timeout,
        ready: ready.transpose().map_err(unfit)?,
        worker: worker.0.clone(),
    };
    let plan = UploadPlan {
        http,
        retry: RetrySettings::new(declared.policy.clone(), declared.max_in_call_retries),
        disable_retry: declared.disable_retry,
        giveup_file: declared_giveup_file(declared, folder),
        observer,
    };
    build_uploader(plan, store, content).map_err(|source| unfit(Unfit::Request(source)))
}

/// The file of give-ups that an upload declares.
pub fn declared_giveup_file(declared: &config::Upload, folder: &Path) -> Option<GiveupFile> {
    let path = declared.giveup_file.as_ref()?;
    Some(GiveupFile::new(folder.join(path), declared.name.as_str()))
}

/// Where the content of items is kept: under the root of raw partitions, if that is a folder.
pub fn declared_content(config: &config::Config) -> Option<FolderContent> {
    match config.raw.clone().in_folder(&config.folder) {
        config::RawUrl::Folder(root) => Some(FolderContent::new(root)),
        config::RawUrl::Bucket { .. } => None,
    }
}

/// Why a handler can do nothing.
enum Unfit {
    Program(InvalidProgram),
    Request(InvalidHttp),
}

fn handler(declared: &config::Handler, folder: &Path) -> Result<Arc<dyn Handler>, Unfit> {
    match declared {
        config::Handler::Exec(program) => {
            let mut spec = ExecSpec::new(program.argv.clone(), folder);
            spec.env.clone_from(&program.env);
            spec.grace = program.grace;
            Ok(Arc::new(ExecHandler::new(spec).map_err(Unfit::Program)?))
        }
        config::Handler::Stream(stream) => {
            let mut spec = StreamSpec::new(stream.program.argv.clone(), folder);
            spec.env.clone_from(&stream.program.env);
            spec.grace = stream.program.grace;
            spec.processes = stream.processes as usize;
            spec.in_flight = stream.in_flight as usize;
            Ok(Arc::new(StreamHandler::new(spec).map_err(Unfit::Program)?))
        }
        config::Handler::Http(http) => {
            Ok(Arc::new(HttpHandler::new(http.request.clone()).map_err(Unfit::Request)?))
        }
    }
}

/// What decides about failed partitions, as the sources are declared.
pub fn declared_partition_rules(config: &config::Config) -> PartitionRules {
    let rules = PartitionRules::new(config.jitter_seed);
    config.sources.iter().fold(rules, |rules, source| {
        rules.with_policy(source.name.as_str(), source.policy.policy.clone())
    })
}

/// The days that a schedule makes due.
pub fn declared_calendar(schedule: &config::Schedule) -> Result<DailyCalendar, InvalidUnit> {
    let start = schedule.start.try_into()?;
    Ok(DailyCalendar { start, at: schedule.at, lag_days: schedule.lag_days })
}
