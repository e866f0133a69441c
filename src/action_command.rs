//! A subcommand for every action that `redrive-ops` declares.

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum,
    builder::PossibleValuesParser,
    error::{Error, ErrorKind},
};
use redrive_ops::{ActionDeclaration, ActionOption, ActionOptions, Changeable, Note, OptionKind};
use redrive_store::Lane;

use crate::{
    context::Context,
    exit::{CommandError, Exit},
    resource::{ChangeArgs, act},
};

/// An action with its arguments.
#[derive(Debug)]
pub(crate) struct ActionCommand<R: Changeable> {
    action: &'static ActionDeclaration<R>,
    options: ActionOptions,
    args: ChangeArgs<R>,
}

impl<R: Changeable> ActionCommand<R> {
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let command = format!("{} {}", R::COMMAND, self.action.name);
        act(&command, self.action, self.options, self.args, context).await
    }
}

impl<R: Changeable> Subcommand for ActionCommand<R> {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(R::actions().filter_map(subcommand))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        R::action(name).is_some_and(|action| action.help().is_some())
    }
}

impl<R: Changeable> FromArgMatches for ActionCommand<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = matches.subcommand();
        let given = given.and_then(|(name, matches)| Some((R::action(name)?, matches)));
        let unknown = || Error::raw(ErrorKind::InvalidSubcommand, "unknown action");
        let (action, matches) = given.ok_or_else(unknown)?;
        let mut options = ActionOptions::default();
        for option in action.options {
            if let Some(value) = option_value(option, matches) {
                let invalid = |allowed| Error::raw(ErrorKind::InvalidValue, allowed);
                options.set(option.name, value).map_err(invalid)?;
            }
        }
        Ok(Self { action, options, args: ChangeArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `None` if a command with arguments of its own does the action.
fn subcommand<R: Changeable>(action: &'static ActionDeclaration<R>) -> Option<Command> {
    let command = Command::new(action.name).about(action.about()).after_help(action.help()?);
    Some(ChangeArgs::<R>::augment_args(command).args(action.options.iter().map(option_arg)))
}

/// The value of an option, if it is given.
pub(crate) fn option_value<'a>(option: &ActionOption, matches: &'a ArgMatches) -> Option<&'a str> {
    match option.kind {
        OptionKind::Flag => matches.get_flag(option.name).then_some("true"),
        _ => matches.get_one::<String>(option.name).map(String::as_str),
    }
}

pub(crate) fn option_arg(option: &'static ActionOption) -> Arg {
    let arg = Arg::new(option.name).long(option.name.replace('_', "-")).help(option.help);
    match option.kind {
        OptionKind::Flag => arg.action(ArgAction::SetTrue),
        OptionKind::Lane { default } => {
            let names = LaneName::value_variants().iter().filter_map(LaneName::to_possible_value);
            let names = PossibleValuesParser::new(names);
            arg.value_name("LANE").value_parser(names).default_value(default.name())
        }
        OptionKind::Text => {
            let check = |text: &str| Note::new(text).map(|_| text.to_owned());
            arg.value_name("TEXT").value_parser(check).required(true)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LaneName {
    /// Compete with fresh data
    Fresh,
    /// Compete with backfill
    Backfill,
}

impl From<LaneName> for Lane {
    fn from(name: LaneName) -> Self {
        match name {
            LaneName::Fresh => Self::Fresh,
            LaneName::Backfill => Self::Backfill,
        }
    }
}
