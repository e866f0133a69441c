//! The repository as a newcomer gets it: every text file that git knows or would add.
//!
//! An archive without git is read from the disk instead, build output left out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// Folders that hold what is built or kept by tools, never what is written.
const NOT_WRITTEN_HERE: [&str; 2] = ["target", ".git"];

/// A text file; its path counts from the root and has forward slashes.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// A file that is on no disk, to show that a check can fail.
    pub(crate) fn planted(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code: a test binary, a bench, an out-of-line test module or the
    /// suite that both stores run.
    pub(crate) fn is_test_code(&self) -> bool {
        self.is_conformance_suite()
            || self.path.ends_with("/tests.rs")
            || self.path.split('/').any(|part| part == "tests" || part == "benches")
    }

    /// Whether the file belongs to the suite that both stores run.
    pub(crate) fn is_conformance_suite(&self) -> bool {
        self.path.starts_with("crates/redrive-conformance/src/suite/")
    }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file, in the order of paths.
pub(crate) fn source_files() -> &'static [SourceFile] {
    static FILES: LazyLock<Vec<SourceFile>> = LazyLock::new(|| {
        let mut paths = known_to_git().unwrap_or_else(found_on_disk);
        paths.sort();
        paths.dedup();
        paths.into_iter().filter_map(read).collect()
    });
    &FILES
}

/// `None` for what is not text, and for what git still lists though it is gone.
fn read(path: String) -> Option<SourceFile> {
    let text = fs::read_to_string(root().join(&path)).ok()?;
    Some(SourceFile { path, text })
}

fn known_to_git() -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        listed.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn found_on_disk() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if NOT_WRITTEN_HERE.iter().any(|skipped| name == *skipped) {
                continue;
            }
            let path = folder.join(name);
            if entry.path().is_dir() {
                folders.push(path);
            } else {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found
}

#[test]
fn the_tree_is_found_with_and_without_git() {
    let on_disk = found_on_disk();
    for expected in ["Cargo.toml", "scripts/test", "tests/it/source_tree.rs"] {
        assert!(on_disk.iter().any(|path| path == expected), "{expected}: {on_disk:?}");
        assert!(source_files().iter().any(|file| file.path == expected), "{expected}");
    }
    assert!(!on_disk.iter().any(|path| path.starts_with("target/")));
}
