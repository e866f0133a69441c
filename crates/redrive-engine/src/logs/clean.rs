//! Makes text of what programs log: no colors, no control characters, no secrets.

use std::borrow::Cow;

use redrive_core::Message;

use crate::handlers::program::output::HeadAndTail;

/// The text of a log. Where bytes were left out, a line says how many.
pub(super) fn text_of(log: &HeadAndTail, redact: impl Fn(String) -> String) -> String {
    let (head, left_out, tail) = log.parts();
    if left_out == 0 {
        return redact(clean(&[head, &tail].concat()));
    }
    // Whole lines: half of a secret would not be recognised.
    let head = head.get(..=position(head, true)).unwrap_or(head);
    let tail = tail.get(position(&tail, false) + 1..).unwrap_or(&tail);
    let left_out = log.total().saturating_sub((head.len() + tail.len()) as u64);
    let [head, tail] = [head, tail].map(|part| redact(clean(part)));
    let head = head.trim_end_matches('\n');
    format!("{head}\n[… {left_out} bytes left out …]\n{tail}")
}

/// The last or first line break, or else the end or the beginning.
fn position(bytes: &[u8], last: bool) -> usize {
    let is_break = |byte: &u8| *byte == b'\n';
    let found =
        if last { bytes.iter().rposition(is_break) } else { bytes.iter().position(is_break) };
    found.unwrap_or(bytes.len())
}

fn clean(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = match line.strip_suffix(b"\n") {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        // A terminal shows what follows the last return: progress bars overwrite themselves.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.rsplit(|byte| *byte == b'\r').next().unwrap_or(line);
        // The parser drops tabs.
        for (at, cell) in line.split(|byte| *byte == b'\t').enumerate() {
            text.push_str(if at > 0 { "\t" } else { "" });
            text.push_str(&escaped(&String::from_utf8_lossy(&strip_ansi_escapes::strip(cell))));
        }
        text.push_str(end);
    }
    text
}

fn escaped(line: &str) -> Cow<'_, str> {
    if !line.contains(Message::must_escape) {
        return line.into();
    }
    let escape = |c: char| match Message::must_escape(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    };
    line.chars().map(escape).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bounds: (usize, usize), chunks: &[&[u8]], expected: &str) {
        let mut log = HeadAndTail::with_bounds(bounds.0, bounds.1);
        chunks.iter().for_each(|chunk| log.push(chunk));
        assert_eq!(text_of(&log, |text| text.replace("hunter2", "[$PASSWORD]")), expected);
    }

    // LOG-1
    #[test]
    fn logs_are_plain_text_without_secrets() {
        let wide = (1_000, 1_000);
        check(wide, &[b"plain\n\ttab"], "plain\n\ttab");
        check(wide, &[b"\x1b[1;3", b"1mred\x1b[0m\r\n"], "red\n");
        check(wide, &[b"\x1b]0;title\x07text\n\x1b[2Jnext"], "text\nnext");
        check(wide, &[b" 10 %\r 50 %\r100 %\n"], "100 %\n");
        check(
            wide,
            &["bad \u{202e}txt".as_bytes(), b" \xff\xfe"],
            "bad \\u{202e}txt \u{fffd}\u{fffd}",
        );
        check(wide, &[b"password: hun", b"ter2\n"], "password: [$PASSWORD]\n");
    }

    // LOG-1
    #[test]
    fn the_beginning_and_the_end_of_a_long_log_are_kept_in_whole_lines() {
        let lines: String = (0..100).map(|line| format!("line {line}\n")).collect();
        check(
            (20, 20),
            &[lines.as_bytes()],
            "line 0\nline 1\n[… 760 bytes left out …]\nline 98\nline 99\n",
        );
        check((5, 4), &[b"aaaaaaaaaaaaa"], "aaaaa\n[… 4 bytes left out …]\naaaa");
        check(
            (8, 12),
            &[b"x hunter2\n", b"hunter2\n", b"y\n"],
            "x [$PASSWORD]\nhunter2\ny\n".replace("hunter2", "[$PASSWORD]").as_str(),
        );
    }
}
