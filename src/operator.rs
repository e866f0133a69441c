//! Who is at the keyboard, for the journal.

use std::env;

use redrive_engine::{Clock, SystemClock};
use redrive_store::Operator;

/// Where shells keep the name of the user, the first that is set.
const NAME_VARIABLES: [&str; 2] = ["USER", "LOGNAME"];

/// The name of whoever cannot be named.
const UNNAMED: &str = "operator";

/// The operator of this command, acting now.
pub(crate) fn operator(reason: Option<String>) -> Operator {
    let named = NAME_VARIABLES.into_iter().filter_map(env::var_os).find(|name| !name.is_empty());
    let actor =
        named.map_or_else(|| UNNAMED.to_owned(), |name| name.to_string_lossy().into_owned());
    Operator { actor, at: SystemClock.now(), reason }
}
