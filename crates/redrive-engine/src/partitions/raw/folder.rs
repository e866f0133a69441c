//! Raw partitions in a local folder.
//!
//! Every run has its own folder, and only the process that created the folder writes the run. The metadata is
//! written under another name, and hard-linked under its own name once all files are on disk; the link fails if
//! the name exists. Files are never replaced by a rename, and sealed files are never opened for writing.
//!
//! `object_store` can write to folders too, but it renames every file and syncs the folder each time; here a
//! sealed run costs two synced files and its folders, each once.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use redrive_core::{PartitionKey, PartitionRunId};

use super::{
    durable::{DurableFolders, Unsynced, sync_folder},
    error::RawError,
    layout::{METADATA, PAYLOAD, RunPath, key_folders, run_of_folder},
    metadata::MAX_METADATA_BYTES,
};

/// The name of the metadata while it is written.
const UNSEALED: &str = "metadata.json.new";

/// The size of writes and reads.
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Folder(Arc<DurableFolders>);

#[derive(Debug)]
pub(super) struct FolderWriter {
    folders: Arc<DurableFolders>,
    unsealed: UnsealedRun,
    unsynced: Unsynced,
    /// `None` while a chunk is written, and after an error.
    payload: Option<File>,
    buffer: Vec<u8>,
}

/// A folder that this process created. Dropping it removes the folder, unless it is sealed.
#[derive(Debug)]
struct UnsealedRun {
    folder: PathBuf,
    sealed: bool,
}

#[derive(Debug)]
pub(super) struct FolderReader {
    path: PathBuf,
    payload: Option<File>,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self(Arc::new(DurableFolders::new(root)))
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.root()
    }

    pub(super) async fn begin(&self, place: &RunPath) -> Result<FolderWriter, RawError> {
        let (folders, run) = (self.0.clone(), self.root().join(place.path()));
        blocking(move || {
            let above = run.parent().unwrap_or(folders.root());
            let unsynced = folders.make(above).map_err(failed("make", above))?;
            fs::create_dir(&run).map_err(|error| used_or_failed(error, "make", &run))?;
            let unsealed = UnsealedRun { folder: run, sealed: false };
            let payload = unsealed.folder.join(PAYLOAD);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&payload)
                .map_err(|error| used_or_failed(error, "make", &payload))?;
            let payload = Some(file);
            Ok(FolderWriter { folders, unsealed, unsynced, payload, buffer: Vec::new() })
        })
        .await
    }

    /// The bytes of the metadata, if the run is sealed; at most one byte more than allowed.
    pub(super) async fn metadata(&self, place: &RunPath) -> Result<Option<Vec<u8>>, RawError> {
        let path = self.root().join(place.path()).join(METADATA);
        blocking(move || match File::open(&path) {
            Ok(file) => {
                let (mut bytes, limit) = (Vec::new(), MAX_METADATA_BYTES as u64 + 1);
                file.take(limit).read_to_end(&mut bytes).map_err(failed("read", &path))?;
                Ok(Some(bytes))
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed("open", &path)(error)),
        })
        .await
    }

    pub(super) async fn payload(&self, place: &RunPath) -> Result<Option<FolderReader>, RawError> {
        let path = self.root().join(place.path()).join(PAYLOAD);
        blocking(move || match File::open(&path) {
            Ok(file) => Ok(Some(FolderReader { path, payload: Some(file) })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed("open", &path)(error)),
        })
        .await
    }

    /// The sealed runs of a key, in any order.
    pub(super) async fn runs(&self, key: &PartitionKey) -> Result<Vec<PartitionRunId>, RawError> {
        let folder = self.root().join(key_folders(key).iter().collect::<PathBuf>());
        blocking(move || {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => return Ok(Vec::new()),
                Err(error) => return Err(failed("list", &folder)(error)),
            };
            let mut runs = Vec::new();
            for entry in entries {
                let entry = entry.map_err(failed("list", &folder))?;
                let run = entry.file_name().to_str().and_then(run_of_folder);
                let is_sealed = || fs::exists(entry.path().join(METADATA));
                if let Some(run) = run
                    && is_sealed().map_err(failed("look into", &entry.path()))?
                {
                    runs.push(run);
                }
            }
            Ok(runs)
        })
        .await
    }

    /// Fails unless the root is a folder, or can be created, and its disk has room.
    pub(super) async fn check(&self) -> Result<(), RawError> {
        let root = self.root().to_owned();
        blocking(move || {
            let nearest = root.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
            if !nearest.is_dir() {
                return Err(failed("use", nearest)(io::ErrorKind::NotADirectory.into()));
            }
            match has_room(nearest) {
                true => Ok(()),
                false => Err(failed("write to", nearest)(io::ErrorKind::StorageFull.into())),
            }
        })
        .await
    }
}

impl FolderWriter {
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), RawError> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES.saturating_sub(self.buffer.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() >= CHUNK_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), RawError> {
        let path = self.unsealed.folder.join(PAYLOAD);
        let buffer = std::mem::take(&mut self.buffer);
        let mut file = self.payload.take().ok_or_else(|| broken(&path))?;
        let (file, mut buffer) = blocking(move || {
            file.write_all(&buffer).map_err(failed("write", &path))?;
            Ok((file, buffer))
        })
        .await?;
        buffer.clear();
        self.payload = Some(file);
        self.buffer = buffer;
        Ok(())
    }

    /// Writes everything to disk, the metadata last. Dropping the future does not interrupt a seal that has
    /// started.
    pub(super) async fn seal(self, metadata: Vec<u8>) -> Result<(), RawError> {
        blocking(move || self.seal_here(&metadata)).await
    }

    fn seal_here(mut self, metadata: &[u8]) -> Result<(), RawError> {
        let run = self.unsealed.folder.clone();
        let (payload, new, sealed) = (run.join(PAYLOAD), run.join(UNSEALED), run.join(METADATA));

        let mut file = self.payload.take().ok_or_else(|| broken(&payload))?;
        file.write_all(&self.buffer).map_err(failed("write", &payload))?;
        file.sync_all().map_err(failed("sync", &payload))?;
        redrive_store::failpoint!("raw.payload.synced");

        let mut file = File::create_new(&new).map_err(failed("make", &new))?;
        file.write_all(metadata).map_err(failed("write", &new))?;
        file.sync_all().map_err(failed("sync", &new))?;
        redrive_store::failpoint!("raw.metadata.synced");

        fs::hard_link(&new, &sealed).map_err(|error| used_or_failed(error, "make", &sealed))?;
        self.unsealed.sealed = true;
        redrive_store::failpoint!("raw.sealed");
        fs::remove_file(&new).map_err(failed("remove", &new))?;
        sync_folder(&run).map_err(failed("sync", &run))?;
        let above = run.parent().unwrap_or(self.folders.root());
        sync_folder(above).map_err(failed("sync", above))?;
        self.folders.sync(self.unsynced).map_err(failed("sync the folders above", above))
    }

    pub(super) async fn abort(self) -> Result<(), RawError> {
        blocking(move || {
            drop(self);
            Ok(())
        })
        .await
    }
}

impl Drop for UnsealedRun {
    fn drop(&mut self) {
        if self.sealed {
            return;
        }
        // Errors are ignored: a run without a seal is never read.
        for name in [PAYLOAD, UNSEALED] {
            let _ = fs::remove_file(self.folder.join(name));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

impl FolderReader {
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, RawError> {
        let path = self.path.clone();
        let mut file = self.payload.take().ok_or_else(|| broken(&path))?;
        let (file, chunk) = blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let limit = CHUNK_BYTES as u64;
            Read::by_ref(&mut file)
                .take(limit)
                .read_to_end(&mut chunk)
                .map_err(failed("read", &path))?;
            Ok((file, chunk))
        })
        .await?;
        self.payload = Some(file);
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }
}

/// Runs disk I/O on a thread of the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RawError> + Send + 'static,
) -> Result<T, RawError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(lost) => {
            let place = "the local folder".to_owned();
            Err(RawError::File { doing: "use", place, source: io::Error::other(lost) })
        }
    }
}

/// True if the file system does not report its free space.
#[cfg(unix)]
fn has_room(path: &Path) -> bool {
    rustix::fs::statvfs(path).map_or(true, |disk| disk.f_bavail > 0)
}

#[cfg(not(unix))]
fn has_room(_: &Path) -> bool {
    true
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> RawError {
    let place = path.display().to_string();
    move |source| RawError::File { doing, place: place.clone(), source }
}

fn used_or_failed(error: io::Error, doing: &'static str, path: &Path) -> RawError {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return RawError::Used { place: path.display().to_string() };
    }
    failed(doing, path)(error)
}

/// The error of a writer or reader that is used after it failed.
fn broken(path: &Path) -> RawError {
    failed("continue with", path)(io::Error::other("an earlier read or write failed"))
}

/// The file does not exist, or one of its parents is not a folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
