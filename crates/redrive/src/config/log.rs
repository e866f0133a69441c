//! Where the reading of one file notes what it met.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use super::{Problem, path::Path};

/// All problems of a file, and every key its readers asked for.
#[derive(Debug, Default)]
pub(super) struct Log {
    problems: RefCell<Vec<Problem>>,
    asked: RefCell<BTreeSet<String>>,
    has_broken_statements: bool,
}

impl Log {
    pub(super) fn new(broken_statements: Vec<Problem>) -> Self {
        Self {
            has_broken_statements: !broken_statements.is_empty(),
            problems: RefCell::new(broken_statements),
            asked: RefCell::default(),
        }
    }

    pub(super) fn note(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }

    /// Notes a missing key, unless it may stand in a statement that could not be read.
    pub(super) fn note_missing(&self, problem: Problem) {
        if !self.has_broken_statements {
            self.note(problem);
        }
    }

    /// How many problems there are so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    pub(super) fn note_asked(&self, path: &Path) {
        self.asked.borrow_mut().insert(path.shape());
    }

    /// The problems, and the shapes of all keys that were asked for.
    pub(super) fn into_parts(self) -> (Vec<Problem>, BTreeSet<String>) {
        (self.problems.into_inner(), self.asked.into_inner())
    }
}

/// Names that must differ from each other, with the place of each.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Range<usize>>);

impl Names {
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
