//! What the command line, the API and the dashboard list, show and change: one declaration per resource.
//!
//! A [`Resource`] names its columns, the terms and states that select it, and how to read it. Resources that operators
//! change declare their actions as well ([`Changeable`]). The three interfaces are generic over these traits, so a new
//! action is a variant of the resource's `Action`, its [`ActionDeclaration`], and what `change` does for it.
//!
//! - `column`: a column of a list
//! - `terms`: what selects units, with its flag, parameter and label
//! - `action`: what is declared about an action, its options and buttons
//! - `change`: the outcome of an action for one unit
//! - `note`: the action that every resource has
//! - `runs`, `items`, `partitions`, `samples`, `pipeline_runs`: the declarations

mod column;
mod terms;

mod action;
mod change;
mod note;

mod items;
mod partitions;
mod pipeline_runs;
mod runs;
mod samples;

use std::{
    fmt::{Debug, Display},
    future::Future,
    str::FromStr,
};

use redrive_core::Unit;
use redrive_store::{
    Operator, PageLimit, PageOrder, PlanAction, Result, Selection, SelectionTerm, StateFilter,
};
use serde::Serialize;

pub use action::{
    ActionDeclaration, ActionOption, ActionOptions, Button, CONFIRM_ABOVE, OptionKind, UnitAction,
};
pub use change::{ChangeResult, OutcomeCounts, UnitChange};
pub use column::{Column, ColumnKind};
pub use items::ItemAction;
pub use note::Note;
pub use partitions::partition_change;
pub(crate) use partitions::{partition_hint, partition_state_name};
pub use runs::run_state_name;
pub use samples::SampleAction;
pub use terms::{TermText, parse_fingerprint};

use crate::Ops;

/// Units that change in one transaction.
const BATCH: usize = 1_000;

/// Units that wait are counted up to about this number.
const MAX_COUNTED: usize = 10_000;

/// Rows of a read that looks for ids.
const SELECT_ROWS: u32 = 500;

/// Something that is listed, shown and selected.
pub trait Resource: Serialize + Send + Sync + Sized + 'static {
    type Id: Clone + Debug + Display + FromStr + Ord + Send + Sync + 'static;

    /// In messages: `there is no run 17`.
    const NOUN: &'static str;
    const COLUMNS: &'static [Column<Self>];
    const TERMS: &'static [SelectionTerm];
    /// Whether rows have data that lists leave out unless asked.
    const HAS_DATA: bool = false;
    /// The names of states, and what they select.
    const STATES: &'static [(&'static str, StateFilter)];
    /// The state of a selection that names none.
    const STATE: Option<StateFilter> = None;
    /// The order of lists that name none.
    const ORDER: PageOrder = PageOrder::Ascending;

    fn id(&self) -> Self::Id;

    /// An id as users write it, with or without the name of its kind: `17` or `run:17`. An error says what is allowed.
    fn parse_id(text: &str) -> std::result::Result<Self::Id, String> {
        let bare = bare_id::<Self>(text);
        let id: Option<Self::Id> = bare.parse().ok();
        // A number is written without signs and zeros.
        let id = id.filter(|id| id.to_string() == bare && !bare.starts_with(['-', '0']));
        id.ok_or_else(|| "an id is a whole number, 1 or greater".to_owned())
    }

    /// False for a row about something that is not stored.
    fn exists(&self) -> bool {
        true
    }

    /// A page in the order of ids that the limit has, beyond `after` or from the start.
    fn page(
        ops: &Ops,
        selection: &Selection,
        after: Option<&Self::Id>,
        limit: PageLimit,
    ) -> impl Future<Output = Result<Page<Self>>> + Send;

    /// Those that exist, with their data, in any order.
    fn by_id(ops: &Ops, ids: &[Self::Id]) -> impl Future<Output = Result<Vec<Self>>> + Send;
}

fn bare_id<R: Resource>(text: &str) -> &str {
    text.strip_prefix(R::NOUN).and_then(|rest| rest.strip_prefix(':')).unwrap_or(text)
}

/// Rows, and whether more may follow.
#[derive(Debug)]
pub struct Page<R> {
    pub rows: Vec<R>,
    pub has_more: bool,
}

/// A resource that operators change.
pub trait Changeable: Resource {
    type Action: Copy + Debug + Send + Sync + 'static;

    /// `runs` in `redrive runs retry`.
    const COMMAND: &'static str;
    /// A unit for examples.
    const EXAMPLE: &'static str;
    const ACTIONS: &'static [ActionDeclaration<Self>];
    /// The action that brings failed units back: the first.
    const REVIVE: &'static str = match Self::ACTIONS {
        [first, ..] => first.name,
        [] => "",
    };

    /// The actions of the resource, and the one that all have.
    fn actions() -> impl Iterator<Item = &'static ActionDeclaration<Self>> {
        Self::ACTIONS.iter().chain([ActionDeclaration::NOTE])
    }

    fn action(name: &str) -> Option<&'static ActionDeclaration<Self>> {
        Self::actions().find(|action| action.name == name)
    }

    fn unit(id: &Self::Id) -> Unit;

    /// The unit of a row, which may know more than its id.
    fn unit_of(&self) -> Unit {
        Self::unit(&self.id())
    }

    /// The plan that does the action to all that match; `None` if it is done to one unit after the other.
    fn plan_action(action: Self::Action, options: &ActionOptions) -> Option<PlanAction>;

    /// The unit that a selection names, if it names one.
    fn named(selection: &Selection) -> Option<Self::Id> {
        let _ = selection;
        None
    }

    /// Changes units, or says what would change, in batches. Batches that were reported are applied, also if a later
    /// one fails.
    fn change(
        ops: &Ops,
        action: Self::Action,
        request: &ChangeRequest<'_>,
        ids: &[Self::Id],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> impl Future<Output = Result<()>> + Send;
}

/// The plan that does an action of this name to all that match; `None` if no plan does it.
pub fn plan_action<R: Changeable>(name: &str, options: &ActionOptions) -> Option<PlanAction> {
    match R::action(name)?.with(options).ok()? {
        UnitAction::Own(own) => R::plan_action(own, options),
        UnitAction::Note(_) => None,
    }
}

/// By whom a change is requested, and for the journal how it was asked.
#[derive(Debug)]
pub struct ChangeRequest<'a> {
    pub options: ActionOptions,
    pub by: &'a Operator,
    pub dry_run: bool,
    /// Such as `state retry`.
    pub command: String,
    pub selection: Selection,
    pub flags: Vec<String>,
}

const fn state(status: &'static str) -> StateFilter {
    StateFilter { status, waiting: None }
}

/// A failed unit that is retried by itself, or is not.
const fn waiting(status: &'static str, waiting: bool) -> StateFilter {
    StateFilter { status, waiting: Some(waiting) }
}

impl Ops {
    /// The units that match and are in one of the states, at most `max`. If the selection has a state, that one counts.
    pub async fn in_states<R: Resource>(
        &self,
        states: &[StateFilter],
        selection: &Selection,
        max: usize,
    ) -> Result<Vec<R::Id>> {
        let states: Vec<Option<StateFilter>> = match (selection.state.or(R::STATE), states) {
            (None, states @ [_, ..]) => states.iter().copied().map(Some).collect(),
            (state, _) => vec![state],
        };
        let mut ids = Vec::new();
        for state in states {
            let selection = Selection { state, ..selection.clone() };
            self.add_matching::<R>(&selection, max, &mut ids).await?;
        }
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(max);
        Ok(ids)
    }

    /// In words: the units that wait and would match if the selection named their state.
    pub async fn waiting_matches<R: Changeable>(
        &self,
        declared: &ActionDeclaration<R>,
        selection: &Selection,
    ) -> Result<Option<String>> {
        let state = declared.waiting_state.filter(|_| selection.state.is_none());
        if state.is_none() {
            return Ok(None);
        }
        let selection = Selection { state, ..selection.clone() };
        let mut ids = Vec::new();
        self.add_matching::<R>(&selection, MAX_COUNTED, &mut ids).await?;
        Ok(match ids.len() {
            0 => None,
            1 => Some(format!("1 {} waits for its retry", R::NOUN)),
            many => {
                let more = if many >= MAX_COUNTED { " or more" } else { "" };
                Some(format!("{many}{more} {}s wait for their retry", R::NOUN))
            }
        })
    }

    async fn add_matching<R: Resource>(
        &self,
        selection: &Selection,
        max: usize,
        ids: &mut Vec<R::Id>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let limit = PageLimit::without_data(SELECT_ROWS);
            let page = R::page(self, selection, after.as_ref(), limit).await?;
            ids.extend(page.rows.iter().map(Resource::id));
            match page.rows.last() {
                Some(last) if page.has_more && ids.len() < max => after = Some(last.id()),
                _ => return Ok(()),
            }
        }
    }

    /// Changes units in batches, as [`Changeable::change`] does.
    pub async fn change<R: Changeable>(
        &self,
        action: &UnitAction<R::Action>,
        request: &ChangeRequest<'_>,
        ids: &[R::Id],
        report: &mut (dyn FnMut(Vec<UnitChange>) + Send),
    ) -> Result<()> {
        match action {
            UnitAction::Own(own) => R::change(self, *own, request, ids, report).await,
            UnitAction::Note(note) => self.note_units::<R>(note, request, ids, report).await,
        }
    }

    /// The outcomes of an action, or the expected ones of a dry run.
    pub async fn outcomes<R: Changeable>(
        &self,
        action: &UnitAction<R::Action>,
        request: &ChangeRequest<'_>,
        ids: &[R::Id],
    ) -> (Vec<UnitChange>, Result<()>) {
        let mut changes = Vec::new();
        let report = &mut |batch| changes.extend(batch);
        let result = self.change::<R>(action, request, ids, report).await;
        (changes, result)
    }
}
