//! The form of how a plan is applied: with what was typed, with the settings of a draft, and with what is wrong.

use std::time::Duration;

use maud::{Markup, html};
use redrive_core::{HumanDuration, PlanSettings, PlanTiming};
use redrive_ops::words::human;
use serde::Deserialize;

use super::parts::{counted, given};
use crate::{api::PlanApplyRequest, params::Pairs, problem::ProblemDetails};

/// Fewer units than this are a canary themselves.
const CANARY: u64 = 10;

/// What stands in the fields, as text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct TypedSettings {
    pub(super) canary: String,
    pub(super) pace: String,
    pub(super) ramp: String,
    pub(super) abort_if: String,
    pub(super) reason: String,
    /// `true` if the preview is there to keep a plan.
    pub(super) as_plan: String,
}

impl TypedSettings {
    pub(super) fn of(settings: &PlanSettings) -> Self {
        let text = |value: Option<String>| value.unwrap_or_default();
        Self {
            canary: text(settings.canary().map(|canary| canary.to_string())),
            pace: text(settings.pace().map(|pace| pace.to_string())),
            ramp: text(settings.ramp().map(|ramp| HumanDuration::from(ramp).to_string())),
            abort_if: text(settings.abort_if().map(|share| share.to_string())),
            ..Self::default()
        }
    }

    /// Takes the fields out of a form.
    pub(super) fn take(pairs: Pairs) -> (Self, Pairs) {
        let (mut typed, mut others) = (Self::default(), Pairs::new());
        for (name, value) in pairs {
            match typed.field(&name) {
                Some(field) => *field = value,
                None => others.push((name, value)),
            }
        }
        (typed, others)
    }

    fn field(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "canary" => &mut self.canary,
            "pace" => &mut self.pace,
            "ramp" => &mut self.ramp,
            "abort_if" => &mut self.abort_if,
            "reason" => &mut self.reason,
            "as_plan" => &mut self.as_plan,
            _ => return None,
        })
    }

    /// The fields that are filled in.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Self { canary, pace, ramp, abort_if, reason, as_plan: _ } = self;
        let fields = [
            ("canary", canary),
            ("pace", pace),
            ("ramp", ramp),
            ("abort_if", abort_if),
            ("reason", reason),
        ];
        let fields = fields.map(|(name, value)| (name, value.trim().to_owned()));
        fields.into_iter().filter(|(_, value)| !value.is_empty())
    }

    pub(super) fn settings(&self) -> Result<PlanSettings, ProblemDetails> {
        let text = |text: &str| given(Some(text)).map(str::to_owned);
        let canary = text(&self.canary).map(|canary| canary.parse()).transpose();
        let canary =
            canary.map_err(|_| ProblemDetails::bad_request("canary: not a number of units"))?;
        let request = PlanApplyRequest {
            canary,
            pace: text(&self.pace),
            ramp: text(&self.ramp),
            abort_if: text(&self.abort_if),
            reason: None,
        };
        request.settings()
    }

    /// A careful proposal, unless something was typed.
    pub(super) fn or_careful(self, units: u64) -> Self {
        match units > CANARY && self.given().next().is_none() {
            true => Self {
                canary: CANARY.to_string(),
                abort_if: PlanSettings::CANARY_ABORT_IF.to_string(),
                ..self
            },
            false => self,
        }
    }

    /// `watches` tells whether units are tried again, so that a canary has an outcome.
    pub(super) fn fields(&self, watches: bool) -> Markup {
        html! {
            @if watches {
                label { "Canary" input type="number" name="canary" min="1" value=(self.canary) title="Units to change first; the others follow if these recover"; }
            }
            label { "Pace, such as 50/s" input type="text" name="pace" size="6" value=(self.pace) title="Units in a second, minute, hour or day"; }
            label { "Ramp, such as 10m" input type="text" name="ramp" size="6" value=(self.ramp) title="The time from slow to the full pace"; }
            @if watches {
                label { "Abort if, such as 20%" input type="text" name="abort_if" size="6" value=(self.abort_if) title="Abort if this share of the units fails again"; }
            }
        }
    }
}

/// The field of the reason, which the buttons of a form share.
pub(super) fn reason_field(reason: &str) -> Markup {
    html! { label { "Reason, for the journal" input type="text" name="reason" maxlength="500" value=(reason); } }
}

/// What is wrong with what was typed.
pub(super) fn problem(problem: Option<&ProblemDetails>) -> Markup {
    html! { @if let Some(problem) = problem {
        p.next.warn role="alert" {
            (problem.detail())
            @if let Some(allowed) = problem.allowed_values() { " Allowed: " (allowed) "." }
        }
    } }
}

/// How long so many units take, or that they are changed at once.
pub(super) fn estimate(settings: &PlanSettings, units: u64, noun: &str) -> String {
    // Without a past, the time of day does not matter.
    let now = jiff::Timestamp::UNIX_EPOCH;
    let time = settings.time_for(units, &PlanTiming::default(), now);
    let time = time.map(|time| human(Duration::from_secs(time.as_secs_f64().ceil() as u64)));
    match (settings.canary(), time) {
        (Some(canary), Some(time)) => {
            format!("{} first; then about {time} for the rest at this pace.", counted(canary, noun))
        }
        (None, Some(time)) => format!("About {time} at this pace."),
        (Some(canary), None) => {
            format!("{} first; then the rest all at once.", counted(canary, noun))
        }
        (None, None) => format!("All at once: {} in one go.", counted(units, noun)),
    }
}
