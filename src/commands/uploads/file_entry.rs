//! A line of a list of files.

use std::path::PathBuf;

use serde::Deserialize;

/// A file to add, and how.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Where it is, from the working folder.
    pub(super) path: PathBuf,
    /// Its name in the group; the path, unless given.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// Whether it is left where it is.
    #[serde(default)]
    pub(super) in_place: bool,
    /// What its hash must be.
    #[serde(default)]
    pub(super) sha256: Option<String>,
}

impl FileEntry {
    /// A file as it is named on the command line.
    pub(super) fn file(path: PathBuf) -> Self {
        Self { path, name: None, in_place: false, sha256: None }
    }

    /// A line of a list; the problem says what is wrong with it.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| {
            format!("{error}; a line is an object with path, and maybe name, in_place and sha256")
        })
    }

    /// Its name in the group.
    pub(super) fn name(&self) -> Result<String, String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        path.to_str().map(str::to_owned).ok_or_else(|| "its name is not UTF-8".to_owned())
    }
}
