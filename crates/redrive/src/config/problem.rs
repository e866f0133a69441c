//! The problems of a configuration file, each with its line.
//!
//! A user repairs a file faster when every problem is reported at once. So readers note a problem and
//! go on, and a [`ConfigReport`] shows all problems together.

use std::{fmt, ops::Range};

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, NamedSource,
    SourceCode, SourceSpan, SpanContents,
};
use redrive_core::Message;

/// The most problems that a rendered report shows; further ones are counted.
const MAX_RENDERED: usize = 50;

const WIDTH: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The path of the key, such as `queue[0].timeout`; empty for a syntax error.
    pub key: String,
    /// The byte range in the file.
    pub span: Range<usize>,
    pub message: String,
    /// The allowed values, shown below the marked text.
    pub label: String,
    /// How to fix the problem, where the label does not say so.
    pub help: Option<String>,
    /// A second marked range with its label, such as the first use of a duplicate name.
    pub related: Option<(Range<usize>, String)>,
    /// Whether the range contains a secret, which a report must not repeat.
    pub secret: bool,
}

/// All problems of a file, with the text to render them.
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

    /// In the order of the file. Never empty.
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.problems
    }

    /// The line and column of a problem, both counted from 1; the column in characters.
    pub fn position(&self, problem: &ConfigProblem) -> (usize, usize) {
        let before = self.text.get(..problem.span.start).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).unwrap_or_default();
        (before.matches('\n').count() + 1, column.chars().count() + 1)
    }

    /// Renders the problems for a terminal, each with its line.
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
            let rendered_problem = RenderedProblem::new(problem, &source);
            // Writing to a string fails only when the source cannot be read at the span.
            if handler.render_report(&mut rendered, &rendered_problem).is_err() {
                let (line, column) = self.position(problem);
                rendered
                    .push_str(&format!("  × {rendered_problem} (line {line}, column {column})\n"));
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

/// A problem for the renderer, without control characters.
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

/// The most bytes shown of a marked text, and of its line on each side.
const MAX_SHOWN_BYTES: usize = 160;

/// With this many lines of context, [`WholeLines`] returns the complete lines of the span and no others.
const WHOLE_LINES: usize = 1;

/// A source that shows complete lines. miette alone shows the bare span or the lines around it.
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
    /// The part of a span to mark: its first line, at most [`MAX_SHOWN_BYTES`].
    fn marked(&self, span: &Range<usize>) -> Range<usize> {
        let text = self.0.get(span.clone()).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        span.start..span.start + line.floor_char_boundary(MAX_SHOWN_BYTES)
    }
}

/// Masks every secret that a problem marks, byte by byte, so that spans stay valid.
fn without_secrets(text: String, problems: &[ConfigProblem]) -> String {
    let mut bytes = text.into_bytes();
    for problem in problems.iter().filter(|problem| problem.secret) {
        for byte in bytes.get_mut(problem.span.clone()).into_iter().flatten() {
            if *byte != b'\n' {
                *byte = b'*';
            }
        }
    }
    // Complete values are masked, so the rest is still UTF-8.
    String::from_utf8(bytes).unwrap_or_default()
}

/// Replaces every control character by a printable one of the same length in bytes, so that spans
/// stay valid.
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
