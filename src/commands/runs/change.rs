//! `redrive runs retry | cancel`: what an operator does to runs, behind rails.
//!
//! Runs are named one by one, or by their queue. Nothing is done to nothing: a selection without a
//! run is refused. More than a few are asked about first. A dry run goes through the same selection
//! and the same rules and writes nothing.

use std::{collections::HashMap, sync::Arc};

use clap::Args;
use redrive::{RunId, RunState, RunStatus, config::Config};
use redrive_store::{Operator, RunChange, RunFilter, RunRecord, RunWish, Store};

use super::{
    changed::{Mode, print},
    parse_id, parse_status,
};
use crate::{
    confirm::confirm,
    context::{ChosenStore, Context, Missing},
    exit::{Exit, Failure},
    operator::operator,
};

/// More runs than this are asked about.
const UNASKED_RUNS: usize = 20;

/// How many runs change in one transaction.
const BATCH_RUNS: usize = 1_000;

/// How many runs are read at once while they are selected; they come with their payloads.
const SELECTION_PAGE: u32 = 200;

/// The arguments of `runs retry`.
#[derive(Debug, Args)]
#[command(after_help = "\
A run goes back to its queue, ready at once, with a new count of attempts; its history stays. Runs
that passed, are ready or under way are left alone. Asks before more than 20 runs.
Exit codes: 0 all done; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs retry 17 18
  redrive runs retry --queue verify --dry-run
  redrive runs retry --queue verify --status needs_review --yes --reason 'rules were fixed'")]
pub(crate) struct RetryArguments {
    #[command(flatten)]
    selection: Selection,

    /// With --queue: those with this status alone [default: error]
    #[arg(long, value_name = "STATUS", requires = "queue", value_parser = parse_status)]
    status: Option<RunStatus>,
}

/// The arguments of `runs cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
A run that a worker holds is taken from it: the handler is ended at the worker's next renewal, and
nothing it still says is kept. Runs that have ended are left alone. Asks before more than 20 runs.
Exit codes: 0 all done; 3 some; 1 none; 4 refused, nothing changed.

Examples:
  redrive runs cancel 17 --reason 'sent by mistake'
  redrive runs cancel --queue verify --dry-run
  redrive runs cancel --queue verify --status discovered --yes")]
pub(crate) struct CancelArguments {
    #[command(flatten)]
    selection: Selection,

    /// With --queue: those with this status alone [default: discovered, processing and error]
    #[arg(long, value_name = "STATUS", requires = "queue", value_parser = parse_status)]
    status: Option<RunStatus>,
}

#[derive(Debug, Args)]
struct Selection {
    /// The runs
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = parse_id,
          conflicts_with_all = ["queue", "category", "status"])]
    ids: Vec<RunId>,

    /// The runs of this queue instead
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,

    /// With --queue: those of this category alone
    #[arg(long, value_name = "NAME", requires = "queue")]
    category: Option<String>,

    /// Why, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// Runs `runs retry`.
pub(crate) async fn retry(arguments: RetryArguments, context: &Context) -> Result<Exit, Failure> {
    let statuses = arguments.status.map_or(vec![RunStatus::Error], |status| vec![status]);
    change(RunWish::Retry, arguments.selection, &statuses, context).await
}

/// Runs `runs cancel`.
pub(crate) async fn cancel(arguments: CancelArguments, context: &Context) -> Result<Exit, Failure> {
    let unended = vec![RunStatus::Discovered, RunStatus::Processing, RunStatus::Error];
    let statuses = arguments.status.map_or(unended, |status| vec![status]);
    change(RunWish::Cancel, arguments.selection, &statuses, context).await
}

async fn change(
    wish: RunWish,
    selection: Selection,
    statuses: &[RunStatus],
    context: &Context,
) -> Result<Exit, Failure> {
    if selection.ids.is_empty() && selection.queue.is_none() {
        return Err(Failure::new(Exit::Refused, "no runs are named; nothing was changed")
            .help("name them by id, or all of a queue with --queue NAME"));
    }
    let config: Option<Config> = context.config()?;
    let chosen = context.store(config.as_ref())?;
    let store = chosen.open(config.as_ref(), Missing::Refuse).await?;
    let control = Control { store, chosen: &chosen, wish };
    let ids = control.select(&selection, statuses).await?;
    if ids.is_empty() {
        let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
        let message = format!("no run matches with status {}", names.join(" or "));
        return Err(Failure::new(Exit::Refused, format!("{message}; nothing was changed"))
            .help("`redrive runs stats` shows what there is"));
    }
    if selection.dry_run {
        let changes = control.foresee(&ids).await?;
        return print(&changes, Mode::DryRun, context);
    }
    if ids.len() > UNASKED_RUNS {
        let question = format!("{} {} runs in {}?", verb(wish), ids.len(), chosen.url);
        confirm(&question, selection.yes)?;
    }
    let by = operator(selection.reason);
    let (changes, failed) = control.act(&ids, &by).await;
    let exit = match (&failed, changes.is_empty()) {
        (Some(_), true) => Exit::Error,
        _ => print(&changes, Mode::Real, context)?,
    };
    match failed {
        None => Ok(exit),
        Some(failure) => {
            let rest = ids.len() - changes.len();
            Err(failure.help(format!("{rest} runs were not reached; say it again for those")))
        }
    }
}

fn verb(wish: RunWish) -> &'static str {
    match wish {
        RunWish::Retry => "Retry",
        RunWish::Cancel => "Cancel",
    }
}

/// A wish, and the store it is for.
struct Control<'a> {
    store: Arc<dyn Store>,
    chosen: &'a ChosenStore,
    wish: RunWish,
}

impl Control<'_> {
    /// The runs that are meant, each once.
    async fn select(
        &self,
        selection: &Selection,
        statuses: &[RunStatus],
    ) -> Result<Vec<RunId>, Failure> {
        let mut ids = selection.ids.clone();
        if selection.queue.is_some() {
            for status in statuses {
                let filter = RunFilter {
                    queue: selection.queue.clone(),
                    category: selection.category.clone(),
                    status: Some(*status),
                };
                self.add_matching(&filter, &mut ids).await?;
            }
        }
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    async fn add_matching(&self, filter: &RunFilter, ids: &mut Vec<RunId>) -> Result<(), Failure> {
        let mut after = RunId(0);
        loop {
            let page = self.store.runs_page(filter, after, SELECTION_PAGE).await;
            let page = page.map_err(|error| self.chosen.failure(error))?;
            ids.extend(page.iter().map(|run| run.id));
            match page.last() {
                Some(last) if page.len() >= SELECTION_PAGE as usize => after = last.id,
                _ => return Ok(()),
            }
        }
    }

    /// What would become of the runs.
    async fn foresee(&self, ids: &[RunId]) -> Result<Vec<(RunId, RunChange)>, Failure> {
        let mut changes = Vec::new();
        for batch in ids.chunks(SELECTION_PAGE as usize) {
            let runs = self.store.runs_by_id(batch).await;
            let runs = runs.map_err(|error| self.chosen.failure(error))?;
            let states: HashMap<RunId, RunState> =
                runs.iter().map(|run| (run.id, state_of(run))).collect();
            changes.extend(self.wish.changes(batch, states));
        }
        Ok(changes)
    }

    /// Does it, as far as the store answers.
    async fn act(
        &self,
        ids: &[RunId],
        by: &Operator,
    ) -> (Vec<(RunId, RunChange)>, Option<Failure>) {
        let mut changes = Vec::new();
        for batch in ids.chunks(BATCH_RUNS) {
            let changed = match self.wish {
                RunWish::Retry => self.store.retry_runs(batch, by).await,
                RunWish::Cancel => self.store.cancel_runs(batch, by).await,
            };
            match changed {
                Ok(changed) => changes.extend(batch.iter().copied().zip(changed)),
                Err(error) => return (changes, Some(self.chosen.failure(error))),
            }
        }
        (changes, None)
    }
}

/// The state of a stored run.
pub(crate) fn state_of(run: &RunRecord) -> RunState {
    RunState::of(run.status, run.next_retry_at.is_some())
}
