//! Is everything as it must be?
//!
//! A doctor looks and changes nothing. Everything is looked at, also after the first trouble.

use std::{error::Error, fmt, sync::Arc};

use redrive_engine::{Clock, RawSink, SystemClock, checker};
use redrive_store::{Result, SchemaStatus, Store};

use crate::{Ops, views::CheckupView};

/// What was found so far.
#[derive(Debug)]
pub struct Checkups(Vec<CheckupView>);

/// Looks at what a desk cannot see by itself.
type EnvironmentCheck = dyn Fn(&mut Checkups) + Send + Sync;

/// What a desk cannot see by itself.
#[derive(Clone, Default)]
pub struct Environment {
    /// Looks at the configuration, as it is now, and at the files that it names.
    pub check: Option<Arc<EnvironmentCheck>>,
    /// Who named the store, in words.
    pub store_chosen_by: Option<String>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chosen_by = &self.store_chosen_by;
        f.debug_struct("Environment").field("store_chosen_by", chosen_by).finish_non_exhaustive()
    }
}

impl Ops {
    /// Looks at everything this desk stands on.
    pub async fn checkups(&self) -> Vec<CheckupView> {
        let mut checkups = Checkups::default();
        let Environment { check, store_chosen_by } = self.environment();
        if let Some(check) = check {
            check(&mut checkups);
        }
        if self.declared().is_some_and(|declared| !declared.sources.is_empty()) {
            checkups.check_raw(self.partitions().raw()).await;
        }
        let store = &**self.store();
        if checkups.check_schema(store.describe(), store.schema().await) {
            checkups.check_store(store, store_chosen_by.as_deref()).await;
        }
        checkups.into_views()
    }
}

/// Nothing was found yet but who looks.
impl Default for Checkups {
    fn default() -> Self {
        let mut checkups = Self(Vec::new());
        checkups.ok("version", format!("redrive {}", env!("CARGO_PKG_VERSION")));
        checkups
    }
}

impl Checkups {
    /// All of it.
    pub fn into_views(self) -> Vec<CheckupView> {
        self.0
    }

    /// Something is as it must be.
    pub fn ok(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: true, warning: false, detail: detail.into() });
    }

    /// Something is as it may be, and somebody should know.
    pub fn warn(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: true, warning: true, detail: detail.into() });
    }

    /// Something is not as it must be.
    pub fn fail(&mut self, check: &'static str, detail: impl Into<String>) {
        self.0.push(CheckupView { check, ok: false, warning: false, detail: detail.into() });
    }

    /// Where the partitions of sources are kept.
    pub async fn check_raw(&mut self, sink: &RawSink) {
        match sink.check().await {
            Ok(()) => self.ok("raw sink", sink.to_string()),
            Err(error) => self.fail("raw sink", error.in_words()),
        }
    }

    /// Whether the database has the schema that this program needs. Nothing else can be said of one that
    /// does not.
    pub fn check_schema(&mut self, place: impl fmt::Display, schema: Result<SchemaStatus>) -> bool {
        let (current, latest) = match schema {
            Ok(schema) => (schema.current(), schema.latest()),
            Err(error) => {
                self.fail("store", with_causes(&error));
                return false;
            }
        };
        let wrong = match current {
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
        self.fail("schema", wrong);
        false
    }

    /// What can be said of a store that is open.
    pub async fn check_store(&mut self, store: &dyn Store, chosen_by: Option<&str>) {
        let chosen_by = chosen_by.map(|who| format!(" ({who})")).unwrap_or_default();
        self.ok("store", format!("{}{chosen_by}", store.describe()));
        let apart = SystemClock.now().duration_since(store.now()).abs();
        self.ok("lease clock", format!("{:.3} s from the wall clock", apart.as_secs_f64()));
        self.check_durability(store).await;
        self.check_invariants(store).await;
    }

    /// Whether what is committed stays, whatever happens to the machine.
    async fn check_durability(&mut self, store: &dyn Store) {
        const CHECK: &str = "durability";
        match store.durability_doubts().await {
            Ok(doubts) if doubts.is_empty() => self.ok(CHECK, "a commit waits for the disk"),
            Ok(doubts) => {
                let doubts = doubts.join(", ");
                self.warn(CHECK, format!("{doubts}: a power cut may lose what was acknowledged"));
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

/// An error and what it comes from.
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
