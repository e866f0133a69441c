//! Writes an export file, which gets its final name when it is complete.

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

/// A complete and synced file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// `runs`, `samples`, `attempts`, `plans` or `plan_units`.
    pub kind: &'static str,
    pub path: PathBuf,
    pub rows: u64,
    /// In lower-case hexadecimal.
    pub sha256: String,
}

impl ExportedFile {
    pub(super) fn journal_details(&self) -> Value {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        json!({ "kind": self.kind, "name": name, "rows": self.rows, "sha256": self.sha256 })
    }
}

/// A file that is being written. The first row creates it.
pub(super) struct ExportFile {
    kind: &'static str,
    path: PathBuf,
    open: Option<BufWriter<File>>,
    hash: Sha256,
    rows: u64,
    bytes: usize,
}

impl ExportFile {
    /// The file is `KIND-NAME.jsonl`, with the suffix `.part` until it is complete.
    pub(super) fn new(folder: &Path, kind: &'static str, name: &str) -> Self {
        let path = folder.join(format!("{kind}-{name}.jsonl"));
        Self { kind, path, open: None, hash: Sha256::new(), rows: 0, bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn add(&mut self, row: &impl Serialize) -> Result<(), PruneError> {
        let partial = self.partial();
        let failed = |source| PruneError::File { path: partial.clone(), source };
        let mut line = serde_json::to_vec(row).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let file = match &mut self.open {
            Some(file) => file,
            empty => {
                let created = OpenOptions::new().write(true).create_new(true).open(&partial);
                empty.insert(BufWriter::new(created.map_err(failed)?))
            }
        };
        file.write_all(&line).map_err(failed)?;
        self.hash.update(&line);
        self.rows += 1;
        self.bytes += line.len();
        redrive_store::failpoint!("engine.prune.row");
        Ok(())
    }

    /// Syncs the file and gives it its final name. `None` if the file has no rows.
    pub(super) fn finish(self) -> Result<Option<ExportedFile>, PruneError> {
        let partial = self.partial();
        let Self { kind, path, open, hash, rows, .. } = self;
        let Some(mut file) = open else { return Ok(None) };
        let folder = path.parent().unwrap_or(Path::new(""));
        let renamed = file
            .flush()
            .and_then(|()| file.get_ref().sync_all())
            .and_then(|()| fs::rename(&partial, &path))
            .and_then(|()| sync_folder(folder));
        renamed.map_err(|source| PruneError::File { path: path.clone(), source })?;
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
