//! The command line: the global options and the commands.
//!
//! To add a command, write a file in `commands/` with its arguments and a `run` function, and add a
//! variant to [`CliCommand`] and an arm to [`crate::commands::run`].

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::commands::{
    causes, check, completions, consume, daemon, db, dlq, doctor, gate, init, logs, pipeline, plan,
    policy, prune, queue, runs, serve, state, status, token, up, uploads, why, worker, workers,
};

#[derive(Debug, Parser)]
#[command(
    name = "redrive",
    version,
    about = "Retry failing work: partitions, queues, uploads and pipelines",
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true,
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

const EXAMPLES: &str = "\
Examples:
  redrive init                                   write a commented redrive.toml
  redrive check                                  validate the configuration
  redrive up                                     run everything it declares, with a dashboard
  redrive policy schedule --preset run --plot    show when a failing run is retried
  redrive runs submit --queue verify             submit a run to a queue
  redrive worker --drain                         process all queues, then exit
  redrive uploads run --upload tiles --group g   send pending items, with retries
  redrive pipeline run score                     run samples through the stages of a pipeline
  redrive dlq list --group                       count dead letters by cause
  redrive status                                 show the state of everything on one screen
  redrive causes                                 list why units failed, and how many are stuck
  redrive why run:1                              explain what happened to a run and what comes next
  redrive logs run:1                             print what its handler logged
  redrive state inspect --source ads             show the partitions of a source
  redrive daemon                                 retry failed partitions when they are due

Exit codes:
  0 success    1 error or findings    2 invalid usage    3 partial success
  4 refused, nothing changed    130, 143 stopped by a signal";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The configuration file [default: redrive.toml, here or in a folder above]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// The store: sqlite:PATH, sqlite::memory: or postgres://… [default: [store] of the configuration,
    /// else $DATABASE_URL, else sqlite:redrive.db]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// The format of results
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,

    /// The format of logs, which go to standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// Log more; -vv logs everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Log warnings and errors only; -qq logs errors only
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    pub(crate) quiet: u8,

    /// When to use color
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub(crate) color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    #[default]
    Table,
    /// One JSON document; lists are arrays
    Json,
    /// One JSON object per line
    Jsonl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines of text for people
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

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

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Show retry policies and their waits
    Policy(policy::PolicyArgs),
    /// Validate the configuration and show what it declares
    Check(check::CheckArgs),
    /// Write a commented redrive.toml
    Init(init::InitArgs),
    /// Submit, list, retry and cancel runs
    Runs(runs::RunsArgs),
    /// Pause, resume and list queues
    Queue(queue::QueueArgs),
    /// List, close and open gates, which keep units back from a service
    Gate(gate::GateArgs),
    /// Add, send, list and reset items of uploads
    Uploads(uploads::UploadsArgs),
    /// Run pipelines and show their results
    Pipeline(pipeline::PipelineArgs),
    /// List, export and reprocess dead letters
    Dlq(dlq::DlqArgs),
    /// Make, apply, watch and undo plans for bulk actions
    Plan(plan::PlanArgs),
    /// Run everything in one process: workers, retries, API and dashboard
    Up(up::UpArgs),
    /// Process the queues, sources and pipelines
    Worker(worker::WorkerArgs),
    /// List the processes that work on units
    Workers(workers::WorkersArgs),
    /// Show partitions, and request, retry or pause them
    State(state::StateArgs),
    /// Retry failed partitions when they are due
    Daemon(daemon::DaemonArgs),
    /// Read partitions that passed validation
    Consume(consume::ConsumeArgs),
    /// Show the state of everything on one screen
    Status(status::StatusArgs),
    /// List causes of failures over all kinds of work, with the units that they stop
    Causes(causes::CausesArgs),
    /// Explain one unit: its attempts, the rule behind each wait, and what comes next
    Why(why::WhyArgs),
    /// Print what a handler logged during an attempt
    Logs(logs::LogsArgs),
    /// Migrate, roll back, inspect or back up the store
    Db(db::DbArgs),
    /// Check the configuration and the store for problems
    Doctor(doctor::DoctorArgs),
    /// Export old finished runs and samples to files, and remove them from the store
    Prune(prune::PruneArgs),
    /// Serve the API and the dashboard over HTTP
    Serve(serve::ServeArgs),
    /// Make and list tokens of the server
    Token(token::TokenArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
}
