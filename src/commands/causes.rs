//! `redrive causes`: what failures of all kinds have in common (CAU-2, CAU-4).

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use redrive_engine::{Clock, SystemClock};
use redrive_ops::{
    Changeable, parse_fingerprint, parse_past,
    views::{CauseView, PartitionView, SampleView},
    words::{between, in_largest_unit},
};
use redrive_store::{
    CauseChange, CauseKind, CauseMark, ItemRecord, MAX_CAUSES, RunRecord, UnitKind,
};
use serde::Serialize;

use crate::{
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{TableColumn, TableRow, excerpt},
};

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
STUCK units were given up, or are failed partitions; WAITING units are retried by themselves. ATTEMPTS failed in the
period. Every command that lists or changes units takes --cause FINGERPRINT.

Examples:
  redrive causes
  redrive causes --kind run --since 2h
  redrive causes show 68af3934cc71cda7
  redrive runs retry --cause 68af3934cc71cda7
  redrive causes mark 68af3934cc71cda7 fixed --ticket OPS-7"
)]
pub(crate) struct CausesArgs {
    #[command(subcommand)]
    command: Option<CausesCommand>,

    /// Only units of this kind
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Option<UnitKind>,

    /// Count attempts since this time, by whole hours: an instant, or how long ago, such as 2h [default: the last day]
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    since: Option<Timestamp>,

    /// Only causes whose message or code contains this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    /// The most causes to print, up to 1000
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CAUSES)))]
    limit: u32,
}

fn parse_kind(text: &str) -> Result<UnitKind, String> {
    let names = UnitKind::ALL.map(UnitKind::name).join(", ");
    UnitKind::from_name(text).ok_or_else(|| format!("the kinds are {names}"))
}

#[derive(Debug, Subcommand)]
enum CausesCommand {
    /// Show a cause with its message, its places and what is known of it
    #[command(after_help = "\
Examples:
  redrive causes show 68af3934cc71cda7
  redrive causes show 68af3934cc71cda7 -o json")]
    Show {
        /// The fingerprint, as `redrive causes` prints it
        #[arg(value_parser = parse_fingerprint)]
        fingerprint: String,
    },
    /// Write a note or a ticket down; an empty text removes it
    #[command(after_help = "\
Examples:
  redrive causes note 68af3934cc71cda7 --text 'the provider is down' --ticket OPS-7",
        group = ArgGroup::new("known").args(["text", "ticket"]).required(true).multiple(true))]
    Note {
        /// The fingerprint, as `redrive causes` prints it
        #[arg(value_parser = parse_fingerprint)]
        fingerprint: String,

        /// The note
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,

        /// The ticket
        #[arg(long, value_name = "TEXT")]
        ticket: Option<String>,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Mark a cause as known or fixed, or remove its mark
    #[command(after_help = "\
If a fixed cause comes back, this is reported once: in the journal, by notifiers and on the dashboard.

Examples:
  redrive causes mark 68af3934cc71cda7 known
  redrive causes mark 68af3934cc71cda7 fixed --ticket OPS-7
  redrive causes mark 68af3934cc71cda7 none")]
    Mark {
        /// The fingerprint, as `redrive causes` prints it
        #[arg(value_parser = parse_fingerprint)]
        fingerprint: String,

        /// The mark
        mark: MarkName,

        /// A note
        #[arg(long, value_name = "TEXT")]
        text: Option<String>,

        /// The ticket
        #[arg(long, value_name = "TEXT")]
        ticket: Option<String>,

        /// The reason, for the journal
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum MarkName {
    Known,
    Fixed,
    None,
}

impl TableRow for CauseView {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::number("stuck"),
        TableColumn::number("waiting"),
        TableColumn::number("attempts"),
        TableColumn::text("last day"),
        TableColumn::key("cause"),
        TableColumn::text("code"),
        TableColumn::text("where"),
        TableColumn::text("first"),
        TableColumn::text("last"),
        TableColumn::text("example"),
        TableColumn::text("mark"),
        TableColumn::text("message"),
    ];

    fn cells(&self) -> Vec<String> {
        let now = SystemClock.now();
        vec![
            self.stuck.to_string(),
            self.waiting.to_string(),
            self.attempts.to_string(),
            self.sparkline(),
            self.fingerprint.clone(),
            self.code.clone(),
            self.described_places(),
            ago(self.first_at, now),
            ago(self.last_at, now),
            self.example.clone().unwrap_or_default(),
            self.state().to_owned(),
            excerpt(&self.message),
        ]
    }
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    in_largest_unit(between(at, now))
}

pub(crate) async fn run(args: CausesArgs, context: &Context) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let failed = |error| ops.store_error(error);
    let (fingerprint, change) = match args.command {
        None => {
            let causes =
                ops.causes(args.kind, args.since, args.search.as_deref(), args.limit).await;
            let causes = causes.map_err(failed)?;
            let is_full = causes.len() >= args.limit as usize;
            context.output.list(causes)?;
            if is_full {
                context.output.footer("there may be more; raise --limit")?;
            }
            return Ok(Exit::Ok);
        }
        Some(CausesCommand::Show { fingerprint }) => (fingerprint, None),
        Some(CausesCommand::Note { fingerprint, text, ticket, reason }) => {
            (fingerprint, Some((None, text, ticket, reason)))
        }
        Some(CausesCommand::Mark { fingerprint, mark, text, ticket, reason }) => {
            let mark = Some(match mark {
                MarkName::Known => Some(CauseMark::Known),
                MarkName::Fixed => Some(CauseMark::Fixed),
                MarkName::None => None,
            });
            (fingerprint, Some((mark, text, ticket, reason)))
        }
    };
    let unknown = || {
        CommandError::new(Exit::Error, format!("there is no cause {fingerprint}"))
            .help("`redrive causes` lists them")
    };
    if let Some((mark, text, ticket, reason)) = change {
        let change = CauseChange::new(mark, text.as_deref(), ticket.as_deref())
            .map_err(|error| CommandError::usage(error.to_string()))?;
        let is_known = ops.change_cause(&fingerprint, change, &operator(reason)).await;
        if !is_known.map_err(failed)? {
            return Err(unknown());
        }
    }
    let cause = ops.cause(&fingerprint).await.map_err(failed)?.ok_or_else(unknown)?;
    context.output.record(&CauseDetails(&cause))?;
    if !context.output.is_table() {
        return Ok(Exit::Ok);
    }
    context.output.section("units", &cause.kinds)?;
    context.output.section("journal", cause.journal.as_deref().unwrap_or_default())?;
    let has_terminal = ops.may_have_terminal(&fingerprint).await.map_err(failed)?;
    let commands = cause.kinds.iter().flat_map(|counts| commands(counts, has_terminal));
    let commands: Vec<String> = commands
        .map(|(command, flags)| format!("\n  redrive {command} --cause {fingerprint}{flags}"))
        .collect();
    if !commands.is_empty() {
        context.output.footer(&format!("once it is fixed:{}", commands.concat()))?;
    }
    Ok(Exit::Ok)
}

/// The commands that bring units of a kind back, each with what follows its `--cause`.
fn commands(counts: &CauseKind, has_terminal: bool) -> Vec<(String, &'static str)> {
    let (stuck, waiting) = (counts.stuck > 0, counts.waiting > 0);
    let of_stuck = match counts.kind {
        UnitKind::Run => revive::<RunRecord>(),
        UnitKind::Partition => revive::<PartitionView>(),
        UnitKind::Item => revive::<ItemRecord>(),
        UnitKind::Sample => revive::<SampleView>(),
    };
    let of_others = match counts.kind {
        UnitKind::Run => (waiting, of_stuck, " --state waiting"),
        UnitKind::Partition => (has_terminal, of_stuck, " --clear-terminal"),
        // `uploads run` sends pending items, group by group.
        UnitKind::Item => (waiting, ["uploads", "list"], " --state pending"),
        UnitKind::Sample => (false, of_stuck, ""),
    };
    let commands = [(stuck, of_stuck, ""), of_others];
    let meant = commands.into_iter().filter(|(is_meant, ..)| *is_meant);
    meant.map(|(_, command, flags)| (command.join(" "), flags)).collect()
}

fn revive<R: Changeable>() -> [&'static str; 2] {
    [R::COMMAND, R::REVIVE]
}

/// A cause as lines of text.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct CauseDetails<'a>(&'a CauseView);

impl TableRow for CauseDetails<'_> {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("cause"),
        TableColumn::text("class"),
        TableColumn::text("code"),
        TableColumn::text("where"),
        TableColumn::text("attempts"),
        TableColumn::text("last day"),
        TableColumn::text("first at"),
        TableColumn::text("last at"),
        TableColumn::text("example"),
        TableColumn::text("mark"),
        TableColumn::text("note"),
        TableColumn::text("ticket"),
        TableColumn::text("first message"),
    ];

    fn cells(&self) -> Vec<String> {
        let cause = self.0;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mark = match (&cause.marked_by, cause.marked_at, cause.returned_at) {
            (Some(by), Some(at), Some(back)) => {
                format!("fixed by {by} at {at}; came back at {back}")
            }
            (Some(by), Some(at), None) => format!("{} by {by} at {at}", cause.state()),
            _ => String::new(),
        };
        vec![
            cause.fingerprint.clone(),
            cause.class.clone(),
            cause.code.clone(),
            cause.described_places(),
            cause.attempts.to_string(),
            cause.sparkline(),
            cause.first_at.to_string(),
            cause.last_at.to_string(),
            text(&cause.example),
            mark,
            text(&cause.note),
            text(&cause.ticket),
            cause.full_message.clone(),
        ]
    }
}

impl TableRow for CauseKind {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::text("kind"),
        TableColumn::number("stuck"),
        TableColumn::number("waiting"),
        TableColumn::number("failed attempts"),
    ];

    fn cells(&self) -> Vec<String> {
        let counts = [self.stuck, self.waiting, self.attempts].map(|count| count.to_string());
        [self.kind.name().to_owned()].into_iter().chain(counts).collect()
    }
}
