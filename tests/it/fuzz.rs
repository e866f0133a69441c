//! A bounded run of the fuzz targets: everything in their corpora, and mutations of it.
//!
//! `scripts/fuzz` runs the same targets for as long as one likes, guided by coverage.

#[allow(unreachable_pub, reason = "it is a crate of its own as well")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::{fs, panic};

use proptest::{prelude::*, test_runner::TestRunner};

use self::targets::{TARGETS, Target};
use crate::source_tree::root;

/// What is put between and in place of bytes, beside pieces of the corpora: what parsers stumble over.
const TOKENS: [&[u8]; 24] = [
    b"",
    b"\0",
    b"\n",
    b"\r\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
    b"\"",
    b"\\u0000",
    b"{",
    b"}",
    b"[[",
    b"=",
    b"%2F",
    b"%",
    b"../",
    b"-1",
    b"1e999",
    b"99999999999999999999",
    b"NaN",
    b"null",
    b"0000-00-00",
    b" ",
    b"\x1b[31m",
];

/// The files of a corpus.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = root().join("fuzz/corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// What is done to a text, in places that are given as shares of its length.
#[derive(Debug, Clone)]
enum Edit {
    Cut(f64, f64),
    Repeat(f64, f64),
    Put(f64, Vec<u8>),
    Flip(f64, u8),
    Splice(f64, prop::sample::Index, f64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let share = || 0.0..1.0;
    let token = prop::sample::select(TOKENS.to_vec()).prop_map(<[u8]>::to_vec);
    let bytes = prop_oneof![3 => token, 1 => prop::collection::vec(any::<u8>(), 0..8)];
    prop_oneof![
        (share(), share()).prop_map(|(from, to)| Edit::Cut(from, to)),
        (share(), share()).prop_map(|(from, to)| Edit::Repeat(from, to)),
        (share(), bytes).prop_map(|(at, bytes)| Edit::Put(at, bytes)),
        (share(), any::<u8>()).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        (share(), any::<prop::sample::Index>(), share())
            .prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

impl Edit {
    fn apply(&self, text: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let place = |share: f64, length: usize| (share * (length as f64 + 1.0)) as usize;
        let at = |share: f64| place(share, text.len()).min(text.len());
        let range = |a: f64, b: f64| at(a).min(at(b))..at(a).max(at(b));
        match self {
            Self::Cut(from, to) => _ = text.drain(range(*from, *to)),
            Self::Repeat(from, to) => {
                let part = text[range(*from, *to)].to_vec();
                let end = at(*to);
                text.splice(end..end, part);
            }
            Self::Put(share, bytes) => _ = text.splice(at(*share)..at(*share), bytes.clone()),
            Self::Flip(share, bits) => {
                let at = at(*share);
                if let Some(byte) = text.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Self::Splice(share, other, from) => {
                let other = other.get(corpus);
                let from = place(*from, other.len()).min(other.len());
                let at = at(*share);
                text.truncate(at);
                text.extend_from_slice(&other[from..]);
            }
        }
    }
}

/// Runs a target on its corpus, on mutations of it and on bytes of no kind.
#[track_caller]
fn run(name: &str, cases: u32) {
    let (_, check): &Target = TARGETS.iter().find(|(known, _)| *known == name).unwrap();
    let corpus = corpus(name);
    assert!(corpus.len() >= 5, "{name} has a corpus");
    for bytes in &corpus {
        check(bytes);
    }
    let mutated = (any::<prop::sample::Index>(), prop::collection::vec(edit(), 1..6));
    let mutated = mutated.prop_map(|(seed, edits)| {
        let mut text = seed.get(&corpus).clone();
        edits.iter().for_each(|edit| edit.apply(&mut text, &corpus));
        text
    });
    let bytes = prop_oneof![8 => mutated, 1 => prop::collection::vec(any::<u8>(), 0..200)];
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config).run(&bytes, |bytes| {
        let checked = panic::catch_unwind(|| check(&bytes));
        prop_assert!(checked.is_ok(), "{name}: {:?}", String::from_utf8_lossy(&bytes));
        Ok(())
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

// OPS-4
#[test]
fn a_configuration_is_good_or_every_problem_points_into_it() {
    run("configuration", 400);
}

// POL-4, PAR-3
#[test]
fn keys_come_back_as_they_were_written_and_never_leave_their_root() {
    run("keys", 3_000);
}

// CLS-3
#[test]
fn a_header_is_seconds_or_a_date_or_no_hint() {
    run("retry_after", 5_000);
}

// RUN-6, OPS-4
#[test]
fn no_byte_of_a_file_is_lost_and_a_line_is_a_run_or_refused_in_one_line() {
    run("json_lines", 2_000);
}

// HANDLERS-3, HANDLERS-5
#[test]
fn a_reply_means_the_same_when_it_is_written_again() {
    run("replies", 3_000);
}

// OPS-4
#[test]
fn whatever_a_connection_says_the_server_answers_and_goes_on() {
    run("requests", 300);
}

#[test]
fn every_target_can_be_fuzzed_and_is_run_here() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let here = fs::read_to_string(root().join("tests/it/fuzz.rs")).unwrap();
    for (name, _) in TARGETS {
        let bin = format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&bin), "{name} is no target of cargo fuzz");
        let target = fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{name}.rs")));
        assert!(target.unwrap().contains(&format!("redrive_fuzz::{name}::check(bytes)")));
        assert!(here.contains(&format!("run(\"{name}\", ")), "{name} is not run here");
    }
}
