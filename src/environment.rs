//! What a doctor finds around a store: the configuration as it is now, and the files that it names.

use std::sync::Arc;

use redrive::{build_validation_rules, config::Config};
use redrive_ops::{Checkups, Surroundings, with_causes};

use crate::context::{ChosenStore, Context};

/// For a desk, which outlives the command that opened it.
pub(crate) fn environment(context: &Context, store: &ChosenStore) -> Surroundings {
    let context = context.clone();
    let look = move |checkups: &mut Checkups| drop(look_around(&context, checkups));
    Surroundings { look: Some(Arc::new(look)), store_chosen_by: Some(store.chosen_by.clone()) }
}

/// The configuration, if there is one; `None` if it cannot be used.
pub(crate) fn look_around(context: &Context, checkups: &mut Checkups) -> Option<Option<Config>> {
    const CHECK: &str = "configuration";
    match context.config() {
        Ok(Some(config)) => {
            let path = context.config_path().ok().flatten();
            checkups.ok(CHECK, path.map_or_else(String::new, |path| context.display_name(&path)));
            look_at_schemas(&config, checkups);
            Some(Some(config))
        }
        Ok(None) => {
            checkups.ok(CHECK, "no redrive.toml here or above; defaults are used");
            Some(None)
        }
        Err(failure) => {
            checkups.wrong(CHECK, format!("{}; see `redrive check`", failure.message));
            None
        }
    }
}

/// What the rows of sources must fit.
fn look_at_schemas(config: &Config, checkups: &mut Checkups) {
    for source in &config.sources {
        if let Err(error) = build_validation_rules(&source.validate, &config.folder) {
            checkups.wrong("schema of rows", format!("{}: {}", source.name, with_causes(&error)));
        }
    }
}
