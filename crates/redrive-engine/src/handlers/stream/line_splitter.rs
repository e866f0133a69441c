//! Splits the output of a program into lines of bounded length.

use crate::handlers::reply::MAX_REPLY_BYTES;

/// Holds the beginning of a line without a newline yet.
#[derive(Debug, Default)]
pub(super) struct LineSplitter(Vec<u8>);

/// A line is longer than [`MAX_REPLY_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl LineSplitter {
    /// Calls `each` with every complete line that is not blank, until `each` returns false.
    pub(super) fn push(
        &mut self,
        chunk: &[u8],
        mut each: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), TooLong> {
        let mut rest = chunk;
        while let Some(newline) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(newline);
            rest = after.get(1..).unwrap_or_default();
            let go_on = if self.0.is_empty() {
                hand_on(line, &mut each)?
            } else {
                self.keep(line)?;
                let whole = std::mem::take(&mut self.0);
                let go_on = hand_on(&whole, &mut each)?;
                self.0 = whole;
                self.0.clear();
                go_on
            };
            if !go_on {
                return Ok(());
            }
        }
        self.keep(rest)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.0.len() + part.len() > MAX_REPLY_BYTES {
            return Err(TooLong);
        }
        self.0.extend_from_slice(part);
        Ok(())
    }
}

fn hand_on(line: &[u8], each: &mut impl FnMut(&[u8]) -> bool) -> Result<bool, TooLong> {
    if line.len() > MAX_REPLY_BYTES {
        return Err(TooLong);
    }
    let line = line.trim_ascii();
    Ok(line.is_empty() || each(line))
}

#[cfg(test)]
mod tests;
