//! The `redrive` program: parses the command line and runs one command.

mod action_command;
mod bulk;
mod cli;
mod commands;
mod confirm;
mod context;
mod environment;
mod exit;
mod logging;
mod open_store;
mod operator;
mod output;
mod plan_execution;
mod resource;
mod screen;
mod server_setup;
mod signals;
#[cfg(feature = "otel")]
mod spans;
mod worker_set;

use std::{panic, process::ExitCode};

use clap::Parser;

use crate::{
    cli::{Cli, CliCommand, LogFormat},
    context::Context,
    exit::{CommandError, Exit},
};

fn main() -> ExitCode {
    panic::set_hook(Box::new(output::report_panic));
    panic::catch_unwind(run).unwrap_or(Exit::Error).into()
}

fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::parser_message(&error),
    };
    let mut globals = cli.globals.clone();
    let shows_progress = match &cli.command {
        // The progress display counts retries; a log line for each would hide the display. Logs as JSON lines have
        // no display.
        CliCommand::Pipeline(args) => {
            args.shows_progress() && globals.log_format == LogFormat::Text
        }
        _ => false,
    };
    if shows_progress {
        globals.quiet = globals.quiet.saturating_add(1);
    }
    logging::start(&globals);
    let context = Context::new(cli.globals);
    let result = runtime().and_then(|runtime| {
        let result = runtime.block_on(commands::run(cli.command, &context));
        #[cfg(feature = "otel")]
        runtime.block_on(context.traces().finish());
        result
    });
    result.unwrap_or_else(|error| context.output.print_error(&error))
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
        CommandError::new(Exit::Error, "cannot start the tokio runtime").caused_by(error)
    })
}
