//! However the output is cut into chunks, the lines are the same.

use proptest::prelude::*;

use super::*;

fn lines(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
    for chunk in chunks {
        let pushed = lines.push(chunk, |line| {
            found.push(line.to_vec());
            true
        });
        assert_eq!(pushed, Ok(()));
    }
    found
}

proptest! {
    // HANDLERS-3
    #[test]
    fn lines_are_what_newlines_end(
        chunks in prop::collection::vec(prop::collection::vec(prop::sample::select(b"ab \r\n\n".to_vec()), 0..8), 0..12)
    ) {
        let all = chunks.concat();
        let whole = all.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &all[..end]);
        let expected = whole.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let expected: Vec<Vec<u8>> =
            expected.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(lines(&chunks), expected);
    }
}

// HANDLERS-3
#[test]
fn a_line_has_a_limit_whether_it_ends_or_not() {
    let fits = [vec![b'x'; MAX_REPLY_BYTES], vec![b'\n']];
    assert_eq!(lines(&fits), [vec![b'x'; MAX_REPLY_BYTES]]);
    let long = vec![b'x'; MAX_REPLY_BYTES + 1];
    assert_eq!(LineSplitter::default().push(&long, |_| true), Err(TooLong));
    let ended = [&long[..], b"\n"].concat();
    assert_eq!(LineSplitter::default().push(&ended, |_| true), Err(TooLong));
    let mut lines = LineSplitter::default();
    assert_eq!(lines.push(&long[1..], |_| true), Ok(()));
    assert_eq!(lines.push(b"x", |_| true), Err(TooLong));
}
