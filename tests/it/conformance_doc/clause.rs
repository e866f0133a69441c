//! Clauses of the specification, and how a comment cites them.

use std::fmt;

/// The parts of the specification in its order, each with its number of clauses.
const PARTS: &[(&str, u32)] = &[
    ("POL", 11),
    ("CLS", 8),
    ("HANDLERS", 5),
    ("PAR", 12),
    ("DMN", 4),
    ("RUN", 7),
    ("UPL", 9),
    ("PIP", 9),
    ("OPS", 8),
    ("FIX", 6),
    ("CAU", 5),
    ("PLN", 5),
    ("GAT", 6),
    ("LOG", 3),
    ("HA", 4),
];

/// A clause; clauses sort as the specification has them, so the place of the part comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Clause {
    place: usize,
    part: &'static str,
    number: u32,
}

impl Clause {
    /// Reads `POL-3`. The error is for people.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let not_a_clause = || format!("`{text}` is no clause");
        let (name, digits) = text.split_once('-').ok_or_else(not_a_clause)?;
        let (place, (part, last)) = PARTS
            .iter()
            .enumerate()
            .find(|(_, (part, _))| *part == name)
            .ok_or_else(not_a_clause)?;
        let number: u32 = digits.parse().map_err(|_| not_a_clause())?;
        if digits != number.to_string() || number == 0 {
            return Err(not_a_clause());
        }
        if number > *last {
            return Err(format!("`{text}` is no clause: {part} ends with {part}-{last}"));
        }
        Ok(Self { place, part, number })
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.part, self.number)
    }
}

/// The clauses at the beginning of a comment: `POL-3`, `POL-3, CLS-5`, `POL-3: why`. A comment that
/// begins otherwise cites nothing, whatever it speaks of later.
pub(super) fn citations(comment: &str) -> Vec<Result<Clause, String>> {
    let mut found = Vec::new();
    for item in comment.split(',') {
        let item = item.trim_start();
        let word = item.split([' ', ':', '.', ';']).next().unwrap_or_default();
        if !names_a_part(word) {
            break;
        }
        found.push(Clause::parse(word));
        if word.len() < item.trim_end().len() {
            break;
        }
    }
    found
}

/// Whether a comment has citations and nothing else.
pub(super) fn looks_like_citation(comment: &str) -> bool {
    comment.split(',').all(|item| names_a_part(item.trim()))
}

fn names_a_part(word: &str) -> bool {
    word.split_once('-').is_some_and(|(name, number)| {
        PARTS.iter().any(|(part, _)| *part == name)
            && number.starts_with(|c: char| c.is_ascii_digit())
            && !number.contains(' ')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_read_and_printed() {
        for text in ["POL-1", "POL-11", "HANDLERS-5", "PAR-12", "OPS-8"] {
            assert_eq!(Clause::parse(text).unwrap().to_string(), text);
        }
        for text in ["POL-0", "POL-12", "POL-03", "POL", "POL-", "pol-1", "POL-1a", "ABC-1", ""] {
            assert!(Clause::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn clauses_sort_as_the_specification_has_them() {
        let clause = |text| Clause::parse(text).unwrap();
        assert!(clause("POL-9") < clause("CLS-1"));
        assert!(clause("PAR-2") < clause("PAR-10"));
        assert!(clause("DMN-1") < clause("OPS-1"));
    }

    /// Checks which clauses a comment cites.
    #[track_caller]
    fn check(comment: &str, cited: &[&str]) {
        let found: Vec<_> = citations(comment)
            .into_iter()
            .map(|clause| clause.map_or_else(|why| why, |clause| clause.to_string()))
            .collect();
        assert_eq!(found, cited);
    }

    #[test]
    fn a_comment_cites_the_clauses_it_begins_with() {
        check("POL-3", &["POL-3"]);
        check("POL-3, CLS-5,OPS-1", &["POL-3", "CLS-5", "OPS-1"]);
        check("POL-3, CLS-5: the cap, OPS-1", &["POL-3", "CLS-5"]);
        check("UPL-9.7", &["UPL-9"]);
        check("as POL-3 says", &[]);
        check("UTF-8", &[]);
        check("POL-12", &["`POL-12` is no clause: POL ends with POL-11"]);
    }
}
