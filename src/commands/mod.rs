//! One file per command.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod consume;
pub(crate) mod daemon;
pub(crate) mod db;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod pipeline;
pub(crate) mod policy;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod up;
pub(crate) mod uploads;
pub(crate) mod why;
pub(crate) mod worker;

use crate::{
    cli::Command,
    context::Context,
    exit::{Exit, Failure},
};

/// Runs a command.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit, Failure> {
    match command {
        Command::Policy(arguments) => policy::run(arguments, context),
        Command::Check(arguments) => check::run(arguments, context),
        Command::Init(arguments) => init::run(arguments, context),
        Command::Runs(arguments) => runs::run(arguments, context).await,
        Command::Queue(arguments) => queue::run(arguments, context).await,
        Command::Uploads(arguments) => uploads::run(arguments, context).await,
        Command::Pipeline(arguments) => pipeline::run(arguments, context).await,
        Command::Dlq(arguments) => dlq::run(arguments, context).await,
        Command::Up(arguments) => up::run(arguments, context).await,
        Command::Worker(arguments) => worker::run(arguments, context).await,
        Command::State(arguments) => state::run(arguments, context).await,
        Command::Daemon(arguments) => daemon::run(arguments, context).await,
        Command::Consume(arguments) => consume::run(arguments, context).await,
        Command::Why(arguments) => why::run(arguments, context).await,
        Command::Db(arguments) => db::run(arguments, context).await,
        Command::Doctor(arguments) => doctor::run(arguments, context).await,
        Command::Prune(arguments) => prune::run(arguments, context).await,
        Command::Serve(arguments) => serve::run(arguments, context).await,
        Command::Completions(arguments) => completions::run(arguments, context),
    }
}
