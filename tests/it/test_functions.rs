//! Test functions, read from source text: their names and the comments above them.

use crate::source_tree::SourceFile;

/// A test: a function under a test attribute, or a case of the suite that both stores run.
#[derive(Debug, PartialEq)]
pub(crate) struct TestFunction<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: usize,
    /// The comment lines directly above, without their slashes, each with its line number.
    pub(crate) comments: Vec<(usize, &'a str)>,
}

/// The tests of a file, in its order.
pub(crate) fn test_functions(file: &SourceFile) -> Vec<TestFunction<'_>> {
    if !file.is_rust() {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let mut tests = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let mut is_test = file.is_conformance_suite() && line.starts_with("pub async fn ");
        let mut comments = Vec::new();
        // Attributes and comments stand in any order; the first other line ends them.
        for (above, line) in lines.iter().enumerate().take(index).rev() {
            if let Some(attribute) = line.strip_prefix("#[") {
                is_test |= is_test_attribute(attribute);
            } else if let Some(comment) = line.strip_prefix("//") {
                comments.push((above + 1, comment.trim_start_matches(['/', '!']).trim()));
            } else {
                break;
            }
        }
        comments.reverse();
        if is_test {
            tests.push(TestFunction { name, line: index + 1, comments });
        }
    }
    tests
}

/// What is wrong with the name of a test, `path::name`, if there is no such test.
pub(crate) fn missing(test: &str, files: &[SourceFile]) -> Option<&'static str> {
    let (path, name) = test.rsplit_once("::").unwrap_or((test, ""));
    match files.iter().find(|file| file.path == path) {
        None => Some("is in no file"),
        Some(file) if test_functions(file).iter().any(|test| test.name == name) => None,
        Some(_) => Some("does not exist"),
    }
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line;
    for qualifier in ["pub ", "pub(crate) ", "const ", "async "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().filter(|name| !name.is_empty())
}

/// `test]`, `tokio::test]`, `tokio::test(start_paused = true)]`.
fn is_test_attribute(attribute: &str) -> bool {
    let path = attribute.split(['(', ']']).next().unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, lines: &[&str]) -> Vec<String> {
        let file = SourceFile::planted(path, &lines.join("\n"));
        test_functions(&file).iter().map(|test| test.name.to_owned()).collect()
    }

    #[test]
    fn functions_under_a_test_attribute_are_tests() {
        let lines = [
            "#[test]",
            "fn first() {}",
            "fn not_a_test() {}",
            "    #[tokio::test(start_paused = true)]",
            "    // why",
            "    #[ignore]",
            "    async fn second() {}",
            "#[cfg(test)]",
            "fn only_compiled_for_tests() {}",
        ];
        assert_eq!(names("tests/it/a.rs", &lines), ["first", "second"]);
        assert!(names("docs/a.md", &lines).is_empty());
    }

    #[test]
    fn the_cases_that_both_stores_run_are_tests() {
        let lines = ["pub async fn a_case(f: &Fixture) {}", "fn sample() {}"];
        assert_eq!(names("crates/redrive-conformance/src/suite/runs.rs", &lines), ["a_case"]);
        assert!(names("crates/redrive-store/src/runs.rs", &lines).is_empty());
    }

    #[test]
    fn the_comments_directly_above_belong_to_a_test() {
        let lines = ["// far away", "", "// one", "#[test]", "/// two", "fn it_works() {}"];
        let file = SourceFile::planted("tests/it/a.rs", &lines.join("\n"));
        let tests = test_functions(&file);
        assert_eq!(tests[0].comments, [(3, "one"), (5, "two")]);
        assert_eq!(tests[0].line, 6);
    }
}
