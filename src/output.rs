//! Prints results as tables, JSON or JSON lines, and errors.
//!
//! Results often contain text from handlers, servers and files. Every format removes or escapes
//! control characters, which could manipulate a terminal.

mod details;
mod listing;

use std::{
    env,
    error::Error,
    io::{self, BufWriter, IsTerminal, Write},
    panic::PanicHookInfo,
};

use comfy_table::{CellAlignment, Table, TableStyle};
use redrive::Message;
use serde::Serialize;

pub(crate) use listing::Listing;

use crate::{
    cli::{Color, Format, Globals, LogFormat},
    exit::{CommandError, Exit},
    screen,
};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output {
    format: Format,
    color: Color,
    quiet: bool,
    /// Whether standard error has logs as JSON lines.
    json_logs: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct TableColumn {
    name: &'static str,
    alignment: CellAlignment,
    /// Escapes line breaks and tabs.
    one_line: bool,
}

impl TableColumn {
    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Left, one_line: false }
    }

    /// A column of key parts, in which a line break is an ordinary character and is escaped.
    pub(crate) const fn key(name: &'static str) -> Self {
        Self { one_line: true, ..Self::text(name) }
    }

    pub(crate) const fn number(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Right, one_line: false }
    }

    fn sanitize(&self, cell: &str) -> String {
        let clean = Message::clean(cell).to_string();
        if self.one_line { clean.replace('\n', "\\n").replace('\t', "\\t") } else { clean }
    }
}

/// A record that prints as a row of a table, and as a JSON object.
pub(crate) trait TableRow: Serialize {
    const COLUMNS: &'static [TableColumn] = &[];

    fn columns() -> Vec<TableColumn> {
        Self::COLUMNS.to_vec()
    }

    /// One text per column.
    fn cells(&self) -> Vec<String>;
}

impl<T: TableRow> TableRow for &T {
    fn columns() -> Vec<TableColumn> {
        T::columns()
    }

    fn cells(&self) -> Vec<String> {
        (*self).cells()
    }
}

/// No borders, so that `cut` and `grep` work on the output.
const STYLE: TableStyle = comfy_table::presets::NOTHING;

impl Output {
    pub(crate) fn new(globals: &Globals) -> Self {
        Self {
            format: globals.output,
            color: globals.color,
            quiet: globals.quiet > 0,
            json_logs: globals.log_format == LogFormat::Json,
        }
    }

    pub(crate) fn format(self) -> Format {
        self.format
    }

    pub(crate) fn is_table(self) -> bool {
        self.format == Format::Table
    }

    /// Whether standard error is a terminal that can show progress bars beside logs and notes.
    pub(crate) fn shows_bars(self) -> bool {
        io::stderr().is_terminal() && !self.quiet && !self.json_logs
    }

    /// Prints a list: a table, an array, or one object per line.
    pub(crate) fn list<T: TableRow>(
        self,
        rows: impl IntoIterator<Item = T>,
    ) -> Result<(), CommandError> {
        let rows = rows.into_iter();
        self.print(|out| match self.format {
            Format::Table => out.write_all(table_of(rows).as_bytes()),
            Format::Json => write_array(out, rows),
            Format::Jsonl => write_lines(out, rows),
        })
    }

    /// Prints one record: one field per line, or an object.
    pub(crate) fn record<T: TableRow>(self, record: &T) -> Result<(), CommandError> {
        self.print(|out| match self.format {
            Format::Table => out.write_all(fields_of(record).as_bytes()),
            Format::Json => writeln!(out, "{}", json(record, serde_json::to_string_pretty)?),
            Format::Jsonl => writeln!(out, "{}", json(record, serde_json::to_string)?),
        })
    }

    /// Prints one object as JSON, also if the format is a table.
    pub(crate) fn object<T: Serialize>(self, object: &T) -> Result<(), CommandError> {
        self.print(|out| match self.format {
            Format::Table | Format::Json => {
                writeln!(out, "{}", json(object, serde_json::to_string_pretty)?)
            }
            Format::Jsonl => writeln!(out, "{}", json(object, serde_json::to_string)?),
        })
    }

    /// Prints records: one field per line, an array, or one object per line.
    pub(crate) fn records<T: TableRow>(self, records: &[T]) -> Result<(), CommandError> {
        if !self.is_table() {
            return self.list(records);
        }
        let shown: Vec<String> = records.iter().map(fields_of).collect();
        self.text(&shown.join("\n"))
    }

    /// Prints all fields of records: one per line, an array, or one object per line.
    pub(crate) fn details<T: Serialize>(self, records: &[T]) -> Result<(), CommandError> {
        self.print(|out| match self.format {
            Format::Table => {
                for (index, record) in records.iter().enumerate() {
                    let space = if index > 0 { "\n" } else { "" };
                    write!(out, "{space}{}", lines_of(details::fields(record)?))?;
                }
                Ok(())
            }
            Format::Json => write_array(out, records.iter()),
            Format::Jsonl => write_lines(out, records.iter()),
        })
    }

    /// Prints text unchanged in every format. The text must not come from outside of Redrive.
    pub(crate) fn text(self, text: &str) -> Result<(), CommandError> {
        self.print(|out| out.write_all(text.as_bytes()))
    }

    /// Prints raw data, byte by byte; on a terminal, control characters are escaped. `cut` keeps an
    /// incomplete UTF-8 character between two calls.
    pub(crate) fn data(self, bytes: &[u8], cut: &mut Vec<u8>) -> Result<(), CommandError> {
        if !io::stdout().is_terminal() {
            return self.print(|out| out.write_all(bytes));
        }
        cut.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(cut) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => cut.len(),
        };
        let rest = cut.split_off(whole);
        let text = std::mem::replace(cut, rest);
        let shown = |c: char| if c == '\n' { c.to_string() } else { escape_control(c) };
        let text: String = String::from_utf8_lossy(&text).chars().map(shown).collect();
        self.print(|out| out.write_all(text.as_bytes()))
    }

    /// Prints a line below a table; JSON formats omit the line.
    pub(crate) fn footer(self, remark: &str) -> Result<(), CommandError> {
        match self.format {
            Format::Table => self.text(&format!("\n{}\n", Message::clean(remark))),
            Format::Json | Format::Jsonl => Ok(()),
        }
    }

    /// Prints a list with a title below a table. In JSON formats the list is part of the record.
    pub(crate) fn section<T: TableRow>(self, title: &str, rows: &[T]) -> Result<(), CommandError> {
        if rows.is_empty() || !self.is_table() {
            return Ok(());
        }
        self.text(&format!("\n{title}\n{}", table_of(rows.iter())))
    }

    /// Prints a note to standard error, unless `--quiet` is set. Among logs as JSON lines a note is one, too.
    pub(crate) fn note(self, note: &str) {
        if self.json_logs {
            tracing::info!("{note}");
        } else if !self.quiet {
            let note = Message::clean(note);
            // A closed standard error does not fail the command.
            _ = writeln!(screen::StderrAboveBars, "{note}");
        }
    }

    /// Prints a warning to standard error, even if `--quiet` is set.
    pub(crate) fn warning(self, warning: &str) {
        match self.json_logs {
            true => tracing::warn!("{warning}"),
            false => Self { quiet: false, ..self }.note(&format!("warning: {warning}")),
        }
    }

    /// Prints an error with its causes and its hint. Returns the exit code.
    pub(crate) fn print_error(self, error: &CommandError) -> Exit {
        if error.silent {
            return error.exit;
        }
        let color = self.color.applies_to(&io::stderr());
        let mut out = BufWriter::new(io::stderr().lock());
        // If standard error is closed, the error cannot be printed.
        _ = write_error(&mut out, error, color).and_then(|()| out.flush());
        error.exit
    }

    fn print(
        self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), CommandError> {
        let mut out = BufWriter::new(io::stdout().lock());
        write(&mut out).and_then(|()| out.flush()).map_err(CommandError::output)
    }
}

/// Prints help to standard output and usage errors to standard error. Usage errors repeat the
/// arguments, which may contain control characters.
pub(crate) fn parser_message(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() {
        let text = Message::clean(&text);
        _ = write!(io::stderr().lock(), "{text}");
        return Exit::Usage;
    }
    let output = Output::default();
    output.text(&text).map_or_else(|error| output.print_error(&error), |()| Exit::Ok)
}

/// Reports a panic in one line, without a backtrace.
pub(crate) fn report_panic(panic: &PanicHookInfo<'_>) {
    let text = Message::clean(&panic.to_string().replace('\n', " "));
    _ = writeln!(io::stderr().lock(), "error: bug in Redrive, please report it: {text}");
}

impl Color {
    pub(crate) fn applies_to(self, stream: &impl IsTerminal) -> bool {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb,
        }
    }
}

/// The length of a message in a row of a list.
const EXCERPT_CHARS: usize = 60;

/// Shortens a message to one line.
pub(crate) fn excerpt(message: &str) -> String {
    excerpt_to(message, EXCERPT_CHARS)
}

/// Shortens a message to `max_chars`, on one line.
pub(crate) fn excerpt_to(message: &str, max_chars: usize) -> String {
    let mut excerpt: String = message.chars().take(max_chars).collect();
    if excerpt.len() < message.len() {
        excerpt.push('…');
    }
    excerpt.replace('\n', " ")
}

const BAR_CHARS: usize = 40;

/// A bar whose length is a share of [`BAR_CHARS`], in eighths of a character and at least one eighth.
pub(crate) fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * (BAR_CHARS * 8) as f64).round().max(1.0) as usize;
    let last = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{last}", "█".repeat(eighths / 8))
}

fn write_error(out: &mut impl Write, error: &CommandError, color: bool) -> io::Result<()> {
    if let Some(report) = &error.report {
        out.write_all(report.render(color).as_bytes())?;
    }
    let (red, plain) = if color { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
    writeln!(out, "{red}error:{plain} {}", Message::clean(&error.message))?;
    let mut cause = error.cause.as_deref().map(|cause| cause as &dyn Error);
    while let Some(error) = cause {
        writeln!(out, "  because: {}", Message::clean(&error.to_string()))?;
        cause = error.source();
    }
    if let Some(help) = &error.help {
        writeln!(out, "  help: {}", Message::clean(help))?;
    }
    Ok(())
}

fn table_of<T: TableRow>(rows: impl Iterator<Item = T>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    let columns = T::columns();
    table.set_header(columns.iter().map(|column| column.name.to_uppercase()));
    for row in rows {
        let cells = row.cells();
        table.add_row(columns.iter().zip(&cells).map(|(column, cell)| column.sanitize(cell)));
    }
    for (index, column) in columns.iter().enumerate() {
        if let Some(shown) = table.column_mut(index) {
            shown.set_cell_alignment(column.alignment);
        }
    }
    trimmed(table)
}

fn fields_of<T: TableRow>(record: &T) -> String {
    let columns = T::columns();
    let fields = columns.iter().zip(record.cells());
    lines_of(fields.map(|(column, cell)| (column.name.to_owned(), cell)))
}

/// One name and value per line.
fn lines_of(fields: impl IntoIterator<Item = (String, String)>) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    for (name, value) in fields {
        table.add_row([name, Message::clean(&value).to_string()]);
    }
    trimmed(table)
}

/// Renders a table with two spaces between columns and none at the ends of lines.
fn trimmed(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn write_array<T: Serialize>(out: &mut dyn Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut is_first = true;
    for row in rows {
        listing::write_element(out, &row, is_first)?;
        is_first = false;
    }
    out.write_all(if is_first { b"[]\n" } else { b"\n]\n" })
}

fn write_lines<T: Serialize>(out: &mut dyn Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    for row in rows {
        writeln!(out, "{}", json(&row, serde_json::to_string)?)?;
    }
    Ok(())
}

fn json<T: Serialize>(
    value: &T,
    serialize: impl Fn(&T) -> serde_json::Result<String>,
) -> io::Result<String> {
    Ok(terminal_safe_json(serialize(value)?))
}

/// Escapes the control characters that JSON allows. They only occur inside strings, where an escape
/// has the same meaning.
pub(crate) fn terminal_safe_json(written: String) -> String {
    if written.is_ascii() && !written.contains('\x7f') {
        return written;
    }
    written.chars().map(escape_control).collect()
}

fn escape_control(c: char) -> String {
    let is_harmless =
        c.is_ascii_graphic() || Message::clean(&c.to_string()).as_str().starts_with(c);
    if is_harmless { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
}
