//! A file of give-ups, as JSON lines, for readers outside.
//!
//! The file repeats the journal: every line has the place of its entry there. So a line that a crash cut
//! off is cut away, and whatever is missing is written by the next who comes: each give-up is there
//! once. Several processes take turns by locking the file.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use redrive_store::{JournalFilter, JournalRecord, Store};
use serde_json::{Value, json};

/// Entries that are read from the journal at a time.
const PAGE: u32 = 1_000;

/// Places before the last one that are looked at again: with many writers an entry may appear after one
/// with a higher place.
const OVERLAP: i64 = 1_000;

/// Why the file could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GiveupFileError {
    /// The file cannot be read or written.
    #[error("cannot write {path}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The journal cannot be read.
    #[error("cannot read the journal")]
    Journal(#[from] redrive_store::Error),
}

/// The file, for the give-ups of one upload.
#[derive(Debug, Clone)]
pub struct GiveupFile {
    path: PathBuf,
    upload: String,
}

impl GiveupFile {
    /// A file at a path. It is made when there is something to write.
    pub fn new(path: impl Into<PathBuf>, upload: impl Into<String>) -> Self {
        Self { path: path.into(), upload: upload.into() }
    }

    /// Adds every give-up that the journal has and the file has not. Says how many.
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

    /// What the file says of an entry, if it is about this upload.
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

/// The places of the entries that whole lines are about.
fn known_ids(path: &Path) -> io::Result<BTreeSet<i64>> {
    match File::open(path) {
        Ok(file) => Ok(read_ids(&file)?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error),
    }
}

/// The places, and how long the whole lines are. A line that is none of ours is left alone.
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

/// Adds lines, unless another process was faster, and cuts away what a crash left of one.
fn add(path: &Path, missing: &[(i64, String)]) -> io::Result<usize> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    file.lock()?;
    let (known, length) = read_ids(&file)?;
    let new: Vec<&str> = missing
        .iter()
        .filter(|(place, _)| !known.contains(place))
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
