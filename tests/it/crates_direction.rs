//! Crates use each other in one direction, as ARCHITECTURE.md says. The manifests are read, so a
//! dependency that nothing uses yet counts as well.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

use crate::source_tree::{SourceFile, source_files};

/// A crate, the crates of ours that it may use, and what its tests may use besides.
struct Place {
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
}

/// In reading order. Tests of the stores run the conformance suite, those of the engine, the operations and the
/// server run on a real store.
const PLACES: &[Place] = &[
    Place { name: "redrive-core", uses: &[], tests_use: &[] },
    Place { name: "redrive-retry", uses: &["redrive-core"], tests_use: &[] },
    Place { name: "redrive-store", uses: &["redrive-core"], tests_use: &[] },
    Place { name: "redrive-conformance", uses: &["redrive-core", "redrive-store"], tests_use: &[] },
    Place {
        name: "redrive-sqlite",
        uses: &["redrive-core", "redrive-store"],
        tests_use: &["redrive-conformance"],
    },
    Place {
        name: "redrive-postgres",
        uses: &["redrive-core", "redrive-store"],
        tests_use: &["redrive-conformance"],
    },
    Place {
        name: "redrive-engine",
        uses: &["redrive-core", "redrive-retry", "redrive-store"],
        tests_use: &["redrive-sqlite"],
    },
    Place {
        name: "redrive-ops",
        uses: &["redrive-core", "redrive-retry", "redrive-store", "redrive-engine"],
        tests_use: &["redrive-sqlite"],
    },
    Place {
        name: "redrive-server",
        uses: &["redrive-core", "redrive-retry", "redrive-store", "redrive-engine", "redrive-ops"],
        tests_use: &["redrive-sqlite"],
    },
    Place { name: "redrive", uses: LIBRARIES, tests_use: &[] },
    Place { name: "redrive-cli", uses: PROGRAMS_USE, tests_use: &[] },
    Place { name: "redrive-bench", uses: PROGRAMS_USE, tests_use: &[] },
];

/// The libraries that the facade `redrive` is made of.
const LIBRARIES: &[&str] = &[
    "redrive-core",
    "redrive-retry",
    "redrive-store",
    "redrive-sqlite",
    "redrive-postgres",
    "redrive-engine",
    "redrive-ops",
    "redrive-server",
];

/// What a binary may use: all libraries and the facade, but no other binary.
const PROGRAMS_USE: &[&str] = &[
    "redrive-core",
    "redrive-retry",
    "redrive-store",
    "redrive-sqlite",
    "redrive-postgres",
    "redrive-engine",
    "redrive-ops",
    "redrive-server",
    "redrive",
];

/// What only some crates may use, so that no SQL leaves the stores and no I/O enters the core. The benchmarks
/// compare the stores with bare statements.
const RESERVED: &[(&str, &[&str])] = &[
    ("rusqlite", &["redrive-sqlite", "redrive-bench"]),
    ("tokio-postgres", &["redrive-postgres", "redrive", "redrive-bench"]),
    (
        "tokio",
        &[
            "redrive-retry",
            "redrive-store",
            "redrive-conformance",
            "redrive-sqlite",
            "redrive-postgres",
            "redrive-engine",
            "redrive-ops",
            "redrive-server",
            "redrive",
            "redrive-cli",
            "redrive-bench",
        ],
    ),
];

/// The features of `redrive-store` that are for tests.
const FOR_TESTS: [&str; 1] = ["failpoints"];

struct Dependency {
    line: usize,
    /// The section of the manifest it stands in.
    section: String,
    name: String,
    features: Vec<String>,
}

impl Dependency {
    fn is_for_tests(&self) -> bool {
        self.section.ends_with("dev-dependencies")
    }
}

#[test]
fn crates_use_each_other_in_one_direction() {
    let problems = wrong_dependencies(source_files());
    assert!(problems.is_empty(), "see PLACES and RESERVED:\n  {}\n", problems.join("\n  "));
}

fn wrong_dependencies(files: &[SourceFile]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for file in files.iter().filter(|file| is_manifest(&file.path)) {
        let manifest = match DeTable::parse(&file.text) {
            Ok(manifest) => DeValue::Table(manifest.into_inner()),
            Err(error) => {
                problems.push(format!("{}:1: {error}", file.path));
                continue;
            }
        };
        let package = manifest.get("package").and_then(|package| package.get_ref().get("name"));
        let name = package.and_then(|name| name.get_ref().as_str());
        let Some(place) = PLACES.iter().find(|place| Some(place.name) == name) else {
            problems.push(format!("{}:1: {name:?} has no place in the order", file.path));
            continue;
        };
        seen.insert(place.name);
        for dependency in dependencies(&file.text, &manifest) {
            if let Some(problem) = wrong(place, &dependency) {
                problems.push(format!("{}:{}: {problem}", file.path, dependency.line));
            }
        }
    }
    for place in PLACES.iter().filter(|place| !seen.contains(place.name)) {
        problems.push(format!("Cargo.toml:1: {} has a place in the order and is gone", place.name));
    }
    problems
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.starts_with("crates/") && path.ends_with("/Cargo.toml")
}

/// Why a crate may not have a dependency.
fn wrong(place: &Place, dependency: &Dependency) -> Option<String> {
    let Dependency { section, name, features, .. } = dependency;
    let crate_name = place.name;
    let for_tests = dependency.is_for_tests();
    if name.starts_with("redrive") {
        // A crate's own tests may turn on its own features.
        let allowed = place.uses.contains(&name.as_str())
            || for_tests && (place.tests_use.contains(&name.as_str()) || name == crate_name);
        if !allowed {
            return Some(format!("{crate_name} must not have {name} in [{section}]"));
        }
        let of_tests = features.iter().find(|feature| FOR_TESTS.contains(&feature.as_str()));
        if let Some(feature) = of_tests.filter(|_| !for_tests) {
            return Some(format!(
                "{crate_name} ships the tests of {name}: only tests need `{feature}`"
            ));
        }
    }
    let (_, owners) = RESERVED.iter().find(|(reserved, _)| reserved == name)?;
    (!for_tests && !owners.contains(&crate_name))
        .then(|| format!("{crate_name} must not have {name} in [{section}]: it is for {owners:?}"))
}

/// All dependencies of a manifest, those for one platform among them.
fn dependencies(text: &str, manifest: &DeValue<'_>) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut places = vec![(String::new(), manifest)];
    for (_, target, place) in entries(manifest, "target") {
        places.push((format!("target.{target}."), place));
    }
    for (prefix, place) in places {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (start, key, entry) in entries(place, kind) {
                let renamed = entry.get("package").and_then(|name| name.get_ref().as_str());
                let features = entry.get("features").and_then(|list| list.get_ref().as_array());
                found.push(Dependency {
                    line: text[..start].matches('\n').count() + 1,
                    section: format!("{prefix}{kind}"),
                    name: renamed.unwrap_or(key).to_owned(),
                    features: features
                        .into_iter()
                        .flatten()
                        .filter_map(|feature| Some(feature.get_ref().as_str()?.to_owned()))
                        .collect(),
                });
            }
        }
    }
    found
}

/// What a table has under a name: where each entry begins, its key and its value.
fn entries<'a>(
    table: &'a DeValue<'_>,
    name: &str,
) -> impl Iterator<Item = (usize, &'a str, &'a DeValue<'a>)> {
    let entries = table.get(name).and_then(|entries| entries.get_ref().as_table());
    entries
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.span().start, key.get_ref().as_ref(), value.get_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what is wrong with a crate that has these lines in its manifest.
    #[track_caller]
    fn check(name: &str, lines: &[&str], expected: &[&str]) {
        let manifest = format!("[package]\nname = \"{name}\"\n{}", lines.join("\n"));
        let file = SourceFile::planted("crates/x/Cargo.toml", &manifest);
        let problems: Vec<_> = wrong_dependencies(&[file])
            .into_iter()
            .filter(|problem| problem.starts_with("crates/"))
            .collect();
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let lines = ["[dependencies]", "serde = '1'", "redrive-engine.workspace = true"];
        check("redrive-server", &lines, &[]);
        check("redrive-core", &lines, &["Cargo.toml:5: redrive-core must not have redrive-engine"]);
        check("redrive-sqlite", &lines, &["redrive-sqlite must not have redrive-engine"]);
    }

    #[test]
    fn a_dependency_is_found_in_any_section_and_under_any_name() {
        let sqlite = "redrive-engine must not have redrive-sqlite";
        let lines = ["[dependencies.redrive-sqlite]", "workspace = true"];
        check("redrive-engine", &lines, &["Cargo.toml:3: redrive-engine must not"]);
        check("redrive-engine", &["[build-dependencies]", "redrive-sqlite = '1'"], &[sqlite]);
        check(
            "redrive-engine",
            &["[dependencies]", "db = { package = 'redrive-sqlite' }"],
            &[sqlite],
        );
        let lines = ["[target.'cfg(unix)'.dependencies]", "redrive-sqlite = '1'"];
        check("redrive-engine", &lines, &[sqlite]);
    }

    #[test]
    fn tests_of_the_engine_may_use_a_real_store_and_no_more() {
        let lines = ["[dev-dependencies]", "redrive-sqlite = '1'", "redrive-server = '1'"];
        check("redrive-engine", &lines, &["redrive-server in [dev-dependencies]"]);
    }

    #[test]
    fn what_only_tests_need_is_not_shipped() {
        let suite = "redrive-conformance.workspace = true";
        check("redrive-sqlite", &["[dev-dependencies]", suite], &[]);
        check("redrive-sqlite", &["[dependencies]", suite], &["must not have redrive-conformance"]);
        let store = "redrive-store = { version = '1', features = ['failpoints'] }";
        check("redrive-cli", &["[dev-dependencies]", store], &[]);
        check("redrive-cli", &["[dependencies]", store], &["only tests need `failpoints`"]);
    }

    #[test]
    fn a_program_that_uses_another_program_is_found() {
        let lines = ["[dependencies]", "redrive-cli.workspace = true", "redrive.workspace = true"];
        check("redrive-bench", &lines, &["redrive-bench must not have redrive-cli"]);
    }

    #[test]
    fn a_database_driver_outside_its_store_is_found() {
        let lines = ["[dependencies]", "rusqlite = '1'", "tokio = '1'"];
        check("redrive-sqlite", &lines, &[]);
        check("redrive-server", &lines, &["redrive-server must not have rusqlite"]);
        check("redrive-core", &lines, &["rusqlite", "redrive-core must not have tokio"]);
    }

    #[test]
    fn a_crate_without_a_place_and_a_place_without_a_crate_are_found() {
        check("redrive-extra", &[], &["has no place in the order"]);
        assert_eq!(wrong_dependencies(&[]).len(), PLACES.len());
    }
}
