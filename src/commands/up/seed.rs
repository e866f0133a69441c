//! Submits the runs and starts the pipelines of `[up]`, each once: idempotency keys identify the runs, and a unique
//! journal entry identifies each pipeline.

use std::{fs::File, io::BufReader, path::Path};

use redrive::{Message, Pipeline, SourcePosition, config::Config, serde_json::json};
use redrive_engine::{Clock, SystemClock};
use redrive_ops::read_run;
use redrive_store::{JournalEntry, NewRun, SubmittedRun};

use crate::{
    commands::runs::{InputLine, LineReader, MAX_LINE_BYTES},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    worker_set::WorkerSet,
};

/// The most runs of all files together, because they are held in memory.
const MAX_RUNS: usize = 10_000;

/// The validated content of `[up]`.
pub(super) struct Seed {
    runs: Vec<SeedRun>,
    pipelines: Vec<Pipeline>,
}

struct SeedRun {
    /// File and line, for messages.
    place: String,
    run: NewRun,
}

impl Seed {
    /// Reads the files, and checks the sources of the pipelines.
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
                let message = format!("cannot read the source of pipeline {name:?}: {why}");
                CommandError::new(Exit::Error, message)
                    .help("[up] in the configuration starts this pipeline")
            })?;
        }
        Ok(Self { runs, pipelines })
    }

    /// Submits and starts what the store does not have yet.
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
                tracing::warn!(
                    run,
                    place,
                    "the idempotency_key exists with other content; the run was not submitted"
                );
            }
        }
        if new > 0 {
            tracing::info!(runs = new, "submitted the runs of [up]");
        }
        Ok(())
    }
}

/// Several processes may start at once: the process that writes the journal entry first starts the pipeline.
async fn start_once(pipeline: &Pipeline, ops: &OpenStore) -> redrive_store::Result<()> {
    let name = &pipeline.name;
    if ops.newest_pipeline_run(Some(name.clone())).await?.is_some() {
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
        tracing::info!(pipeline = name, run = run.0, "started a pipeline of [up]");
    }
    Ok(())
}

fn read_file(path: &Path, runs: &mut Vec<SeedRun>) -> Result<(), CommandError> {
    let name = path.display().to_string();
    let unreadable = |error| {
        CommandError::new(Exit::Error, format!("cannot read {name}"))
            .caused_by(error)
            .help("[up] in the configuration submits this file")
    };
    let mut lines = LineReader::new(BufReader::new(File::open(path).map_err(unreadable)?));
    let now = SystemClock.now();
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.next().map_err(unreadable)? else { return Ok(()) };
        let read = match line {
            InputLine::Whole(text) if text.trim_ascii().is_empty() => continue,
            InputLine::Whole(text) => read_run(text, None, None, now),
            InputLine::TooLong => {
                Err(format!("the line has more than {MAX_LINE_BYTES} bytes").into())
            }
        };
        let place = format!("{name}, line {number}");
        let refuse = |reason: &str| {
            let message = format!("{place}: {}; nothing was started", Message::clean(reason));
            CommandError::new(Exit::Error, message)
        };
        let run = read.map_err(|refusal| refuse(&refusal.to_string()))?;
        if run.idempotency_key().is_none() {
            return Err(refuse("the run has no idempotency_key")
                .help("without a key, every start would submit the run again"));
        }
        if runs.len() == MAX_RUNS {
            return Err(refuse(&format!("[up] has more than {MAX_RUNS} runs"))
                .help("`redrive runs submit --from FILE` submits any number"));
        }
        runs.push(SeedRun { place, run });
    }
}
