//! `redrive policy schedule`: prints the waits of a policy.

use std::time::Duration;

use clap::{Args, ValueEnum};
use redrive::{
    Backoff, Cause, Code, Failure, HumanDuration, Jitter, JitterSeed, Policy, PolicyOverrides,
    PolicySpec, Unit, named,
};
use redrive_ops::{KnownPolicies, Waits, parse_max_attempts, views::WaitView, words::rounded};
use serde::Serialize;

use super::only;
use crate::{
    context::Context,
    exit::CommandError,
    output::{TableColumn, TableRow, bar},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  redrive policy schedule --preset run
  redrive policy schedule --preset partition --attempts 12 --unit partition:ads/42/daily/2026-01-31
  redrive policy schedule --base 2s --cap 1m --jitter none --attempts 8 --plot
  redrive policy schedule --preset stage --jitter 50% -o json
  redrive policy schedule --policy queue:orders --code 529

The wait in row n follows the failure of attempt n. The table also shows waits after the policy gives up,
and marks them.")]
pub(crate) struct PolicyScheduleArgs {
    /// The preset, the policy or the place (queue:NAME, stage:PIPELINE/STAGE …) to start from
    #[arg(long, visible_alias = "policy", value_name = "NAME")]
    preset: Option<String>,

    /// The growth of the waits
    #[arg(long, value_enum)]
    backoff: Option<BackoffName>,

    /// The first wait, such as 30s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    base: Option<HumanDuration>,

    /// The factor of an exponential backoff, 1 or greater
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = parse_finite)]
    multiplier: Option<f64>,

    /// The longest wait before jitter, such as 1h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    cap: Option<HumanDuration>,

    /// The jitter: none, full, a time such as 30s, or a share such as 25%
    #[arg(long, value_name = "JITTER", allow_hyphen_values = true)]
    jitter: Option<Jitter>,

    /// The most executions, including the first; none for no limit
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = parse_limit)]
    max_attempts: Option<MaxAttempts>,

    /// The number of failed attempts to print [default: the retries of the policy, or 10]
    #[arg(long, value_name = "N", allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(Waits::MAX_ATTEMPTS)))]
    attempts: Option<u32>,

    /// The code of the failures, such as 503 or timeout, for a policy with rules
    #[arg(long, value_name = "CODE")]
    code: Option<Code>,

    /// The unit whose waits to print; jitter differs between units
    #[arg(long, value_name = "KEY", default_value = "run:1")]
    unit: Unit,

    /// Plot the waits as bars
    #[arg(long)]
    plot: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BackoffName {
    Fixed,
    Linear,
    Exponential,
}

impl From<BackoffName> for Backoff {
    fn from(name: BackoffName) -> Self {
        match name {
            BackoffName::Fixed => Self::Fixed,
            BackoffName::Linear => Self::Linear,
            BackoffName::Exponential => Self::Exponential,
        }
    }
}

/// A limit or `none`. clap would take a bare `Option` for an optional flag.
#[derive(Debug, Clone, Copy)]
struct MaxAttempts(Option<u32>);

fn parse_limit(text: &str) -> Result<MaxAttempts, String> {
    parse_max_attempts(text).map(MaxAttempts)
}

fn parse_finite(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "write a finite number, such as 2 or 1.5".to_owned())
}

pub(crate) fn run(
    args: PolicyScheduleArgs,
    policies: &KnownPolicies,
    seed: JitterSeed,
    context: &Context,
) -> Result<(), CommandError> {
    if args.plot && !context.output.is_table() {
        return Err(CommandError::usage("--plot needs a table; remove -o or --plot"));
    }
    let start = args.preset.as_deref().map(|name| only(policies, name)).transpose()?;
    let in_call_retries = start.and_then(|start| start.in_call_retries);
    let policy = policy(&args, start.map(|start| &start.policy))?;
    let failure = args.code.map(failure_of);
    let policy = match &failure {
        Some(failure) => policy.for_failure(failure).clone(),
        None => policy,
    };
    if let Some(reason) = failure.and_then(|failure| policy.spec().retriable.refuses(&failure)) {
        context.output.list(std::iter::empty::<WaitRow>())?;
        context.output.footer(&format!("gives up when attempt 1 fails ({reason})"))?;
        return Ok(());
    }
    let waits_ahead = Waits::new(&policy, in_call_retries, seed, &args.unit, args.attempts);
    let end = waits_ahead.end;
    let waits = WaitRow::all(&waits_ahead);
    if args.plot {
        context.output.list(waits.map(PlottedWaitRow))?;
    } else {
        context.output.list(waits)?;
    }
    if let Some((end, reason)) = end.and_then(|end| Some((end, end.gives_up?))) {
        let end = format!("gives up when attempt {} fails ({reason})", end.attempt);
        context.output.footer(&end)?;
    }
    Ok(())
}

/// A failure with a code, as it happens by itself: some codes have an origin of their own.
fn failure_of(code: Code) -> Failure {
    match &code {
        Code::Name(name) if name == named::TIMEOUT => Failure::timeout(""),
        Code::Name(name) if name == named::SPAWN => Failure::spawn(""),
        Code::Name(name) if name == named::LOST_WORKER => {
            Failure::named(named::LOST_WORKER, Cause::LostWorker, "")
        }
        _ => Failure::reported(None, code, ""),
    }
}

fn policy(args: &PolicyScheduleArgs, start: Option<&Policy>) -> Result<Policy, CommandError> {
    let changes = PolicyOverrides {
        max_attempts: args.max_attempts.map(|limit| limit.0),
        backoff: args.backoff.map(Backoff::from),
        base: args.base.map(Duration::from),
        multiplier: args.multiplier,
        cap: args.cap.map(Duration::from),
        jitter: args.jitter,
        ..PolicyOverrides::default()
    };
    let start = start.map_or_else(PolicySpec::default, |policy| policy.spec().clone());
    Policy::new(changes.over(start)).map_err(|invalid| {
        let problems = invalid.problems().iter();
        let problems: Vec<String> = problems.map(|problem| format!("--{problem}")).collect();
        CommandError::usage(problems.join("; "))
    })
}

#[derive(Debug, Serialize)]
struct WaitRow {
    #[serde(flatten)]
    view: WaitView,
    #[serde(skip)]
    delay: Duration,
    #[serde(skip)]
    total: Duration,
    #[serde(skip)]
    note: &'static str,
    #[serde(skip)]
    bar: String,
}

impl WaitRow {
    fn all(waits_ahead: &Waits) -> impl Iterator<Item = Self> {
        let waits = waits_ahead.waits.iter();
        let longest = waits.clone().map(|wait| wait.delay).max().unwrap_or_default();
        let end = waits_ahead.end.map_or(u32::MAX, |end| end.attempt);
        let mut total = Duration::ZERO;
        waits.map(move |wait| {
            total = total.saturating_add(wait.delay);
            Self {
                view: wait.into(),
                delay: wait.delay,
                total,
                note: match wait.attempt {
                    attempt if attempt < end => "",
                    attempt if attempt == end => "gives up",
                    _ => "not reached",
                },
                bar: bar(wait.delay.as_secs_f64() / longest.as_secs_f64().max(f64::MIN_POSITIVE)),
            }
        })
    }
}

impl TableRow for WaitRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("attempt"),
        TableColumn::number("delay"),
        TableColumn::number("total"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.view.attempt.to_string(),
            rounded(self.delay),
            rounded(self.total),
            self.note.to_owned(),
        ]
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct PlottedWaitRow(WaitRow);

impl TableRow for PlottedWaitRow {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("attempt"),
        TableColumn::number("delay"),
        TableColumn::number("total"),
        TableColumn::text(""),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let mut cells = self.0.cells();
        cells.insert(3, self.0.bar.clone());
        cells
    }
}
