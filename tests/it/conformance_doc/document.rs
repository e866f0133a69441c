//! The table of the document: one row per clause.

use std::collections::BTreeMap;

use super::clause::Clause;

const HEAD: [&str; 2] = ["| clause | tests |", "| --- | --- |"];

/// A clause and the tests that prove it, as `path::name`.
pub(super) struct Row {
    pub(super) clause: Clause,
    pub(super) tests: Vec<String>,
}

/// The rows of a document with their lines, each read or with what is wrong with it.
pub(super) fn parse(text: &str) -> Vec<(usize, Result<Row, String>)> {
    let lines = text.lines().zip(1..).map(|(line, number)| (number, line));
    let mut table = lines.skip_while(|(_, line)| *line != HEAD[0]).peekable();
    if table.peek().is_none() {
        return vec![(1, Err(format!("has no table that begins with `{}`", HEAD[0])))];
    }
    table
        .skip(HEAD.len())
        .take_while(|(_, line)| line.starts_with('|'))
        .map(|(number, line)| (number, row(line)))
        .collect()
}

fn row(line: &str) -> Result<Row, String> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [clause, tests] = cells[..] else {
        return Err("a row has two cells: clause and tests".to_owned());
    };
    let clause = Clause::parse(clause)?;
    let test = |cell: &str| {
        let test = cell.trim().strip_prefix('`')?.strip_suffix('`')?;
        Some(test.to_owned()).filter(|test| test.contains("::"))
    };
    let tests = tests
        .split(',')
        .map(|cell| test(cell).ok_or_else(|| format!("`path::name` is expected, not {cell}")))
        .collect::<Result<_, _>>()?;
    Ok(Row { clause, tests })
}

/// Rows for what is cited, in the order of the specification.
pub(super) fn rows(cited: &BTreeMap<Clause, Vec<String>>) -> Vec<Row> {
    cited.iter().map(|(clause, tests)| Row { clause: *clause, tests: tests.clone() }).collect()
}

/// The document with a new table where the old one stood; the words around it stay.
pub(super) fn with_table(text: &str, rows: &[Row]) -> String {
    let before = text.lines().take_while(|line| *line != HEAD[0]).map(str::to_owned);
    let table = rows.iter().map(|Row { clause, tests }| {
        let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
        format!("| {clause} | {} |", tests.join(", "))
    });
    let after = text
        .lines()
        .skip_while(|line| *line != HEAD[0])
        .skip_while(|line| line.starts_with('|'))
        .map(str::to_owned);
    let lines: Vec<String> =
        before.chain(HEAD.map(str::to_owned)).chain(table).chain(after).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what a table with one row is read as.
    #[track_caller]
    fn check(row: &str, expected: Result<&[&str], &str>) {
        let text = format!("words\n\n{}\n{}\n{row}\n\nwords", HEAD[0], HEAD[1]);
        let rows = parse(&text);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].0, 5);
        match (&rows[0].1, expected) {
            (Ok(row), Ok(tests)) => assert_eq!(row.tests, tests),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (Ok(_), Err(expected)) => panic!("{row} is read without `{expected}`"),
            (Err(why), Ok(_)) => panic!("{row}: {why}"),
        }
    }

    #[test]
    fn a_row_names_a_clause_and_its_tests() {
        check("| POL-3 | `a.rs::b` |", Ok(&["a.rs::b"]));
        check("| POL-3 | `a.rs::b`, `c/d.rs::e` |", Ok(&["a.rs::b", "c/d.rs::e"]));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_refused() {
        check("| POL-3 |", Err("two cells"));
        check("| POL-3 | `a.rs::b` | more |", Err("two cells"));
        check("| XYZ-3 | `a.rs::b` |", Err("no clause"));
        check("| POL-3 | |", Err("expected"));
        check("| POL-3 | a.rs::b |", Err("expected"));
        check("| POL-3 | `a.rs` |", Err("expected"));
    }

    #[test]
    fn a_document_without_the_table_is_refused() {
        assert!(parse("words\n")[0].1.is_err());
    }
}
