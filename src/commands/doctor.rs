//! `redrive doctor`: is everything as it must be?
//!
//! It looks and changes nothing. Everything is looked at, also after the first trouble, and each
//! finding is a row.

use clap::Args;
use redrive::{config::Config, migrator, open_migrated_store, open_raw_sink};
use redrive_ops::{Checkups, views::CheckupView, with_causes};

use crate::{
    context::{ChosenStore, Context},
    environment::look_around,
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Ends with 1 if anything is wrong; a warning is no such thing. Safe on a store in use. GET /v1/doctor is the same of a
server that runs.

Examples:
  redrive doctor
  redrive doctor --store sqlite:prod.db -o json")]
pub(crate) struct DoctorArgs {}

impl TableRow for CheckupView {
    const COLUMNS: &'static [TableColumn] =
        &[TableColumn::text("check"), TableColumn::text("state"), TableColumn::text("detail")];

    fn cells(&self) -> Vec<String> {
        vec![self.check.to_owned(), self.state().to_owned(), self.detail.clone()]
    }
}

/// Runs `doctor`.
pub(crate) async fn run(_: DoctorArgs, context: &Context) -> Result<Exit, CommandError> {
    let mut checkups = Checkups::default();
    match look_around(context, &mut checkups) {
        // The broken file may name another store than the one that would be looked at.
        None if context.store_flag()?.is_none() => {
            checkups
                .wrong("store", "not looked at: the configuration says which; give --store URL");
        }
        config => {
            let config = config.flatten();
            if let Some(config) = config.as_ref().filter(|config| !config.sources.is_empty()) {
                match open_raw_sink(&config.raw.clone().in_folder(&config.folder)) {
                    Ok(sink) => checkups.look_at_raw(&sink).await,
                    Err(error) => checkups.wrong("raw sink", error.in_words()),
                }
            }
            match context.store(config.as_ref()) {
                Ok(store) => look_at_store(&store, config.as_ref(), &mut checkups).await,
                Err(failure) => checkups.wrong("store", failure.message),
            }
        }
    }
    let found = checkups.found();
    let all_well = found.iter().all(|checkup| checkup.ok);
    context.output.list(found)?;
    Ok(if all_well { Exit::Ok } else { Exit::Error })
}

/// A store that may be of any version, and so is not opened yet.
async fn look_at_store(store: &ChosenStore, config: Option<&Config>, checkups: &mut Checkups) {
    let schema = match migrator(&store.url) {
        Ok(migrator) => migrator.status().await,
        Err(error) => Err(error),
    };
    if !checkups.look_at_schema(&store.url, schema) {
        return;
    }
    let settings = config.map(|config| config.store.clone()).unwrap_or_default();
    match open_migrated_store(&store.url, &settings).await {
        Ok(open) => checkups.look_at_store(&*open, Some(&store.chosen_by)).await,
        Err(error) => checkups.wrong("store", with_causes(&error)),
    }
}
