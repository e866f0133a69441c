//! The commands, one module each.

pub(crate) mod causes;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod consume;
pub(crate) mod daemon;
pub(crate) mod db;
pub(crate) mod dlq;
pub(crate) mod doctor;
pub(crate) mod gate;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod pipeline;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod prune;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod up;
pub(crate) mod uploads;
pub(crate) mod why;
pub(crate) mod worker;
pub(crate) mod workers;

use crate::{
    cli::CliCommand,
    context::Context,
    exit::{CommandError, Exit},
};

pub(crate) async fn run(command: CliCommand, context: &Context) -> Result<Exit, CommandError> {
    match command {
        CliCommand::Policy(args) => policy::run(args, context),
        CliCommand::Check(args) => check::run(args, context),
        CliCommand::Init(args) => init::run(args, context),
        CliCommand::Runs(args) => runs::run(args, context).await,
        CliCommand::Queue(args) => queue::run(args, context).await,
        CliCommand::Gate(args) => gate::run(args, context).await,
        CliCommand::Uploads(args) => uploads::run(args, context).await,
        CliCommand::Pipeline(args) => pipeline::run(args, context).await,
        CliCommand::Plan(args) => plan::run(args, context).await,
        CliCommand::Dlq(args) => dlq::run(args, context).await,
        CliCommand::Up(args) => up::run(args, context).await,
        CliCommand::Worker(args) => worker::run(args, context).await,
        CliCommand::Workers(args) => workers::run(args, context).await,
        CliCommand::State(args) => state::run(args, context).await,
        CliCommand::Daemon(args) => daemon::run(args, context).await,
        CliCommand::Consume(args) => consume::run(args, context).await,
        CliCommand::Status(args) => status::run(args, context).await,
        CliCommand::Causes(args) => causes::run(args, context).await,
        CliCommand::Why(args) => why::run(args, context).await,
        CliCommand::Logs(args) => logs::run(args, context).await,
        CliCommand::Db(args) => db::run(args, context).await,
        CliCommand::Doctor(args) => doctor::run(args, context).await,
        CliCommand::Prune(args) => prune::run(args, context).await,
        CliCommand::Serve(args) => serve::run(args, context).await,
        CliCommand::Token(args) => token::run(args, context),
        CliCommand::Completions(args) => completions::run(args, context),
    }
}
