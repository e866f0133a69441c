//! Sizes, names and manifests.

use toml::de::DeTable;

use crate::{source_tree::SourceFile, test_functions::test_functions};

/// The most lines a Rust file may have.
const MOST_LINES: usize = 600;

/// Names that say nothing about what is inside.
const VAGUE: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "types", "misc"];

pub(super) fn too_long(file: &SourceFile) -> Option<String> {
    let lines = file.text.lines().count();
    (file.is_rust() && lines > MOST_LINES)
        .then(|| format!("{}:{lines}: over {MOST_LINES} lines", file.path))
}

pub(super) fn vaguely_named(path: &str) -> Option<String> {
    let stem_or_folder = |part: &str| part.split('.').next().unwrap_or_default().to_lowercase();
    let vague = path.split('/').map(stem_or_folder).find(|name| VAGUE.contains(&name.as_str()))?;
    Some(format!("{path}:1: `{vague}`"))
}

pub(super) fn tests_with_a_prefix(file: &SourceFile) -> Vec<String> {
    let place = |name, line| format!("{}:{line}: `{name}`", file.path);
    test_functions(file)
        .iter()
        .filter(|test| test.name.starts_with("test_"))
        .map(|test| place(test.name, test.line))
        .collect()
}

pub(super) fn without_workspace_lints(file: &SourceFile) -> Option<String> {
    if file.path != "Cargo.toml" && !file.path.ends_with("/Cargo.toml") {
        return None;
    }
    let taken = DeTable::parse(&file.text).is_ok_and(|manifest| {
        let manifest = manifest.get_ref();
        // One that only lists others has no code.
        let only_lists = manifest.contains_key("workspace") && !manifest.contains_key("package");
        let lints = manifest.get("lints");
        let workspace = lints.and_then(|lints| lints.get_ref().get("workspace"));
        only_lists || workspace.and_then(|it| it.get_ref().as_bool()) == Some(true)
    });
    (!taken).then(|| format!("{}:1: lints of its own, or none", file.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_too_long_from_its_601st_line_on() {
        let text = "\n".repeat(MOST_LINES);
        assert_eq!(too_long(&SourceFile::planted("src/a.rs", &text)), None);
        let text = "\n".repeat(MOST_LINES + 1);
        assert_eq!(
            too_long(&SourceFile::planted("src/a.rs", &text)).as_deref(),
            Some("src/a.rs:601: over 600 lines")
        );
        assert_eq!(too_long(&SourceFile::planted("Cargo.lock", &text)), None);
    }

    #[test]
    fn vague_names_are_found_in_files_and_folders() {
        for vague in ["src/utils.rs", "tests/common/mod.rs", "src/Helper.rs", "a/types/b.sql"] {
            assert!(vaguely_named(vague).is_some(), "{vague}");
        }
        for telling in ["src/chance.rs", "src/commonplace.rs", "docs/uncommon/a.md"] {
            assert_eq!(vaguely_named(telling), None);
        }
    }

    #[test]
    fn tests_with_a_prefix_are_found_and_other_functions_are_not() {
        let lines = ["#[test]", "fn test_it_works() {}", "#[test]", "fn it_works() {}"];
        let file = SourceFile::planted("src/a.rs", &lines.join("\n"));
        assert_eq!(tests_with_a_prefix(&file), ["src/a.rs:2: `test_it_works`"]);
        let file = SourceFile::planted("src/a.rs", "fn test_store() {}");
        assert!(tests_with_a_prefix(&file).is_empty());
    }

    #[test]
    fn a_manifest_without_the_lints_of_the_workspace_is_found() {
        let check =
            |text| without_workspace_lints(&SourceFile::planted("crates/a/Cargo.toml", text));
        assert_eq!(check("[lints]\nworkspace = true"), None);
        assert_eq!(check("lints.workspace = true"), None);
        assert_eq!(check("[workspace]\nmembers = [\"a\"]"), None);
        for text in [
            "",
            "[package]",
            "[workspace]\n[package]",
            "[lints]\nworkspace = false",
            "[lints.rust]",
            "not toml",
        ] {
            assert!(check(text).is_some(), "{text}");
        }
    }
}
