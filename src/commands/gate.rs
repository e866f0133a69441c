//! `redrive gate list | show | close | open`: what keeps units back from a service (GAT-6).

use clap::{Args, Subcommand};
use redrive::{HumanDuration, declared_gates, jiff::Timestamp};
use redrive_ops::{views::GateView, words::apart};
use redrive_store::{GateOrder, GateOrdered, MAX_PAGE, gate_name};
use serde::Serialize;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
A gate stands between queues and the service that their handlers call. It closes for all hosts when the service limits the
rate, when too many attempts fail, or by command. docs/gates.md tells how it opens again.

Examples:
  redrive gate list
  redrive gate show ads-api acme
  redrive gate close ads-api acme --for 30m --reason 'the vendor asked for a pause'
  redrive gate open ads-api acme

Only a gate that is divided (`per`) has keys. The key of units without one is ''.")]
pub(crate) struct GateArgs {
    #[command(subcommand)]
    command: GateCommand,
}

#[derive(Debug, Subcommand)]
enum GateCommand {
    /// List gates and their keys
    #[command(after_help = "\
Examples:
  redrive gate list --shut
  redrive gate list ads-api -o jsonl --after ads-api/acme")]
    List {
        /// The keys of this gate alone
        name: Option<String>,

        /// Only what is not open
        #[arg(long)]
        shut: bool,

        /// The most rows
        #[arg(long, value_name = "N", default_value_t = 100,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
        limit: u32,

        /// Continue after this gate or GATE/KEY
        #[arg(long, value_name = "GATE/KEY")]
        after: Option<String>,
    },
    /// Show a gate, all keys of a divided gate, or one key: what closed it, until when, and what waits
    #[command(after_help = "\
Examples:
  redrive gate show ads-api
  redrive gate show ads-api acme -o json")]
    Show {
        /// The name of the gate
        name: String,

        /// The key, such as the category of a run or the customer of a partition
        key: Option<String>,
    },
    /// Close a gate: no host claims a unit behind it
    #[command(after_help = "\
Running units end normally. After the time one unit is let through as a probe.

Examples:
  redrive gate close ads-api --for 30m
  redrive gate close ads-api acme --reason 'over the quota'")]
    Close {
        /// The name of the gate
        name: String,

        /// The key, such as the category of a run or the customer of a partition
        key: Option<String>,

        /// For how long [default: until `gate open`]
        #[arg(long = "for", value_name = "DURATION")]
        period: Option<HumanDuration>,

        /// The reason, for the journal and for `why`
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Open a gate at once, without a probe
    #[command(after_help = "\
Examples:
  redrive gate open ads-api acme --reason 'the quota was raised'")]
    Open {
        /// The name of the gate
        name: String,

        /// The key, such as the category of a run or the customer of a partition
        key: Option<String>,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// A gate with the time that is left.
#[derive(Debug, Serialize)]
pub(crate) struct GateRow {
    #[serde(flatten)]
    pub(crate) view: GateView,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl TableRow for GateRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("gate"),
        TableColumn::text("key"),
        TableColumn::text("status"),
        TableColumn::text("until or limits"),
        TableColumn::number("waiting"),
        TableColumn::number("held"),
        TableColumn::text("units"),
        TableColumn::text("closed by"),
        TableColumn::text("reason"),
    ];

    fn cells(&self) -> Vec<String> {
        let GateView { status, closed_until, width, limits, .. } = &self.view;
        let until = match (*status, closed_until, width) {
            ("closed", None, _) => "it is opened".to_owned(),
            ("closed", Some(until), _) if *until > self.now => {
                format!("{until} ({})", apart(self.now, *until))
            }
            ("closed", Some(_), _) => "the next claim".to_owned(),
            (_, _, Some(width)) => format!("{width} at once"),
            _ => limits.clone().unwrap_or_default(),
        };
        let view = &self.view;
        vec![
            view.gate.clone(),
            view.key_in_words(),
            view.status.to_owned(),
            until,
            view.waiting_in_words(),
            view.held.to_string(),
            view.units.join(" "),
            view.closed_by.clone().unwrap_or_default(),
            view.reason_in_words(),
        ]
    }
}

pub(crate) async fn run(args: GateArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let row = |view| GateRow { view, now: ops.now() };
    match args.command {
        GateCommand::List { name, shut, limit, after } => {
            let after = after.unwrap_or_default();
            let after = after.split_once('/').unwrap_or((&after, ""));
            for name in name.iter().map(String::as_str).chain([after.0]).filter(|it| !it.is_empty())
            {
                find(&ops, name, "").await?;
            }
            let found = ops.gates(name.as_deref(), shut, after, limit).await.map_err(failed)?;
            context.output.list(found.into_iter().map(row))?;
        }
        GateCommand::Show { name, key } => {
            let view = find(&ops, &name, key.as_deref().unwrap_or_default()).await?;
            if key.is_none() && view.per.is_some() {
                let keys = ops.gates(Some(&name), false, ("", ""), MAX_PAGE).await;
                context.output.list(keys.map_err(failed)?.into_iter().map(row))?;
                return Ok(Exit::Ok);
            }
            view.check_key(key.as_deref()).map_err(|problem| keys_are_listed(problem, &name))?;
            context.output.record(&row(view))?;
        }
        GateCommand::Close { name, key, period, reason } => {
            if period.is_some_and(|period| std::time::Duration::from(period).is_zero()) {
                return Err(CommandError::usage("--for: 0 closes nothing; write more than 0"));
            }
            let by = operator(reason);
            let until = period.map(|period| by.at.checked_add(std::time::Duration::from(period)));
            let until = until.transpose().map_err(|_| {
                CommandError::usage("--for: the time is out of range; write less than a year")
            })?;
            let view = order(&ops, &name, key, &GateOrder::Close { until }, &by).await?;
            context.output.record(&row(view))?;
        }
        GateCommand::Open { name, key, reason } => {
            let by = operator(reason);
            let view = order(&ops, &name, key, &GateOrder::Open, &by).await?;
            context.output.record(&row(view))?;
        }
    }
    Ok(Exit::Ok)
}

/// Refuses a key where a gate has none, and no key where it has.
async fn order(
    ops: &OpenStore,
    name: &str,
    key: Option<String>,
    order: &GateOrder,
    by: &redrive_store::Operator,
) -> Result<GateView, CommandError> {
    // A gate may be closed before the first worker starts.
    if let Some(config) = &ops.config {
        let declared = ops.store().declare_gates(&declared_gates(config), by.at).await;
        declared.map_err(|error| ops.store_error(error))?;
    }
    let known = find(ops, name, key.as_deref().unwrap_or_default()).await?;
    known.check_key(key.as_deref()).map_err(|problem| keys_are_listed(problem, name))?;
    let key = key.unwrap_or_default();
    let ordered = ops.order_gate(name, &key, order, by).await;
    match ordered.map_err(|error| ops.store_error(error))? {
        GateOrdered::Done => find(ops, name, &key).await,
        GateOrdered::Refused(status) => {
            let message =
                format!("gate {} is {status} already; nothing was changed", gate_name(name, &key));
            Err(CommandError::new(Exit::Refused, message))
        }
        GateOrdered::Unknown => Err(unknown(ops, name)),
    }
}

fn keys_are_listed(problem: String, gate: &str) -> CommandError {
    CommandError::usage(problem).help(format!("`redrive gate list {gate}` lists its keys"))
}

async fn find(ops: &OpenStore, name: &str, key: &str) -> Result<GateView, CommandError> {
    let found = ops.gate(name, key).await.map_err(|error| ops.store_error(error))?;
    found.ok_or_else(|| unknown(ops, name))
}

fn unknown(ops: &OpenStore, name: &str) -> CommandError {
    let message = format!("there is no gate {name:?} in {}", ops.chosen.url);
    let error = CommandError::new(Exit::Error, message);
    match &ops.config {
        Some(config) if config.gates.iter().any(|gate| gate.name == name) => {
            let declared = declared_gates(config).gates;
            let is_passed =
                declared.iter().any(|gate| gate.name == name && !gate.places.is_empty());
            error.help(match is_passed {
                true => "the configuration declares it; the first worker adds it to the store",
                false => "no queue, source, upload or stage names it in its `gates`",
            })
        }
        Some(config) => error.help(config.gate_suggestion(name)),
        None => error.help("`redrive gate list` lists the gates"),
    }
}
