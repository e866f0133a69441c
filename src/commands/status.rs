//! `redrive status`: the state of everything on one screen.

use std::io::{IsTerminal, stdout};

use clap::Args;
use redrive_engine::{Clock, SteadyClock};
use redrive_ops::{
    Watch,
    views::{CauseView, DueView, GateView, OverviewView, PlanView, QueueStatsView},
    words::{apart, between, rounded},
};
use serde::Serialize;

use crate::{
    cli::Format,
    commands::gate::GateRow,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    output::{TableColumn, TableRow, excerpt},
    screen::{CLEAR, pause_after},
    signals::Signals,
};

/// Rows of each part, so that all parts fit on one screen.
const ROWS: usize = 6;

#[derive(Debug, Args)]
#[command(after_help = "\
The figures are those of the dashboard's overview. `-o json` prints all of them.

Examples:
  redrive status
  redrive status -o json
  redrive status --watch              refresh in place until Ctrl-C
  redrive status --watch -o jsonl     one line for each change")]
pub(crate) struct StatusArgs {
    /// Refresh until Ctrl-C: in place on a terminal, or one line for each change with -o jsonl
    #[arg(long)]
    watch: bool,
}

pub(crate) async fn run(args: StatusArgs, context: &Context) -> Result<Exit, CommandError> {
    let output = context.output;
    let can_watch = match output.format() {
        Format::Table => stdout().is_terminal(),
        Format::Json => false,
        Format::Jsonl => true,
    };
    if args.watch && !can_watch {
        let message = "--watch needs a terminal, or -o jsonl";
        return Err(CommandError::usage(message).help("`redrive status` prints the state once"));
    }
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let watch = Watch::new((*ops).clone());
    if !args.watch {
        let overview = watch.newest().await.map_err(|error| ops.store_error(error))?;
        return print(&overview, &ops, context).map(|()| Exit::Ok);
    }
    let (mut signals, clock) = (Signals::new()?, SteadyClock::default());
    let mut printed = None;
    loop {
        let started = clock.now();
        match watch.newest().await {
            Ok(overview) if printed == Some(overview.version) && !output.is_table() => {}
            Ok(overview) => {
                if output.is_table() {
                    output.text(CLEAR)?;
                }
                print(&overview, &ops, context)?;
                printed = Some(overview.version);
            }
            Err(error) => output.warning(&format!("cannot read the store: {error}")),
        }
        tokio::select! {
            exit = signals.next() => return Ok(exit),
            () = tokio::time::sleep(pause_after(between(started, clock.now()))) => {}
        }
    }
}

fn print(overview: &OverviewView, ops: &OpenStore, context: &Context) -> Result<(), CommandError> {
    let output = context.output;
    if !output.is_table() {
        return output.object(overview);
    }
    let (at, url) = (&overview.at, &ops.chosen.url);
    output.text(&format!(
        "{}\n{}\n",
        overview.summary(|count| count.to_string()),
        activity(overview)
    ))?;
    output.section("units", &units(overview))?;
    output.section("queues", &shown(&overview.queues, QueueRow))?;
    output.section("plans", &shown(&overview.plans, PlanRow))?;
    let gate = |gate: &GateView| GateRow { view: gate.clone(), now: ops.now() };
    output.section("gates that are not open", &shown(&overview.gates, gate))?;
    output.section("causes; `redrive causes` lists all", &shown(&overview.causes, CauseRow))?;
    output.section("next", &shown(&overview.due, |due| DueRow { due, at }))?;
    output.footer(&format!("{url} at {at}"))
}

fn shown<'a, T, R>(all: &'a [T], row: impl Fn(&'a T) -> R) -> Vec<R> {
    all.iter().take(ROWS).map(row).collect()
}

/// `last hour: 120 attempts, 100 succeeded, 15 to be retried, 5 failed`
fn activity(overview: &OverviewView) -> String {
    let minutes = overview.activity.iter();
    let (good, retrying, failed) = minutes.fold((0, 0, 0), |(good, retrying, failed), minute| {
        (good + minute.good, retrying + minute.retrying, failed + minute.failed)
    });
    let all = good + retrying + failed;
    let noun = if all == 1 { "attempt" } else { "attempts" };
    format!("last hour: {all} {noun}, {good} succeeded, {retrying} to be retried, {failed} failed")
}

/// The units of one kind.
#[derive(Debug, Serialize)]
struct UnitsRow {
    kind: &'static str,
    states: String,
}

fn units(overview: &OverviewView) -> Vec<UnitsRow> {
    let mut rows: Vec<UnitsRow> = Vec::new();
    for unit in &overview.units {
        let state = format!("{} {}", unit.count, unit.state.replace('_', " "));
        match rows.iter_mut().find(|row| row.kind == unit.kind) {
            Some(row) => row.states = format!("{}, {state}", row.states),
            None => rows.push(UnitsRow { kind: unit.kind, states: state }),
        }
    }
    rows
}

impl TableRow for UnitsRow {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("kind"), TableColumn::text("units")];

    fn cells(&self) -> Vec<String> {
        vec![self.kind.to_owned(), self.states.clone()]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct QueueRow<'a>(&'a QueueStatsView);

impl TableRow for QueueRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("queue"),
        TableColumn::number("to do"),
        TableColumn::number("waiting"),
        TableColumn::number("given up"),
        TableColumn::text("oldest"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let count = |states: &[&str]| {
            let runs = states.iter().filter_map(|state| self.0.runs.get(*state)?.as_u64());
            runs.sum::<u64>().to_string()
        };
        let notes = [
            (self.0.paused_at.is_some(), "paused"),
            (self.0.unroutable == Some(true), "not declared"),
        ];
        let notes: Vec<&str> =
            notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note).collect();
        vec![
            self.0.queue.clone(),
            count(&["discovered", "processing"]),
            count(&["waiting_for_retry"]),
            count(&["given_up"]),
            self.0.oldest_ready_age.map(rounded).unwrap_or_default(),
            notes.join(", "),
        ]
    }
}

/// A cause in fewer columns than `redrive causes` has.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct CauseRow<'a>(&'a CauseView);

impl TableRow for CauseRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("stuck"),
        TableColumn::number("waiting"),
        TableColumn::key("cause"),
        TableColumn::text("code"),
        TableColumn::text("where"),
        TableColumn::text("mark"),
        TableColumn::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.0.stuck.to_string(),
            self.0.waiting.to_string(),
            self.0.fingerprint.clone(),
            self.0.code.clone(),
            self.0.described_places(),
            self.0.state().to_owned(),
            excerpt(&self.0.message),
        ]
    }
}

/// A plan in fewer columns than `redrive plan list` has.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct PlanRow<'a>(&'a PlanView);

impl TableRow for PlanRow<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("plan"),
        TableColumn::text("status"),
        TableColumn::text("action"),
        TableColumn::text("progress"),
    ];

    fn cells(&self) -> Vec<String> {
        let plan = self.0;
        vec![plan.id.to_string(), plan.status.to_string(), plan.action.to_owned(), plan.progress()]
    }
}

#[derive(Debug, Serialize)]
struct DueRow<'a> {
    due: &'a DueView,
    at: &'a str,
}

impl TableRow for DueRow<'_> {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("in"), TableColumn::key("unit"), TableColumn::text("")];

    fn cells(&self) -> Vec<String> {
        let time = match (self.at.parse(), self.due.at.parse()) {
            (Ok(now), Ok(at)) if now < at => apart(now, at),
            (Ok(_), Ok(_)) => "due now".to_owned(),
            _ => self.due.at.clone(),
        };
        vec![time, self.due.name.clone(), self.due.what.clone()]
    }
}
