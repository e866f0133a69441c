//! Reads a file key by key and notes every problem with its position.
//!
//! A [`Section`] is one table. Each part of the configuration requests its keys from the section;
//! keys that no part requests are unknown. So the code names a key exactly once, where it reads the
//! key. A problem never stops the reading: getters note the problem and return `None`, and the file
//! is rejected at the end.

use std::{fmt, ops::Range};

use toml::de::{DeTable, DeValue};

use super::{
    ConfigProblem,
    log::{ReadLog, UniqueNames},
    path::{KeyPath, KeyPathStep},
    value::shorten,
};
use crate::nearest::{nearest, suggestion};

/// A value in the file, with its path and position.
#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    pub(super) node: &'a DeValue<'a>,
    pub(super) span: Range<usize>,
    path: KeyPath,
    log: &'a ReadLog,
}

impl<'a> Value<'a> {
    pub(super) fn root(node: &'a DeValue<'a>, log: &'a ReadLog) -> Self {
        Self { node, span: 0..0, path: KeyPath::default(), log }
    }

    /// Notes a problem with this value and what is allowed. Returns `None`, so that a reader can
    /// return the result.
    pub(super) fn refuse<T>(
        &self,
        message: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Option<T> {
        self.note(message, allowed, None, None);
        None
    }

    /// Like [`Value::refuse`], with a hint how to fix the problem.
    pub(super) fn refuse_with_help<T>(
        &self,
        message: impl fmt::Display,
        allowed: impl Into<String>,
        help: impl Into<String>,
    ) -> Option<T> {
        self.note(message, allowed, Some(help.into()), None);
        None
    }

    /// Like [`Value::refuse_with_help`], for a secret, which the report masks.
    pub(super) fn refuse_secret<T>(
        &self,
        message: &str,
        allowed: &str,
        help: impl Into<String>,
    ) -> Option<T> {
        self.log.note(ConfigProblem {
            key: self.path.to_string(),
            span: self.span.clone(),
            message: format!("`{}`: {message}", self.path.title()),
            label: allowed.to_owned(),
            help: Some(help.into()),
            related: None,
            secret: true,
        });
        None
    }

    pub(super) fn refuse_type<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.node {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.refuse(format!("must be {wanted}"), format!("this is {found}"))
    }

    /// Reserves a name that must be unique among its kind.
    pub(super) fn take_name(&self, name: &str, kind: &str, names: &mut UniqueNames) {
        if let Err(first) = names.take(name, self.span.clone()) {
            let related = Some((first, "first used here".to_owned()));
            let message = format!("two {kind} have the name {name:?}");
            self.note(message, "used again here", None, related);
        }
    }

    fn note(
        &self,
        message: impl fmt::Display,
        label: impl Into<String>,
        help: Option<String>,
        related: Option<(Range<usize>, String)>,
    ) {
        self.log.note(ConfigProblem {
            key: self.path.to_string(),
            span: self.span.clone(),
            message: format!("`{}`: {message}", self.path.title()),
            label: label.into(),
            help,
            related,
            secret: false,
        });
    }

    /// Reads the value as a table. Keys that `read` does not request are unknown.
    pub(super) fn table<T>(self, read: impl FnOnce(&mut Section<'a>) -> Option<T>) -> Option<T> {
        let DeValue::Table(table) = self.node else {
            return self.refuse_type("a table");
        };
        let mut section = Section { table, whole: self, known: Vec::new(), missing: Vec::new() };
        let value = read(&mut section);
        section.finish();
        value
    }

    /// Reads the value as a table whose keys are chosen by the user, in the order of the file.
    pub(super) fn named<T>(
        self,
        mut read: impl FnMut(&'a str, Value<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let DeValue::Table(table) = self.node else {
            return self.refuse_type("a table");
        };
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let read_entry = |(name, value): (&'a toml::Spanned<_>, &'a toml::Spanned<_>)| {
            let name: &toml::de::DeString<'_> = name.get_ref();
            let value = self.inner(KeyPathStep::Name(name.to_string()), value);
            self.log.note_requested(&value.path);
            read(name, value)
        };
        Some(entries.into_iter().filter_map(read_entry).collect())
    }

    pub(super) fn items(&self) -> Option<Vec<Value<'a>>> {
        let DeValue::Array(list) = self.node else {
            return self.refuse_type("a list");
        };
        let items = list.iter().enumerate();
        Some(items.map(|(index, item)| self.inner(KeyPathStep::Item(index), item)).collect())
    }

    fn inner(&self, step: KeyPathStep, value: &'a toml::Spanned<DeValue<'a>>) -> Value<'a> {
        Value {
            node: value.get_ref(),
            span: value.span(),
            path: self.path.then(step),
            log: self.log,
        }
    }
}

#[derive(Debug)]
pub(super) struct Section<'a> {
    table: &'a DeTable<'a>,
    whole: Value<'a>,
    known: Vec<&'static str>,
    missing: Vec<&'static str>,
}

impl<'a> Section<'a> {
    /// Reads an optional key. Returns `None` for an absent or invalid key; a problem is noted.
    pub(super) fn get<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Option<T> {
        self.value(key).and_then(read)
    }

    /// Reads a required key. Returns `None` for an absent or invalid key and notes a problem; missing
    /// keys are noted after the table was read.
    pub(super) fn require<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Option<T> {
        let value = self.value(key);
        if value.is_none() {
            self.missing.push(key);
        }
        value.and_then(read)
    }

    /// Reads a list of tables, such as all `[[queue]]` sections.
    pub(super) fn each<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Section<'a>) -> Option<T>,
    ) -> Vec<T> {
        let items = self.get(key, |value| match value.node {
            DeValue::Table(_) => value
                .refuse("must be a list of tables", format!("write [[{key}]], with two brackets")),
            _ => value.items(),
        });
        let read_item = |item: Value<'a>| item.table(&mut read);
        items.unwrap_or_default().into_iter().filter_map(read_item).collect()
    }

    /// Like [`Section::each`], but requires at least one table.
    pub(super) fn require_each<T>(
        &mut self,
        key: &'static str,
        read: impl FnMut(&mut Section<'a>) -> Option<T>,
    ) -> Vec<T> {
        self.require(key, |value| match value.node {
            DeValue::Array(list) if list.is_empty() => {
                value.refuse("must not be empty", format!("give at least one [[{key}]]"))
            }
            _ => Some(()),
        });
        self.each(key, read)
    }

    /// The value of a key, which counts as known from now on.
    pub(super) fn value(&mut self, key: &'static str) -> Option<Value<'a>> {
        let step = KeyPathStep::Key(key);
        self.whole.log.note_requested(&self.whole.path.then(step.clone()));
        self.known.push(key);
        let value = self.table.get(key)?;
        Some(self.whole.inner(step, value))
    }

    /// The table as a value, for problems that concern several keys.
    pub(super) fn whole(&self) -> &Value<'a> {
        &self.whole
    }

    /// The number of problems noted for the whole file so far.
    pub(super) fn problem_count(&self) -> usize {
        self.whole.log.count()
    }

    fn in_table(&self) -> String {
        let title = self.whole.path.title();
        if title.is_empty() { String::new() } else { format!(" in `{title}`") }
    }

    fn finish(self) {
        let mut missing = self.missing.clone();
        for (name, _) in self.table {
            let written: &str = name.get_ref();
            if self.known.contains(&written) {
                continue;
            }
            // A misspelled required key is reported once, as unknown, and not as missing too.
            let meant = nearest(written, missing.iter().copied());
            missing.retain(|key| Some(*key) != meant);
            self.whole.log.note(ConfigProblem {
                key: self.whole.path.then(KeyPathStep::Name(written.to_owned())).to_string(),
                span: name.span(),
                message: format!("unknown key `{}`{}", shorten(written), self.in_table()),
                label: "not a key of this table".to_owned(),
                help: Some(suggestion(written, self.known.iter().copied())),
                related: None,
                secret: false,
            });
        }
        for key in missing {
            self.whole.log.note_missing(ConfigProblem {
                key: self.whole.path.then(KeyPathStep::Key(key)).to_string(),
                span: self.whole.span.clone(),
                message: format!("missing key `{key}`{}", self.in_table()),
                label: format!("`{key}` is required here"),
                help: None,
                related: None,
                secret: false,
            });
        }
    }
}
