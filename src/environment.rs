//! The checks of `redrive doctor` outside of the store: the configuration, and the files and variables that it
//! names.

use std::sync::Arc;

use redrive::{MissingVariable, config::Config, file_problems, missing_variables};
use redrive_ops::{Checkups, Environment};

use crate::context::{ChosenStore, Context};

/// The checks for a server, which reads the configuration again at each request.
pub(crate) fn environment(context: &Context, store: &ChosenStore) -> Environment {
    let context = context.clone();
    let look = move |checkups: &mut Checkups| drop(check_config(&context, checkups));
    Environment { check: Some(Arc::new(look)), store_chosen_by: Some(store.chosen_by.clone()) }
}

/// Checks the configuration. Returns `None` for an invalid file, and `Some(None)` if there is no file.
pub(crate) fn check_config(context: &Context, checkups: &mut Checkups) -> Option<Option<Config>> {
    const CHECK: &str = "configuration";
    match context.config() {
        Ok(Some(config)) => {
            let path = context.config_path().ok().flatten();
            checkups.ok(CHECK, path.map_or_else(String::new, |path| context.display_name(&path)));
            for file in file_problems(&config) {
                checkups.fail(file.kind, format!("{}: {}", file.place, file.problem));
            }
            for missing in missing_variables(&config) {
                let MissingVariable { variable, place, used_for } = missing;
                let detail = format!("{place}: {used_for} needs {variable}, which is not set here");
                checkups.warn("environment variable", detail);
            }
            Some(Some(config))
        }
        Ok(None) => {
            checkups.ok(CHECK, "no redrive.toml in this folder or above; using defaults");
            Some(None)
        }
        Err(error) => {
            checkups.fail(CHECK, format!("{}; see `redrive check`", error.message));
            None
        }
    }
}
