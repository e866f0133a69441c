//! The command line: flags that every command has, and the commands.
//!
//! To add a command: a file in `commands/` with its arguments and a `run`, a variant of [`CliCommand`],
//! and an arm in [`crate::commands::run`].

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    check, completions, consume, daemon, db, dlq, doctor, init, pipeline, policy, prune, queue,
    runs, serve, state, up, uploads, why, worker,
};

/// Redrive: retries for work that fails.
#[derive(Debug, Parser)]
#[command(
    name = "redrive",
    version,
    about = "Retries for work that fails: partitions, queues, uploads and pipelines",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true,
)]
pub(crate) struct Cli {
    /// Flags that every command has.
    #[command(flatten)]
    pub(crate) globals: Globals,

    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  redrive init                                   write a commented redrive.toml
  redrive check                                  look for mistakes in it
  redrive up                                     run all that it declares, with a dashboard
  redrive policy schedule --preset run --plot    see when a failing run is tried again
  redrive runs submit --queue verify             put a run into a queue
  redrive worker --drain                         do what the queues hold, then end
  redrive uploads run --upload tiles --group g   send what is pending, again within bounds
  redrive pipeline run score                     run samples through stages
  redrive dlq list --group                       what the dead ones died of
  redrive why run:1                              what happened to it, and what comes next
  redrive state inspect --source ads             see the partitions of a source
  redrive daemon                                 retry failed partitions when they are due

Exit codes:
  0 ok    1 error or findings    2 wrong usage    3 some done, some not
  4 refused, nothing done    130, 143 stopped by a signal";

/// Flags that every command has.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The configuration file [default: redrive.toml, here or in a folder above]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The store: sqlite:PATH, sqlite::memory: or postgres://… [default: as the file says, else
    /// $DATABASE_URL, else sqlite:redrive.db]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// How to print results
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,

    /// How to write logs, which go to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// Log more; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Log less: warnings only; twice for errors only
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    pub(crate) quiet: u8,

    /// When to use color
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document; a list is an array
    Json,
    /// One JSON object a line
    Jsonl,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// When color is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show policies and the waits they give
    Policy(policy::PolicyArgs),
    /// Look for mistakes in the configuration, and show what it declares
    Check(check::CheckArgs),
    /// Write a commented redrive.toml to start from
    Init(init::InitArgs),
    /// Submit runs, look at them, send them back or stop them
    Runs(runs::RunsArgs),
    /// Pause a queue, resume it, or list the queues
    Queue(queue::QueueArgs),
    /// Add items to upload, send them, look at them or bring them back
    Uploads(uploads::UploadsArgs),
    /// Run samples through the stages of a pipeline, and see what became of them
    Pipeline(pipeline::PipelineArgs),
    /// See samples that died, and bring them back
    Dlq(dlq::DlqArgs),
    /// Run everything in one process: workers, retries, API and dashboard
    Up(up::UpArgs),
    /// Do the work of the queues, sources and pipelines
    Worker(worker::WorkerArgs),
    /// See partitions, and ask for another look at them
    State(state::StateArgs),
    /// Retry failed partitions when their time has come
    Daemon(daemon::DaemonArgs),
    /// Read good partitions
    Consume(consume::ConsumeArgs),
    /// Tell the story of one unit: its attempts, the rule behind each wait, what comes next
    Why(why::WhyArgs),
    /// Migrate, roll back, look at or copy the store
    Db(db::DbArgs),
    /// Look for anything that is not as it must be
    Doctor(doctor::DoctorArgs),
    /// Write what is finished and old to files, and remove it from the store
    Prune(prune::PruneArgs),
    /// Serve Redrive over HTTP
    Serve(serve::ServeArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}
