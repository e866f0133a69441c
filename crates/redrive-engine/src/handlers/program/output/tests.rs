//! However the output is cut into chunks, what is kept is the same.

use proptest::prelude::*;

use super::*;

/// A text, and how it arrives.
fn chunks(alphabet: &'static str, most: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = proptest::sample::select(alphabet.as_bytes());
    proptest::collection::vec(proptest::collection::vec(byte, 0..most), 0..12)
}

proptest! {
    // HANDLERS-2
    #[test]
    fn both_ends_of_stderr_are_kept(chunks in chunks("abc\n", 2_000)) {
        let mut stderr = HeadAndTail::default();
        chunks.iter().for_each(|chunk| stderr.push(chunk));
        let (all, bytes) = (chunks.concat(), stderr.to_bytes());
        prop_assert!(bytes.len() <= HEAD_BYTES + TAIL_BYTES + 64);
        if all.len() <= HEAD_BYTES + TAIL_BYTES {
            prop_assert_eq!(bytes, all);
        } else {
            prop_assert!(bytes.starts_with(&all[..HEAD_BYTES]));
            prop_assert!(bytes.ends_with(&all[all.len() - TAIL_BYTES..]));
            let cut = all.len() - HEAD_BYTES - TAIL_BYTES;
            let mark = format!("[… {cut} bytes truncated …]");
            prop_assert!(String::from_utf8_lossy(&bytes).contains(&mark));
        }
    }
}
