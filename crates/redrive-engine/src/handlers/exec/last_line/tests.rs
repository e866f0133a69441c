//! However the output is cut into chunks, what is kept is the same.

use proptest::prelude::*;

use super::*;

/// A text, and how it arrives.
fn chunks(alphabet: &'static str, most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = proptest::sample::select(alphabet.as_bytes());
    proptest::collection::vec(proptest::collection::vec(byte, 0..most), 0..12)
}

fn kept(chunks: &[Vec<u8>]) -> LastLine {
    let mut stdout = LastLine::default();
    chunks.iter().for_each(|chunk| stdout.push(chunk));
    stdout
}

proptest! {
    // HANDLERS-2
    #[test]
    fn the_last_line_is_the_last_that_is_not_blank(chunks in chunks("ab \r\n\n", 8)) {
        let all = chunks.concat();
        let expected = all.rsplit(is_newline).map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
        let kept = kept(&chunks);
        prop_assert_eq!(kept.line(), expected.unwrap_or_default());
    }
}

// HANDLERS-2
#[test]
fn a_line_is_kept_up_to_the_limit_and_one_byte_more() {
    let long = vec![b'x'; MAX_REPLY_BYTES / 2];
    let mut stdout = LastLine::default();
    stdout.push(&long);
    stdout.push(&long);
    assert_eq!(stdout.line().len(), MAX_REPLY_BYTES);
    stdout.push(b"x");
    assert_eq!(stdout.line().len(), MAX_REPLY_BYTES + 1);
    (0..100).for_each(|_| stdout.push(&long));
    assert_eq!(stdout.line().len(), MAX_REPLY_BYTES + 1);
    stdout.push(b"\nshort\n");
    assert_eq!(stdout.line(), b"short");
}
