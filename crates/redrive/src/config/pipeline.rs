//! `[[pipeline]]`: a source of samples and the stages that process them.

use redrive_core::{Class, FailureBudget, PipelineRules, Preset};
use redrive_engine::DEFAULT_READ_AHEAD;

use super::{
    GateConfig, HandlerConfig, LimitsConfig, Policies, PolicyChoice, gate,
    handler::{HandlerRole, ProgramConfig, codes_of},
    log::UniqueNames,
    reader::{Section, Value},
    source::file_path,
    value::{number_in, set, unique_name, whole, word},
};

const MAX_READ_AHEAD: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct PipelineConfig {
    pub name: String,
    pub source: SampleSourceConfig,
    /// Success thresholds and the failure budget.
    pub rules: PipelineRules,
    /// The most unfinished samples in the store at a time.
    pub read_ahead: u32,
    /// In order of processing. Never empty.
    pub stages: Vec<StageConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleSourceConfig {
    /// The path of a file of JSON lines, as written.
    Jsonl(String),
    /// A program that prints JSON lines.
    Exec(ProgramConfig),
}

#[derive(Debug, Clone, PartialEq)]
pub struct StageConfig {
    pub name: String,
    pub handler: HandlerConfig,
    /// Default: the preset `stage`.
    pub policy: PolicyChoice,
    pub limits: LimitsConfig,
    /// The gates that the samples pass before this stage.
    pub gates: Vec<GateConfig>,
}

impl PipelineConfig {
    pub(super) fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        gates: &[GateConfig],
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let name = s.require("name", unique_name("pipelines", names));
        let source = s.require("source", SampleSourceConfig::read);
        let defaults = PipelineRules::default();
        let completed_at = s.get("completed-at", number_in(0.0..=1.0));
        let completed_at = completed_at.unwrap_or(defaults.completed_at);
        let partial_at = s.get("partial-at", |value| {
            let share = number_in(0.0..=1.0)(value.clone())?;
            if share > completed_at {
                let allowed = format!("at most `completed-at`, {completed_at}");
                return value.refuse(format!("{share} is not allowed"), allowed);
            }
            Some(share)
        });
        let budget = s.get("failure-budget", |value| value.table(read_budget));
        let read_ahead = s.get("read-ahead", whole(1..=MAX_READ_AHEAD));
        let mut stage_names = UniqueNames::default();
        let stages =
            s.require_each("stage", |s| StageConfig::read(s, policies, gates, &mut stage_names));
        Some(Self {
            name: name?,
            source: source?,
            rules: PipelineRules {
                completed_at,
                partial_at: partial_at.unwrap_or(defaults.partial_at.min(completed_at)),
                budget: budget.unwrap_or_default(),
            },
            read_ahead: read_ahead.unwrap_or(DEFAULT_READ_AHEAD),
            stages,
        })
    }
}

impl SampleSourceConfig {
    fn read(value: Value<'_>) -> Option<Self> {
        value.table(|s| match (s.value("jsonl"), s.value("exec")) {
            (Some(path), None) => {
                for key in ["env", "grace"] {
                    s.get(key, |value| {
                        value.refuse::<()>(
                            "does not belong here",
                            "a jsonl source does not start a program",
                        )
                    });
                }
                file_path(path).map(Self::Jsonl)
            }
            (None, Some(argv)) => ProgramConfig::read(argv, s).map(Self::Exec),
            _ => {
                ["env", "grace"].iter().for_each(|key| _ = s.value(key));
                s.whole().refuse("must have exactly one origin", "give either `jsonl` or `exec`")
            }
        })
    }
}

fn read_budget(s: &mut Section<'_>) -> Option<FailureBudget> {
    let classes = [Class::Final, Class::Retryable, Class::RateLimited { retry_after: None }]
        .map(|class| (class.name(), class.name()));
    let defaults = FailureBudget::default();
    let exclude: Option<Vec<&str>> = s.get("exclude", set(word(&classes)));
    let min_samples = s.get("min-samples", whole(0..=u64::MAX)).unwrap_or(defaults.min_samples);
    let every = s.get("every", whole(1..=u64::MAX));
    Some(FailureBudget {
        rate: s.get("rate", number_in(0.0..=1.0)).unwrap_or(defaults.rate),
        every: every.unwrap_or(FailureBudget::default_every(min_samples)),
        min_samples,
        exclude: exclude.unwrap_or_default().into_iter().map(str::to_owned).collect(),
    })
}

impl StageConfig {
    /// Where the data of a sample has its key for divided gates.
    pub fn gate_key(&self) -> Option<&str> {
        self.gates.iter().find_map(|gate| gate.key.as_deref())
    }

    fn read(
        s: &mut Section<'_>,
        policies: &Policies,
        gates: &[GateConfig],
        names: &mut UniqueNames,
    ) -> Option<Self> {
        let name = s.require("name", unique_name("stages of this pipeline", names));
        let handler = s.require("handler", |value| HandlerConfig::read(value, HandlerRole::Sample));
        let policy = policies.choice(s, Preset::Stage, codes_of(handler.as_ref()));
        let limits = LimitsConfig::read(s);
        let gates = gate::stage_gates(s, gates);
        Some(Self { name: name?, handler: handler?, policy: policy?, limits, gates })
    }
}
