//! One file per command.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod init;
pub(crate) mod policy;
pub(crate) mod serve;

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
        Command::Db(arguments) => db::run(arguments, context).await,
        Command::Doctor(arguments) => doctor::run(arguments, context).await,
        Command::Serve(arguments) => serve::run(arguments, context).await,
        Command::Bench(arguments) => bench::run(arguments, context).await,
        Command::Completions(arguments) => completions::run(arguments, context),
    }
}
