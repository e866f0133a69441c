//! A file of give-ups, as JSON lines, for other programs.
//!
//! The file repeats the journal, and every line has the id of its journal entry. So an incomplete line after a
//! crash is removed, missing lines are added by the next process, and each give-up appears once. Processes lock
//! the file while they write.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use redrive_store::{JournalFilter, JournalRecord, Store};
use serde_json::{Value, json};

const PAGE: u32 = 1_000;

/// How many ids before the last one are read again: with several writers an entry may become visible after one
/// with a higher id.
const OVERLAP: i64 = 1_000;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveupFileError {
    #[error("cannot write {path}", path = .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read the journal")]
    Journal(#[from] redrive_store::Error),
}

/// The give-ups of one upload.
#[derive(Debug, Clone)]
pub struct GiveupFile {
    path: PathBuf,
    upload: String,
}

impl GiveupFile {
    /// The file is created by the first give-up.
    pub fn new(path: impl Into<PathBuf>, upload: impl Into<String>) -> Self {
        Self { path: path.into(), upload: upload.into() }
    }

    /// Adds the give-ups of the journal that the file does not have; returns how many.
    pub async fn catch_up(&self, store: &dyn Store) -> Result<usize, GiveupFileError> {
        let known = self.in_file(known_ids)?;
        let filter = JournalFilter { action: Some("upload.giveup".to_owned()), unit: None };
        let mut after = known.last().map_or(0, |last| last.saturating_sub(OVERLAP));
        let mut missing = Vec::new();
        loop {
            let page = store.journal_page(&filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            let new = page.iter().filter(|record| !known.contains(&record.id));
            missing
                .extend(new.filter_map(|record| self.line(record).map(|line| (record.id, line))));
        }
        if missing.is_empty() {
            return Ok(0);
        }
        self.in_file(|path| add(path, &missing))
    }

    fn in_file<T>(&self, work: impl FnOnce(&Path) -> io::Result<T>) -> Result<T, GiveupFileError> {
        work(&self.path).map_err(|source| GiveupFileError::File { path: self.path.clone(), source })
    }

    /// The line of a journal entry, if the entry is about this upload.
    fn line(&self, record: &JournalRecord) -> Option<String> {
        let details: Value = serde_json::from_str(&record.entry.details).ok()?;
        let mut line = json!({
            "journal": record.id,
            "at": record.entry.at.to_string(),
            "event": record.entry.action,
        });
        for (name, value) in details.as_object()? {
            if let Some(line) = line.as_object_mut() {
                line.entry(name.as_str()).or_insert_with(|| value.clone());
            }
        }
        (line.get("upload").and_then(Value::as_str) == Some(&self.upload)).then(|| line.to_string())
    }
}

/// The journal ids in complete lines.
fn known_ids(path: &Path) -> io::Result<BTreeSet<i64>> {
    match File::open(path) {
        Ok(file) => Ok(read_ids(&file)?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The journal ids, and the length of all complete lines. Lines in another format are kept.
fn read_ids(file: &File) -> io::Result<(BTreeSet<i64>, u64)> {
    let (mut ids, mut length) = (BTreeSet::new(), 0);
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok((ids, length));
        }
        length += read as u64;
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        ids.extend(value.and_then(|value| value.get("journal")?.as_i64()));
    }
}

/// Adds the lines that no other process has added meanwhile, and removes an incomplete last line.
fn add(path: &Path, missing: &[(i64, String)]) -> io::Result<usize> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    let (known, length) = read_ids(&file)?;
    let new: Vec<&str> = missing
        .iter()
        .filter(|(id, _)| !known.contains(id))
        .map(|(_, line)| line.as_str())
        .collect();
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    let text: String = new.iter().flat_map(|line| [line, "\n"]).collect();
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    redrive_store::failpoint!("engine.upload.told_outside");
    Ok(new.len())
}
