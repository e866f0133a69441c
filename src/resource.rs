//! Lists, units and actions of every resource: `runs list`, `uploads show`, `state retry` and their like. The
//! subcommands of actions are in `action_command.rs`.

use std::{collections::HashMap, marker::PhantomData};

use clap::{
    Arg, ArgMatches, Args, Command, FromArgMatches,
    error::{Error, ErrorKind},
};
use redrive_ops::{
    ActionDeclaration, ActionOptions, ChangeRequest, ChangeResult, Changeable, ColumnKind,
    OutcomeCounts, Resource, TermText, UnitAction, UnitChange,
};
use redrive_store::{MAX_BATCH, MAX_PAGE, PageLimit, Selection, SelectionTerm, StateFilter};
use serde::Serialize;

use crate::{
    bulk::act_on_all,
    confirm::confirm,
    context::{Context, IfMissing},
    exit::{CommandError, Exit},
    open_store::OpenStore,
    operator::operator,
    output::{Listing, TableColumn, TableRow, excerpt},
};

/// A note is printed each time this many units are through.
const PROGRESS_EVERY: u64 = 10_000;

/// A flag for every term of a resource, and `--state`.
#[derive(Debug, Clone)]
pub(crate) struct SelectionArgs<R> {
    pub(crate) selection: Box<Selection>,
    names_state: bool,
    resource: PhantomData<fn() -> R>,
}

impl<R: Resource> Args for SelectionArgs<R> {
    fn augment_args(command: Command) -> Command {
        let term = |command: Command, term: &SelectionTerm| {
            let (term, text) = (*term, TermText::of(*term));
            let check = move |value: &str| {
                TermText::set(&mut Selection::default(), term, value).map(|()| value.to_owned())
            };
            command.arg(
                Arg::new(term.name())
                    .long(term.name().replace('_', "-"))
                    .value_name(text.value)
                    .help(text.help)
                    .allow_hyphen_values(true)
                    .value_parser(check),
            )
        };
        let command = R::TERMS.iter().fold(command, term);
        if R::STATES.is_empty() {
            return command;
        }
        let names: Vec<&str> = R::STATES.iter().map(|(name, _)| *name).collect();
        command.arg(
            Arg::new("state")
                .long("state")
                .alias("status")
                .value_name("STATE")
                .help(format!("Only this state: {}", names.join(", ").replace('_', "-")))
                .value_parser(|value: &str| state::<R>(value).map(|_| value.to_owned())),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn state<R: Resource>(value: &str) -> Result<StateFilter, String> {
    let name = value.replace('-', "_");
    let found = R::STATES.iter().find(|(known, _)| *known == name).map(|(_, state)| *state);
    found.ok_or_else(|| {
        let names: Vec<&str> = R::STATES.iter().map(|(name, _)| *name).collect();
        format!("the states are {}", names.join(", ").replace('_', "-"))
    })
}

impl<R: Resource> FromArgMatches for SelectionArgs<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let invalid = |problem: String| Error::raw(ErrorKind::ValueValidation, problem);
        let mut selection: Box<Selection> = Box::default();
        for term in R::TERMS {
            if let Some(value) = matches.get_one::<String>(term.name()) {
                TermText::set(&mut selection, *term, value).map_err(invalid)?;
            }
        }
        let named = matches.try_get_one::<String>("state").ok().flatten();
        let named = named.map(|value| state::<R>(value)).transpose().map_err(invalid)?;
        selection.state = named.or(R::STATE);
        Ok(Self { selection, names_state: named.is_some(), resource: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs<R: Resource> {
    #[command(flatten)]
    pub(crate) terms: SelectionArgs<R>,

    /// The most rows to print, up to 10000
    #[arg(long, value_name = "N", default_value_t = 100, allow_hyphen_values = true,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_PAGE)))]
    pub(crate) limit: u32,

    /// Start after this id
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = R::parse_id)]
    pub(crate) after: Option<R::Id>,
}

/// A row of a list: all fields as JSON, the columns of its resource in a table.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ListRow<R>(pub(crate) R);

impl<R: Resource> TableRow for ListRow<R> {
    fn columns() -> Vec<TableColumn> {
        let shown = R::COLUMNS.iter().filter(|column| !column.only_on_pages);
        let column = |column: &redrive_ops::Column<R>| match column.kind {
            ColumnKind::Number => TableColumn::number(column.heading),
            ColumnKind::Id => TableColumn::key(column.heading),
            _ => TableColumn::text(column.heading),
        };
        shown.map(column).collect()
    }

    fn cells(&self) -> Vec<String> {
        let shown = R::COLUMNS.iter().filter(|column| !column.only_on_pages);
        let cell = |column: &redrive_ops::Column<R>| match column.kind {
            ColumnKind::Message => excerpt(&column.cell(&self.0)),
            _ => column.cell(&self.0),
        };
        shown.map(cell).collect()
    }
}

/// Prints a list. JSON formats have the data of each row if `with_data` is set.
pub(crate) async fn list<R: Resource>(
    args: ListArgs<R>,
    with_data: bool,
    context: &Context,
) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let (mut after, mut left) = (args.after, args.limit);
    let mut listing = Listing::new(context.output);
    let last = loop {
        let with_data = with_data && !context.output.is_table();
        let limit = PageLimit { rows: left, with_data, order: R::ORDER };
        let page = R::page(&ops, &args.terms.selection, after.as_ref(), limit).await;
        let page = page.map_err(|error| ops.store_error(error))?;
        left -= left.min(page.rows.len() as u32);
        after = page.rows.last().map(R::id).or(after);
        listing.add(page.rows.into_iter().map(ListRow))?;
        if !page.has_more || left == 0 {
            break after.filter(|_| left == 0);
        }
    };
    let hidden = listing.end()?;
    if hidden > 0 {
        context.output.footer(&format!("{hidden} rows are not shown; -o jsonl prints all"))?;
    }
    if let Some(last) = last {
        context.output.footer(&format!("there may be more; continue with --after {last}"))?;
    }
    Ok(Exit::Ok)
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs<R: Resource> {
    /// The ids
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true,
          value_parser = R::parse_id)]
    pub(crate) ids: Vec<R::Id>,
}

/// Prints all fields of units.
pub(crate) async fn show<R: Resource>(
    args: ShowArgs<R>,
    context: &Context,
) -> Result<Exit, CommandError> {
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let mut found: HashMap<String, R> = HashMap::new();
    for ids in args.ids.chunks(MAX_BATCH) {
        let rows = R::by_id(&ops, ids).await.map_err(|error| ops.store_error(error))?;
        found.extend(rows.into_iter().map(|row| (row.id().to_string(), row)));
    }
    let known: Vec<&R> = args.ids.iter().filter_map(|id| found.get(&id.to_string())).collect();
    let unknown = args.ids.iter().filter(|id| !found.contains_key(&id.to_string()));
    let unknown: Vec<String> = unknown.map(ToString::to_string).collect();
    let missing = format!("there is no {} {}", R::NOUN, unknown.join(", "));
    if known.is_empty() {
        return Err(CommandError::new(Exit::Error, missing));
    }
    context.output.details(&known)?;
    if unknown.is_empty() {
        return Ok(Exit::Ok);
    }
    context.output.note(&missing);
    Ok(Exit::Partial)
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs<R: Resource> {
    /// The ids, instead of filters
    #[arg(value_name = "ID", allow_negative_numbers = true, value_parser = R::parse_id)]
    pub(crate) ids: Vec<R::Id>,

    #[command(flatten)]
    pub(crate) terms: SelectionArgs<R>,

    /// Select all; required if there is neither an id nor a filter
    #[arg(long)]
    pub(crate) all: bool,

    /// Keep the plan of the change as a draft; `redrive plan apply` applies it
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) plan: bool,

    #[command(flatten)]
    pub(crate) how: ChangeFlags,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeFlags {
    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Show what would change, without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Skip the confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}

impl<R: Resource> ChangeArgs<R> {
    /// Refuses an empty selection, and ids together with filters.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        let selection = &self.terms.selection;
        let is_filtered = !selection.is_empty() || self.terms.names_state || self.all;
        if !self.ids.is_empty() && is_filtered {
            return Err(CommandError::usage("ids cannot be combined with filters or --all"));
        }
        if self.ids.is_empty() && !is_filtered {
            let message = format!("no {}s are selected; nothing was changed", R::NOUN);
            let flag = R::TERMS.first().map_or("state", |term| term.name());
            let help = format!("select by id or by filters such as --{flag}, or pass --all");
            return Err(CommandError::new(Exit::Refused, message).help(help));
        }
        Ok(())
    }
}

/// Does an action, or shows what it would do. `command` is the words of the command, for the journal.
pub(crate) async fn act<R: Changeable>(
    command: &str,
    declared: &ActionDeclaration<R>,
    options: ActionOptions,
    args: ChangeArgs<R>,
    context: &Context,
) -> Result<Exit, CommandError> {
    args.check()?;
    let action = declared.with(&options).map_err(CommandError::usage)?;
    let ops = OpenStore::open(context, IfMissing::Refuse).await?;
    let flags = [
        ("--all", args.all),
        ("--clear-terminal", options.clear_terminal),
        ("--yes", args.how.yes),
        ("--force", options.force),
    ];
    let flags = flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned());
    let by = operator(args.how.reason.clone());
    let mut request = ChangeRequest {
        options,
        by: &by,
        dry_run: true,
        command: command.to_owned(),
        selection: *args.terms.selection,
        flags: flags.collect(),
    };
    let mut ids = args.ids;
    ids.extend(R::named(&request.selection));
    let plan_action = match &action {
        UnitAction::Own(own) if ids.is_empty() => R::plan_action(*own, &request.options),
        _ => None,
    };
    if let Some(plan_action) = plan_action {
        let selection = &request.selection;
        let how = (args.plan, args.how);
        let (exit, _) = act_on_all(&ops, declared, plan_action, selection, how, context).await?;
        return Ok(exit);
    }
    if args.plan {
        let why = match ids.is_empty() {
            true => format!("--plan: no plan does `redrive {command}`"),
            false => "--plan: a plan is made for filters, and the units are named".to_owned(),
        };
        let help = "without --plan the command does it at once; --dry-run only shows it";
        return Err(CommandError::usage(why).help(help));
    }
    if ids.is_empty() {
        let matching = ops.in_states::<R>(declared.states, &request.selection, usize::MAX).await;
        ids = matching.map_err(|error| ops.store_error(error))?;
    }
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        let message = format!("no {} matches; nothing was changed", R::NOUN);
        let error = CommandError::new(Exit::Refused, message);
        let waiting = ops.waiting_matches(declared, &request.selection).await;
        return Err(match waiting.map_err(|error| ops.store_error(error))? {
            Some(waiting) => error.help(format!("{waiting}; `--state waiting` takes them")),
            None => error,
        });
    }
    let above = declared.confirm_above;
    if !args.how.dry_run && !args.how.yes && ids.len() > above {
        let (expected, read) = ops.outcomes::<R>(&action, &request, &ids).await;
        read.map_err(|error| ops.store_error(error))?;
        let is_done = |change: &&UnitChange| change.outcome == ChangeResult::WouldBeDone;
        let (count, url) = (expected.iter().filter(is_done).count(), &ops.chosen.url);
        if count > above {
            let plural = if count == 1 { "" } else { "s" };
            confirm(&format!("{command}: change {count} {}{plural} in {url}?", R::NOUN), false)?;
        }
    }
    request.dry_run = args.how.dry_run;
    apply::<R>(&ops, &action, &request, &ids, |change| change, context).await
}

/// Applies an action and prints the outcome of each unit. `adjust` may correct it.
pub(crate) async fn apply<R: Changeable>(
    ops: &OpenStore,
    action: &UnitAction<R::Action>,
    request: &ChangeRequest<'_>,
    ids: &[R::Id],
    mut adjust: impl FnMut(UnitChange) -> UnitChange + Send,
    context: &Context,
) -> Result<Exit, CommandError> {
    let mut listing = ChangeListing::new(request.dry_run, context);
    let mut printed = Ok(());
    let mut report = |batch: Vec<UnitChange>| {
        let batch = batch.into_iter().map(&mut adjust).collect();
        // The change goes on even if the reader closes the output.
        if printed.is_ok() {
            printed = listing.add(batch);
        }
    };
    let written = ops.change::<R>(action, request, ids, &mut report).await;
    printed?;
    let exit = listing.end(0)?;
    written.map_err(|error| {
        let help = format!("the other {}s are unchanged; run the command again for them", R::NOUN);
        ops.store_error(error).help(help)
    })?;
    Ok(exit)
}

/// Prints outcomes batch by batch and counts them.
pub(crate) struct ChangeListing<'a> {
    dry_run: bool,
    context: &'a Context,
    listing: Listing<UnitChange>,
    counts: OutcomeCounts,
}

impl TableRow for UnitChange {
    const COLUMNS: &'static [TableColumn] = &[
        TableColumn::key("unit"),
        TableColumn::text("outcome"),
        TableColumn::text("before"),
        TableColumn::text(""),
    ];

    fn cells(&self) -> Vec<String> {
        let before = self.before.as_deref().unwrap_or_default().replace('_', " ");
        let outcome = self.outcome.name().replace('_', " ");
        vec![self.unit.clone(), outcome, before, self.why.clone().unwrap_or_default()]
    }
}

impl<'a> ChangeListing<'a> {
    pub(crate) fn new(dry_run: bool, context: &'a Context) -> Self {
        let listing = Listing::new(context.output);
        Self { dry_run, context, listing, counts: OutcomeCounts::default() }
    }

    pub(crate) fn add(&mut self, changes: Vec<UnitChange>) -> Result<(), CommandError> {
        let before = self.counts.total() / PROGRESS_EVERY;
        changes.iter().for_each(|change| self.counts.add(change));
        let total = self.counts.total();
        if total / PROGRESS_EVERY > before {
            self.context.output.note(&format!("{total} units so far"));
        }
        self.listing.add(changes)
    }

    /// Ends the list. Returns the exit code. So many refused units, at least, a flag allows.
    pub(crate) fn end(self, overridable: u64) -> Result<Exit, CommandError> {
        let hidden = self.listing.end()?;
        let OutcomeCounts { done, already, .. } = self.counts;
        let refused = self.counts.overridable + self.counts.refused;
        let overridable = overridable.max(self.counts.overridable).min(refused);
        let refused = refused - overridable;
        let verb = if self.dry_run { "would be done" } else { "done" };
        let mut summary = format!("{done} {verb}");
        if already > 0 {
            summary.push_str(&format!(", {already} already"));
        }
        summary.push_str(&format!(", {} refused", overridable + refused));
        if hidden > 0 {
            summary.push_str(&format!("; {hidden} rows are not shown, -o jsonl prints all"));
        }
        self.context.output.footer(&summary)?;
        Ok(match (done, overridable, refused) {
            (_, 0, 0) => Exit::Ok,
            (0, 0, _) => Exit::Error,
            (0, _, _) => Exit::Refused,
            (_, _, _) => Exit::Partial,
        })
    }
}
