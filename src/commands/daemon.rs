//! `redrive daemon`: retries failed partitions when their time has come (DMN-1 to DMN-4).

use std::time::Duration;

use clap::Args;
use redrive::{Daemon, HumanDuration, RunMode, Stopper};
use redrive_store::WorkerId;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    signals::Signals,
    worker_set::new_worker_id,
};

/// A shorter interval is a busy loop.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Every interval it looks at the failed partitions, leaves those alone that are marked terminal or paused, and
sends those back whose wait is over, by the policy of their source: the preset `partition` unless the
configuration says otherwise, also for sources that it does not declare. A source's max-attempts and
max-age end that, which the journal tells once. It keeps nothing between ticks; any number of daemons may
run at once. Each retry is a line of the log. Ctrl-C or SIGTERM ends it at once, with 130 or 143.

Examples:
  redrive daemon
  redrive daemon --interval 10s --log-format json 2>> daemon.log
  redrive daemon --once --dry-run            what would be retried now")]
pub(crate) struct DaemonArgs {
    /// How often it looks
    #[arg(long, value_name = "DURATION", default_value = "60s", allow_hyphen_values = true)]
    interval: HumanDuration,

    /// Look once, and end
    #[arg(long)]
    once: bool,

    /// Only log what would be retried
    #[arg(long)]
    dry_run: bool,
}

/// Runs `daemon` until a signal, or once.
pub(crate) async fn run(args: DaemonArgs, context: &Context) -> Result<Exit, CommandError> {
    let interval = checked_interval(args.interval)?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let mut signals = Signals::new()?;
    let name = daemon_name(&new_worker_id()?);
    let mode = if args.dry_run { RunMode::DryRun } else { RunMode::Real };
    let daemon = Daemon::new(ops.partitions().clone(), name.as_str()).with_mode(mode);
    if args.once {
        return tokio::select! {
            ticked = daemon.tick() => {
                ticked.map_err(|error| ops.store_error(error))?;
                Ok(Exit::Ok)
            }
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

/// An interval that is long enough.
pub(crate) fn checked_interval(written: HumanDuration) -> Result<Duration, CommandError> {
    let interval = Duration::from(written);
    if interval < MIN_INTERVAL {
        return Err(CommandError::usage(format!("--interval {written} is too short"))
            .help("100ms is the shortest"));
    }
    Ok(interval)
}

/// What the journal calls the daemon of a process.
pub(crate) fn daemon_name(process: &WorkerId) -> String {
    format!("daemon {}", process.0)
}
