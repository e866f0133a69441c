//! `redrive init`: writes a commented configuration file.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Write},
    path::PathBuf,
};

use clap::Args;
use redrive::config::{FILE_NAME, SCHEMA};

use crate::{
    context::Context,
    exit::{CommandError, Exit},
};

/// Tests check the template as it is, and with every example uncommented.
const TEMPLATE: &str = include_str!("init.toml");

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive init                     write redrive.toml in this folder
  redrive init jobs                write jobs/redrive.toml; the folder must exist
  redrive init --config x.toml     write x.toml
  redrive init --schema > redrive.schema.json     for editors that support JSON Schema")]
pub(crate) struct InitArgs {
    /// The folder of the new file
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,

    /// Print the JSON Schema of the configuration, without writing a file
    #[arg(long, conflicts_with_all = ["force", "folder"])]
    schema: bool,
}

pub(crate) fn run(args: InitArgs, context: &Context) -> Result<Exit, CommandError> {
    if args.schema {
        context.output.text(SCHEMA)?;
        return Ok(Exit::Ok);
    }
    let path = match context.config_flag() {
        Some(path) => path.to_owned(),
        None if args.folder.as_os_str() == "." => PathBuf::from(FILE_NAME),
        None => args.folder.join(FILE_NAME),
    };
    let name = path.display();
    let mut open = OpenOptions::new();
    open.write(true);
    if args.force {
        open.create(true).truncate(true);
    } else {
        open.create_new(true);
    }
    open.open(&path).and_then(|mut file| file.write_all(TEMPLATE.as_bytes())).map_err(|error| {
        match error.kind() {
            ErrorKind::AlreadyExists => CommandError::new(
                Exit::Refused,
                format!("{name} already exists; nothing was written"),
            )
            .help("--force overwrites the file"),
            _ => CommandError::new(Exit::Error, format!("cannot write {name}")).caused_by(error),
        }
    })?;
    context.output.note(&format!("wrote {name}; `redrive check` validates it"));
    Ok(Exit::Ok)
}
