//! `[[pipeline]]`: samples, their source and their stages.

use redrive_core::{Class, Preset};

use super::{
    Handler, Limits, Policies, PolicyChoice,
    handler::{Program, Work},
    log::Names,
    reader::{Section, Value},
    source::file_path,
    value::{number_in, set, unique_name, whole, word},
};

/// The most unfinished samples that are kept at a time.
const MAX_READ_AHEAD: u32 = 1_000_000;

const DEFAULT_READ_AHEAD: u32 = 10_000;
const DEFAULT_COMPLETED_AT: f64 = 0.95;
const DEFAULT_PARTIAL_AT: f64 = 0.50;

/// Samples that go through stages.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    /// Its name.
    pub name: String,
    /// Where samples come from.
    pub source: SampleSource,
    /// The share of successes from which a run is `completed`.
    pub completed_at: f64,
    /// The share of successes from which a run is `partial_success`.
    pub partial_at: f64,
    /// How much may fail before a run is stopped.
    pub failure_budget: FailureBudget,
    /// How many unfinished samples are kept at a time.
    pub read_ahead: u32,
    /// What happens to a sample, in order. Never empty.
    pub stages: Vec<Stage>,
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleSource {
    /// A file of JSON lines, as written.
    Jsonl(String),
    /// A program that prints JSON lines.
    Exec(Program),
}

/// How much may fail before a run is stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureBudget {
    /// The share of failures above which a run is stopped.
    pub rate: f64,
    /// After how many ended samples it is checked.
    pub every: u64,
    /// How many samples must have ended before it is checked at all.
    pub min_samples: u64,
    /// The classes that do not count, by the names under which they are stored.
    pub exclude: Vec<&'static str>,
}

impl Default for FailureBudget {
    /// One in ten, looked at after every thousand.
    fn default() -> Self {
        Self { rate: 0.10, every: 1_000, min_samples: 0, exclude: Vec::new() }
    }
}

/// One step of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Who does the work.
    pub handler: Handler,
    /// When to try again; the preset `stage` unless given.
    pub policy: PolicyChoice,
    /// What it may use.
    pub limits: Limits,
}

impl Pipeline {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        names: &mut Names,
    ) -> Option<Self> {
        let name = s.require("name", unique_name("pipelines", names));
        let source = s.require("source", SampleSource::read);
        let completed_at = s.get("completed-at", number_in(0.0..=1.0));
        let completed_at = completed_at.unwrap_or(DEFAULT_COMPLETED_AT);
        let partial_at = s.get("partial-at", |value| {
            let share = number_in(0.0..=1.0)(value.clone())?;
            if share > completed_at {
                let allowed = format!("at most `completed-at`, {completed_at}");
                return value.refuse(format!("{share} is not allowed"), allowed);
            }
            Some(share)
        });
        let budget = s.get("failure-budget", |value| value.table(FailureBudget::read));
        let read_ahead = s.get("read-ahead", whole(1..=MAX_READ_AHEAD));
        let mut stage_names = Names::default();
        let stages = s.require_each("stage", |s| Stage::read(s, policies, &mut stage_names));
        Some(Self {
            name: name?,
            source: source?,
            completed_at,
            partial_at: partial_at.unwrap_or(DEFAULT_PARTIAL_AT.min(completed_at)),
            failure_budget: budget.unwrap_or_default(),
            read_ahead: read_ahead.unwrap_or(DEFAULT_READ_AHEAD),
            stages,
        })
    }
}

impl SampleSource {
    fn read(value: Value<'_>) -> Option<Self> {
        value.table(|s| match (s.value("jsonl"), s.value("exec")) {
            (Some(path), None) => {
                for key in ["env", "grace"] {
                    s.get(key, |value| {
                        value.refuse::<()>("does not belong here", "a file starts no program")
                    });
                }
                file_path(path).map(Self::Jsonl)
            }
            (None, Some(argv)) => Program::read(argv, s).map(Self::Exec),
            _ => {
                ["env", "grace"].iter().for_each(|key| _ = s.value(key));
                s.whole().refuse("must have one origin", "give either `jsonl` or `exec`")
            }
        })
    }
}

impl FailureBudget {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let classes = [Class::Final, Class::Retryable, Class::RateLimited { retry_after: None }]
            .map(|class| (class.name(), class.name()));
        let unless_given = Self::default();
        Some(Self {
            rate: s.get("rate", number_in(0.0..=1.0)).unwrap_or(unless_given.rate),
            every: s.get("every", whole(1..=u64::MAX)).unwrap_or(unless_given.every),
            min_samples: s
                .get("min-samples", whole(0..=u64::MAX))
                .unwrap_or(unless_given.min_samples),
            exclude: s.get("exclude", set(word(&classes))).unwrap_or_default(),
        })
    }
}

impl Stage {
    fn read(s: &mut Section<'_>, policies: &Policies, names: &mut Names) -> Option<Self> {
        let name = s.require("name", unique_name("stages of this pipeline", names));
        let handler = s.require("handler", |value| Handler::read(value, Work::Sample));
        let policy = policies.choice(s, Preset::Stage);
        let limits = Limits::read(s);
        Some(Self { name: name?, handler: handler?, policy: policy?, limits })
    }
}
