//! Columns of lists.

/// How a column looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Names the row, and leads to its page.
    Id,
    Text,
    Number,
    State,
    /// The fingerprint of a cause.
    Cause,
    Time,
    /// Long: lists show its beginning.
    Message,
}

/// A column of a list: its heading, and the text of a row.
#[derive(Debug)]
pub struct Column<R> {
    pub heading: &'static str,
    pub kind: ColumnKind,
    /// A terminal is narrower than a page.
    pub only_on_pages: bool,
    cell: fn(&R) -> String,
}

impl<R> Column<R> {
    pub(super) const fn new(
        heading: &'static str,
        kind: ColumnKind,
        cell: fn(&R) -> String,
    ) -> Self {
        Self { heading, kind, only_on_pages: false, cell }
    }

    pub(super) const fn on_pages(
        heading: &'static str,
        kind: ColumnKind,
        cell: fn(&R) -> String,
    ) -> Self {
        Self { heading, kind, only_on_pages: true, cell }
    }

    pub fn cell(&self, row: &R) -> String {
        (self.cell)(row)
    }
}

/// The text of a value that may be missing.
pub(super) fn text(value: &Option<impl ToString>) -> String {
    value.as_ref().map(ToString::to_string).unwrap_or_default()
}
