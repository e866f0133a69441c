//! However stderr is cut into chunks, each line goes to its call.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{super::call_table::tests::ask, *};

/// The lines of run 1, of run 2, from before the first call, and of no call.
fn assigned(chunks: &[Vec<u8>], unmarked: LineOwner) -> [String; 4] {
    let (mut lines, mut calls) = (StderrLines::default(), CallTable::default());
    for ticket in [1, 2] {
        ask(&mut calls, ticket, 0, Duration::MAX, Instant::now());
    }
    chunks.iter().for_each(|chunk| lines.push(chunk, &mut calls, unmarked));
    let text = |tail: &Tail| String::from_utf8(tail.to_bytes()).unwrap();
    let [one, two] = [1, 2].map(|ticket| text(calls.stderr_of(CallTicket(ticket)).unwrap().0));
    [one, two, text(&lines.startup), text(&lines.process)]
}

const LINES: &str = "plain\n\x1erun:1#1 one\n\x1erun:2#1 \x1erun:1#1 two\n\x1erun:9#1 ended\n\n\
                     \x1enot a mark\n\x1erun:1#1\nopen \x1erun:2#1 x\n\x1erun:1#1  more";

proptest! {
    // HANDLERS-3
    #[test]
    fn a_marked_line_goes_to_its_call_and_no_other(cuts in prop::collection::vec(0..LINES.len(), 0..9)) {
        let mut cuts = cuts;
        cuts.extend([0, LINES.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> =
            cuts.windows(2).map(|pair| LINES.as_bytes()[pair[0]..pair[1]].to_vec()).collect();
        let unmarked = "plain\n\n\x1erun:1#1\nopen \x1erun:2#1 x\n";
        let ended = "ended\na mark\n";
        let [one, two] = ["one\n more", "\x1erun:1#1 two\n"];
        let [all, none] = ["plain\nended\n\na mark\n\x1erun:1#1\nopen \x1erun:2#1 x\n", ""];
        prop_assert_eq!(assigned(&chunks, LineOwner::Process), [one, two, none, all]);
        prop_assert_eq!(assigned(&chunks, LineOwner::Startup), [one, two, unmarked, ended]);
    }
}

// HANDLERS-3
#[test]
fn a_mark_without_an_end_is_text() {
    let endless = [b"\x1e".to_vec(), vec![b'x'; MAX_MARK_BYTES], b"x\n".to_vec()];
    let [one, two, startup, process] = assigned(&endless, LineOwner::Process);
    assert_eq!([one, two, startup], ["", "", ""]);
    assert!(process.ends_with("xx\n"), "{process}");
}
