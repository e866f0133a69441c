//! A gate as it is shown.

use jiff::Timestamp;
use redrive_core::{GateStatus, summary};
use redrive_store::{DeclaredGate, GateOrder, GateRecord, MAX_WAITING_BEHIND, gate_name};
use serde::Serialize;

use crate::words::{apart, shell_word};

/// A gate, or one key of a divided gate.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Gate))]
pub struct GateView {
    pub gate: String,
    /// What divides the gate, such as `customer`.
    pub per: Option<String>,
    /// Null if the gate is not divided.
    pub key: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub status: &'static str,
    pub closed_at: Option<Timestamp>,
    /// Null for a closed gate: until it is opened by command.
    pub closed_until: Option<Timestamp>,
    /// The unit or the operator that closed the gate.
    pub closed_by: Option<String>,
    pub reason: Option<String>,
    /// Closings since the gate was open.
    pub closings: u32,
    /// While probing or ramping: how many units may run at once.
    pub width: Option<u32>,
    /// Units that are noted one by one: all that run while the gate is not open, or has a limit of concurrency.
    pub held: u32,
    /// Units that could be claimed now if the gate let them; at most 10,000 are counted. Not those whose retry is due later.
    pub waiting: u64,
    /// The units that are held, at most ten: the probe, while the gate is probing.
    pub units: Vec<String>,
    /// What the gate lets through while it is open, such as `60/m, 8 at once`.
    pub limits: Option<String>,
    /// Whose units pass the gate: `queue:NAME`, `source:NAME` or `stage:PIPELINE/NAME`.
    pub places: Vec<String>,
}

impl GateView {
    pub(crate) fn new(
        row: &GateRecord,
        declared: Option<&DeclaredGate>,
        waiting: u64,
        units: Vec<String>,
    ) -> Self {
        let state = &row.state;
        let places = declared.map(|gate| &gate.places[..]).unwrap_or_default();
        let is_moving = matches!(state.status, GateStatus::Probing | GateStatus::Ramping);
        Self {
            gate: row.gate.clone(),
            per: declared.and_then(|gate| gate.per.clone()),
            key: (!row.key.is_empty()).then(|| row.key.clone()),
            status: state.status.name(),
            closed_at: state.closed_at,
            closed_until: state.closed_until,
            closed_by: state.closed_by.clone(),
            reason: state.reason.clone(),
            closings: state.closings,
            width: is_moving.then_some(state.width),
            held: row.held.all,
            waiting,
            units,
            limits: declared.and_then(|gate| gate.limits.clone()),
            places: places.iter().map(|it| format!("{}:{}", it.kind.place(), it.place)).collect(),
        }
    }

    /// Refuses a key where the gate has none, and no key where it has. Units without one have an empty key. A key that is not open
    /// may be opened whatever divides the gate now.
    pub fn check_key(&self, key: Option<&str>) -> Result<(), String> {
        let gate = &self.gate;
        key.map_or(Ok(()), GateOrder::check)?;
        match (&self.per, key) {
            (Some(per), None) => Err(format!(
                "gate {gate} is divided by {per}: name the {per}, or '' for units without"
            )),
            (Some(per), Some(key)) if key == no_key(per) => {
                Err(format!("{key:?} means units without a {per}: their key is ''"))
            }
            (None, Some(key)) if !key.is_empty() && self.status == GateStatus::Open.name() => {
                Err(format!("gate {gate} is not divided: it has no key {key:?}"))
            }
            _ => Ok(()),
        }
    }

    pub fn name(&self) -> String {
        gate_name(&self.gate, self.key.as_deref().unwrap_or_default())
    }

    /// The key; `(no customer)` for units that have none.
    pub fn key_in_words(&self) -> String {
        match (&self.key, &self.per) {
            (Some(key), _) => key.clone(),
            (None, Some(per)) => no_key(per),
            (None, None) => String::new(),
        }
    }

    /// The reason on one line.
    pub fn reason_in_words(&self) -> String {
        self.reason.as_deref().map(|reason| summary(reason).into_owned()).unwrap_or_default()
    }

    /// `10000+` if more may wait.
    pub fn waiting_in_words(&self) -> String {
        let more = if self.waiting >= u64::from(MAX_WAITING_BEHIND) { "+" } else { "" };
        format!("{}{more}", self.waiting)
    }
}

/// The key of units that have none, in words.
fn no_key(per: &str) -> String {
    format!("(no {per})")
}

/// `it waits for gate ads-api/acme, closed until 12:30, for 5m more, because of run:7: 429: slow down`; `None` for an open gate
/// without limits.
pub(crate) fn gate_obstacle(
    row: &GateRecord,
    declared: Option<&DeclaredGate>,
    now: Timestamp,
) -> Option<String> {
    let (state, name) = (&row.state, row.name());
    let how = match (state.status, state.closed_until) {
        (GateStatus::Open, _) => {
            let limits = declared?.limits.as_ref()?;
            return Some(format!("it passes gate {name}, which lets {limits} through"));
        }
        (GateStatus::Closed, Some(until)) if until > now => {
            format!("closed until {until}, for {} more", apart(now, until))
        }
        (GateStatus::Closed, Some(_)) => "about to let a probe through".to_owned(),
        (GateStatus::Closed, None) => {
            let is_divided = declared.is_some_and(|gate| gate.per.is_some());
            let key = (is_divided || !row.key.is_empty()).then(|| shell_word(&row.key));
            let words = [Some(shell_word(&row.gate)), key].into_iter().flatten();
            let words: Vec<String> = words.collect();
            format!("closed until `redrive gate open {}` opens it", words.join(" "))
        }
        (GateStatus::Probing, _) => "which waits for the result of its probe".to_owned(),
        (GateStatus::Ramping, _) => format!("which lets {} units through at once", state.width),
    };
    let by = state.closed_by.as_deref().unwrap_or("somebody");
    let reason = state.reason.as_deref().map(|reason| format!(": {}", summary(reason)));
    let reason = reason.unwrap_or_default();
    Some(format!("it waits for gate {name}, {how}, because of {by}{reason}"))
}
