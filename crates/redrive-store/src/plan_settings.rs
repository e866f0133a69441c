//! The settings of a plan in JSON.

use std::time::Duration;

use redrive_core::{HumanDuration, PlanSettings};
use serde_json::{Map, Value};

pub(crate) fn settings_to_json(settings: &PlanSettings) -> Value {
    let given = [
        ("canary", settings.canary().map(Value::from)),
        ("pace", settings.pace().map(|pace| pace.to_string().into())),
        ("ramp", settings.ramp().map(|ramp| HumanDuration::from(ramp).to_string().into())),
        ("abort_if", settings.abort_if().map(|share| share.to_string().into())),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<String, Value>>())
}

pub(crate) fn settings_from_json(text: &str) -> Option<PlanSettings> {
    let stored: Value = serde_json::from_str(text).ok()?;
    let text = |name: &str| stored.get(name).and_then(Value::as_str);
    let canary = stored.get("canary").map(Value::as_u64);
    let ramp = text("ramp").map(|ramp| ramp.parse::<HumanDuration>().map(Duration::from));
    PlanSettings::new(
        canary.flatten(),
        text("pace").map(str::parse).transpose().ok()?,
        ramp.transpose().ok()?,
        text("abort_if").map(str::parse).transpose().ok()?,
    )
    .ok()
}
