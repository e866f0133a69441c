//! Declarations of actions: the command line, the API and the pages offer what stands here.

use redrive_store::{Lane, Selection, StateFilter};

use super::{Changeable, Note, note::NOTE_HELP};

/// More units than this need a confirmation.
pub const CONFIRM_ABOVE: usize = 20;

/// An action of operators on the units of a resource. Texts may have `{noun}`, `{command}` and `{unit}` for the names
/// of the resource and its command, and a unit as an example.
#[derive(Debug)]
pub struct ActionDeclaration<R: Changeable> {
    /// Of the subcommand and of the route.
    pub name: &'static str,
    about: &'static str,
    help: Option<&'static str>,
    pub options: &'static [ActionOption],
    /// The states that the action is about, if the selection names none; all if there are none.
    pub states: &'static [StateFilter],
    /// The state of units that wait, if the action takes them only when the selection names it.
    pub waiting_state: Option<StateFilter>,
    /// More units than this need a confirmation.
    pub confirm_above: usize,
    /// Whether it stops or removes units.
    pub is_destructive: bool,
    /// Whether pages offer it for all that match.
    pub is_for_all: fn(&Selection) -> bool,
    pub buttons: &'static [Button<R>],
    /// `None` for a note.
    make: Option<fn(&ActionOptions) -> R::Action>,
}

/// An action of a resource with its options, or the one that all resources have.
#[derive(Debug, Clone)]
pub enum UnitAction<A> {
    Own(A),
    Note(Note),
}

/// A button on the page of a unit.
#[derive(Debug)]
pub struct Button<R> {
    pub label: &'static str,
    /// The options that it sets.
    pub options: &'static [&'static str],
    pub is_offered: fn(&R) -> bool,
}

/// An option of an action, by the name of a field of [`ActionOptions`]. Its flag is the same with hyphens.
#[derive(Debug)]
pub struct ActionOption {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: OptionKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    Flag,
    Lane {
        default: Lane,
    },
    /// Required.
    Text,
}

/// What actions can be asked besides their name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActionOptions {
    /// Include terminal partitions.
    pub clear_terminal: bool,
    /// Include partitions without a run in the raw sink.
    pub force: bool,
    pub lane: Option<Lane>,
    /// The text of a note.
    pub text: Option<String>,
}

impl<R: Changeable> ActionDeclaration<R> {
    pub(super) const NOTE: &'static Self =
        &Self::made("note", "Write a remark into the journal of {noun}s", None)
            .command(NOTE_HELP)
            .options(&[ActionOption { name: "text", help: "The remark", kind: OptionKind::Text }]);

    /// An action without a subcommand, options and buttons.
    pub(super) const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&ActionOptions) -> R::Action,
    ) -> Self {
        Self::made(name, about, Some(make))
    }

    const fn made(
        name: &'static str,
        about: &'static str,
        make: Option<fn(&ActionOptions) -> R::Action>,
    ) -> Self {
        Self {
            name,
            about,
            help: None,
            options: &[],
            states: &[],
            waiting_state: None,
            confirm_above: CONFIRM_ABOVE,
            is_destructive: false,
            is_for_all: |_| false,
            buttons: &[],
            make,
        }
    }

    /// Gives it a subcommand.
    pub(super) const fn command(self, help: &'static str) -> Self {
        Self { help: Some(help), ..self }
    }

    pub(super) const fn options(self, options: &'static [ActionOption]) -> Self {
        Self { options, ..self }
    }

    pub(super) const fn states(self, states: &'static [StateFilter]) -> Self {
        Self { states, ..self }
    }

    pub(super) const fn waiting(self, state: StateFilter) -> Self {
        Self { waiting_state: Some(state), ..self }
    }

    /// Only operators do this, so they are always asked.
    pub(super) const fn always_confirmed(self) -> Self {
        Self { confirm_above: 0, ..self }
    }

    /// It stops or removes units.
    pub(super) const fn destructive(self) -> Self {
        Self { is_destructive: true, ..self }
    }

    pub(super) const fn for_all(self, is_for_all: fn(&Selection) -> bool) -> Self {
        Self { is_for_all, ..self }
    }

    pub(super) const fn buttons(self, buttons: &'static [Button<R>]) -> Self {
        Self { buttons, ..self }
    }

    /// The action in one line.
    pub fn about(&self) -> String {
        text::<R>(self.about)
    }

    /// The help of its subcommand, with examples. `None` if a command with arguments of its own does it.
    pub fn help(&self) -> Option<String> {
        self.help.map(text::<R>)
    }

    /// An error says what is wrong with the options.
    pub fn with(&self, options: &ActionOptions) -> Result<UnitAction<R::Action>, String> {
        match self.make {
            Some(make) => Ok(UnitAction::Own(make(options))),
            None => {
                let note = Note::new(options.text.as_deref().unwrap_or_default());
                note.map(UnitAction::Note).map_err(|problem| format!("text: {problem}"))
            }
        }
    }
}

fn text<R: Changeable>(text: &'static str) -> String {
    text.replace("{noun}", R::NOUN).replace("{command}", R::COMMAND).replace("{unit}", R::EXAMPLE)
}

impl<R> Button<R> {
    pub(super) const fn new(label: &'static str, is_offered: fn(&R) -> bool) -> Self {
        Self { label, options: &[], is_offered }
    }

    pub(super) const fn with(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }
}

impl ActionOption {
    pub(super) const fn flag(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: OptionKind::Flag }
    }

    pub(super) const fn lane(default: Lane) -> Self {
        Self { name: "lane", help: "The lane of the attempts", kind: OptionKind::Lane { default } }
    }
}

impl ActionOptions {
    /// Sets an option by its name. An error says what is allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let flag = || value.parse().map_err(|_| "true, false".to_owned());
        match name {
            "clear_terminal" => self.clear_terminal = flag()?,
            "force" => self.force = flag()?,
            "lane" => {
                let names = || Lane::ALL.map(Lane::name).join(", ");
                self.lane = Some(Lane::from_name(value).ok_or_else(names)?);
            }
            "text" => self.text = Some(value.to_owned()),
            _ => return Err("the options of the action".to_owned()),
        }
        Ok(())
    }

    /// The given options by name.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let flags = [("clear_terminal", self.clear_terminal), ("force", self.force)];
        let flags = flags.into_iter().filter(|(_, given)| *given);
        let flags = flags.map(|(name, _)| (name, "true".to_owned()));
        let lane = self.lane.map(|lane| ("lane", lane.name().to_owned()));
        flags.chain(lane).chain(self.text.clone().map(|text| ("text", text))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redrive_store::{ItemRecord, RunRecord};

    use super::*;
    use crate::views::{PartitionView, SampleView};

    #[track_caller]
    fn check<R: Changeable>() {
        let mut known = BTreeSet::new();
        for action in R::actions() {
            let command = format!("{} {}", R::COMMAND, action.name);
            assert_eq!(R::action(action.name).unwrap().about(), action.about(), "{command}");
            assert!(!action.about().is_empty() && !action.about().contains('{'), "{command}");
            if let Some(help) = action.help() {
                let example = format!("\nExamples:\n  redrive {command} ");
                assert!(help.contains(&example) && !help.contains('{'), "{command}: {help}");
            }
            let mut options = ActionOptions::default();
            for option in action.options {
                let value = match option.kind {
                    OptionKind::Flag => "true",
                    OptionKind::Lane { default } => default.name(),
                    OptionKind::Text => "a remark",
                };
                options.set(option.name, value).unwrap();
            }
            let names = || action.options.iter().map(|option| option.name);
            let given: BTreeSet<&str> = options.given().iter().map(|(name, _)| *name).collect();
            assert_eq!(given, names().collect(), "{command}");
            let mut pressed = action.buttons.iter().flat_map(|button| button.options);
            assert!(pressed.all(|name| names().any(|option| option == *name)), "{command}");
            known.insert(format!("{:?}", action.with(&options).unwrap()));
        }
        assert_eq!(known.len(), R::actions().count(), "{known:?}");
        assert!(R::action(R::REVIVE).is_some() && R::action("nonsense").is_none());
    }

    #[test]
    fn every_action_has_a_name_help_and_options_of_its_own() {
        check::<RunRecord>();
        check::<ItemRecord>();
        check::<PartitionView>();
        check::<SampleView>();
    }
}
