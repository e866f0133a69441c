//! What a plan does, and to which units.

use clap::{
    Arg, ArgMatches, Args, Command, FromArgMatches,
    error::{Error, ErrorKind},
};
use redrive_ops::{Resource, TermText};
use redrive_store::{
    ItemRecord, PlanAction, RunAction, RunRecord, Selection, SelectionTerm, StateFilter, UnitKind,
};

/// An action, a kind, and a flag for every term of the kinds.
#[derive(Debug, Clone)]
pub(super) struct PlanTarget {
    pub(super) action: PlanAction,
    pub(super) selection: Box<Selection>,
}

impl PlanTarget {
    /// One selection for each state that the action is about.
    pub(super) fn selections(&self) -> Vec<Selection> {
        if self.selection.state.is_some() {
            return vec![(*self.selection).clone()];
        }
        let of = |state| Selection { state: Some(state), ..(*self.selection).clone() };
        self.action.states().into_iter().map(of).collect()
    }
}

const ACTIONS: [(UnitKind, &str, PlanAction); 4] = [
    (UnitKind::Run, "retry", PlanAction::Run(RunAction::Retry)),
    (UnitKind::Run, "cancel", PlanAction::Run(RunAction::Cancel)),
    (UnitKind::Item, "reset", PlanAction::ResetItem),
    (UnitKind::Sample, "reprocess", PlanAction::ReprocessSample),
];

type States = &'static [(&'static str, StateFilter)];

/// What selects units of a kind.
fn terms(kind: UnitKind) -> (&'static [SelectionTerm], States) {
    match kind {
        UnitKind::Run => (RunRecord::TERMS, RunRecord::STATES),
        UnitKind::Item => (ItemRecord::TERMS, ItemRecord::STATES),
        UnitKind::Sample => {
            type Sample = redrive_ops::views::SampleView;
            (Sample::TERMS, Sample::STATES)
        }
        UnitKind::Partition => (&[], &[]),
    }
}

/// Every term of any kind, once.
fn all_terms() -> impl Iterator<Item = SelectionTerm> {
    let known =
        |term: &SelectionTerm| UnitKind::ALL.iter().any(|kind| terms(*kind).0.contains(term));
    SelectionTerm::FIELDS.iter().copied().filter(known)
}

impl Args for PlanTarget {
    fn augment_args(command: Command) -> Command {
        let action = Arg::new("action")
            .value_name("ACTION")
            .required(true)
            .help("retry or cancel runs, reset items, reprocess samples");
        let kind = Arg::new("kind").long("kind").value_name("KIND").required(true);
        let command = command.arg(action).arg(kind.help("The kind of units: run, item or sample"));
        let term = |command: Command, term: SelectionTerm| {
            let text = TermText::of(term);
            command.arg(
                Arg::new(term.name())
                    .long(term.name().replace('_', "-"))
                    .value_name(text.value)
                    .help(text.help)
                    .allow_hyphen_values(true),
            )
        };
        let state = Arg::new("state").long("state").value_name("STATE");
        all_terms().fold(command, term).arg(state.help("Only units in this state"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PlanTarget {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let invalid = |problem: String| Error::raw(ErrorKind::ValueValidation, problem + "\n");
        let given = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let (action, kind) = (given("action").unwrap_or(""), given("kind").unwrap_or(""));
        let known = ACTIONS.iter().find(|(of, name, _)| of.name() == kind && *name == action);
        let Some((kind, _, action)) = known else {
            let known = ACTIONS.map(|(kind, name, _)| format!("{name} --kind {}", kind.name()));
            return Err(invalid(format!("the actions are {}", known.join(", "))));
        };
        let (terms, states) = terms(*kind);
        let mut selection: Box<Selection> = Box::default();
        for term in all_terms() {
            let Some(value) = given(term.name()) else { continue };
            if !terms.contains(&term) {
                let flag = term.name().replace('_', "-");
                return Err(invalid(format!("--{flag} does not select a {}", kind.name())));
            }
            TermText::set(&mut selection, term, value).map_err(invalid)?;
        }
        if let Some(state) = given("state") {
            let name = state.replace('-', "_");
            let found = states.iter().find(|(known, _)| *known == name);
            let names: Vec<&str> = states.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ").replace('_', "-");
            let unknown = || invalid(format!("the states are {names}"));
            selection.state = Some(found.ok_or_else(unknown)?.1);
        }
        Ok(Self { action: *action, selection })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
