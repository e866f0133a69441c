//! One file of `uploads add`, from the command line or from a list.

use std::path::PathBuf;

use serde::Deserialize;

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileEntry {
    /// Relative to the working folder.
    pub(super) path: PathBuf,
    /// Default: the path.
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) in_place: bool,
    /// The expected hash.
    #[serde(default)]
    pub(super) sha256: Option<String>,
}

impl FileEntry {
    pub(super) fn file(path: PathBuf) -> Self {
        Self { path, name: None, in_place: false, sha256: None }
    }

    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| {
            format!("{error}; write an object with path, and optionally name, in_place and sha256")
        })
    }

    pub(super) fn name(&self) -> Result<String, String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let path = self.path.strip_prefix(".").unwrap_or(&self.path);
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| "the path is not UTF-8; give the item a name".to_owned())
    }
}
