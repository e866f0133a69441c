//! What is wrong with a configuration file: all of it, each pointing at its line.
//!
//! People mend files faster when they see every mistake at once. So readers never stop at the first
//! problem; they note it and go on, and a [`Report`] shows them together.

use std::{fmt, ops::Range};

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, NamedSource,
    SourceCode, SourceSpan, SpanContents,
};
use redrive_core::Message;

/// How many problems a rendered report shows; the rest is counted.
const MAX_RENDERED: usize = 50;

/// The width to which a rendered report is wrapped.
const WIDTH: usize = 100;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key it is about, such as `queue[0].timeout`; empty for the file as a whole.
    pub key: String,
    /// The bytes of the file it is about.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What is allowed there, or what it should be.
    pub label: String,
    /// What to do about it, where that is not plain.
    pub help: Option<String>,
    /// Another place that belongs to it, such as the first use of a name that is used twice.
    pub related: Option<(Range<usize>, String)>,
    /// Whether a secret stands there, which a report must not repeat.
    pub secret: bool,
}

/// All problems of one file, with what is needed to show them.
#[derive(Debug, Clone)]
pub struct ConfigReport {
    name: String,
    text: String,
    problems: Vec<ConfigProblem>,
}

impl ConfigReport {
    pub(super) fn new(name: String, text: String, mut problems: Vec<ConfigProblem>) -> Self {
        problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
        Self { name, text, problems }
    }

    /// The problems, in the order of the file. Never empty.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// The line and column of a problem, both from 1, the column in characters.
    pub fn position(&self, problem: &ConfigProblem) -> (usize, usize) {
        let before = self.text.get(..problem.span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).unwrap_or_default();
        (before.matches('\n').count() + 1, column.chars().count() + 1)
    }

    /// The problems as text for a terminal, each with the line it points at.
    pub fn render(&self, color: bool) -> String {
        let theme =
            if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme)
            .with_links(false)
            .with_width(WIDTH)
            .with_context_lines(WHOLE_LINES);
        let text = without_secrets(printable(&self.text), &self.problems);
        let source = NamedSource::new(printable(&self.name), WholeLines(text));
        let mut rendered = String::new();
        for problem in self.problems.iter().take(MAX_RENDERED) {
            let shown = RenderedProblem::new(problem, &source);
            // Writing to a string fails only when the source cannot be read at the span.
            if handler.render_report(&mut rendered, &shown).is_err() {
                let (line, column) = self.position(problem);
                rendered.push_str(&format!("  × {shown} (line {line}, column {column})\n"));
            }
            rendered.push('\n');
        }
        if let Some(more) = self.problems.len().checked_sub(MAX_RENDERED + 1) {
            rendered.push_str(&format!("  … and {} more\n\n", more + 1));
        }
        rendered
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.problems.len();
        let noun = if count == 1 { "problem" } else { "problems" };
        write!(f, "{} has {count} {noun}", self.name)
    }
}

impl std::error::Error for ConfigReport {}

/// A problem as the renderer wants it, its texts safe for a terminal.
#[derive(Debug)]
struct RenderedProblem<'a> {
    message: Message,
    label: Message,
    help: Option<Message>,
    problem: &'a ConfigProblem,
    source: &'a NamedSource<WholeLines>,
}

impl<'a> RenderedProblem<'a> {
    fn new(problem: &'a ConfigProblem, source: &'a NamedSource<WholeLines>) -> Self {
        Self {
            message: Message::clean(&problem.message),
            label: Message::clean(&problem.label),
            help: problem.help.as_deref().map(Message::clean),
            problem,
            source,
        }
    }
}

impl fmt::Display for RenderedProblem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

impl std::error::Error for RenderedProblem<'_> {}

impl Diagnostic for RenderedProblem<'_> {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        let help = self.help.as_ref()?;
        Some(Box::new(help))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = (!self.label.is_empty()).then(|| self.label.to_string());
        let text = self.source.inner();
        let here = LabeledSpan::new_primary_with_span(label, text.marked(&self.problem.span));
        let there = self.problem.related.as_ref().map(move |(span, label)| {
            LabeledSpan::new_with_span(Some(Message::clean(label).to_string()), text.marked(span))
        });
        Some(Box::new(std::iter::once(here).chain(there)))
    }
}

/// The most that is shown of a marked text, and of the line on each side of it.
const MAX_SHOWN_BYTES: usize = 160;

/// Asked for this many lines of context, the source gives the lines of the span alone, but whole.
const WHOLE_LINES: usize = 1;

/// A source that shows whole lines. The renderer knows only the bare span, or the lines around it.
#[derive(Debug)]
struct WholeLines(String);

impl SourceCode for WholeLines {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        if before < WHOLE_LINES {
            return self.0.read_span(span, 0, 0);
        }
        let end = span.offset() + span.len();
        let head = self.0.get(..span.offset()).unwrap_or_default();
        let tail = self.0.get(end..).unwrap_or_default();
        let line_start = head.rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = tail.find('\n').map_or(self.0.len(), |newline| end + newline);
        let far_left = head.floor_char_boundary(head.len().saturating_sub(MAX_SHOWN_BYTES));
        let far_right = end + tail.floor_char_boundary(MAX_SHOWN_BYTES);
        let shown = line_start.max(far_left)..line_end.min(far_right);
        self.0.read_span(&shown.into(), 0, 0)
    }
}

impl WholeLines {
    /// What is marked of a span: its first line, and not too much of it.
    fn marked(&self, span: &Range<usize>) -> Range<usize> {
        let text = self.0.get(span.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        span.start..span.start + line.floor_char_boundary(MAX_SHOWN_BYTES)
    }
}

/// The text with every secret that a problem is about blanked out, byte by byte, so that spans still
/// fit.
fn without_secrets(text: String, problems: &[ConfigProblem]) -> String {
    let mut bytes = text.into_bytes();
    for problem in problems.iter().filter(|problem| problem.secret) {
        for byte in bytes.get_mut(problem.span.clone()).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b'*';
            }
        }
    }
    // Whole values are blanked, so what is left is still text.
    String::from_utf8(bytes).unwrap_or_default()
}

/// The text with every character that a terminal would obey replaced by one that takes as many
/// bytes, so that spans still fit.
fn printable(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut shown = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        let ends_line = c == '\r' && chars.peek() == Some(&'\n');
        shown.push(match c.len_utf8() {
            _ if ends_line => ' ',
            _ if is_harmless(c) => c,
            1 => '?',
            2 => '¿',
            _ => '\u{fffd}',
        });
    }
    shown
}

fn is_harmless(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic() || Message::clean(&c.to_string()).as_str().starts_with(c)
}
