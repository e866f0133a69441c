//! `redrive dlq export`: dead letters as JSON lines.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use redrive::SamplePages;
use redrive_ops::views::SampleView;

use super::dead_letter_filter::DeadLetterFilter;
use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::Output,
};

/// What stands for standard output.
const STDOUT: &str = "-";

#[derive(Debug, Args)]
#[command(after_help = "\
One object a line, by id, each with dlq_reason and, under data, the sample as it was before the stage it died at. A
line of the source that was no sample has no data. A file appears when it is whole.

Examples:
  redrive dlq export > dead.jsonl
  redrive dlq export --pipeline score --code 400 --to dead.jsonl
  redrive dlq export --run 3 | jq -c .data > again.jsonl")]
pub(crate) struct DlqExportArgs {
    #[command(flatten)]
    filter: DeadLetterFilter,

    /// Where to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = STDOUT)]
    to: PathBuf,

    /// Overwrite a file that exists
    #[arg(long)]
    force: bool,

    /// At most so many [default: all]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Runs `dlq export`.
pub(crate) async fn run(args: DlqExportArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let mut target = ExportTarget::open(&args.to, args.force, context.output)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    let filter = args.filter.sample_filter();
    let mut pages = SamplePages::new(ops.store().clone(), filter).at_most(limit);
    let mut count = 0_usize;
    loop {
        let page = pages.next().await.map_err(|error| ops.store_error(error))?;
        if page.is_empty() {
            break;
        }
        count += page.len();
        target.add(page.into_iter().map(SampleView::from))?;
    }
    target.end()?;
    let to = match args.to.to_str() {
        Some(STDOUT) => "standard output".to_owned(),
        _ => args.to.display().to_string(),
    };
    context.output.note(&format!("wrote {count} dead letters to {to}"));
    Ok(Exit::Ok)
}

/// Where dead letters go.
enum ExportTarget {
    Stdout(Output, Vec<u8>),
    /// Written beside its place first, so that half an export is never taken for one.
    File {
        file: BufWriter<File>,
        partial: PathBuf,
        path: PathBuf,
    },
}

impl ExportTarget {
    fn open(path: &Path, force: bool, output: Output) -> Result<Self, CommandError> {
        if path.as_os_str() == STDOUT {
            return Ok(Self::Stdout(output, Vec::new()));
        }
        if path.exists() && !force {
            let message = format!("{} exists already; nothing was written", path.display());
            return Err(CommandError::new(Exit::Refused, message).help("--force overwrites it"));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(|error| unwritable(&partial, error))?;
        Ok(Self::File { file: BufWriter::new(file), partial, path: path.to_owned() })
    }

    fn add(&mut self, rows: impl Iterator<Item = SampleView>) -> Result<(), CommandError> {
        let mut lines = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut lines, &row).map_err(|error| {
                CommandError::new(Exit::Error, "cannot be JSON").caused_by(error)
            })?;
            lines.push(b'\n');
        }
        match self {
            Self::Stdout(output, cut) => output.data(&lines, cut),
            Self::File { file, partial, .. } => {
                file.write_all(&lines).map_err(|error| unwritable(partial, error))
            }
        }
    }

    fn end(self) -> Result<(), CommandError> {
        let Self::File { mut file, partial, path } = self else { return Ok(()) };
        let written = file.flush().and_then(|()| file.get_ref().sync_all());
        written.and_then(|()| fs::rename(&partial, &path)).map_err(|error| unwritable(&path, error))
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> CommandError {
    CommandError::new(Exit::Error, format!("cannot write {}", path.display())).caused_by(error)
}
