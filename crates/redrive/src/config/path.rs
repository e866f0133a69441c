//! The way from the top of a file to a value.

use std::fmt;

/// Where a value stands, such as `queue[0].timeout`.
#[derive(Debug, Clone, Default)]
pub(super) struct Path(Vec<Step>);

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A key that Redrive knows.
    Key(&'static str),
    /// A place in a list.
    Item(usize),
    /// A name that the user chose.
    Name(String),
}

impl Path {
    pub(super) fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The path without places in lists: what kind of value this is.
    pub(super) fn title(&self) -> String {
        let kept = self.0.iter().filter(|step| !matches!(step, Step::Item(_)));
        Self(kept.cloned().collect()).to_string()
    }

    /// The path with `[]` for every place in a list and `*` for every free name.
    pub(super) fn shape(&self) -> String {
        let steps = self.0.iter().map(|step| match step {
            Step::Key(key) => format!(".{key}"),
            Step::Item(_) => "[]".to_owned(),
            Step::Name(_) => ".*".to_owned(),
        });
        steps.collect::<String>().trim_start_matches('.').to_owned()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            match step {
                Step::Key(key) => write!(f, "{dot}{key}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
                Step::Name(name) => write!(f, "{dot}{name}")?,
            }
        }
        Ok(())
    }
}
