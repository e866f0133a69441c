//! `redrive logs UNIT`: what a handler logged during an attempt (LOG-1).

use std::time::Duration;

use clap::Args;
use redrive::AttemptNumber;
use redrive_ops::{ExplainTarget, LogView};
use redrive_store::UnitRow;

use crate::{
    commands::why::unknown_unit,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::Output,
    signals::Signals,
};

/// Workers write the logs of running attempts once a second.
const POLL: Duration = Duration::from_millis(500);

/// How much of the end of a printed log identifies the place where a longer one goes on.
const OVERLAP_BYTES: usize = 512;

#[derive(Debug, Args)]
#[command(after_help = "\
A log holds what a program writes to standard error, and to standard output if the program is started for each call;
requests and responses of HTTP handlers; and what Rust handlers log. Colors and control characters are removed, and
the values of variables with secrets are replaced. Of a long log the beginning and the end are kept (keep-log in the
configuration). Attempts that failed always keep their log, those that succeeded as many as success-logs allows.

Examples:
  redrive logs run:17                       the newest attempt that has a log
  redrive logs run:17 --attempt 1
  redrive logs run:17 --follow              until the attempt ends or Ctrl-C
  redrive logs sample:17/STAGE
  redrive logs partition:ads/1234567890/campaign_daily/2026-01-31 -o json")]
pub(crate) struct LogsArgs {
    /// The unit: run:ID, sample:ID, sample:ID/STAGE or partition:SOURCE/CUSTOMER/QUERY/DATE
    #[arg(value_parser = ExplainTarget::parse)]
    unit: ExplainTarget,

    /// The number of the attempt [default: the newest one with a log]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,

    /// Wait for a log, and print what is added until the attempt ends
    #[arg(short, long)]
    follow: bool,
}

pub(crate) async fn run(args: LogsArgs, context: &Context) -> Result<Exit, CommandError> {
    let (output, attempt) = (context.output, args.attempt.map(AttemptNumber));
    if args.follow && !output.is_table() {
        let message = "--follow prints text, not JSON";
        return Err(CommandError::usage(message).help("leave out -o, or leave out --follow"));
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let rows = ops.unit_rows(&args.unit).await.map_err(|error| ops.store_error(error))?;
    if rows.is_empty() {
        return Err(unknown_unit(&args.unit, &ops).await);
    }
    if args.follow {
        return follow(&ops, &rows, attempt, output).await;
    }
    let (_, log) = find(&ops, &rows, attempt).await?.ok_or_else(|| no_log(attempt))?;
    if output.is_table() {
        output.note(&title(&log));
        output.data(format!("{}\n", log.log.trim_end_matches('\n')).as_bytes(), &mut Vec::new())?;
    } else {
        output.object(&log)?;
    }
    Ok(Exit::Ok)
}

/// The log, and under which row it is: the first row that has one.
async fn find<'a>(
    ops: &OpenStore,
    rows: &'a [UnitRow],
    attempt: Option<AttemptNumber>,
) -> Result<Option<(&'a UnitRow, LogView)>, CommandError> {
    for row in rows {
        if let Some(log) = ops.log(row, attempt).await.map_err(|error| ops.store_error(error))? {
            return Ok(Some((row, log)));
        }
    }
    Ok(None)
}

async fn follow(
    ops: &OpenStore,
    rows: &[UnitRow],
    mut attempt: Option<AttemptNumber>,
    output: Output,
) -> Result<Exit, CommandError> {
    let (mut signals, mut printed, mut waited) = (Signals::new()?, String::new(), false);
    loop {
        // Asked before the log is read: what is read then is complete.
        let found = find(ops, rows, attempt).await?;
        let mut ended = false;
        if let Some((row, log)) = found {
            let number = AttemptNumber(log.attempt);
            if attempt != Some(number) || printed.is_empty() {
                output.note(&title(&log));
            }
            attempt = Some(number);
            ended = ops.has_ended(row, number).await.map_err(|error| ops.store_error(error))?;
            let log =
                if ended { find(ops, rows, attempt).await?.map_or(log, |it| it.1) } else { log };
            let added = added(&printed, &log.log);
            if !added.is_empty() {
                output.data(added.as_bytes(), &mut Vec::new())?;
            }
            printed = log.log;
        } else if !std::mem::replace(&mut waited, true) {
            output.note("waits for a log");
        }
        if ended {
            if !printed.is_empty() && !printed.ends_with('\n') {
                output.data(b"\n", &mut Vec::new())?;
            }
            return Ok(Exit::Ok);
        }
        tokio::select! {
            exit = signals.next() => return Ok(exit),
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// What a log has that was not printed. A log that has become too long lost its middle, so its place is found by its end.
fn added<'a>(printed: &str, log: &'a str) -> &'a str {
    if let Some(added) = log.strip_prefix(printed) {
        return added;
    }
    let mut from = printed.len().saturating_sub(OVERLAP_BYTES);
    while !printed.is_char_boundary(from) {
        from += 1;
    }
    let end = printed.get(from..).unwrap_or_default();
    let place = log.rfind(end).map(|at| at + end.len());
    // Everything between was printed and left out again, or never seen: the note about it is in the log.
    place.and_then(|at| log.get(at..)).unwrap_or(log)
}

fn title(log: &LogView) -> String {
    let LogView { stage, attempt, worker, written_at, .. } = log;
    let stage = if stage.is_empty() { String::new() } else { format!(" at stage {stage}") };
    format!("attempt {attempt}{stage} on {worker}, written {written_at}")
}

fn no_log(attempt: Option<AttemptNumber>) -> CommandError {
    let message = match attempt {
        Some(attempt) => format!("attempt {attempt} has no log"),
        None => "the unit has no log".to_owned(),
    };
    CommandError::new(Exit::Error, message).help(
        "a log is kept if the handler logs something and the attempt fails; of those that succeed, as many as success-logs \
         allows. `redrive why UNIT` shows the attempts",
    )
}

#[cfg(test)]
mod tests {
    use super::added;

    #[test]
    fn a_followed_log_is_printed_once() {
        assert_eq!(added("", "a\n"), "a\n");
        assert_eq!(added("a\n", "a\nb\n"), "b\n");
        assert_eq!(added("a\nb\n", "a\nb\n"), "");
        let printed: String = (0..200).map(|line| format!("line {line}\n")).collect();
        let cut = "line 0\n[… 900 bytes left out …]\n".to_owned();
        let tail: String = (120..210).map(|line| format!("line {line}\n")).collect();
        let expected: String = (200..210).map(|line| format!("line {line}\n")).collect();
        assert_eq!(added(&printed, &(cut + &tail)), expected);
    }
}
