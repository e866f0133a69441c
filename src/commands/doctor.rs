//! `redrive doctor`: is everything as it must be?
//!
//! It looks and changes nothing. Everything is looked at, also after the first trouble, and each
//! finding is a row.

use clap::Args;
use redrive::{config::Config, declared_rules, migrator, open_migrated_store, raw_sink};
use redrive_engine::{Clock, SystemClock, checker};
use serde::Serialize;

use crate::{
    context::{ChosenStore, Context},
    exit::{Exit, Failure},
    output::{Column, Row},
};

/// The arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ends with 1 if anything is wrong; a warning is no such thing. Safe on a store in use.

Examples:
  redrive doctor
  redrive doctor --store sqlite:prod.db -o json")]
pub(crate) struct Arguments {}

/// Something that was looked at.
#[derive(Debug, Serialize)]
struct Checkup {
    check: &'static str,
    ok: bool,
    /// Nothing is wrong, and somebody should know all the same.
    warning: bool,
    detail: String,
}

impl Row for Checkup {
    const COLUMNS: &'static [Column] =
        &[Column::text("check"), Column::text("state"), Column::text("detail")];

    fn cells(&self) -> Vec<String> {
        let state = match (self.ok, self.warning) {
            (true, false) => "ok",
            (true, true) => "warning",
            (false, _) => "WRONG",
        };
        vec![self.check.to_owned(), state.to_owned(), self.detail.clone()]
    }
}

/// What was found so far.
#[derive(Default)]
struct Checkups(Vec<Checkup>);

impl Checkups {
    fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(Checkup { check, ok: true, warning: false, detail: detail.into() });
    }

    fn warn(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(Checkup { check, ok: true, warning: true, detail: detail.into() });
    }

    fn wrong(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(Checkup { check, ok: false, warning: false, detail: detail.into() });
    }
}

/// Runs `doctor`.
pub(crate) async fn run(_: Arguments, context: &Context) -> Result<Exit, Failure> {
    let mut checkups = Checkups::default();
    checkups.ok("version", format!("redrive {}", env!("CARGO_PKG_VERSION")));
    match look_at_config(context, &mut checkups) {
        // The broken file may name another store than the one that would be looked at.
        None if context.store_flag()?.is_none() => {
            checkups
                .wrong("store", "not looked at: the configuration says which; give --store URL");
        }
        config => {
            let config = config.flatten();
            if let Some(config) = &config {
                look_at_sources(config, &mut checkups).await;
            }
            match context.store(config.as_ref()) {
                Ok(store) => look_at_store(&store, config.as_ref(), &mut checkups).await,
                Err(failure) => checkups.wrong("store", failure.message),
            }
        }
    }
    let all_well = checkups.0.iter().all(|checkup| checkup.ok);
    context.output.list(checkups.0)?;
    Ok(if all_well { Exit::Ok } else { Exit::Error })
}

/// The configuration, if there is one; `None` if it cannot be used.
fn look_at_config(context: &Context, checkups: &mut Checkups) -> Option<Option<Config>> {
    const CHECK: &str = "configuration";
    match context.config() {
        Ok(Some(config)) => {
            let path = context.config_path().ok().flatten();
            checkups.ok(CHECK, path.map_or_else(String::new, |path| context.display_name(&path)));
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

/// Where the partitions of sources are kept, and what their rows must fit.
async fn look_at_sources(config: &Config, checkups: &mut Checkups) {
    const CHECK: &str = "raw sink";
    if config.sources.is_empty() {
        return;
    }
    let looked_at = match raw_sink(&config.raw.clone().in_folder(&config.folder)) {
        Ok(sink) => sink.check().await.map(|()| sink.to_string()),
        Err(error) => Err(error),
    };
    match looked_at {
        Ok(place) => checkups.ok(CHECK, place),
        Err(error) => checkups.wrong(CHECK, error.in_words()),
    }
    for source in &config.sources {
        if let Err(error) = declared_rules(&source.validate, &config.folder) {
            checkups.wrong("schema of rows", format!("{}: {}", source.name, with_causes(&error)));
        }
    }
}

async fn look_at_store(store: &ChosenStore, config: Option<&Config>, checkups: &mut Checkups) {
    let schema = match migrator(&store.url) {
        Ok(migrator) => migrator.status().await.map(|status| (status.current(), migrator.latest())),
        Err(error) => Err(error),
    };
    match schema {
        Ok((current, latest)) if current == latest => {
            checkups.ok("schema", format!("version {current}, the latest"));
        }
        Ok((0, _)) => {
            let detail = format!("{} has no schema yet; run `redrive db migrate`", store.url);
            return checkups.wrong("schema", detail);
        }
        Ok((current, latest)) if current > latest => {
            let detail = format!("version {current} is newer than this program's {latest}");
            return checkups.wrong("schema", detail);
        }
        Ok((current, latest)) => {
            let detail = format!("version {current} of {latest}; run `redrive db migrate`");
            return checkups.wrong("schema", detail);
        }
        Err(error) => return checkups.wrong("store", with_causes(&error)),
    }
    let settings = config.map(|config| config.store.clone()).unwrap_or_default();
    match open_migrated_store(&store.url, &settings).await {
        Ok(open) => {
            checkups.ok("store", format!("{} ({})", open.describe(), store.chosen_by));
            look_at_clock(&*open, checkups);
            look_at_durability(&*open, checkups).await;
            look_at_invariants(&*open, checkups).await;
        }
        Err(error) => checkups.wrong("store", with_causes(&error)),
    }
}

fn look_at_clock(store: &dyn redrive_store::Store, checkups: &mut Checkups) {
    let apart = SystemClock.now().duration_since(store.now()).abs();
    let detail = format!("{:.3} s from the wall clock", apart.as_secs_f64());
    checkups.ok("lease clock", detail);
}

/// Whether what is committed stays, whatever happens to the machine.
async fn look_at_durability(store: &dyn redrive_store::Store, checkups: &mut Checkups) {
    const CHECK: &str = "durability";
    match store.durability_doubts().await {
        Ok(doubts) if doubts.is_empty() => checkups.ok(CHECK, "a commit waits for the disk"),
        Ok(doubts) => {
            let doubts = doubts.join(", ");
            let detail = format!("{doubts}: a power cut may lose what was acknowledged");
            checkups.warn(CHECK, detail);
        }
        Err(error) => checkups.wrong(CHECK, with_causes(&error)),
    }
}

async fn look_at_invariants(store: &dyn redrive_store::Store, checkups: &mut Checkups) {
    const CHECK: &str = "invariants";
    match checker::check(store).await {
        Ok(report) if report.is_clean() => {
            let checker::Report { partitions, runs, items, samples, attempts, .. } = report;
            let units = format!(
                "{partitions} partitions, {runs} runs, {items} items and {samples} samples"
            );
            checkups.ok(CHECK, format!("hold for {units} with {attempts} attempts"));
        }
        Ok(report) => {
            for finding in &report.findings {
                checkups.wrong(CHECK, finding.to_string());
            }
            if report.more > 0 {
                checkups.wrong(CHECK, format!("and {} more", report.more));
            }
        }
        Err(error) => checkups.wrong(CHECK, with_causes(&error)),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
