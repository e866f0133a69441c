//! `redrive completions SHELL`: prints a completion script.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{
    cli::Cli,
    context::Context,
    exit::{CommandError, Exit},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive completions bash > /etc/bash_completion.d/redrive
  redrive completions zsh > ~/.zfunc/_redrive
  redrive completions fish > ~/.config/fish/completions/redrive.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell of the script
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs, context: &Context) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "redrive", &mut script);
    context.output.text(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
