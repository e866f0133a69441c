//! `docs/guarantees.md` names tests under each promise, and they are there.

use std::fs;

use crate::{
    source_tree::{SourceFile, root, source_files},
    test_functions::missing,
};

const DOCUMENT: &str = "docs/guarantees.md";

/// Under this heading nothing has to be shown.
const NOT_PROMISED: &str = "## What is not promised";

#[test]
fn every_promise_names_tests_that_exist() {
    let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
    let problems = problems(&text, source_files());
    assert!(problems.is_empty(), "a promise is not shown:\n  {}\n", problems.join("\n  "));
}

/// A point of a list, with the line where it begins.
struct Point<'a> {
    line: usize,
    promised: bool,
    tests: Vec<&'a str>,
}

fn points(text: &str) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    let (mut promised, mut inside) = (true, false);
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("- ") {
            inside = true;
            points.push(Point { line: number, promised, tests: Vec::new() });
        } else if !line.starts_with("  ") {
            inside = false;
            promised &= line != NOT_PROMISED;
        }
        if let Some(point) = points.last_mut().filter(|_| inside) {
            point.tests.extend(named_tests(line));
        }
    }
    points
}

/// What is quoted and looks like `path::name`.
fn named_tests(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| quoted.contains('/') && quoted.contains("::"))
}

fn problems(text: &str, files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let points = points(text);
    if !points.iter().any(|point| point.promised) {
        problems.push(format!("{DOCUMENT} promises nothing"));
    }
    for Point { line, promised, tests } in points {
        if promised && tests.is_empty() {
            problems.push(format!("{DOCUMENT}:{line}: no test is named"));
        }
        for test in tests {
            let why = missing(test, files);
            problems.extend(why.map(|why| format!("{DOCUMENT}:{line}: {test} {why}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what is wrong with a document, where there is one test.
    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        let file = SourceFile::planted("tests/it/a.rs", "#[test]\nfn it_holds() {}\n");
        let problems = problems(&lines.join("\n"), &[file]);
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    }

    const HOLDS: [&str; 2] = ["- It holds.", "  `tests/it/a.rs::it_holds`"];

    #[test]
    fn a_promise_with_its_test_is_shown() {
        check(&HOLDS, &[]);
        check(&["- It `holds`: `tests/it/a.rs::it_holds`, `tests/it/a.rs::it_holds`"], &[]);
    }

    #[test]
    fn a_promise_that_names_no_test_is_found() {
        check(&["- It holds.", HOLDS[0], HOLDS[1]], &["guarantees.md:1: no test is named"]);
        check(&["- It holds.", "", "`tests/it/a.rs::it_holds`"], &["no test is named"]);
        check(&["No promise at all."], &["promises nothing"]);
    }

    #[test]
    fn a_named_test_that_is_not_there_is_found() {
        let gone = "  `tests/it/a.rs::it_held`, `tests/it/b.rs::it_holds`";
        check(&["- It holds.", gone], &["it_held does not exist", "it_holds is in no file"]);
    }

    #[test]
    fn what_is_not_promised_need_not_be_shown_and_names_tests_that_exist() {
        let rest = [HOLDS[0], HOLDS[1], "", NOT_PROMISED, "", "- Luck."];
        check(&rest, &[]);
        let gone = "  `tests/it/a.rs::it_held`";
        check(&[&rest[..], &[gone]].concat(), &["it_held does not exist"]);
    }
}
