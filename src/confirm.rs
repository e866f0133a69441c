//! Asks for confirmation before a large or irreversible change.
//!
//! Only a user at a terminal is asked. A script without `--yes` is refused: a prompt would block the
//! script, and a default answer would decide for the user.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::{CommandError, Exit};

/// Succeeds if the user answers yes, or passed `--yes`.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CommandError> {
    confirm_with("--yes", question, yes)
}

/// Succeeds if the user answers yes, or passed this flag.
pub(crate) fn confirm_with(flag: &str, question: &str, yes: bool) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!("{question} No terminal to confirm on; nothing was changed");
        return Err(refused(&message).help(format!("add {flag} to confirm")));
    }
    // An error while asking counts as no.
    let mut answer = String::new();
    _ = write!(io::stderr().lock(), "{question} [y/N] ")
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(refused("not confirmed; nothing was changed")),
    }
}

fn refused(message: &str) -> CommandError {
    CommandError::new(Exit::Refused, message)
}
