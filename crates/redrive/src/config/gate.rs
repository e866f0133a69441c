//! `[[gate]]`: what all hosts together let through to a service.

use std::cell::Cell;

use redrive_core::{GateSettings, GateTrip, Rate};
use redrive_engine::nearest::suggestion;

use super::{
    limits::MAX_CONCURRENCY,
    log::UniqueNames,
    reader::{Section, Value},
    value::{duration, flag, name, number, parsed, set, text, unique_name, whole},
};

#[derive(Debug, Clone, PartialEq)]
pub struct GateConfig {
    pub name: String,
    /// What divides the gate, such as `customer`: the word for the key in messages.
    pub per: Option<String>,
    /// Where the data of a sample has its key: a JSON pointer into the data.
    pub key: Option<String>,
    pub settings: GateSettings,
}

impl GateConfig {
    pub(super) fn read(s: &mut Section<'_>, names: &mut UniqueNames) -> Option<Self> {
        let gate_name = s.require("name", |value| {
            let name = unique_name("gates", names)(value.clone())?;
            if name.contains('/') {
                return value
                    .refuse("must not contain a slash", "GATE/KEY names one key of a gate");
            }
            Some(name)
        });
        let per = s.get("per", name);
        let key = s.get("key", |value| {
            let pointer = text(value.clone())?;
            match pointer.strip_prefix("/data") {
                Some(rest) if rest.starts_with('/') => Some(rest.to_owned()),
                _ => value
                    .refuse("is no place in the data of a sample", "/data/NAME…, a JSON pointer"),
            }
        });
        if key.is_some() && per.is_none() {
            s.whole().refuse::<()>("`key` is not allowed", "`per` names what divides the gate");
        }
        let rate = s.get("rate", parsed::<Rate>);
        let concurrency = s.get("concurrency", whole(1..=MAX_CONCURRENCY));
        let trip = s.get("trip", |value| value.table(trip));
        let base = s.get("base", duration);
        let cap = s.get("cap", duration);
        let pauses_max_age = s.get("pauses-max-age", flag).unwrap_or_default();
        let default = GateSettings::default();
        let base = base.unwrap_or(default.period(1));
        let cap = cap.unwrap_or(default.period(u32::MAX).max(base));
        let settings = GateSettings::new(rate, concurrency, trip, base, cap).map_err(|invalid| {
            let problem = format!("`{}` is not allowed", invalid.field);
            s.whole().refuse::<()>(problem, invalid.allowed)
        });
        // The name is known, so that queues which name the gate are no problem of their own.
        let settings = settings.unwrap_or_default().with_paused_max_age(pauses_max_age);
        Some(Self { name: gate_name?, per, key, settings })
    }
}

fn trip(s: &mut Section<'_>) -> Option<GateTrip> {
    let failures = s.require("failures", number);
    let of = s.require("of", whole(1..=redrive_core::MAX_TRIP_ATTEMPTS));
    let within = s.require("within", duration);
    Some(GateTrip { failures: failures?, of: of?, within: within? })
}

/// `gates` of a queue or a source: names of declared gates.
pub(super) fn gates(s: &mut Section<'_>, declared: &[GateConfig]) -> Vec<GateConfig> {
    read_gates(s, declared, |_, _, _| true)
}

/// `gates` of a stage, whose samples have one key for all divided gates.
pub(super) fn stage_gates(s: &mut Section<'_>, declared: &[GateConfig]) -> Vec<GateConfig> {
    let key: Cell<Option<&str>> = Cell::new(None);
    read_gates(s, declared, |value, name, gate| {
        let refuse = |problem: &str, allowed: &str| {
            value.clone().refuse::<()>(format!("gate {name:?} {problem}"), allowed);
            false
        };
        match (&gate.per, &gate.key) {
            (Some(_), None) => refuse(
                "is divided, and does not say where samples have their key",
                "`key = \"/data/…\"` at the gate",
            ),
            (_, Some(of_gate)) if key.replace(Some(of_gate)).is_some_and(|it| it != of_gate) => {
                refuse("has another `key` than the gate before", "the same `key` for a stage")
            }
            _ => true,
        }
    })
}

fn read_gates<'a>(
    s: &mut Section<'_>,
    declared: &'a [GateConfig],
    is_allowed: impl Fn(&Value<'_>, &str, &'a GateConfig) -> bool,
) -> Vec<GateConfig> {
    let gate = |value: Value<'_>| {
        let named = name(value.clone())?;
        if let Some(gate) = declared.iter().find(|gate| gate.name == named) {
            return is_allowed(&value, &named, gate).then_some(named);
        }
        let names = declared.iter().map(|gate| gate.name.as_str());
        let help = format!("declare it: [[gate]] name = {named:?}");
        let allowed = suggestion(&named, names);
        value.refuse_with_help(format!("there is no gate {named:?}"), allowed, help)
    };
    let named = s.get("gates", set(gate)).unwrap_or_default();
    let found = named.iter().filter_map(|name| declared.iter().find(|gate| gate.name == *name));
    found.cloned().collect()
}
