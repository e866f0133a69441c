//! Assigns each line of stderr to the call for which the program wrote it (LOG-2).
//!
//! With one call in flight, a line belongs to that call. With more, a program marks its lines: the record
//! separator, the id of the call, a space, the text. The mark is removed. Only the first mark of a line counts, and
//! only the id of a call in flight, so text that a program copies into a line that it marks cannot move the line.
//! Other lines stay with the process.

use std::mem::take;

use super::call_table::{CallTable, CallTicket};
use crate::handlers::program::output::Tail;

/// The record separator of ASCII, which text does not have.
const MARK: u8 = 0x1e;

/// No mark is longer; ids are not.
const MAX_MARK_BYTES: usize = 8 * 1024;

#[derive(Debug, Default)]
pub(super) struct StderrLines {
    /// The beginning of a line whose mark is not complete.
    mark: Vec<u8>,
    /// Whose line it is that has no newline yet.
    open: Option<LineOwner>,
    /// Lines from before the program read its first call.
    pub(super) startup: Tail,
    /// Other lines that belong to no call.
    pub(super) process: Tail,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum LineOwner {
    Call(CallTicket),
    Startup,
    Process,
}

impl StderrLines {
    /// Assigns the next bytes. `unmarked` owns the lines without a mark.
    pub(super) fn push(&mut self, chunk: &[u8], calls: &mut CallTable, unmarked: LineOwner) {
        let joined;
        let mut rest = match self.mark.is_empty() {
            true => chunk,
            false => {
                joined = [take(&mut self.mark).as_slice(), chunk].concat();
                joined.as_slice()
            }
        };
        while let Some(first) = rest.first() {
            let (owner, end) = match self.open {
                Some(owner) => (owner, line_end(rest)),
                None if *first != MARK => (unmarked, run_end(rest)),
                None => match mark_end(rest) {
                    MarkEnd::Found(end) => {
                        let id = rest.get(1..end - 1).unwrap_or_default();
                        rest = rest.get(end..).unwrap_or_default();
                        let call = str::from_utf8(id).ok().and_then(|id| calls.with_id(id));
                        (call.map_or(LineOwner::Process, LineOwner::Call), line_end(rest))
                    }
                    MarkEnd::Unread => return self.mark = rest.to_vec(),
                    MarkEnd::Missing => (unmarked, line_end(rest)),
                },
            };
            let (text, after) = rest.split_at(end);
            self.append(owner, calls, text);
            self.open = (!text.ends_with(b"\n")).then_some(owner);
            rest = after;
        }
    }

    /// A line of a call that has ended stays with the process.
    fn append(&mut self, owner: LineOwner, calls: &mut CallTable, text: &[u8]) {
        let of_call = match owner {
            LineOwner::Call(ticket) => calls.stderr_of(ticket),
            LineOwner::Startup => return self.startup.push(text),
            LineOwner::Process => None,
        };
        let Some((tail, log)) = of_call else { return self.process.push(text) };
        tail.push(text);
        log.push(text);
    }
}

enum MarkEnd {
    /// After its space.
    Found(usize),
    /// The line may still have one.
    Unread,
    Missing,
}

fn mark_end(line: &[u8]) -> MarkEnd {
    match line.iter().position(|byte| matches!(byte, b' ' | b'\n')) {
        Some(at) if line.get(at) == Some(&b' ') => MarkEnd::Found(at + 1),
        None if line.len() <= MAX_MARK_BYTES => MarkEnd::Unread,
        Some(_) | None => MarkEnd::Missing,
    }
}

fn line_end(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |newline| newline + 1)
}

/// The end of the lines before the next mark. A flood of lines has none and is one run.
fn run_end(text: &[u8]) -> usize {
    let marked =
        text.contains(&MARK).then(|| text.windows(2).position(|pair| pair == [b'\n', MARK]));
    marked.flatten().map_or(text.len(), |newline| newline + 1)
}

#[cfg(test)]
mod tests;
