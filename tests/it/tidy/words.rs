//! Words that have one place, or none: the clock, chance, sleeps, unfinished work, machine paths.
//!
//! A `~` breaks every pattern and planted text here, so that these files do not offend themselves.

use crate::source_tree::SourceFile;

/// What must not be written, and where it may be all the same.
pub(super) struct Rule {
    name: &'static str,
    why: &'static str,
    patterns: &'static [&'static str],
    looks_at: fn(&SourceFile) -> bool,
    part: Part,
    /// SQL is the same in any case.
    any_case: bool,
    /// Beginnings of the paths that may.
    except: &'static [&'static str],
}

/// Which lines of a file a rule looks at.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Everything,
    /// Not the comments: they may speak of what the code must not do.
    Code,
    /// Code of tests: test files, and elsewhere what follows the head of a test module.
    Tests,
}

const CLOCK: &str = "crates/redrive-retry/src/clock.rs";
const RNG: &str = "crates/redrive-retry/src/rng.rs";
const SQLITE_CLOCK: &str = "crates/redrive-sqlite/src/boot_clock.rs";
/// Compares the lease clock with the wall clock, which is its point.
const SQLITE_CLOCK_TESTS: &str = "crates/redrive-sqlite/tests/it/lease_clock.rs";
const POSTGRES_CLOCK: &str = "crates/redrive-postgres/src/server_clock.rs";
const POSTGRES_CLOCK_QUERY: &str = "crates/redrive-postgres/queries/read_server_clock.sql";

/// Tests whose time is paused: there a sleep takes none. And chaos and outages, in which faults last for a
/// while and nobody waits for anything by sleeping.
const MAY_SLEEP: [&str; 4] = [
    "crates/redrive-engine/tests/it/simulator/",
    "crates/redrive-engine/tests/it/tiny_work.rs",
    "tests/it/chaos/",
    "tests/it/faults_database.rs",
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "wall clock",
        why: "time is an argument; the system's clock is read in its own file",
        patterns: &[
            "SystemTime::~now",
            "Timestamp::~now",
            "Zoned::~now",
            "Utc::~now",
            "Local::~now",
            "OffsetDateTime::~now_utc",
        ],
        looks_at: SourceFile::is_rust,
        part: Part::Code,
        any_case: false,
        except: &[CLOCK, SQLITE_CLOCK, SQLITE_CLOCK_TESTS, POSTGRES_CLOCK],
    },
    Rule {
        name: "monotonic clock",
        why: "time is an argument; only benchmarks and tests may measure how long they took",
        patterns: &["Instant::~now", "clock_~gettime"],
        looks_at: |file| file.is_rust() && !file.is_test_code(),
        part: Part::Code,
        any_case: false,
        except: &[CLOCK, SQLITE_CLOCK, POSTGRES_CLOCK, "crates/redrive-bench/src/", "bench/peers/"],
    },
    Rule {
        name: "chance",
        why: "what happens by chance cannot be replayed; chance has its own file",
        patterns: &[
            "ra~nd::",
            "fastra~nd::",
            "thread_~rng",
            "Os~Rng",
            "get~random::",
            "Uuid::~new",
            "Uuid::~now",
        ],
        looks_at: SourceFile::is_rust,
        part: Part::Code,
        any_case: false,
        except: &[RNG],
    },
    Rule {
        name: "clock or chance in SQL",
        why: "bind the time as a parameter, so that tests can give it",
        patterns: &[
            "now~()",
            "current_~timestamp",
            "current_~date",
            "current_~time",
            "local~time",
            "local~timestamp",
            "clock_~timestamp",
            "statement_~timestamp",
            "transaction_~timestamp",
            "'no~w'",
            "unixepoch~()",
            "random~()",
            "random~blob",
            "gen_random_~uuid",
        ],
        looks_at: |file| file.path.ends_with(".sql"),
        part: Part::Code,
        any_case: true,
        except: &[POSTGRES_CLOCK_QUERY],
    },
    Rule {
        name: "sleep in a test",
        why: "wait for a signal, a barrier or paused time; sleeping is slow and still races",
        patterns: &["thread::~sleep", "time::~sleep"],
        looks_at: SourceFile::is_rust,
        part: Part::Tests,
        any_case: false,
        except: &MAY_SLEEP,
    },
    Rule {
        name: "path of someone's machine",
        why: "it works nowhere else",
        patterns: &["/ho~me/", "/Us~ers/", "/wo~rk/", "/ro~ot/", "C:\\Us~ers", "C:\\\\Us~ers"],
        looks_at: |_| true,
        part: Part::Everything,
        any_case: false,
        except: &[],
    },
    Rule {
        name: "unfinished work",
        why: "finish it, or file an issue",
        patterns: &["to~do!", "unimple~mented!", "FIX~ME", "XX~X", "HA~CK"],
        looks_at: |_| true,
        part: Part::Everything,
        any_case: false,
        except: &[],
    },
];

/// Every line of a file that offends a rule.
pub(super) fn offenders(rule: &Rule, file: &SourceFile) -> Vec<String> {
    if !(rule.looks_at)(file) || rule.except.iter().any(|path| file.path.starts_with(path)) {
        return Vec::new();
    }
    let first_line = match rule.part {
        Part::Everything | Part::Code => 0,
        Part::Tests => first_test_line(file),
    };
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate().skip(first_line) {
        let line = if rule.part == Part::Everything { line } else { without_comment(file, line) };
        let line = if rule.any_case { line.to_lowercase() } else { line.to_owned() };
        for pattern in rule.patterns.iter().map(|pattern| spelled(pattern)) {
            if contains(&line, &pattern) {
                found.push(format!(
                    "{}:{}: `{pattern}` ({}: {})",
                    file.path,
                    index + 1,
                    rule.name,
                    rule.why
                ));
            }
        }
    }
    found
}

/// Exceptions for paths that no file has.
pub(super) fn outlived_exceptions(files: &[SourceFile]) -> Vec<String> {
    let gone = |path: &&&str| !files.iter().any(|file| file.path.starts_with(**path));
    RULES
        .iter()
        .flat_map(|rule| rule.except.iter().filter(gone).map(|path| (rule.name, path)))
        .map(|(rule, path)| format!("{path}: excepted from `{rule}`"))
        .collect()
}

fn spelled(broken: &str) -> String {
    broken.replace('~', "")
}

/// The index of the first line that is test code; past the end where none is.
fn first_test_line(file: &SourceFile) -> usize {
    if file.is_test_code() {
        return 0;
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let module = |pair: &[&str]| matches!(pair, ["#[cfg(test)]", head] if head.starts_with("mod "));
    lines.windows(2).position(module).unwrap_or(usize::MAX)
}

fn without_comment<'a>(file: &SourceFile, line: &'a str) -> &'a str {
    let comment = if file.path.ends_with(".sql") { "--" } else { "//" };
    if line.trim_start().starts_with(comment) {
        return "";
    }
    line.split(&format!(" {comment} ")).next().unwrap_or(line)
}

/// Whether a line has the pattern as words of its own, a path only where it is absolute. A pattern in
/// `path::form` stands for all that begins like it.
fn contains(line: &str, pattern: &str) -> bool {
    line.match_indices(pattern).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + pattern.len()..].chars().next();
        let relative_path = pattern.starts_with('/') && before.is_some_and(continues_path);
        let inside_word = pattern.starts_with(is_word) && before.is_some_and(is_word);
        let cut_off = pattern.ends_with(is_word) && after.is_some_and(is_word);
        !relative_path && !inside_word && (!cut_off || pattern.contains("::"))
    })
}

fn continues_path(c: char) -> bool {
    is_word(c) || ".~-}>)*".contains(c)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.name == name).unwrap()
    }

    /// Checks which lines of a planted file offend a rule.
    #[track_caller]
    fn check(name: &str, path: &str, lines: &[&str], offending: &[usize]) {
        let file = SourceFile::planted(path, &spelled(&lines.join("\n")));
        let found = offenders(rule(name), &file);
        let places: Vec<_> = offending.iter().map(|line| format!("{path}:{line}: `")).collect();
        assert_eq!(found.len(), places.len(), "{found:#?}");
        for (found, place) in found.iter().zip(places) {
            assert!(found.starts_with(&place), "{found}");
        }
    }

    #[test]
    fn every_pattern_of_every_rule_is_found() {
        for rule in RULES {
            for pattern in rule.patterns {
                // Test code and SQL at once, so that one planted file suits every rule.
                let line = format!("#[cfg(test)]\nmod tests {{\nlet x = {};", spelled(pattern));
                let planted = [("src/a.rs", &line), ("crates/a/queries/a.sql", &line)];
                let found = planted.iter().any(|(path, text)| {
                    offenders(rule, &SourceFile::planted(path, text))
                        .iter()
                        .any(|offender| offender.contains(&spelled(pattern)))
                });
                assert!(found, "{}: {pattern}", rule.name);
            }
        }
    }

    #[test]
    fn clocks_are_found_outside_their_files_and_comments() {
        let lines = ["// Instant::~now", "let now = Instant::~now();", "MyInstant::~now()"];
        check("monotonic clock", "src/a.rs", &lines, &[2]);
        for allowed in [CLOCK, SQLITE_CLOCK, POSTGRES_CLOCK, "crates/redrive-bench/src/decide.rs"] {
            check("monotonic clock", allowed, &lines, &[]);
        }
        check("monotonic clock", "tests/it/a.rs", &lines, &[]);

        let lines = ["let now = jiff::Timestamp::~now(); // not Zoned::~now", "clock.now()"];
        check("wall clock", "src/a.rs", &lines, &[1]);
        check("wall clock", "tests/it/a.rs", &lines, &[1]);
        check("wall clock", CLOCK, &lines, &[]);
    }

    #[test]
    fn chance_is_found_outside_its_file() {
        let lines =
            ["ra~nd::random()", "operand::~a", "uuid::Uuid::~new_v4()", "Uuid::parse_str(s)"];
        check("chance", "crates/redrive-engine/src/runs.rs", &lines, &[1, 3]);
        check("chance", RNG, &lines, &[]);
    }

    #[test]
    fn sql_that_asks_for_the_time_is_found_in_any_case() {
        let lines = [
            "-- no NOW~() here",
            "UPDATE a SET at = NOW~() -- now~()",
            "SELECT Current_~Timestamp",
            "SELECT known(), $now, local_timestamp",
        ];
        check("clock or chance in SQL", "crates/a/queries/a.sql", &lines, &[2, 3]);
        check("clock or chance in SQL", "src/a.rs", &lines, &[]);
        check("clock or chance in SQL", POSTGRES_CLOCK_QUERY, &lines, &[]);
    }

    #[test]
    fn sleeps_are_found_in_tests_alone() {
        let lines =
            ["tokio::time::~sleep(d)", "#[cfg(test)]", "mod tests {", "std::thread::~sleep(d)"];
        check("sleep in a test", "src/a.rs", &lines, &[4]);
        check("sleep in a test", "crates/a/tests/it/a.rs", &lines, &[1, 4]);
        check("sleep in a test", "crates/redrive-conformance/src/suite/a.rs", &lines, &[1, 4]);
    }

    #[test]
    fn absolute_paths_of_a_machine_are_found_anywhere() {
        let lines = [
            "cd /ho~me/jo/redrive",
            "// \"file:///Us~ers/jo\"",
            "C:\\Us~ers\\jo",
            "docs/ho~me/index.md, ../wo~rk/, ${base}/ro~ot/",
        ];
        check("path of someone's machine", "README.md", &lines, &[1, 2, 3]);
    }

    #[test]
    fn unfinished_work_is_found_as_whole_words() {
        let lines = ["to~do!()", "// FIX~ME later", "mktemp a.XX~XXXX", "HA~CKATHON", "# XX~X"];
        check("unfinished work", "scripts/a", &lines, &[1, 2, 5]);
    }

    #[test]
    fn an_exception_for_a_file_that_is_gone_is_found() {
        let outlived = outlived_exceptions(&[SourceFile::planted(RNG, "")]);
        assert!(outlived.iter().any(|exception| exception.starts_with(CLOCK)));
        assert!(!outlived.iter().any(|exception| exception.starts_with(RNG)));
    }
}
