//! Finds every syntax error of a TOML file.
//!
//! A parser that goes on after an error reports consequences of the first error as further errors:
//! after one missing bracket every line below is wrong. So this module notes a broken statement once,
//! replaces it by spaces, and parses the text again until it is valid. Spaces keep every byte at its
//! position, so all spans are valid in the original file.

use std::ops::Range;

use toml::de::{DeTable, Error};

use super::ConfigProblem;

/// The most broken statements that are reported.
const MAX_BROKEN: usize = 20;

pub(super) struct SoundText {
    /// The text with spaces for every broken statement.
    pub(super) text: String,
    /// One per broken statement.
    pub(super) problems: Vec<ConfigProblem>,
}

pub(super) fn sound_part(text: &str) -> SoundText {
    let mut sound = SoundText { text: text.to_owned(), problems: Vec::new() };
    while let Some(error) = first_error(&sound.text) {
        let (problem, broken) = diagnose(&error, &sound.text);
        let found = sound.text.get(broken.clone()).unwrap_or_default();
        let seen_before = sound.problems.contains(&problem);
        if seen_before || found.trim().is_empty() || sound.problems.len() == MAX_BROKEN {
            sound.text.clear();
        } else {
            blank(&mut sound.text, broken);
        }
        if !seen_before {
            sound.problems.push(problem);
        }
    }
    sound
}

fn first_error(text: &str) -> Option<Error> {
    let (_, errors) = DeTable::parse_recoverable(text);
    errors.into_iter().min_by_key(|error| error.span().map_or(0, |span| span.start))
}

/// Widens an empty span to the next character, or to the previous one at the end of a line.
fn visible(span: Range<usize>, text: &str) -> Range<usize> {
    if !span.is_empty() {
        return span;
    }
    let (head, tail) = text.split_at_checked(span.start).unwrap_or((text, ""));
    let is_shown = |c: &char| !matches!(c, '\n' | '\r');
    match (tail.chars().next().filter(is_shown), head.chars().next_back().filter(is_shown)) {
        (Some(after), _) => span.start..span.start + after.len_utf8(),
        (None, Some(before)) => span.start - before.len_utf8()..span.start,
        (None, None) => span,
    }
}

/// The parser guesses from the first letter what a bare word means: it takes `full` for a broken
/// `false`. Nearly always the word is text without quotes.
fn describe(error: &Error, span: &Range<usize>, text: &str) -> ConfigProblem {
    let word = text.get(span.clone()).unwrap_or_default();
    let is_word = word.starts_with(|c: char| c.is_alphabetic() || c == '.' || c == '/');
    let bare = is_word && error.message().starts_with("invalid ")
        || error.message().starts_with("string values must be quoted");
    let (message, label) = match error.message().split_once(", expected ") {
        _ if bare && word.trim().is_empty() => ("the value is missing", "write a value".to_owned()),
        _ if bare => ("text must be in quotes", format!("write \"{word}\"")),
        Some((message, expected)) => (message, format!("expected {expected}")),
        None => (error.message(), String::new()),
    };
    ConfigProblem {
        key: String::new(),
        span: visible(span.clone(), text),
        message: format!("not valid TOML: {message}"),
        label,
        help: None,
        related: None,
        secret: false,
    }
}

/// The problem, and the range of the statement around the error.
fn diagnose(error: &Error, text: &str) -> (ConfigProblem, Range<usize>) {
    let span = error.span().unwrap_or_default();
    let lines = StatementLines::of(text);
    let here = lines.at(span.start);
    let problem = describe(error, &span, text);
    if error.message().contains("multi-line")
        && let Some(opened) = text.get(..span.start).and_then(opening_quotes)
    {
        return diagnose_long_text(opened, span.start, problem, &lines);
    }
    match lines.bracket_open_before(here) {
        // A new statement begins while a bracket is open, so the bracket was never closed.
        Some((first, bracket)) if lines.starts_statement(here) => {
            let unclosed = never_closed("bracket", bracket..bracket + 1, problem);
            (unclosed, lines.start(first)..lines.start(here))
        }
        Some((first, _)) => (problem, lines.statement(first, here)),
        None => (problem, lines.statement(here, lines.at(span.end.saturating_sub(1)))),
    }
}

/// Multi-line text ends with the quotes that opened it, or is never closed.
fn diagnose_long_text(
    opened: usize,
    error: usize,
    problem: ConfigProblem,
    lines: &StatementLines<'_>,
) -> (ConfigProblem, Range<usize>) {
    let first = lines.at(opened);
    let quotes = opened..opened + 3;
    if error >= lines.text.trim_end().len() {
        return (never_closed("text", quotes, problem), lines.statement(first, first));
    }
    let mark = lines.text.get(quotes).unwrap_or_default();
    let tail = lines.text.get(error..).unwrap_or_default();
    let last = lines.at(error + tail.find(mark).unwrap_or(0));
    (problem, lines.statement(first, last))
}

/// The position of the last opening multi-line quotes.
fn opening_quotes(head: &str) -> Option<usize> {
    ["\"\"\"", "'''"].iter().filter_map(|quotes| head.rfind(quotes)).max()
}

/// Points at the opening bracket or quotes, which tells more than the position where the parser failed.
fn never_closed(what: &str, opened: Range<usize>, problem: ConfigProblem) -> ConfigProblem {
    ConfigProblem {
        span: opened,
        message: format!("not valid TOML: this {what} is never closed"),
        label: "opened here".to_owned(),
        ..problem
    }
}

/// Replaces a range by spaces. Newlines stay, so that lines keep their numbers.
fn blank(text: &mut String, range: Range<usize>) {
    let blanks: String = text
        .get(range.clone())
        .unwrap_or_default()
        .bytes()
        .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
        .collect();
    text.replace_range(range, &blanks);
}

/// The most lines to search backwards for the start of a list.
const MAX_LINES_BACK: usize = 300;

struct StatementLines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> StatementLines<'a> {
    fn of(text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    fn count(&self) -> usize {
        self.starts.len()
    }

    /// The line of a byte.
    fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start <= byte) - 1
    }

    fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    fn line(&self, line: usize) -> &'a str {
        let whole = self.text.get(self.start(line)..self.start(line + 1));
        whole.unwrap_or_default().trim()
    }

    /// The range of a broken statement. A broken header takes its section with it, because the keys
    /// of the section would otherwise belong to the section above.
    fn statement(&self, first: usize, last: usize) -> Range<usize> {
        let mut end = last.max(first) + 1;
        let ends = |line: &usize| *line >= self.count() || self.starts_statement(*line);
        if self.is_header(first) {
            while end < self.count() && !self.is_header(end) {
                end += 1;
            }
        } else if self.unclosed_bracket(first, end).is_some() {
            end = (end..).find(ends).unwrap_or(end);
        }
        self.start(first)..self.start(end)
    }

    /// The nearest statement before a line that leaves a bracket open, and the position of the bracket.
    fn bracket_open_before(&self, line: usize) -> Option<(usize, usize)> {
        (line.saturating_sub(MAX_LINES_BACK)..line)
            .rev()
            .filter(|first| self.starts_statement(*first))
            .find_map(|first| Some((first, self.unclosed_bracket(first, line)?)))
    }

    /// The last bracket that these lines open and do not close. Strings are skipped. A multi-line
    /// string can mislead this search; the report is then less exact, but still reports the error.
    fn unclosed_bracket(&self, first: usize, end: usize) -> Option<usize> {
        let (mut open, mut quote, mut escaped) = (Vec::new(), None, false);
        let text = self.text.get(self.start(first)..self.start(end))?;
        for (at, c) in text.char_indices() {
            match (quote, c) {
                (_, '\n') => quote = None,
                (Some('"'), '\\') => {
                    escaped = !escaped;
                    continue;
                }
                (Some(opened), _) if opened == c && !escaped => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'' | '#') => quote = Some(c),
                (None, '[' | '{') => open.push(self.start(first) + at),
                (None, ']' | '}') => _ = open.pop(),
                (None, _) => {}
            }
            escaped = false;
        }
        open.pop()
    }

    /// Whether a line looks like the start of `key = …` or of a section.
    fn starts_statement(&self, line: usize) -> bool {
        let line = self.line(line);
        let key = line.split_once('=').map_or("", |(key, _)| key.trim_end());
        let is_key = |c: char| c.is_alphanumeric() || "-_.\"' ".contains(c);
        line.starts_with('[') || (!key.is_empty() && key.chars().all(is_key))
    }

    fn is_header(&self, line: usize) -> bool {
        let line = self.line(line);
        line.starts_with('[') && !line.ends_with(',')
    }
}
