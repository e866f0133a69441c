//! The one way to print: tables, JSON, JSON lines, and errors.
//!
//! What Redrive prints often came from elsewhere: names, messages, answers of servers. None of it
//! reaches a terminal with its control characters, whatever the format.

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
    cli::{Color, Format, Globals},
    exit::{CommandError, Exit},
    screen,
};

/// How and where to print.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output {
    format: Format,
    color: Color,
    quiet: bool,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableColumn {
    name: &'static str,
    alignment: CellAlignment,
    /// Whether its text stays on one line, whatever is in it.
    one_line: bool,
}

impl TableColumn {
    /// A column of text.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Left, one_line: false }
    }

    /// A column of parts of keys, in which a line break is a character like any other.
    pub(crate) const fn key(name: &'static str) -> Self {
        Self { one_line: true, ..Self::text(name) }
    }

    /// A column of numbers.
    pub(crate) const fn number(name: &'static str) -> Self {
        Self { name, alignment: CellAlignment::Right, one_line: false }
    }

    /// A cell as it can be shown.
    fn sanitize(&self, cell: &str) -> String {
        let clean = Message::clean(cell).to_string();
        if self.one_line { clean.replace('\n', "\\n").replace('\t', "\\t") } else { clean }
    }
}

/// Something that prints as a row, and as a JSON object.
pub(crate) trait TableRow: Serialize {
    /// The columns of its table.
    const COLUMNS: &'static [TableColumn];

    /// What stands in them.
    fn cells(&self) -> Vec<String>;
}

impl<T: TableRow> TableRow for &T {
    const COLUMNS: &'static [TableColumn] = T::COLUMNS;

    fn cells(&self) -> Vec<String> {
        (*self).cells()
    }
}

/// No lines: a table that can be cut and searched.
const STYLE: TableStyle = comfy_table::presets::NOTHING;

impl Output {
    /// As the flags say.
    pub(crate) fn new(globals: &Globals) -> Self {
        Self { format: globals.output, color: globals.color, quiet: globals.quiet > 0 }
    }

    /// The format that was asked for.
    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// Whether people read it, rather than programs.
    pub(crate) fn is_table(self) -> bool {
        self.format == Format::Table
    }

    /// Whether there is more to say than results and errors.
    pub(crate) fn shows_notes(self) -> bool {
        !self.quiet
    }

    /// Prints a list: a table, a plain array, or one object a line.
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

    /// Prints one record: its fields below each other, or an object.
    pub(crate) fn record<T: TableRow>(self, record: &T) -> Result<(), CommandError> {
        self.print(|out| match self.format {
            Format::Table => out.write_all(fields_of(record).as_bytes()),
            Format::Json => writeln!(out, "{}", json(record, serde_json::to_string_pretty)?),
            Format::Jsonl => writeln!(out, "{}", json(record, serde_json::to_string)?),
        })
    }

    /// Prints one object for programs, whatever a table of it would be.
    pub(crate) fn object<T: Serialize>(self, object: &T) -> Result<(), CommandError> {
        self.print(|out| match self.format {
            Format::Table | Format::Json => {
                writeln!(out, "{}", json(object, serde_json::to_string_pretty)?)
            }
            Format::Jsonl => writeln!(out, "{}", json(object, serde_json::to_string)?),
        })
    }

    /// Prints records: the fields of each below each other, a plain array, or one object a line.
    pub(crate) fn records<T: TableRow>(self, records: &[T]) -> Result<(), CommandError> {
        if !self.is_table() {
            return self.list(records);
        }
        let shown: Vec<String> = records.iter().map(fields_of).collect();
        self.text(&shown.join("\n"))
    }

    /// Prints text as it is, whatever the format. For text of Redrive's own.
    pub(crate) fn text(self, text: &str) -> Result<(), CommandError> {
        self.print(|out| out.write_all(text.as_bytes()))
    }

    /// Prints data that somebody asked for, byte by byte; on a terminal without anything that it obeys.
    /// `cut` keeps the beginning of a character between two pieces of the same data.
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

    /// Adds a line below a table; programs have no use for it.
    pub(crate) fn footer(self, remark: &str) -> Result<(), CommandError> {
        match self.format {
            Format::Table => self.text(&format!("\n{}\n", Message::clean(remark))),
            Format::Json | Format::Jsonl => Ok(()),
        }
    }

    /// Adds a list with a title below a table; in JSON it is part of the record already.
    pub(crate) fn section<T: TableRow>(self, title: &str, rows: &[T]) -> Result<(), CommandError> {
        if rows.is_empty() || !self.is_table() {
            return Ok(());
        }
        self.text(&format!("\n{title}\n{}", table_of(rows.iter())))
    }

    /// Says something beside the output, unless told to be quiet.
    pub(crate) fn note(self, note: &str) {
        if !self.quiet {
            let note = Message::clean(note);
            // Nobody left to tell is no reason to fail.
            _ = writeln!(screen::StderrAboveBars, "{note}");
        }
    }

    /// Prints a failure: what went wrong, what it came from, what to do. Answers the exit code.
    pub(crate) fn print_error(self, error: &CommandError) -> Exit {
        if error.silent {
            return error.exit;
        }
        let color = self.color.applies_to(&io::stderr());
        let mut out = BufWriter::new(io::stderr().lock());
        // If standard error is gone there is nothing left to say it on.
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

/// Prints what the command line parser has to say: help on standard output, mistakes on standard
/// error. Its text repeats the arguments, which are foreign.
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

/// Says that the program has a bug, in one line and without a backtrace.
pub(crate) fn report_panic(panic: &PanicHookInfo<'_>) {
    let text = Message::clean(&panic.to_string().replace('\n', " "));
    _ = writeln!(io::stderr().lock(), "error: this is a bug in Redrive: {text}");
}

impl Color {
    /// Whether a stream gets color.
    pub(crate) fn applies_to(self, stream: &impl IsTerminal) -> bool {
        let wanted = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stream.is_terminal() && !wanted("NO_COLOR") && !dumb,
        }
    }
}

/// How much of a message a row of a list shows, in characters.
const EXCERPT_CHARS: usize = 60;

/// The beginning of a message, on one line.
pub(crate) fn excerpt(message: &str) -> String {
    excerpt_to(message, EXCERPT_CHARS)
}

/// So much of a message, on one line.
pub(crate) fn excerpt_to(message: &str, most_chars: usize) -> String {
    let mut excerpt: String = message.chars().take(most_chars).collect();
    if excerpt.len() < message.len() {
        excerpt.push('…');
    }
    excerpt.replace('\n', " ")
}

/// The longest bar, in characters.
const BAR_CHARS: usize = 40;

/// A bar for a share of the longest, in eighths of a character; there is always at least one eighth.
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
    table.set_header(T::COLUMNS.iter().map(|column| column.name.to_uppercase()));
    for row in rows {
        let cells = row.cells();
        table.add_row(T::COLUMNS.iter().zip(&cells).map(|(column, cell)| column.sanitize(cell)));
    }
    for (index, column) in T::COLUMNS.iter().enumerate() {
        if let Some(shown) = table.column_mut(index) {
            shown.set_cell_alignment(column.alignment);
        }
    }
    trimmed(table)
}

fn fields_of<T: TableRow>(record: &T) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    for (column, cell) in T::COLUMNS.iter().zip(record.cells()) {
        table.add_row([column.name.to_owned(), column.sanitize(&cell)]);
    }
    trimmed(table)
}

/// Two spaces between columns, none at the ends of lines.
fn trimmed(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn write_array<T: TableRow>(out: &mut dyn Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
    let mut is_first = true;
    for row in rows {
        listing::write_element(out, &row, is_first)?;
        is_first = false;
    }
    out.write_all(if is_first { b"[]\n" } else { b"\n]\n" })
}

fn write_lines<T: TableRow>(out: &mut dyn Write, rows: impl Iterator<Item = T>) -> io::Result<()> {
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

/// The same JSON without anything that a terminal obeys. JSON escapes only some of that; the rest
/// can only stand inside strings, where an escape means the same.
pub(crate) fn terminal_safe_json(written: String) -> String {
    if written.is_ascii() && !written.contains('\x7f') {
        return written;
    }
    written.chars().map(escape_control).collect()
}

/// A character, or its escape if a terminal obeys it.
fn escape_control(c: char) -> String {
    let is_harmless =
        c.is_ascii_graphic() || Message::clean(&c.to_string()).as_str().starts_with(c);
    if is_harmless { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) }
}
