//! Finds the file and reads its text.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The name of the file.
pub const FILE_NAME: &str = "redrive.toml";

/// The largest file that is read. A thousand queues fit ten times.
const MAX_BYTES: u64 = 1024 * 1024;

/// What some editors write before the first character.
const BOM: char = '\u{feff}';

/// A file that cannot be read as text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    /// The operating system refused.
    #[error("cannot read {name}")]
    Unreadable {
        /// The file.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is a folder.
    #[error("{0} is a folder, not a file")]
    IsFolder(String),
    /// It is too large to be what it should be.
    #[error("{0} is larger than 1 MiB, which no configuration is")]
    TooLarge(String),
    /// It is not UTF-8.
    #[error("{name} is not UTF-8: {problem}")]
    NotUtf8 {
        /// The file.
        name: String,
        /// What was found, and where.
        problem: String,
    },
}

/// The nearest `redrive.toml`: in a folder or in one above it.
pub fn find(folder: &Path) -> Option<PathBuf> {
    folder
        .ancestors()
        .map(|folder| folder.join(FILE_NAME))
        .find(|path| path.symlink_metadata().is_ok())
}

/// The text of a file. `name` is what the file is called in messages.
pub(super) fn read_text(path: &Path, name: &str) -> Result<String, ConfigFileError> {
    let name = name.to_owned();
    if path.is_dir() {
        return Err(ConfigFileError::IsFolder(name));
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(source) = read {
        return Err(ConfigFileError::Unreadable { name, source });
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ConfigFileError::TooLarge(name));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let problem = "it looks like UTF-16; save it as UTF-8".to_owned();
        return Err(ConfigFileError::NotUtf8 { name, problem });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..good).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let problem = format!("line {line} has bytes that are no text");
        ConfigFileError::NotUtf8 { name, problem }
    })?;
    Ok(text.strip_prefix(BOM).map(str::to_owned).unwrap_or(text))
}
