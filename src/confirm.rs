//! Asking before something that cannot be undone.
//!
//! Only a person at a terminal is asked. A script that did not say `--yes` is refused: a prompt that
//! nobody reads would hang it, and a default would decide for it.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::{CommandError, Exit};

/// Goes on if the answer is yes, or was given on the command line.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!("{question} There is no terminal to ask on; nothing was changed");
        return Err(refused(&message).help("add --yes to confirm"));
    }
    // A question that cannot be asked, or an answer that cannot be read, is no yes.
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
