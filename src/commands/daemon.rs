//! `redrive daemon`: retries failed partitions when they are due (DMN-1 to DMN-4).

use std::time::Duration;

use clap::Args;
use redrive::{Daemon, HumanDuration, PartitionOutcome, RunMode, Stopper};
use redrive_ops::{UnitChange, partition_change, words::seconds};
use redrive_store::WorkerId;
use serde::Serialize;
use serde_json::Value;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{Listing, TableColumn, TableRow},
    signals::Signals,
    worker_set::new_worker_id,
};

/// A shorter interval would load the store for nothing.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Once per interval the daemon reads the failed partitions, skips those that are terminal or paused, and
retries those whose wait is over. The wait follows the policy of the source: the preset `partition` unless
the configuration declares another, also for sources that are not declared. When max-attempts or max-age
is reached, the daemon gives up and records that once in the journal. The daemon keeps no state between
ticks; any number of daemons may run at once. Each retry is logged. Ctrl-C or SIGTERM ends the daemon at
once, with exit code 130 or 143.

Examples:
  redrive daemon
  redrive daemon --interval 10s --log-format json 2>> daemon.log
  redrive daemon --once --dry-run            show what would be retried now
  redrive daemon --once --dry-run -o json    the same as a list, empty if nothing is due")]
pub(crate) struct DaemonArgs {
    /// The time between two checks, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_hyphen_values = true)]
    interval: HumanDuration,

    /// Check once, then exit
    #[arg(long)]
    once: bool,

    /// Log what would be retried, without retrying
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(args: DaemonArgs, context: &Context) -> Result<Exit, CommandError> {
    let interval = checked_interval(args.interval)?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let mut signals = Signals::new()?;
    let name = daemon_name(&new_worker_id()?);
    let mode = if args.dry_run { RunMode::DryRun } else { RunMode::Real };
    let daemon = Daemon::new(ops.partitions().clone(), name.as_str()).with_mode(mode);
    if args.once {
        return tokio::select! {
            ticked = tick(&daemon, mode, &ops, context) => ticked,
            exit = signals.next() => Ok(exit),
        };
    }
    let url = ops.chosen.url.to_string();
    tracing::info!(name, store = url, interval = %args.interval, "watching failed partitions");
    let (_stopper, stop) = Stopper::new();
    tokio::select! {
        () = daemon.run(interval, stop) => Ok(Exit::Ok),
        exit = signals.next() => Ok(exit),
    }
}

/// Checks once. For programs, prints each retry as a row instead of a log line.
async fn tick(
    daemon: &Daemon,
    mode: RunMode,
    ops: &OpenStore,
    context: &Context,
) -> Result<Exit, CommandError> {
    if context.output.is_table() {
        daemon.tick().await.map_err(|error| ops.store_error(error))?;
        return Ok(Exit::Ok);
    }
    let mut listing = Listing::new(context.output);
    let mut printed = Ok(());
    let on_retry = |retried: PartitionOutcome, delay| {
        // Retrying goes on even if the reader closes the output.
        if printed.is_ok() {
            printed = listing.add([DaemonRetryRow::new(retried, delay, mode)]);
        }
    };
    let ticked = daemon.tick_reporting(on_retry).await;
    printed?;
    listing.end()?;
    ticked.map_err(|error| ops.store_error(error))?;
    Ok(Exit::Ok)
}

#[derive(Debug, Serialize)]
struct DaemonRetryRow {
    #[serde(flatten)]
    change: UnitChange,
    attempt_count: u32,
    delay_s: Value,
}

impl DaemonRetryRow {
    fn new(retried: PartitionOutcome, delay: Duration, mode: RunMode) -> Self {
        let attempt_count = retried.attempt_count;
        let change = partition_change(retried, mode == RunMode::DryRun);
        Self { change, attempt_count, delay_s: seconds(delay) }
    }
}

impl TableRow for DaemonRetryRow {
    const COLUMNS: &'static [TableColumn] = UnitChange::COLUMNS;

    fn cells(&self) -> Vec<String> {
        self.change.cells()
    }
}

pub(crate) fn checked_interval(written: HumanDuration) -> Result<Duration, CommandError> {
    let interval = Duration::from(written);
    if interval < MIN_INTERVAL {
        return Err(CommandError::usage(format!("--interval {written} is too short"))
            .help("the shortest interval is 100ms"));
    }
    Ok(interval)
}

/// The actor of the daemon in the journal.
pub(crate) fn daemon_name(process: &WorkerId) -> String {
    format!("daemon {}", process.0)
}
