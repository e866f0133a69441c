//! `redrive dlq export`: writes dead letters as JSON lines.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use redrive::SamplePages;
use redrive_ops::views::SampleView;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::Output,
    resource::SelectionArgs,
};

const STDOUT: &str = "-";

#[derive(Debug, Args)]
#[command(after_help = "\
Writes one object per line, sorted by id. `dlq_reason` is the error, `data` the sample as it was before the stage that
failed. Invalid lines of the source have no data. The file appears only when the export is complete.

Examples:
  redrive dlq export > dead.jsonl
  redrive dlq export --pipeline score --code 400 --to dead.jsonl
  redrive dlq export --run 3 | jq -c .data > again.jsonl")]
pub(crate) struct DlqExportArgs {
    #[command(flatten)]
    terms: SelectionArgs<SampleView>,

    /// The file to write; - is standard output
    #[arg(long, value_name = "FILE", default_value = STDOUT)]
    to: PathBuf,

    /// Overwrite an existing file
    #[arg(long)]
    force: bool,

    /// The most dead letters to export [default: all]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

pub(crate) async fn run(args: DlqExportArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let mut target = ExportTarget::open(&args.to, args.force, context.output)?;
    let limit = args.limit.unwrap_or(u64::MAX);
    let mut pages = SamplePages::new(ops.store().clone(), *args.terms.selection).with_limit(limit);
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

enum ExportTarget {
    Stdout(Output, Vec<u8>),
    /// Written to a temporary file first, so that no reader takes a partial export for a complete one.
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
            let message = format!("{} already exists; nothing was written", path.display());
            return Err(
                CommandError::new(Exit::Refused, message).help("--force overwrites the file")
            );
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
                CommandError::new(Exit::Error, "cannot serialize a sample").caused_by(error)
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
