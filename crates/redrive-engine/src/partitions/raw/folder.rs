//! Raw partitions in a local folder.
//!
//! A run has its folder for itself: whoever makes it writes it. The payload is written there; the
//! metadata is written beside it, and linked under its name when all of it is on the disk, which fails if
//! there is one. Nothing is ever renamed over, and nothing that is sealed is opened for writing.
//!
//! `object_store` can write folders too. It makes every file under another name and syncs the folder
//! once for each; here a sealed run costs two synced files and its folders, each once.

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

/// The metadata while it is being written.
const UNSEALED: &str = "metadata.json.new";

/// How much is gathered before it is written, and how much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A local root.
#[derive(Debug, Clone)]
pub(crate) struct Folder(Arc<DurableFolders>);

/// A run that is being written.
#[derive(Debug)]
pub(super) struct FolderWriter {
    folders: Arc<DurableFolders>,
    unsealed: UnsealedRun,
    unsynced: Unsynced,
    /// Away while a chunk is being written.
    payload: Option<File>,
    gathered: Vec<u8>,
}

/// A run's folder, made by us. Unless it is sealed, nothing of it stays.
#[derive(Debug)]
struct UnsealedRun {
    folder: PathBuf,
    sealed: bool,
}

/// The payload of a sealed run, chunk by chunk.
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
            Ok(FolderWriter { folders, unsealed, unsynced, payload, gathered: Vec::new() })
        })
        .await
    }

    /// The bytes of a run's metadata, if it is sealed; one byte more than allowed at most.
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

    /// The payload of a run, if it is there.
    pub(super) async fn payload(&self, place: &RunPath) -> Result<Option<FolderReader>, RawError> {
        let path = self.root().join(place.path()).join(PAYLOAD);
        blocking(move || match File::open(&path) {
            Ok(file) => Ok(Some(FolderReader { path, payload: Some(file) })),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(failed("open", &path)(error)),
        })
        .await
    }

    /// The sealed runs of a key, in no order.
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

    /// Whether the root is a folder, or can become one.
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
            let room = CHUNK_BYTES.saturating_sub(self.gathered.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.gathered.extend_from_slice(now);
            bytes = later;
            if self.gathered.len() >= CHUNK_BYTES {
                self.put_out().await?;
            }
        }
        Ok(())
    }

    async fn put_out(&mut self) -> Result<(), RawError> {
        let path = self.unsealed.folder.join(PAYLOAD);
        let gathered = std::mem::take(&mut self.gathered);
        let mut file = self.payload.take().ok_or_else(|| broken(&path))?;
        let (file, mut gathered) = blocking(move || {
            file.write_all(&gathered).map_err(failed("write", &path))?;
            Ok((file, gathered))
        })
        .await?;
        gathered.clear();
        self.payload = Some(file);
        self.gathered = gathered;
        Ok(())
    }

    /// Puts everything on the disk, the metadata last. A future that is dropped meanwhile changes
    /// nothing: what has begun is finished.
    pub(super) async fn seal(self, metadata: Vec<u8>) -> Result<(), RawError> {
        blocking(move || self.seal_here(&metadata)).await
    }

    fn seal_here(mut self, metadata: &[u8]) -> Result<(), RawError> {
        let run = self.unsealed.folder.clone();
        let (payload, new, sealed) = (run.join(PAYLOAD), run.join(UNSEALED), run.join(METADATA));

        let mut file = self.payload.take().ok_or_else(|| broken(&payload))?;
        file.write_all(&self.gathered).map_err(failed("write", &payload))?;
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
        // What cannot be removed has no seal, and so nobody reads it.
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

/// Runs what may wait for the disk where it holds up nobody.
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

/// Whether a single byte more can be written, as far as anybody can tell.
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

/// A writer or reader that failed before is used again.
fn broken(path: &Path) -> RawError {
    failed("go on with", path)(io::Error::other("an earlier step failed"))
}

/// Not there, or below something that is no folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
