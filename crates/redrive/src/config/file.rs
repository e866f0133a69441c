//! Finds the file and reads its text.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

pub const FILE_NAME: &str = "redrive.toml";

/// The largest file that is read: room for about ten thousand queues.
const MAX_BYTES: u64 = 1024 * 1024;

/// Some editors write a byte order mark before the first character.
const BOM: char = '\u{feff}';

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigFileError {
    #[error("cannot read {name}")]
    Unreadable {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("{0} is a folder, not a file")]
    IsFolder(String),
    #[error("{0} is larger than 1 MiB, the limit for a configuration file")]
    TooLarge(String),
    #[error("{name} is not UTF-8: {problem}")]
    NotUtf8 { name: String, problem: String },
}

/// Finds the nearest `redrive.toml`, in `folder` or in a folder above.
pub fn find(folder: &Path) -> Option<PathBuf> {
    folder
        .ancestors()
        .map(|folder| folder.join(FILE_NAME))
        .find(|path| path.symlink_metadata().is_ok())
}

/// Reads a file as UTF-8, without a byte order mark. Messages refer to the file as `name`.
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
        let problem = "the file looks like UTF-16; save it as UTF-8".to_owned();
        return Err(ConfigFileError::NotUtf8 { name, problem });
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..good).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let problem = format!("line {line} has invalid bytes");
        ConfigFileError::NotUtf8 { name, problem }
    })?;
    Ok(text.strip_prefix(BOM).map(str::to_owned).unwrap_or(text))
}
