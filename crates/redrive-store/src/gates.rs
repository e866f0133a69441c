//! Gates: what all hosts let through to a service, or keep back (GAT-1).
//!
//! A gate has a row for each of its keys; one that is not divided has a single row, with an empty key. A claim reads the rows of
//! its gates and takes no unit of a key that is not open for it, in one transaction; the finish that reports a refusal closes
//! the key, in one transaction. Both lock the gate, so no claim after the commit of a closing takes a unit behind it.
//! While a key is open and has no limits, claims and successes write nothing about it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{GateSettings, GateState, GateStatus, HeldPermits};
use serde_json::{Value, json};

use crate::{
    FromRow, JournalEntry, LeaseRef, MAX_NAME_BYTES, Operator, Result, RowReader, UnitKind,
    gate_state::{state_from_json, state_to_json},
};

/// A gate that the units of a place pass.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRule {
    pub name: String,
    /// Whether the gate is divided by the key of the unit.
    pub is_keyed: bool,
    pub settings: GateSettings,
}

impl GateRule {
    /// The key of the gate's row that a unit with this key passes.
    pub fn key<'a>(&self, unit: &'a str) -> &'a str {
        if self.is_keyed { unit } else { "" }
    }
}

pub type GateRules = Arc<[GateRule]>;

/// Units that are counted behind a gate.
pub const MAX_WAITING_BEHIND: u32 = 10_000;

/// A gate as the configuration declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredGate {
    pub name: String,
    /// What divides the gate, such as `customer`.
    pub per: Option<String>,
    /// Where the data of a sample has its key: a JSON pointer.
    pub key: Option<String>,
    /// What the gate lets through while it is open, in words; `None` without limits.
    pub limits: Option<String>,
    /// Whose units pass the gate.
    pub places: Vec<GatePlace>,
}

/// The gates of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateDeclarations {
    pub gates: Vec<DeclaredGate>,
    /// All places of the configuration, also those whose units pass no gate.
    pub places: Vec<GatePlace>,
}

impl From<Vec<DeclaredGate>> for GateDeclarations {
    fn from(gates: Vec<DeclaredGate>) -> Self {
        let places = gates.iter().flat_map(|gate| gate.places.iter().cloned()).collect();
        Self { gates, places }
    }
}

impl GateDeclarations {
    /// The gates to store: those that are declared here, with the places of other configurations, and known ones that units of
    /// this configuration no longer pass.
    pub fn merged(&self, known: &[DeclaredGate]) -> Vec<DeclaredGate> {
        let is_own = |place: &GatePlace| self.places.contains(place);
        let is_left = |known: &&DeclaredGate| {
            known.places.iter().any(is_own)
                && !self.gates.iter().any(|gate| gate.name == known.name)
        };
        let left = known.iter().filter(is_left);
        let left = left.map(|gate| DeclaredGate { places: Vec::new(), ..gate.clone() });
        let merged = self.gates.iter().cloned().chain(left).map(|mut gate| {
            if let Some(known) = known.iter().find(|known| known.name == gate.name) {
                gate.places.extend(known.places.iter().filter(|place| !is_own(place)).cloned());
            }
            gate.places.sort_unstable();
            gate.places.dedup();
            gate
        });
        merged.collect()
    }
}

/// A queue, a source, an upload or a stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GatePlace {
    pub kind: UnitKind,
    pub place: String,
}

impl DeclaredGate {
    /// The places with units of a kind.
    pub fn places_of(&self, kind: UnitKind) -> impl Iterator<Item = &str> {
        self.places.iter().filter(move |it| it.kind == kind).map(|it| it.place.as_str())
    }

    /// Whether units of an earlier declaration no longer pass: they had other keys, or no place is left.
    pub fn strands_units(&self, known: &[Self]) -> bool {
        let known = known.iter().find(|known| known.name == self.name);
        known.is_some_and(|known| {
            (known.per.is_some(), &known.key) != (self.per.is_some(), &self.key)
                || self.places.is_empty() && !known.places.is_empty()
        })
    }

    /// Opens rows that have lost their units. A closed row of a gate that is still divided may have some, and opens by itself if it
    /// has none.
    pub fn open_stranded(
        &self,
        known: &[Self],
        rows: &mut Vec<GateRecord>,
        at: Timestamp,
    ) -> Vec<JournalEntry> {
        let was_divided = known.iter().any(|it| it.name == self.name && it.per.is_some());
        let (is_left, is_divided) = (self.places.is_empty(), self.per.is_some());
        rows.retain(|row| {
            is_left || was_divided != is_divided || row.state.status != GateStatus::Closed
        });
        let reason = match is_left {
            true => "nothing passes the gate any more",
            false => "the gate is divided otherwise",
        };
        let reason = Some(reason.to_owned());
        let by = Operator { actor: "configuration".to_owned(), at, reason };
        rows.iter_mut().filter_map(|row| row.order(&GateOrder::Open, &by, 0)).collect()
    }

    pub fn places_json(&self) -> String {
        let places = self.places.iter().map(|it| json!([it.kind.name(), it.place]));
        Value::from_iter(places).to_string()
    }
}

impl FromRow for DeclaredGate {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            name: row.get()?,
            per: row.get()?,
            key: row.get()?,
            limits: row.get()?,
            places: row.named("places", places_from_json)?,
        })
    }
}

fn places_from_json(text: &str) -> Option<Vec<GatePlace>> {
    let places: Vec<(String, String)> = serde_json::from_str(text).ok()?;
    let place = |(kind, place): (String, String)| {
        Some(GatePlace { kind: UnitKind::from_name(&kind)?, place })
    };
    places.into_iter().map(place).collect()
}

/// A gate, or one key of a divided gate.
#[derive(Debug, Clone, PartialEq)]
pub struct GateRecord {
    pub gate: String,
    /// Empty if the gate is not divided.
    pub key: String,
    pub state: GateState,
    /// Units that run while the gate is not open, or has a limit of concurrency.
    pub held: HeldPermits,
}

impl FromRow for GateRecord {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        Ok(Self {
            gate: row.get()?,
            key: row.get()?,
            state: row.named("state", state_from_json)?,
            held: HeldPermits { all: row.count("held")?, current: row.count("held_now")? },
        })
    }
}

impl GateRecord {
    pub fn new(gate: &str, key: &str) -> Self {
        let state = GateState::default();
        Self { gate: gate.to_owned(), key: key.to_owned(), state, held: HeldPermits::default() }
    }

    /// The state as it is stored.
    pub fn state_json(&self) -> String {
        state_to_json(&self.state).to_string()
    }

    pub fn is_open(&self) -> bool {
        self.state.status == GateStatus::Open
    }

    pub fn name(&self) -> String {
        gate_name(&self.gate, &self.key)
    }

    /// How many units run now, if so many have leases of their own. Items have none, and count if they have permits.
    pub(crate) fn ran(&self, held: u32) -> u32 {
        held.max(self.held.all)
    }

    /// Carries out an operator's order and returns its journal entry; `None` if the status does not allow it. `held` units with
    /// leases of their own run now.
    pub fn order(&mut self, order: &GateOrder, by: &Operator, held: u32) -> Option<JournalEntry> {
        let (before, ran) = (self.state.clone(), self.ran(held));
        match order {
            GateOrder::Close { until } => {
                let (actor, reason) = (by.actor.as_str(), by.reason.as_deref());
                self.state.close(actor, reason, by.at, *until, ran);
            }
            GateOrder::Open => self.state.open().ok()?,
        }
        let mut told = before;
        (told.closed_by, told.reason) = (Some(by.actor.clone()), by.reason.clone());
        Some(self.entry(by.at, &by.actor, &told))
    }

    /// The entry for a gate that has just closed or opened. One that opens names who closed it, and why: `before`.
    pub(crate) fn entry(&self, at: Timestamp, actor: &str, before: &GateState) -> JournalEntry {
        let (action, told) = match self.is_open() {
            true => ("gate.opened", before),
            false => ("gate.closed", &self.state),
        };
        let details = json!({
            "gate": self.gate,
            "key": self.key,
            "until": self.state.closed_until.map(|until| until.to_string()),
            "by": told.closed_by,
            "reason": told.reason,
        });
        JournalEntry {
            at,
            actor: actor.to_owned(),
            action: action.to_owned(),
            unit: Some(format!("gate:{}", self.name())),
            filter: None,
            details: details.to_string(),
            dedupe_key: None,
        }
    }
}

/// `ads-api`, or `ads-api/acme` for a key.
pub fn gate_name(gate: &str, key: &str) -> String {
    if key.is_empty() { gate.to_owned() } else { format!("{gate}/{key}") }
}

/// A unit that counts for a gate until its lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitHolder {
    pub kind: UnitKind,
    /// The row with the lease, as [`LeaseRef`] says.
    pub lease: LeaseRef,
}

impl FromRow for PermitHolder {
    fn from_row(row: &mut impl RowReader) -> Result<Self> {
        let kind = row.named("kind", UnitKind::from_name)?;
        Ok(Self { kind, lease: LeaseRef::from_row(row)? })
    }
}

/// What an operator does to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOrder {
    /// Until a time, or until it is opened.
    Close {
        until: Option<Timestamp>,
    },
    Open,
}

impl GateOrder {
    /// Rejects a key that no unit can have, or that a database cannot store.
    pub fn check(key: &str) -> std::result::Result<(), String> {
        if key.contains('\0') {
            return Err("the key must not contain a NUL character".to_owned());
        }
        if key.len() > MAX_NAME_BYTES {
            return Err(format!("the key has {} bytes, {MAX_NAME_BYTES} are allowed", key.len()));
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateOrdered {
    Done,
    /// The status does not allow the order; nothing changed.
    Refused(GateStatus),
    /// No configuration declares the gate.
    Unknown,
}

#[async_trait]
pub trait Gates: Send + Sync {
    /// Notes which gates there are, and who passes them. What other configurations declared about their places stays. What no unit
    /// passes any more is opened: where a gate is divided otherwise than before, and where no place is left.
    async fn declare_gates(&self, declared: &GateDeclarations, at: Timestamp) -> Result<()>;

    /// Adds rows for open gates and keys that have none.
    async fn note_gate_keys(&self, keys: &[(&str, &str)]) -> Result<()>;

    /// All declared gates, by name.
    async fn declared_gates(&self) -> Result<Vec<DeclaredGate>>;

    /// A page of the rows of a gate, or of all gates, after a gate and key, in their order; all of them, or those that are
    /// not open.
    async fn gates_page(
        &self,
        gate: Option<&str>,
        only_shut: bool,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<GateRecord>>;

    /// The rows of gates and keys, without those that have none.
    async fn gate_rows(&self, keys: &[(&str, &str)]) -> Result<Vec<GateRecord>>;

    /// How many units could be claimed if the gate let them, up to [`MAX_WAITING_BEHIND`].
    async fn waiting_behind(&self, gate: &str, key: &str) -> Result<u64>;

    /// The units with permits of a gate and key.
    async fn gate_permits(&self, gate: &str, key: &str, limit: u32) -> Result<Vec<PermitHolder>>;

    /// Closes or opens a gate, with a journal entry.
    async fn order_gate(
        &self,
        gate: &str,
        key: &str,
        order: &GateOrder,
        by: &Operator,
    ) -> Result<GateOrdered>;
}
