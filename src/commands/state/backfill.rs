//! `redrive state backfill`: requests the partitions of a range of days (PAR-9).

use clap::Args;
use redrive::{
    KeyGrid, LogicalDate, PartitionAction, PartitionFilter, PartitionSelection, config::Config,
};

use super::{
    change::{ChangeOptions, LaneName, PartitionChangeRequest},
    partition_selector::{date_range, parse_part},
};
use crate::{
    context::Context,
    exit::{CommandError, Exit},
    open_store::expect_declared,
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

    #[command(flatten)]
    options: ChangeOptions,
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
    let filter = PartitionFilter {
        source: Some(args.source.clone()),
        customer_id: only(&customers),
        query_name: only(&queries),
        since: Some(days.since()),
        until: Some(days.until()),
        status: None,
    };
    let mut flags = journal_flags("--customer-id", &args.customer_id);
    flags.extend(journal_flags("--query-name", &args.query_name));
    let force_pending = args.force_pending;
    let change = PartitionChangeRequest {
        action: PartitionAction::Backfill { force_pending, lane: args.lane.into() },
        command: "state backfill",
        selection: PartitionSelection::Grid(grid),
        filter,
        flags,
        options: args.options,
        confirm_above: CONFIRM_ABOVE,
    };
    change.with_flag("--force-pending", force_pending).run(context).await
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
