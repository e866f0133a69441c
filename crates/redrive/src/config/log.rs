//! Collects the problems of a file and the keys that its readers requested.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use super::{ConfigProblem, path::KeyPath};

#[derive(Debug, Default)]
pub(super) struct ReadLog {
    problems: RefCell<Vec<ConfigProblem>>,
    requested_keys: RefCell<BTreeSet<String>>,
    has_broken_statements: bool,
}

impl ReadLog {
    pub(super) fn new(broken_statements: Vec<ConfigProblem>) -> Self {
        Self {
            has_broken_statements: !broken_statements.is_empty(),
            problems: RefCell::new(broken_statements),
            requested_keys: RefCell::default(),
        }
    }

    pub(super) fn note(&self, problem: ConfigProblem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Notes a missing key, unless a broken statement of the file may contain it.
    pub(super) fn note_missing(&self, problem: ConfigProblem) {
        if !self.has_broken_statements {
            self.note(problem);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    pub(super) fn note_requested(&self, path: &KeyPath) {
        self.requested_keys.borrow_mut().insert(path.shape());
    }

    /// The problems, and the shapes of all requested keys.
    pub(super) fn into_parts(self) -> (Vec<ConfigProblem>, BTreeSet<String>) {
        (self.problems.into_inner(), self.requested_keys.into_inner())
    }
}

/// Names that must be unique, each with its position in the file.
#[derive(Debug, Default)]
pub(super) struct UniqueNames(HashMap<String, Range<usize>>);

impl UniqueNames {
    /// Reserves a name. The error is the position of its first use.
    pub(super) fn take(&mut self, name: &str, span: Range<usize>) -> Result<(), Range<usize>> {
        match self.0.get(name) {
            Some(first) => Err(first.clone()),
            None => {
                self.0.insert(name.to_owned(), span);
                Ok(())
            }
        }
    }
}
