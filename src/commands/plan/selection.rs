//! What a plan does, and to which units.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::Error};
use redrive_ops::{
    ActionDeclaration, ActionOption, ActionOptions, Changeable, OptionKind, TermText, plan_action,
    views::{PartitionView, SampleView},
};
use redrive_store::{
    ItemRecord, PlanAction, RunRecord, Selection, SelectionTerm, StateFilter, UnitKind,
};

use crate::action_command::{option_arg, option_value};

/// An action with its options, a kind, and a flag for every term of the kinds.
#[derive(Debug, Clone)]
pub(super) struct PlanTarget {
    pub(super) action: PlanAction,
    pub(super) selection: Box<Selection>,
    /// Whether everything is meant if there is no filter.
    pub(super) all: bool,
}

impl PlanTarget {
    pub(super) fn selects_all(&self) -> bool {
        self.selection.is_empty() && self.selection.state.is_none()
    }
}

/// What plans can do to units of a kind.
struct PlanKind {
    kind: UnitKind,
    terms: &'static [SelectionTerm],
    states: &'static [(&'static str, StateFilter)],
    actions: Vec<KnownAction>,
}

struct KnownAction {
    name: &'static str,
    options: &'static [ActionOption],
    make: fn(&str, &ActionOptions) -> Option<PlanAction>,
}

fn kinds() -> [PlanKind; 4] {
    [
        plan_kind::<RunRecord>(UnitKind::Run),
        plan_kind::<PartitionView>(UnitKind::Partition),
        plan_kind::<ItemRecord>(UnitKind::Item),
        plan_kind::<SampleView>(UnitKind::Sample),
    ]
}

fn plan_kind<R: Changeable>(kind: UnitKind) -> PlanKind {
    let known = |action: &ActionDeclaration<R>| KnownAction {
        name: action.name,
        options: action.options,
        make: plan_action::<R>,
    };
    let plans =
        |action: &KnownAction| (action.make)(action.name, &ActionOptions::default()).is_some();
    let actions = R::actions().map(known).filter(plans).collect();
    PlanKind { kind, terms: R::TERMS, states: R::STATES, actions }
}

/// The options of any action, once; all but the lane are flags, and each lane has its own default.
fn all_options() -> Vec<&'static ActionOption> {
    let mut options: Vec<&ActionOption> = Vec::new();
    for kind in kinds() {
        for option in kind.actions.iter().flat_map(|action| action.options) {
            if options.iter().all(|known| known.name != option.name) {
                options.push(option);
            }
        }
    }
    options
}

/// Every term of any kind, once.
fn all_terms() -> Vec<SelectionTerm> {
    let mut terms = Vec::new();
    for term in kinds().iter().flat_map(|kind| kind.terms) {
        if !terms.contains(term) {
            terms.push(*term);
        }
    }
    terms
}

/// The target, or what is wrong with it. An error that clap formats would print the usage of `redrive`.
#[derive(Debug, Clone)]
pub(super) struct TargetArgs(pub(super) Result<PlanTarget, String>);

impl Args for TargetArgs {
    fn augment_args(command: Command) -> Command {
        let names = |kind: &PlanKind| {
            let names: Vec<&str> = kind.actions.iter().map(|action| action.name).collect();
            format!("{}s: {}", kind.kind.name(), names.join(", "))
        };
        let help = kinds().each_ref().map(names).join("; ");
        let action = Arg::new("action").value_name("ACTION").required(true).help(help);
        let kind = Arg::new("kind").long("kind").value_name("KIND").required(true);
        let kind = kind.help("The kind of units: run, partition, item or sample");
        let kind = kind.value_parser(|text: &str| {
            let names = kinds().map(|kind| kind.kind.name());
            let problem = || format!("the kinds are {}", names.join(", "));
            names.contains(&text).then(|| text.to_owned()).ok_or_else(problem)
        });
        let all = Arg::new("all").long("all").action(ArgAction::SetTrue);
        let all = all.help("Select all; required if there is no filter");
        let option = |option: &'static ActionOption| {
            let arg = option_arg(option).help_heading("Options of partitions");
            match option.kind {
                OptionKind::Lane { .. } => arg.default_value(None),
                OptionKind::Flag | OptionKind::Text => arg,
            }
        };
        let command = command.arg(action).arg(kind).args(all_options().into_iter().map(option));
        let term = |command: Command, term: SelectionTerm| {
            let text = TermText::of(term);
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
        let state = Arg::new("state").long("state").alias("status").value_name("STATE");
        let command = all_terms().into_iter().fold(command, term);
        command.arg(state.help("Only units in this state")).arg(all)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TargetArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(PlanTarget::read(matches)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl PlanTarget {
    fn read(matches: &ArgMatches) -> Result<Self, String> {
        let given = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let (action, kind) = (given("action").unwrap_or(""), given("kind").unwrap_or(""));
        let kinds = kinds();
        let kind = kinds.iter().find(|known| known.kind.name() == kind);
        let kind = kind.ok_or_else(|| "--kind is required".to_owned())?;
        let noun = kind.kind.name();
        let Some(action) = kind.actions.iter().find(|known| known.name == action) else {
            let names: Vec<&str> = kind.actions.iter().map(|action| action.name).collect();
            let names = names.join(", ");
            return Err(format!("no plan does {action:?}; the actions of {noun}s are {names}"));
        };
        let mut options = ActionOptions::default();
        for option in all_options() {
            let Some(value) = option_value(option, matches) else { continue };
            if action.options.iter().all(|known| known.name != option.name) {
                let flag = option.name.replace('_', "-");
                return Err(format!("{} --kind {noun} has no --{flag}", action.name));
            }
            options.set(option.name, value)?;
        }
        let mut selection: Box<Selection> = Box::default();
        for term in all_terms() {
            let Some(value) = given(term.name()) else { continue };
            let flag = term.name().replace('_', "-");
            if !kind.terms.contains(&term) {
                return Err(format!("--{flag} does not select a {noun}"));
            }
            let problem = |problem| format!("invalid value {value:?} for --{flag}: {problem}");
            TermText::set(&mut selection, term, value).map_err(problem)?;
        }
        if let Some(state) = given("state") {
            let name = state.replace('-', "_");
            let found = kind.states.iter().find(|(known, _)| *known == name);
            let names: Vec<&str> = kind.states.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ").replace('_', "-");
            let unknown = || format!("invalid value {state:?} for --state: the states are {names}");
            selection.state = Some(found.ok_or_else(unknown)?.1);
        }
        let action = (action.make)(action.name, &options);
        let action = action.ok_or_else(|| "no plan does this".to_owned())?;
        Ok(Self { action, selection, all: matches.get_flag("all") })
    }
}
