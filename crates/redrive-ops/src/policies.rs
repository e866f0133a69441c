//! Policies, and the waits that a policy would give (POL-9).

use std::{collections::HashSet, time::Duration};

use redrive_core::{JitterKey, JitterSeed, Policy, Preset, Scheduled, Unit, schedule};

use crate::{DeclaredPolicy, INLINE, Ops};

/// The default number of rows for a policy without a limit.
const UNLIMITED_ROWS: u32 = 10;

/// The most rows without an explicit number.
const MAX_DEFAULT_ROWS: u32 = 100;

impl Ops {
    /// The presets, then the policies of the configuration.
    pub fn policies(&self) -> KnownPolicies {
        let declared = self.declared().map(|declared| declared.policies.clone());
        KnownPolicies::new(declared.unwrap_or_default())
    }
}

/// The presets, then the policies of a configuration.
#[derive(Debug, Clone)]
pub struct KnownPolicies(pub Vec<DeclaredPolicy>);

impl KnownPolicies {
    pub fn new(declared: Vec<DeclaredPolicy>) -> Self {
        Self(Preset::ALL.map(DeclaredPolicy::of_preset).into_iter().chain(declared).collect())
    }

    /// The policies of this name, one for each place that uses it, or the policy at this place.
    pub fn find(&self, name: &str) -> Vec<&DeclaredPolicy> {
        let is_meant = |policy: &&DeclaredPolicy| match &policy.place {
            Some(place) => {
                place == name || (policy.name == name && Preset::from_name(name).is_none())
            }
            None => policy.name == name,
        };
        self.0.iter().filter(is_meant).collect()
    }

    /// The names and places that `find` knows.
    pub fn names(&self) -> Vec<&str> {
        let names = self.0.iter().map(|policy| policy.name.as_str());
        let places = self.0.iter().filter_map(|policy| policy.place.as_deref());
        let mut names: Vec<&str> = names.filter(|name| *name != INLINE).chain(places).collect();
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(*name));
        names
    }

    /// The one policy of a name or a place. Fails if there is none, or if the places of a name differ.
    pub fn only(&self, name: &str) -> Result<&DeclaredPolicy, NoSuchPolicy> {
        let found = self.find(name);
        let Some(first) = found.first().copied() else {
            let known = self.names().into_iter().map(str::to_owned).collect();
            return Err(NoSuchPolicy::Unknown { name: name.to_owned(), known });
        };
        if found.iter().all(|policy| policy.policy == first.policy) {
            return Ok(first);
        }
        let places = found.iter().filter_map(|policy| policy.place.clone()).collect();
        Err(NoSuchPolicy::Ambiguous { name: name.to_owned(), places })
    }
}

/// Why a name stands for no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchPolicy {
    #[error("there is no policy {name:?}")]
    Unknown { name: String, known: Vec<String> },
    #[error(
        "policy {name:?} has other waits at each of its places, because their presets differ; name one of {}",
        places.join(", ")
    )]
    Ambiguous { name: String, places: Vec<String> },
}

/// Parses a number of executions, or `none` for no limit.
pub fn parse_max_attempts(text: &str) -> Result<Option<u32>, String> {
    match text {
        "none" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| format!("write a whole number from 1 to {}, or none", u32::MAX)),
    }
}

/// The waits of a unit whose every attempt fails.
#[derive(Debug, Clone)]
pub struct Waits {
    /// One wait for each attempt, also beyond the limits of the policy.
    pub waits: Vec<Scheduled>,
    /// The wait at which the policy gives up, if it is one of `waits` or the next.
    pub end: Option<Scheduled>,
}

impl Waits {
    pub const MAX_ATTEMPTS: u32 = 10_000;

    /// `attempts` defaults to the retries of the policy, or to ten without a limit. With `in_call_retries` the waits are
    /// those of an upload: after so many the call ends, the next one comes after the cap at the earliest, and its waits
    /// begin again.
    pub fn new(
        policy: &Policy,
        in_call_retries: Option<u32>,
        seed: JitterSeed,
        unit: &Unit,
        attempts: Option<u32>,
    ) -> Self {
        let retries =
            policy.spec().max_attempts.map(|max| max.saturating_sub(1).clamp(1, MAX_DEFAULT_ROWS));
        let attempts = attempts.or(retries).unwrap_or(UNLIMITED_ROWS).min(Self::MAX_ATTEMPTS);
        // One more than requested, to see whether the policy gives up right after.
        let mut waits: Vec<Scheduled> =
            schedule(policy, JitterKey::new(seed, unit), attempts + 1).collect();
        if let Some(retries) = in_call_retries {
            let in_call: Vec<Duration> =
                waits.iter().take(retries as usize).map(|wait| wait.delay).collect();
            let one_call = in_call.into_iter().chain([policy.spec().cap]).cycle();
            for (wait, delay) in waits.iter_mut().zip(one_call) {
                wait.delay = delay;
            }
        }
        let end = waits.iter().find(|wait| wait.gives_up.is_some()).copied();
        waits.truncate(attempts as usize);
        Self { waits, end }
    }
}
