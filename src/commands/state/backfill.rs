//! `redrive state backfill`: requests the partitions of a range of days (PAR-9).

use clap::Args;
use redrive::{
    AuditContext, KeyGrid, LogicalDate, PartitionAction, PartitionCommand, PartitionSelection,
    RunMode, Selection, config::Config,
};
use redrive_ops::partition_change;

use super::partition_selector::{date_range, parse_part};
use crate::{
    action_command::LaneName,
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::{OpenStore, expect_declared},
    operator::operator,
    resource::{ChangeFlags, ChangeListing},
};

/// More partitions than this need a confirmation.
const CONFIRM_ABOVE: u64 = 100;

/// The most partitions of one command: a century of days for 27 customers. More are a slip of the pen.
const MAX_PARTITIONS: u64 = 1_000_000;

/// The journal repeats the names for each partition; more names than this are only counted.
const MAX_JOURNAL_NAMES: usize = 5;

#[derive(Debug, Args)]
#[command(after_help = "\
Creates a pending partition for every day of the range, inclusive, and every customer and query. Existing
partitions are not changed; with --force-pending, failed partitions become pending again, unless they are
terminal. To extract good partitions again, use `state reprocess`. Asks for confirmation before more than 100, and
refuses more than 1000000.
A source, customer or query that the configuration does not declare is refused, unless --allow-unknown is given.
Exit codes: 0 all done, or pending already; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive state backfill --source ads --since 2024-02-01 --until 2024-02-29
  redrive state backfill --source ads --customer-id 12 --customer-id 34 --since 2026-01-01 --until 2026-01-31
  redrive state backfill --source ads --since 2020-01-01 --until 2025-12-31 --dry-run
  redrive state backfill --source ads --since 2025-01-01 --until 2025-12-31 --force-pending --yes")]
pub(crate) struct StateBackfillArgs {
    /// The name of the source
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    source: String,

    /// The customer; repeatable [default: the customers of the source]
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = parse_part)]
    customer_id: Vec<String>,

    /// The query; repeatable [default: the queries of the source]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = parse_part)]
    query_name: Vec<String>,

    /// The first day, as YYYY-MM-DD
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    since: LogicalDate,

    /// The last day, inclusive
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    until: LogicalDate,

    /// Include failed partitions
    #[arg(long)]
    force_pending: bool,

    /// Request names that the configuration does not declare, too
    #[arg(long)]
    allow_unknown: bool,

    /// The lane of the attempts
    #[arg(long, value_enum, value_name = "LANE", default_value_t = LaneName::Backfill)]
    lane: LaneName,

    /// Include partitions whose data was judged and is gone from the raw sink
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    how: ChangeFlags,
}

pub(crate) async fn run(args: StateBackfillArgs, context: &Context) -> Result<Exit, CommandError> {
    let days = date_range(args.since, args.until)?;
    let source = &args.source;
    // Validate everything that needs no store before a SQLite file is created.
    let config = context.config()?;
    let config = config.as_ref();
    let customers = names(config, source, "customer-id", &args.customer_id)?;
    let queries = names(config, source, "query-name", &args.query_name)?;
    if !args.allow_unknown {
        expect_declared(context, |declared| declared.expect_series(source, &customers, &queries))?;
    }
    let grid =
        KeyGrid::new(&args.source, &customers, &queries, days).map_err(CommandError::usage)?;
    if grid.len() > MAX_PARTITIONS {
        let message = format!("the range has {} partitions; nothing was changed", grid.len());
        return Err(CommandError::usage(message)
            .help(format!("one command requests up to {MAX_PARTITIONS}; choose fewer days")));
    }
    let only = |names: &[String]| match names {
        [name] => Some(name.clone()),
        _ => None,
    };
    let filter = Selection {
        source: Some(args.source.clone()),
        customer_id: only(&customers),
        query_name: only(&queries),
        since: Some(days.since()),
        until: Some(days.until()),
        ..Selection::default()
    };
    let mut flags = journal_flags("--customer-id", &args.customer_id);
    flags.extend(journal_flags("--query-name", &args.query_name));
    let ChangeFlags { reason, dry_run, yes } = args.how;
    let force_pending = args.force_pending;
    let given = [("--force-pending", force_pending), ("--yes", yes), ("--force", args.force)];
    flags.extend(given.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
    let audit = AuditContext {
        by: operator(reason),
        command: "state backfill".to_owned(),
        filter: Some(filter.to_json().to_string()),
        flags,
    };
    let action = PartitionAction::Backfill { force_pending, lane: args.lane.into() };
    let command = PartitionCommand::new(action, audit);
    let command = if args.force { command.forced() } else { command };
    if !dry_run && grid.len() > CONFIRM_ABOVE {
        let (count, url) = (grid.len(), context.store(config)?.url);
        confirm(&format!("state backfill: change {count} partitions in {url}?"), yes)?;
    }
    let missing = if dry_run { IfMissing::Imagine } else { IfMissing::Create };
    let ops = OpenStore::open(context, missing).await?;
    let selection = PartitionSelection::Grid(grid);
    let mode = if dry_run { RunMode::DryRun } else { RunMode::Real };
    let mut sweep = ops.partitions().sweep(&command, &selection, mode);
    let mut listing = ChangeListing::new(dry_run, context);
    loop {
        match sweep.next().await {
            Ok(Some(page)) => {
                listing.add(page.into_iter().map(|it| partition_change(it, dry_run)).collect())?;
            }
            Ok(None) => break,
            Err(error) => {
                listing.end(0)?;
                let help = "the other partitions are unchanged; run the command again for them";
                return Err(ops.store_error(error).help(help));
            }
        }
    }
    listing.end(0)
}

/// The names from the flag, or those of the declared source.
fn names(
    config: Option<&Config>,
    source: &str,
    flag: &str,
    given: &[String],
) -> Result<Vec<String>, CommandError> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    match (config.and_then(|config| config.source(source)), config) {
        (Some(declared), _) if flag == "customer-id" => Ok(declared.customers.clone()),
        (Some(declared), _) => Ok(declared.queries.clone()),
        (None, Some(config)) => {
            let message =
                format!("--source: source {source:?} is not declared, and --{flag} is missing");
            Err(CommandError::usage(message).help(config.source_suggestion(source)))
        }
        (None, None) => {
            let message = format!(
                "there is no configuration that declares source {source:?}, and --{flag} is missing"
            );
            Err(CommandError::usage(message).help(format!("pass --{flag}, or --config FILE")))
        }
    }
}

/// The flags as the journal records them for every partition.
fn journal_flags(flag: &str, given: &[String]) -> Vec<String> {
    if given.len() > MAX_JOURNAL_NAMES {
        return vec![format!("{flag} ({} of them)", given.len())];
    }
    given.iter().map(|name| format!("{flag}={name}")).collect()
}
