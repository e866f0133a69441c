//! Prints a list that is read in pages.

use std::io::{self, Write};

use serde::Serialize;

use super::{Output, TableRow, json, table_of};
use crate::{cli::Format, exit::CommandError};

/// The most rows of a table; JSON formats print all rows.
const MAX_TABLE_ROWS: usize = 1_000;

/// A list in progress. JSON formats print each page at once; a table is printed at the end, because its
/// column widths depend on all rows.
pub(crate) struct Listing<T> {
    output: Output,
    table: Vec<T>,
    rows: u64,
}

impl<T: TableRow> Listing<T> {
    pub(crate) fn new(output: Output) -> Self {
        Self { output, table: Vec::new(), rows: 0 }
    }

    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = T>) -> Result<(), CommandError> {
        let Self { output, table, rows: count } = self;
        output.print(|out| {
            for row in rows {
                let is_first = *count == 0;
                *count += 1;
                match output.format {
                    Format::Table if table.len() < MAX_TABLE_ROWS => table.push(row),
                    Format::Table => {}
                    Format::Json => write_element(out, &row, is_first)?,
                    Format::Jsonl => writeln!(out, "{}", json(&row, serde_json::to_string)?)?,
                }
            }
            Ok(())
        })
    }

    /// Ends the list. Returns how many rows a table omits.
    pub(crate) fn end(self) -> Result<u64, CommandError> {
        let Self { output, table, rows } = self;
        output.print(|out| match output.format {
            Format::Table => out.write_all(table_of(table.iter()).as_bytes()),
            Format::Json => out.write_all(if rows == 0 { b"[]\n" } else { b"\n]\n" }),
            Format::Jsonl => Ok(()),
        })?;
        Ok(if output.is_table() { rows - table.len() as u64 } else { 0 })
    }
}

pub(super) fn write_element<T: Serialize>(
    out: &mut dyn Write,
    row: &T,
    is_first: bool,
) -> io::Result<()> {
    let before = if is_first { "[" } else { "," };
    write!(out, "{before}\n  {}", json(row, serde_json::to_string)?)
}
