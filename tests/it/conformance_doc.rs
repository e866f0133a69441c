//! `docs/conformance.md` names the tests behind each clause, and tells the truth.
//!
//! The tests are the source: a comment above a test cites the clauses that it proves. The document is
//! rewritten from those comments by
//!
//! ```text
//! REDRIVE_BLESS=1 cargo test -p redrive-cli --test it conformance_doc
//! ```

mod clause;
mod document;

use std::{collections::BTreeMap, fs};

use clause::{Clause, citations, looks_like_citation};
use document::Row;

use crate::{
    source_tree::{SourceFile, root, source_files},
    test_functions::{missing, test_functions},
};

const DOCUMENT: &str = "docs/conformance.md";

#[test]
fn every_clause_names_the_tests_that_prove_it() {
    let path = root().join(DOCUMENT);
    let mut text = fs::read_to_string(&path).unwrap();
    if std::env::var_os("REDRIVE_BLESS").is_some_and(|value| value == "1") {
        text = document::with_table(&text, &document::rows(&cited(source_files())));
        fs::write(&path, &text).unwrap();
    }
    let problems = problems(&text, source_files());
    assert!(
        problems.is_empty(),
        "{DOCUMENT} and the tests disagree:\n  {}\n\
         rewrite it: REDRIVE_BLESS=1 cargo test -p redrive-cli --test it conformance_doc\n",
        problems.join("\n  ")
    );
}

/// The tests that cite each clause, as `path::name`.
fn cited(files: &[SourceFile]) -> BTreeMap<Clause, Vec<String>> {
    let mut cited: BTreeMap<Clause, Vec<String>> = BTreeMap::new();
    for file in files {
        for test in test_functions(file) {
            for clause in test.comments.iter().flat_map(|(_, comment)| citations(comment)).flatten()
            {
                let tests = cited.entry(clause).or_default();
                let test = format!("{}::{}", file.path, test.name);
                if !tests.contains(&test) {
                    tests.push(test);
                }
            }
        }
    }
    cited
}

/// All that is wrong between the document and the tests.
fn problems(text: &str, files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let cited = cited(files);
    let mut named: BTreeMap<Clause, Vec<String>> = BTreeMap::new();
    let mut last = None;
    for (line, row) in document::parse(text) {
        match row {
            Err(why) => problems.push(format!("{DOCUMENT}:{line}: {why}")),
            Ok(Row { clause, tests }) => {
                if last.replace(clause) >= Some(clause) {
                    problems.push(format!("{DOCUMENT}:{line}: {clause} is out of order"));
                }
                for test in &tests {
                    problems.extend(
                        untrue(clause, test, &cited, files)
                            .map(|why| format!("{DOCUMENT}:{line}: {test} {why}")),
                    );
                }
                named.entry(clause).or_default().extend(tests);
            }
        }
    }
    for (clause, tests) in &cited {
        let named = named.get(clause).map(Vec::as_slice).unwrap_or_default();
        for test in tests.iter().filter(|test| !named.contains(test)) {
            problems.push(format!("{DOCUMENT}:1: {clause} lacks {test}, which cites it"));
        }
    }
    problems.extend(files.iter().flat_map(bad_citations));
    problems
}

/// Why a test does not prove the clause that names it.
fn untrue(
    clause: Clause,
    test: &str,
    cited: &BTreeMap<Clause, Vec<String>>,
    files: &[SourceFile],
) -> Option<String> {
    if cited.get(&clause).is_some_and(|tests| tests.iter().any(|cited| cited == test)) {
        return None;
    }
    Some(missing(test, files).map_or_else(|| format!("does not cite {clause}"), str::to_owned))
}

/// Citations of unknown clauses, and in test code those that stand above no test.
fn bad_citations(file: &SourceFile) -> Vec<String> {
    let tests = test_functions(file);
    let above_tests: Vec<usize> =
        tests.iter().flat_map(|test| &test.comments).map(|(line, _)| *line).collect();
    let mut bad = Vec::new();
    for (line, number) in file.text.lines().zip(1..) {
        let Some(comment) = line.trim().strip_prefix("// ").filter(|_| file.is_rust()) else {
            continue;
        };
        for unknown in citations(comment).into_iter().filter_map(Result::err) {
            bad.push(format!("{}:{number}: {unknown}", file.path));
        }
        if file.is_test_code() && looks_like_citation(comment) && !above_tests.contains(&number) {
            bad.push(format!("{}:{number}: `{comment}` stands above no test", file.path));
        }
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| clause | tests |\n| --- | --- |\n";

    /// Checks what is wrong between a table and one test file.
    #[track_caller]
    fn check(rows: &[&str], lines: &[&str], expected: &[&str]) {
        let file = SourceFile::planted("tests/it/a.rs", &lines.join("\n"));
        let problems = problems(&format!("{TABLE}{}\n", rows.join("\n")), &[file]);
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    }

    const ROW: &str = "| POL-3 | `tests/it/a.rs::jitter_comes_last` |";
    const TEST: [&str; 3] = ["// POL-3", "#[test]", "fn jitter_comes_last() {}"];

    #[test]
    fn a_clause_and_its_test_agree() {
        check(&[ROW], &TEST, &[]);
        check(&[ROW], &["#[test]", "// POL-3: after the cap", "fn jitter_comes_last() {}"], &[]);
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        check(&[ROW], &["fn jitter_comes_last() {}"], &["does not exist"]);
        check(&["| POL-3 | `tests/it/b.rs::jitter_comes_last` |"], &[], &["is in no file"]);
    }

    #[test]
    fn a_test_that_does_not_cite_its_clause_is_found() {
        check(&[ROW], &TEST[1..], &["tests/it/a.rs::jitter_comes_last does not cite POL-3"]);
        let far = ["// POL-4, POL-5", "#[test]", "fn jitter_comes_last() {}"];
        check(&[ROW], &far, &["does not cite POL-3", "POL-4 lacks", "POL-5 lacks"]);
    }

    #[test]
    fn a_citation_that_the_document_lacks_is_found() {
        check(&[], &TEST, &["POL-3 lacks tests/it/a.rs::jitter_comes_last"]);
    }

    #[test]
    fn unknown_clauses_are_found_on_both_sides() {
        check(
            &["| POL-12 | `tests/it/a.rs::a_b` |"],
            &[],
            &["conformance.md:3: `POL-12` is no clause"],
        );
        check(&[], &["// CLS-9", "#[test]", "fn a_b() {}"], &["a.rs:1: `CLS-9` is no clause"]);
    }

    #[test]
    fn rows_out_of_order_or_twice_are_found() {
        let other = "| POL-4 | `tests/it/a.rs::jitter_comes_last` |";
        let lines = ["// POL-3, POL-4", "#[test]", "fn jitter_comes_last() {}"];
        check(&[ROW, other], &lines, &[]);
        check(&[other, ROW], &lines, &["POL-3 is out of order"]);
        check(&[ROW, ROW, other], &lines, &["POL-3 is out of order"]);
    }

    #[test]
    fn a_citation_above_no_test_is_found() {
        let lines =
            ["// POL-4", "", "#[test]", "fn a_b() {}", "// POL-5 has a cap", "let cap = 1;"];
        check(&[], &lines, &["a.rs:1: `POL-4` stands above no test"]);
    }

    #[test]
    fn a_rewritten_document_has_nothing_wrong() {
        let lines =
            ["// OPS-2, POL-3", "#[test]", "fn a_b() {}", "// POL-3", "#[test]", "fn c_d() {}"];
        let files = [SourceFile::planted("tests/it/a.rs", &lines.join("\n"))];
        let text = format!("# Title\n\nWords.\n\n{TABLE}| POL-9 | nonsense |\n\nMore words.\n");
        let rewritten = document::with_table(&text, &document::rows(&cited(&files)));
        assert_eq!(
            rewritten,
            format!(
                "# Title\n\nWords.\n\n{TABLE}\
                 | POL-3 | `tests/it/a.rs::a_b`, `tests/it/a.rs::c_d` |\n\
                 | OPS-2 | `tests/it/a.rs::a_b` |\n\nMore words.\n"
            )
        );
        assert!(problems(&rewritten, &files).is_empty());
    }
}
