//! `redrive runs submit`: submits one run by flags, or a file of any size in constant memory.
//!
//! Reading and writing alternate, so the slower of the two limits the rate. Acknowledged runs stay,
//! whatever happens to the others, and an invalid line does not stop the others.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use redrive::config::Config;
use redrive_engine::{Clock, SystemClock};
use redrive_ops::{Declarations, parse_instant};
use redrive_store::{InvalidRun, NewRun, SubmittedRun};
use serde::Serialize;
use serde_json::Value;

use super::{
    batch_submitter::{BatchSubmitter, SubmissionCounts, conflict},
    line_reader::{InputLine, LineReader, MAX_LINE_BYTES},
};
use crate::{
    context::{ChosenStore, Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::{declarations, expect_declared},
    output::{TableColumn, TableRow},
};

const READ_BYTES: usize = 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
Each line of a file is an object with any of queue, category, payload, submitted_at, not_before and
idempotency_key. Invalid lines are refused with their number and do not stop the others. A queue that the
configuration does not declare is refused, unless --allow-unknown is given or the line has \"allow_unknown\": true.
Exit codes: 0 all runs are in the queue, now or before; 3 some lines were refused; 1 all lines were refused;
4 the configuration does not declare the queue.

An idempotency key is unique in its queue: submitting the same content again is a no-op, other content is
refused.

Examples:
  redrive runs submit --queue verify --payload '{\"order\": 7}'
  redrive runs submit --queue verify --category slow --not-before 2026-01-31T08:00:00Z
  redrive runs submit --queue verify --payload '{\"order\": 7}' --idempotency-key order-7
  redrive runs submit --from orders.jsonl
  zcat orders.jsonl.gz | redrive runs submit --from - --queue verify -o json")]
pub(crate) struct RunsSubmitArgs {
    /// The queue; with --from, the queue of lines that name none
    #[arg(long, value_name = "NAME", required_unless_present = "from")]
    queue: Option<String>,

    /// The category, for queues that process only some categories
    #[arg(long, value_name = "NAME")]
    category: Option<String>,

    /// The payload for the handler, as JSON [default: null]
    #[arg(long, value_name = "JSON", allow_hyphen_values = true, value_parser = parse_json)]
    payload: Option<Value>,

    /// The position in the queue: older runs are claimed first [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    submitted_at: Option<Timestamp>,

    /// The earliest time to start the run
    #[arg(long, value_name = "TIME", value_parser = parse_instant)]
    not_before: Option<Timestamp>,

    /// A key that makes repeated submissions a no-op
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    /// A file of JSON lines; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all =
          ["category", "payload", "submitted_at", "not_before", "idempotency_key"])]
    from: Option<PathBuf>,

    /// Submit also to queues that the configuration does not declare
    #[arg(long)]
    allow_unknown: bool,
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

#[derive(Debug, Serialize)]
struct SubmittedRunRow<'a> {
    id: i64,
    queue: &'a str,
    outcome: &'static str,
}

impl TableRow for SubmittedRunRow<'_> {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("id"), TableColumn::text("queue"), TableColumn::text("outcome")];

    fn cells(&self) -> Vec<String> {
        vec![self.id.to_string(), self.queue.to_owned(), self.outcome.to_owned()]
    }
}

pub(crate) async fn run(args: RunsSubmitArgs, context: &Context) -> Result<Exit, CommandError> {
    // Validate everything that needs no store before a SQLite file is created.
    let one = match &args.from {
        None => Some(one(&args).map_err(CommandError::usage)?),
        Some(_) => None,
    };
    let file = args.from.as_deref().map(open).transpose()?;
    let config = context.config()?;
    if let Some(queue) = args.queue.as_deref().filter(|_| !args.allow_unknown) {
        expect_declared(context, |declared| declared.expect_queue(queue))?;
    }
    let declared = config.as_ref().filter(|_| !args.allow_unknown).map(declarations).transpose()?;
    let chosen = context.store(config.as_ref())?;
    match (one, file) {
        (Some(run), _) => submit_one(&run, &chosen, config.as_ref(), context).await,
        (None, Some(file)) => {
            let queue = args.queue.as_deref();
            submit_file(file, queue, declared.as_ref(), &chosen, config.as_ref(), context).await
        }
        (None, None) => Err(CommandError::usage("give --queue NAME or --from FILE")),
    }
}

fn one(args: &RunsSubmitArgs) -> Result<NewRun, InvalidRun> {
    let queue = args.queue.as_deref().unwrap_or_default();
    let payload = args.payload.as_ref().unwrap_or(&Value::Null);
    let submitted_at = args.submitted_at.unwrap_or_else(|| SystemClock.now());
    let mut run = NewRun::new(queue, payload, submitted_at)?;
    if let Some(category) = &args.category {
        run = run.with_category(category)?;
    }
    if let Some(at) = args.not_before {
        run = run.with_not_before(at);
    }
    if let Some(key) = &args.idempotency_key {
        run = run.with_idempotency_key(key)?;
    }
    Ok(run)
}

async fn submit_one(
    run: &NewRun,
    chosen: &ChosenStore,
    config: Option<&Config>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let store = chosen.open(config, IfMissing::Create).await?;
    let submitted = store
        .submit_runs(std::slice::from_ref(run), SystemClock.now())
        .await
        .map_err(|error| chosen.store_error(error))?;
    let (id, outcome) = match submitted.first() {
        Some(SubmittedRun::Accepted(id)) => (id.0, "accepted"),
        Some(SubmittedRun::Duplicate(id)) => (id.0, "duplicate"),
        Some(SubmittedRun::Conflict(id)) => {
            return Err(CommandError::new(Exit::Error, format!("refused: {}", conflict(id.0)))
                .help(format!("`redrive runs show {id}` shows the existing run")));
        }
        None => {
            return Err(CommandError::new(
                Exit::Error,
                "the store returned no outcome for the run",
            ));
        }
    };
    context.output.record(&SubmittedRunRow { id, queue: run.queue(), outcome })?;
    Ok(Exit::Ok)
}

struct SubmissionInput {
    name: String,
    source: Box<dyn Read>,
    /// The length, if known.
    bytes: Option<u64>,
}

fn open(path: &Path) -> Result<SubmissionInput, CommandError> {
    if path.as_os_str() == "-" {
        let name = "standard input".to_owned();
        return Ok(SubmissionInput { name, source: Box::new(io::stdin()), bytes: None });
    }
    let name = path.display().to_string();
    let failed =
        |error| CommandError::new(Exit::Error, format!("cannot read {name}")).caused_by(error);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(CommandError::new(
            Exit::Error,
            format!("cannot read {name}: the path is a folder"),
        ));
    }
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(SubmissionInput { name, source: Box::new(file), bytes })
}

async fn submit_file(
    input: SubmissionInput,
    queue: Option<&str>,
    declared: Option<&Declarations>,
    chosen: &ChosenStore,
    config: Option<&Config>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let store = chosen.open(config, IfMissing::Create).await?;
    let progress = progress(input.bytes, context);
    let note = |text: &str| progress.suspend(|| context.output.note(text));
    let mut submitter = BatchSubmitter::new(&*store, queue, declared, &note);
    let result = submit_lines(input, &mut submitter, &progress, chosen).await;
    progress.finish_and_clear();
    let counts = submitter.into_counts();
    context.output.record(&counts)?;
    context.output.section("refused", &counts.refusals)?;
    if let Err(mut error) = result {
        error.help = Some(format!(
            "all lines up to {} are submitted; submit the following lines again, with idempotency \
             keys to avoid duplicates",
            counts.through_line
        ));
        return Err(error);
    }
    Ok(exit(&counts))
}

/// Reading blocks this thread, which has nothing else to do: the connections of the store have their
/// own threads.
async fn submit_lines(
    input: SubmissionInput,
    submitter: &mut BatchSubmitter<'_>,
    progress: &ProgressBar,
    chosen: &ChosenStore,
) -> Result<(), CommandError> {
    let mut lines = LineReader::new(BufReader::with_capacity(READ_BYTES, input.source));
    loop {
        let number = lines.number() + 1;
        let line = lines.next().map_err(|error| {
            CommandError::new(Exit::Error, format!("cannot read {}", input.name)).caused_by(error)
        })?;
        let ended = line.is_none();
        match line {
            Some(InputLine::Whole(text)) => submitter.add(number, text),
            Some(InputLine::TooLong) => {
                submitter.refuse(number, format!("the line has more than {MAX_LINE_BYTES} bytes"));
            }
            None => {}
        }
        // Submit before a read that may block, so that no run waits for the next line of a pipe.
        if ended || submitter.is_full() || lines.may_wait() {
            submitter.write().await.map_err(|error| chosen.store_error(error))?;
            redrive_store::failpoint!("cli.submit.batch");
            let counts = submitter.counts();
            progress.set_position(lines.bytes());
            progress
                .set_message(format!("{} accepted, {} refused", counts.accepted, counts.refused));
        }
        if ended {
            return Ok(());
        }
    }
}

/// A bar if the length is known, else a counter; hidden without a terminal.
fn progress(bytes: Option<u64>, context: &Context) -> ProgressBar {
    let is_interactive = context.output.shows_bars();
    let target =
        if is_interactive { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(bytes, target);
    let template = match bytes {
        Some(_) => "{wide_bar} {bytes}/{total_bytes}  {msg}  {eta} left",
        None => "{bytes} read  {msg}",
    };
    // The template is constant. If it were invalid, the default style would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn exit(counts: &SubmissionCounts) -> Exit {
    match (counts.accepted + counts.duplicate, counts.refused) {
        (_, 0) => Exit::Ok,
        (0, _) => Exit::Error,
        (_, _) => Exit::Partial,
    }
}
