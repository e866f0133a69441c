//! The way from the top of a file to a value.

use std::fmt;

/// Where a value stands, such as `queue[0].timeout`.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyPath(Vec<KeyPathStep>);

#[derive(Debug, Clone)]
pub(super) enum KeyPathStep {
    /// A key that Redrive knows.
    Key(&'static str),
    /// A place in a list.
    Item(usize),
    /// A name that the user chose.
    Name(String),
}

impl KeyPath {
    pub(super) fn then(&self, step: KeyPathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The path without places in lists: what kind of value this is.
    pub(super) fn title(&self) -> String {
        let kept = self.0.iter().filter(|step| !matches!(step, KeyPathStep::Item(_)));
        Self(kept.cloned().collect()).to_string()
    }

    /// The path with `[]` for every place in a list and `*` for every free name.
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
