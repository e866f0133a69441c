//! `redrive dlq edit`: changes the data of a dead letter in an editor (FIX-2).

use std::{env, fs, io::Write, time::Duration};

use clap::Args;
use redrive::{SampleId, SampleStatus};
use redrive_ops::{Resource, views::SampleView};
use redrive_store::Written;
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    signals::Signals,
};

const SIGNAL_PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "\
Opens the data of the sample, as it was before the stage that failed, in $VISUAL or $EDITOR. A line of the source that
was not a sample opens as an empty object, and enters at the first stage. The old data stays in the journal.
`redrive dlq reprocess ID` then tries the sample again; `dlq reprocess --patch` and `--set` change many.
Exit codes: 0 changed; 1 there is no such dead letter; 4 nothing was changed; 130, 143 stopped by a signal.

Examples:
  redrive dlq edit 17
  EDITOR='code --wait' redrive dlq edit 17 --reason 'the day was wrong'")]
pub(crate) struct DlqEditArgs {
    /// The id of the sample
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = SampleView::parse_id)]
    id: SampleId,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(args: DlqEditArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let found = ops.store().samples_by_id(&[args.id]).await.map_err(failed)?;
    let Some(sample) = found.into_iter().next() else {
        let message = format!("there is no sample {}", args.id);
        return Err(CommandError::new(Exit::Error, message)
            .help("`redrive dlq list` shows the dead letters"));
    };
    if sample.status != SampleStatus::Dlq {
        let message = format!("sample {} is {}, not a dead letter", args.id, sample.status.name());
        return Err(refused(&message).help("`redrive dlq list` shows the dead letters"));
    }
    let before: Value = sample.data.as_deref().map_or_else(
        || Value::Object(serde_json::Map::new()),
        |data| serde_json::from_str(data).unwrap_or_default(),
    );
    if sample.data.is_none() {
        let why = sample.error_message.as_deref().unwrap_or_default();
        context.output.note(&format!("note: {why}"));
    }
    let after = edited(&before).await?;
    if after == before {
        return Err(refused("the data is the same as before"));
    }
    let edits = vec![(&sample, after.to_string())];
    let written = ops.pipelines().edit(edits, &operator(args.reason)).await.map_err(failed)?;
    if written != [Written::Applied] {
        return Err(refused("the sample has changed meanwhile"));
    }
    let sample = ops.store().samples_by_id(&[args.id]).await.map_err(failed)?;
    let views: Vec<SampleView> = sample.into_iter().map(SampleView::from).collect();
    context.output.details(&views)?;
    context.output.footer(&format!("`redrive dlq reprocess {}` tries it again", args.id))?;
    Ok(Exit::Ok)
}

fn refused(message: &str) -> CommandError {
    CommandError::new(Exit::Refused, format!("{message}; nothing was changed"))
}

/// What the user makes of a value in an editor. If that is not JSON, the file stays.
async fn edited(value: &Value) -> Result<Value, CommandError> {
    let editor = env::var("VISUAL").or_else(|_| env::var("EDITOR")).unwrap_or_default();
    if editor.trim().is_empty() {
        return Err(refused("there is no editor").help(
            "set EDITOR, or give the data as JSON lines: `redrive dlq reprocess --patch FILE`",
        ));
    }
    let error = |error: std::io::Error| {
        CommandError::new(Exit::Error, "cannot edit the data").caused_by(error)
    };
    let mut file = tempfile::Builder::new().suffix(".json").tempfile().map_err(error)?;
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    writeln!(file, "{text}").and_then(|()| file.flush()).map_err(error)?;
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$1\""), "sh"]).arg(file.path());
    // A signal must not end the program before the file is removed. Ctrl-C is for the editor, which may go on.
    let mut signals = Signals::new()?;
    let mut editor = command.kill_on_drop(true).spawn().map_err(error)?;
    let mut exit = Exit::Refused;
    let succeeded = loop {
        tokio::select! {
            biased;
            signal = signals.next() => exit = signal,
            status = editor.wait() => break status.map_err(error)?.success(),
        }
        if exit == Exit::Terminated {
            break false;
        }
    };
    if !succeeded {
        // Ctrl-C, which ended the editor, may arrive here a moment later.
        if exit == Exit::Refused
            && let Ok(signal) = timeout(SIGNAL_PATIENCE, signals.next()).await
        {
            exit = signal;
        }
        return Err(CommandError::new(exit, "the editor failed; nothing was changed"));
    }
    let text = fs::read_to_string(file.path()).map_err(error)?;
    serde_json::from_str(&text).map_err(|problem| {
        let kept = file.keep().map(|(_, path)| path.display().to_string());
        let message = format!("the data is not JSON: {problem}");
        refused(&message).help(format!("what you wrote is in {}", kept.unwrap_or_default()))
    })
}
