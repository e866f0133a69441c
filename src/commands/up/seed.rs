//! What `[up]` has put into the store at the start, once: runs by their idempotency keys, pipelines by an entry of
//! the journal that there is only one of.

use std::{fs::File, io::BufReader, path::Path};

use redrive::{Message, Pipeline, SourcePosition, config::Config, serde_json::json};
use redrive_engine::{Clock, SystemClock};
use redrive_ops::read_run;
use redrive_store::{JournalEntry, NewRun, PipelineRunFilter, SubmittedRun};

use crate::{
    commands::runs::{InputLine, LineReader, MAX_LINE_BYTES},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    worker_set::WorkerSet,
};

/// The most runs of all files together. More are not what one starts with.
const MAX_RUNS: usize = 10_000;

/// All of it, read and checked.
pub(super) struct Seed {
    runs: Vec<SeedRun>,
    pipelines: Vec<Pipeline>,
}

struct SeedRun {
    /// Where it stands, in words.
    place: String,
    run: NewRun,
}

impl Seed {
    /// Reads the files, and looks whether the pipelines have something to read.
    pub(super) async fn read(config: &Config, workers: &WorkerSet) -> Result<Self, CommandError> {
        let mut runs = Vec::new();
        for file in &config.up.submit {
            read_file(&config.folder.join(file), &mut runs)?;
        }
        let named = config.up.pipelines.iter().filter_map(|name| workers.pipeline(name));
        let pipelines: Vec<Pipeline> = named.cloned().collect();
        for pipeline in &pipelines {
            let found = pipeline.source.check(&SourcePosition::default()).await;
            found.map_err(|why| {
                let (name, why) = (&pipeline.name, why.message());
                let message = format!("the source of pipeline {name:?} cannot be read: {why}");
                CommandError::new(Exit::Error, message).help("[up] in the file has it started")
            })?;
        }
        Ok(Self { runs, pipelines })
    }

    /// Puts into the store what is not there yet.
    pub(super) async fn apply(self, ops: &OpenStore) -> Result<(), CommandError> {
        self.submit(ops).await.map_err(|error| ops.store_error(error))?;
        for pipeline in &self.pipelines {
            start_once(pipeline, ops).await.map_err(|error| ops.store_error(error))?;
        }
        Ok(())
    }

    async fn submit(&self, ops: &OpenStore) -> redrive_store::Result<()> {
        let runs: Vec<NewRun> = self.runs.iter().map(|seed| seed.run.clone()).collect();
        if runs.is_empty() {
            return Ok(());
        }
        let submitted = ops.store().submit_runs(&runs, ops.now()).await?;
        let is_new = |submitted: &&SubmittedRun| matches!(submitted, SubmittedRun::Accepted(_));
        let new = submitted.iter().filter(is_new).count();
        for (seed, submitted) in self.runs.iter().zip(&submitted) {
            if let SubmittedRun::Conflict(id) = submitted {
                let (run, place) = (id.0, &seed.place);
                tracing::warn!(run, place, "its idempotency_key has other content; left as it is");
            }
        }
        if new > 0 {
            tracing::info!(runs = new, "submitted what [up] names");
        }
        Ok(())
    }
}

/// Several processes may start at once: the one whose entry is the first in the journal does it.
async fn start_once(pipeline: &Pipeline, ops: &OpenStore) -> redrive_store::Result<()> {
    let name = &pipeline.name;
    let of_it = PipelineRunFilter { pipeline: Some(name.clone()), status: None };
    if ops.newest_pipeline_run(of_it.pipeline).await?.is_some() {
        return Ok(());
    }
    let by = operator(Some("[up] in the file".to_owned()));
    let entry = JournalEntry {
        at: by.at,
        actor: by.actor.clone(),
        action: "pipeline.first_start".to_owned(),
        unit: None,
        filter: None,
        details: json!({ "pipeline": name }).to_string(),
        dedupe_key: Some(format!("up:pipeline:{name}")),
    };
    if ops.store().append_journal(&[entry]).await?.first() == Some(&true) {
        let run = ops.pipelines().start(pipeline, &by).await?;
        tracing::info!(pipeline = name, run = run.0, "started what [up] names");
    }
    Ok(())
}

fn read_file(path: &Path, runs: &mut Vec<SeedRun>) -> Result<(), CommandError> {
    let name = path.display().to_string();
    let unreadable = |error| {
        CommandError::new(Exit::Error, format!("cannot read {name}"))
            .caused_by(error)
            .help("[up] in the file has it submitted")
    };
    let mut lines = LineReader::new(BufReader::new(File::open(path).map_err(unreadable)?));
    let now = SystemClock.now();
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next().map_err(unreadable)? else { return Ok(()) };
        let read = match line {
            InputLine::Whole(text) if text.trim_ascii().is_empty() => continue,
            InputLine::Whole(text) => read_run(text, None, now),
            InputLine::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
        };
        let place = format!("{name}, line {number}");
        let refuse = |reason: &str| {
            let message = format!("{place}: {}; nothing was started", Message::clean(reason));
            CommandError::new(Exit::Error, message)
        };
        let run = read.map_err(|reason| refuse(&reason))?;
        if run.idempotency_key().is_none() {
            return Err(refuse("it has no idempotency_key")
                .help("without one it would be submitted again at every start"));
        }
        if runs.len() == MAX_RUNS {
            return Err(refuse("these are too many runs to start with")
                .help("`redrive runs submit --from FILE` takes any number"));
        }
        runs.push(SeedRun { place, run });
    }
}
