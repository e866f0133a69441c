//! The user who runs a command, for the journal.

use std::env;

use redrive_engine::{Clock, SystemClock};
use redrive_store::Operator;

/// Environment variables with the user name; the first one that is set counts.
const NAME_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];

/// The actor in the journal if no variable is set.
const UNNAMED: &str = "operator";

pub(crate) fn operator(reason: Option<String>) -> Operator {
    let named = NAME_VARIABLES.into_iter().filter_map(env::var_os).find(|name| !name.is_empty());
    let actor =
        named.map_or_else(|| UNNAMED.to_owned(), |name| name.to_string_lossy().into_owned());
    Operator { actor, at: SystemClock.now(), reason }
}
