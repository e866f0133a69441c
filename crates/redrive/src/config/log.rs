//! Where the reading of one file notes what it met.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use super::{ConfigProblem, path::KeyPath};

/// All problems of a file, and every key its readers requested_keys for.
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

    /// Notes a missing key, unless it may stand in a statement that could not be read.
    pub(super) fn note_missing(&self, problem: ConfigProblem) {
        if !self.has_broken_statements {
            self.note(problem);
        }
    }

    /// How many problems there are so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    pub(super) fn note_requested(&self, path: &KeyPath) {
        self.requested_keys.borrow_mut().insert(path.shape());
    }

    /// The problems, and the shapes of all keys that were requested_keys for.
    pub(super) fn into_parts(self) -> (Vec<ConfigProblem>, BTreeSet<String>) {
        (self.problems.into_inner(), self.requested_keys.into_inner())
    }
}

/// UniqueNames that must differ from each other, with the place of each.
#[derive(Debug, Default)]
pub(super) struct UniqueNames(HashMap<String, Range<usize>>);

impl UniqueNames {
    /// Takes a name, or gives the place where it was taken before.
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
