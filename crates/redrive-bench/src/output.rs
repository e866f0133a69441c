//! Results as a table for people and as JSON for programs.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::error::BenchError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Columns for people
    Table,
    /// One array
    Json,
    /// One object a line
    Jsonl,
}

/// A column of the table; numbers are aligned to the right.
pub(crate) struct ReportColumn {
    name: &'static str,
    alignment: CellAlignment,
}

impl ReportColumn {
    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Left }
    }

    pub(crate) const fn number(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Right }
    }
}

/// A result that prints as a row of a table and as a JSON object.
pub(crate) trait ReportRow: Serialize {
    const COLUMNS: &'static [ReportColumn];

    /// One cell for each of [`Self::COLUMNS`].
    fn cells(&self) -> Vec<String>;
}

pub(crate) fn print_rows<T: ReportRow>(rows: &[T], format: OutputFormat) -> Result<(), BenchError> {
    let text = match format {
        OutputFormat::Table => Ok(table(rows)),
        OutputFormat::Json => {
            json_lines(rows).map(|lines| format!("[\n  {}\n]\n", lines.join(",\n  ")))
        }
        OutputFormat::Jsonl => json_lines(rows).map(|lines| lines.join("\n") + "\n"),
    };
    let written = text.map_err(io::Error::from).and_then(|text| {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    });
    match written {
        // `| head` closes the pipe once it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => {
            written.map_err(|error| BenchError::new("cannot write the results").because(error))
        }
    }
}

fn json_lines<T: ReportRow>(rows: &[T]) -> serde_json::Result<Vec<String>> {
    rows.iter().map(serde_json::to_string).collect()
}

fn table<T: ReportRow>(rows: &[T]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(T::COLUMNS.iter().map(|column| column.name.to_uppercase()));
    for row in rows {
        table.add_row(row.cells());
    }
    for (column, spec) in table.column_iter_mut().zip(T::COLUMNS) {
        column.set_cell_alignment(spec.alignment);
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A whole number with a space between its thousands.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}
