//! `redrive doctor`: checks the configuration, the raw sink and the store.
//!
//! The command changes nothing. It runs every check, also after a problem, and prints one row per check.

use clap::Args;
use redrive::{
    RawSink, build_declarations, config::Config, migrator, open_migrated_store, open_raw_sink,
};
use redrive_ops::{Checkups, views::CheckupView, with_causes};

use crate::{
    context::{ChosenStore, Context},
    environment::check_config,
    exit::{CommandError, Exit},
    output::{TableColumn, TableRow},
};

#[derive(Debug, Args)]
#[command(after_help = "\
Checks the configuration and the files that it names, the store and its invariants, a sample of the raw partitions
(`redrive state verify` checks all), and whether there are units that no worker of this configuration serves.
Exit code 1 means that a check found a problem; warnings do not count. The command is safe on a store in use. GET
/v1/doctor runs the same checks on a server.

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

pub(crate) async fn run(_: DoctorArgs, context: &Context) -> Result<Exit, CommandError> {
    let mut checkups = Checkups::default();
    match check_config(context, &mut checkups) {
        // The invalid file may name another store than the default.
        None if context.store_flag()?.is_none() => {
            checkups.fail(
                "store",
                "not checked, because the configuration is invalid; pass --store URL",
            );
        }
        config => {
            let config = config.flatten();
            let mut raw = None;
            if let Some(config) = config.as_ref().filter(|config| !config.sources.is_empty()) {
                match open_raw_sink(&config.raw.clone().in_folder(&config.folder)) {
                    Ok(sink) => {
                        checkups.check_raw(&sink).await;
                        raw = Some(sink);
                    }
                    Err(error) => checkups.fail("raw sink", error.in_words()),
                }
            }
            match context.store(config.as_ref()) {
                Ok(store) => check_store(&store, config.as_ref(), raw, &mut checkups).await,
                Err(error) => checkups.fail("store", error.message),
            }
        }
    }
    let found = checkups.into_views();
    let all_ok = found.iter().all(|checkup| checkup.ok);
    context.output.list(found)?;
    Ok(if all_ok { Exit::Ok } else { Exit::Error })
}

/// Checks the schema first: a store of another version cannot be opened.
async fn check_store(
    store: &ChosenStore,
    config: Option<&Config>,
    raw: Option<RawSink>,
    checkups: &mut Checkups,
) {
    let schema = match migrator(&store.url) {
        Ok(migrator) => migrator.status().await,
        Err(error) => Err(error),
    };
    if !checkups.check_schema(&store.url, schema) {
        return;
    }
    let settings = config.map(|config| config.store.clone()).unwrap_or_default();
    match open_migrated_store(&store.url, settings.synchronous).await {
        Ok(open) => {
            checkups.check_store(&*open, Some(&store.chosen_by)).await;
            if let Some(raw) = &raw {
                checkups.check_raw_partitions(&*open, raw).await;
            }
            if let Some(Ok(declared)) = config.map(build_declarations) {
                checkups.check_served(&*open, &declared).await;
            }
        }
        Err(error) => checkups.fail("store", with_causes(&error)),
    }
}
