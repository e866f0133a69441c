//! A file that gets its name when it is whole.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::PruneError;
use crate::{partitions::raw::durable::sync_folder, uploads::hex};

/// A file that was written, whole and synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// What its rows are: `runs`, `samples` or `attempts`.
    pub kind: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// How many rows it has.
    pub rows: u64,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

impl ExportedFile {
    /// What the journal says of it.
    pub(super) fn journal_details(&self) -> Value {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        json!({ "kind": self.kind, "name": name, "rows": self.rows, "sha256": self.sha256 })
    }
}

/// A file on its way. It is made with its first row.
pub(super) struct ExportFile {
    kind: &'static str,
    path: PathBuf,
    open: Option<BufWriter<File>>,
    hash: Sha256,
    rows: u64,
    bytes: usize,
}

impl ExportFile {
    /// `KIND-NAME.jsonl` in a folder; until it is whole, with `.part` behind it.
    pub(super) fn new(folder: &Path, kind: &'static str, name: &str) -> Self {
        let path = folder.join(format!("{kind}-{name}.jsonl"));
        Self { kind, path, open: None, hash: Sha256::new(), rows: 0, bytes: 0 }
    }

    /// How much was written so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &impl Serialize) -> Result<(), PruneError> {
        let partial = self.partial();
        let failed = |source| PruneError::File { path: partial.clone(), source };
        let mut line = serde_json::to_vec(row).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let file = match &mut self.open {
            Some(file) => file,
            empty => {
                let made = OpenOptions::new().write(true).create_new(true).open(&partial);
                empty.insert(BufWriter::new(made.map_err(failed)?))
            }
        };
        file.write_all(&line).map_err(failed)?;
        self.hash.update(&line);
        self.rows += 1;
        self.bytes += line.len();
        redrive_store::failpoint!("engine.prune.row");
        Ok(())
    }

    /// Syncs the file and gives it its name. Nothing if it has no rows.
    pub(super) fn end(self) -> Result<Option<ExportedFile>, PruneError> {
        let partial = self.partial();
        let Self { kind, path, open, hash, rows, .. } = self;
        let Some(mut file) = open else { return Ok(None) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let named = file
            .flush()
            .and_then(|()| file.get_ref().sync_all())
            .and_then(|()| fs::rename(&partial, &path))
            .and_then(|()| sync_folder(folder));
        named.map_err(|source| PruneError::File { path: path.clone(), source })?;
        redrive_store::failpoint!("engine.prune.named");
        let sha256 = hex(hash.finalize().as_slice());
        Ok(Some(ExportedFile { kind, path, rows, sha256 }))
    }

    fn partial(&self) -> PathBuf {
        let mut partial = self.path.clone().into_os_string();
        partial.push(".part");
        partial.into()
    }
}
