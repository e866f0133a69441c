//! The checks of `redrive doctor` and `GET /v1/doctor`.
//!
//! A check changes nothing, and a failed check does not stop the others.

use std::{error::Error, fmt, sync::Arc};

use redrive_engine::{Clock, RawSink, SystemClock, checker, verify_sample};
use redrive_store::{Result, SchemaStatus, Store};

use crate::{Declarations, Ops, unserved::unserved, views::CheckupView};

/// Raw partitions that `doctor` reads to their end.
const RAW_SAMPLE: u64 = 20;

/// Collects the results of checks.
#[derive(Debug)]
pub struct Checkups(Vec<CheckupView>);

type EnvironmentCheck = dyn Fn(&mut Checkups) + Send + Sync;

/// The process around [`Ops`], which knows the configuration file and the origin of the store URL.
#[derive(Clone, Default)]
pub struct Environment {
    /// Checks the current configuration file and the files that it names.
    pub check: Option<Arc<EnvironmentCheck>>,
    /// The setting that selected the store, in words.
    pub store_chosen_by: Option<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen_by = &self.store_chosen_by;
        f.debug_struct("Environment").field("store_chosen_by", chosen_by).finish_non_exhaustive()
    }
}

impl Ops {
    /// Runs every check.
    pub async fn checkups(&self) -> Vec<CheckupView> {
        let mut checkups = Checkups::default();
        let Environment { check, store_chosen_by } = self.environment();
        if let Some(check) = check {
            check(&mut checkups);
        }
        let has_sources = self.declared().is_some_and(|declared| !declared.sources.is_empty());
        if has_sources {
            checkups.check_raw(self.partitions().raw()).await;
        }
        let store = &**self.store();
        if checkups.check_schema(store.describe(), store.schema().await) {
            checkups.check_store(store, store_chosen_by.as_deref()).await;
            if has_sources {
                checkups.check_raw_partitions(store, self.partitions().raw()).await;
            }
            if let Some(declared) = self.declared() {
                checkups.check_served(store, declared).await;
            }
        }
        checkups.into_views()
    }
}

/// Starts with the version of the program.
impl Default for Checkups {
    fn default() -> Self {
        let mut checkups = Self(Vec::new());
        checkups.ok("version", format!("redrive {}", env!("CARGO_PKG_VERSION")));
        checkups
    }
}

impl Checkups {
    pub fn into_views(self) -> Vec<CheckupView> {
        self.0
    }

    pub fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: true, warning: false, detail: detail.into() });
    }

    /// Adds a check that passed with a warning.
    pub fn warn(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: true, warning: true, detail: detail.into() });
    }

    pub fn fail(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: false, warning: false, detail: detail.into() });
    }

    pub async fn check_raw(&mut self, sink: &RawSink) {
        match sink.check().await {
            Ok(()) => self.ok("raw sink", sink.to_string()),
            Err(error) => self.fail("raw sink", error.in_words()),
        }
    }

    /// Reads a sample of the raw partitions. `state verify` reads all of them, which may take hours.
    pub async fn check_raw_partitions(&mut self, store: &dyn Store, sink: &RawSink) {
        const CHECK: &str = "raw partitions";
        match verify_sample(store, sink, RAW_SAMPLE).await {
            Ok(report) if report.partitions == 0 => {}
            Ok(report) if report.is_clean() => {
                let checker::Report { partitions, raw_partitions, .. } = report;
                let read = format!("{raw_partitions} read as a sample of {partitions} partitions");
                self.ok(CHECK, format!("{read}; `redrive state verify` reads all"));
            }
            Ok(report) => {
                for finding in &report.findings {
                    self.fail(CHECK, format!("{finding}; `redrive state verify` checks all"));
                }
            }
            Err(error) => self.fail(CHECK, with_causes(&error)),
        }
    }

    /// Lists unfinished units that no worker takes.
    pub async fn check_served(&mut self, store: &dyn Store, declared: &Declarations) {
        const CHECK: &str = "served units";
        match unserved(store, declared).await {
            Ok(unserved) if unserved.is_empty() => {
                self.ok(CHECK, "the configuration declares the place of every unfinished unit");
            }
            Ok(unserved) => unserved.into_iter().for_each(|place| {
                self.warn(CHECK, place);
            }),
            Err(error) => self.fail(CHECK, with_causes(&error)),
        }
    }

    /// Returns whether the schema is the latest: the other checks of a store require the latest schema.
    pub fn check_schema(&mut self, place: impl fmt::Display, schema: Result<SchemaStatus>) -> bool {
        let (current, latest) = match schema {
            Ok(schema) => (schema.current(), schema.latest()),
            Err(error) => {
                self.fail("store", with_causes(&error));
                return false;
            }
        };
        let problem = match current {
            _ if current == latest => {
                self.ok("schema", format!("version {current}, the latest"));
                return true;
            }
            0 => format!("{place} has no schema yet; run `redrive db migrate`"),
            _ if current > latest => {
                format!("version {current} is newer than this program's {latest}")
            }
            _ => format!("version {current} of {latest}; run `redrive db migrate`"),
        };
        self.fail("schema", problem);
        false
    }

    pub async fn check_store(&mut self, store: &dyn Store, chosen_by: Option<&str>) {
        let chosen_by = chosen_by.map(|setting| format!(" ({setting})")).unwrap_or_default();
        self.ok("store", format!("{}{chosen_by}", store.describe()));
        let difference = SystemClock.now().duration_since(store.now()).abs();
        self.ok("lease clock", format!("{:.3} s from the wall clock", difference.as_secs_f64()));
        self.check_ready(store).await;
        self.check_durability(store).await;
        self.check_invariants(store).await;
    }

    /// Checks what `/readyz` checks: the store answers, and its disk has room.
    async fn check_ready(&mut self, store: &dyn Store) {
        const CHECK: &str = "ready";
        match store.ping().await {
            Ok(()) => self.ok(CHECK, "the store answers and is not full"),
            Err(error) => self.fail(CHECK, with_causes(&error)),
        }
    }

    /// Checks whether a commit survives a crash of the machine.
    async fn check_durability(&mut self, store: &dyn Store) {
        const CHECK: &str = "durability";
        match store.durability_doubts().await {
            Ok(doubts) if doubts.is_empty() => self.ok(CHECK, "a commit waits for the disk"),
            Ok(doubts) => {
                let doubts = doubts.join(", ");
                self.warn(CHECK, format!("{doubts}: a power failure may lose acknowledged writes"));
            }
            Err(error) => self.fail(CHECK, with_causes(&error)),
        }
    }

    async fn check_invariants(&mut self, store: &dyn Store) {
        const CHECK: &str = "invariants";
        match checker::check(store).await {
            Ok(report) if report.is_clean() => {
                let checker::Report { partitions, runs, items, samples, attempts, .. } = report;
                let units = format!(
                    "{partitions} partitions, {runs} runs, {items} items and {samples} samples"
                );
                self.ok(CHECK, format!("hold for {units} with {attempts} attempts"));
            }
            Ok(report) => {
                for finding in &report.findings {
                    self.fail(CHECK, finding.to_string());
                }
                if report.more > 0 {
                    self.fail(CHECK, format!("and {} more", report.more));
                }
            }
            Err(error) => self.fail(CHECK, with_causes(&error)),
        }
    }
}

/// The message of an error, followed by those of its sources.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
