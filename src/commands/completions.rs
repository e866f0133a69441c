//! `redrive completions SHELL`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{
    cli::Cli,
    context::Context,
    exit::{Exit, Failure},
};

/// The arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive completions bash > /etc/bash_completion.d/redrive
  redrive completions zsh > ~/.zfunc/_redrive
  redrive completions fish > ~/.config/fish/completions/redrive.fish")]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(arguments: Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "redrive", &mut script);
    context.output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
