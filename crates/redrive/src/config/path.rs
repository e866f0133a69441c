//! The path from the root of a file to a value.

use std::fmt;

/// The path of a value, such as `queue[0].timeout`.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyPath(Vec<KeyPathStep>);

#[derive(Debug, Clone)]
pub(super) enum KeyPathStep {
    /// A known key.
    Key(&'static str),
    /// An index of a list.
    Item(usize),
    /// A name chosen by the user, such as that of a policy.
    Name(String),
}

impl KeyPath {
    pub(super) fn then(&self, step: KeyPathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The path without list indexes.
    pub(super) fn title(&self) -> String {
        let kept = self.0.iter().filter(|step| !matches!(step, KeyPathStep::Item(_)));
        Self(kept.cloned().collect()).to_string()
    }

    /// The path with `[]` for every list index and `*` for every name chosen by the user.
    pub(super) fn shape(&self) -> String {
        let steps = self.0.iter().map(|step| match step {
            KeyPathStep::Key(key) => format!(".{key}"),
            KeyPathStep::Item(_) => "[]".to_owned(),
            KeyPathStep::Name(_) => ".*".to_owned(),
        });
        steps.collect::<String>().trim_start_matches('.').to_owned()
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            match step {
                KeyPathStep::Key(key) => write!(f, "{dot}{key}")?,
                KeyPathStep::Item(index) => write!(f, "[{index}]")?,
                KeyPathStep::Name(name) => write!(f, "{dot}{name}")?,
            }
        }
        Ok(())
    }
}
