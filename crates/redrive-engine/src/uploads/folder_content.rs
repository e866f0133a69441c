//! Content in a local folder: `ROOT/items/sha256/ab/cdef…`.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::uploads::{
    Chunks, Content, ContentError, KeptContent,
    content::{CHUNK_BYTES, CHUNKS_AHEAD, hex},
};

/// Where content is kept, under the root.
const FOLDER: [&str; 2] = ["items", "sha256"];

/// Keeps content under the root of the raw sink, and reads files wherever they are.
#[derive(Debug, Clone)]
pub struct FolderContent {
    root: PathBuf,
}

impl FolderContent {
    /// Under this root. It is made when something is first kept.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// What a file holds, left where it is. The path must be absolute: items outlive working folders.
    pub async fn reference(file: &Path) -> Result<KeptContent, ContentError> {
        let path = file.to_owned();
        blocking(move || {
            let path =
                fs::canonicalize(&path).map_err(|error| ContentError::read(&path, &error))?;
            let url = format!(
                "file:{}",
                path.to_str().ok_or_else(|| ContentError::Read {
                    path: path.clone(),
                    problem: "its name is not UTF-8".to_owned(),
                })?
            );
            let (size_bytes, sha256) = copy(&path, &mut io::sink(), &path)?;
            Ok(KeptContent { url, size_bytes, sha256 })
        })
        .await
    }

    fn place_of(&self, url: &str) -> Result<PathBuf, ContentError> {
        if let Some(path) = url.strip_prefix("file:") {
            return Ok(PathBuf::from(path));
        }
        let hash = url.strip_prefix("sha256:").filter(|hash| {
            hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        });
        let hash = hash.and_then(|hash| hash.split_at_checked(2));
        let (folder, name) = hash.ok_or_else(|| ContentError::Place(url.to_owned()))?;
        Ok(self.folder().join(folder).join(name))
    }

    fn folder(&self) -> PathBuf {
        FOLDER.iter().fold(self.root.clone(), |path, part| path.join(part))
    }

    fn begin(&self, url: &str) -> Result<Begun, ContentError> {
        let path = self.place_of(url)?;
        let unread = |error| ContentError::read(&path, &error);
        let mut file = File::open(&path).map_err(unread)?;
        let first = read_chunk(&mut file).map_err(unread)?;
        Ok(Begun { file, first })
    }

    fn keep_now(&self, file: &Path) -> Result<KeptContent, ContentError> {
        let folder = self.folder();
        let failed = |error: &io::Error| ContentError::write(&folder, error);
        make_folders(&folder).map_err(|error| failed(&error))?;
        let mut copied = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&folder)
            .map_err(|error| failed(&error))?;
        let (size_bytes, sha256) = copy(file, copied.as_file_mut(), &folder)?;
        let url = format!("sha256:{sha256}");
        let place = self.place_of(&url)?;
        let kept = KeptContent { url, size_bytes, sha256 };
        if place.exists() {
            return Ok(kept);
        }
        copied.as_file().sync_all().map_err(|error| failed(&error))?;
        redrive_store::failpoint!("engine.content.copied");
        let parent = place.parent().unwrap_or(&folder);
        make_folders(parent).map_err(|error| failed(&error))?;
        // Replacing what someone else has kept at this moment replaces it by the same.
        copied.persist(&place).map_err(|error| ContentError::write(&place, &error.error))?;
        sync_folder(parent).map_err(|error| failed(&error))?;
        redrive_store::failpoint!("engine.content.kept");
        Ok(kept)
    }
}

#[async_trait]
impl Content for FolderContent {
    async fn keep(&self, file: &Path) -> Result<KeptContent, ContentError> {
        let (this, file) = (self.clone(), file.to_owned());
        blocking(move || this.keep_now(&file)).await
    }

    /// One visit to a thread that may wait for the disk, however many there are.
    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>> {
        let (this, count) = (self.clone(), urls.len());
        let opened = tokio::task::spawn_blocking(move || {
            urls.iter().map(|url| this.begin(url)).collect::<Vec<_>>()
        });
        let opened = opened.await.unwrap_or_else(|error| {
            (0..count).map(|_| Err(ContentError::Broken(error.to_string()))).collect()
        });
        opened.into_iter().map(|begun| begun.map(Begun::go_on)).collect()
    }
}

/// A file, and its first chunk.
struct Begun {
    file: File,
    first: Bytes,
}

impl Begun {
    /// Reads the rest, if there is one, as it is wanted.
    fn go_on(self) -> Chunks {
        if self.first.len() < CHUNK_BYTES {
            return Chunks::whole(self.first);
        }
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        tokio::task::spawn_blocking(move || read_rest(self.file, &sender));
        Chunks::beginning(self.first, receiver)
    }
}

/// A chunk; less than one at the end of the file.
fn read_chunk(file: &mut File) -> io::Result<Bytes> {
    let mut chunk = Vec::new();
    file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
    Ok(chunk.into())
}

/// Until the end, an error, or until nobody wants more.
fn read_rest(mut file: File, to: &mpsc::Sender<io::Result<Bytes>>) {
    loop {
        let chunk = read_chunk(&mut file);
        let over = chunk.as_ref().map_or(true, |chunk| chunk.len() < CHUNK_BYTES);
        if to.blocking_send(chunk).is_err() || over {
            return;
        }
    }
}

/// Copies a file and says how long it is, and its hash.
fn copy(from: &Path, to: &mut impl Write, place: &Path) -> Result<(u64, String), ContentError> {
    let unread = |error: io::Error| ContentError::read(from, &error);
    let mut file = File::open(from).map_err(unread)?;
    if file.metadata().map_err(unread)?.is_dir() {
        return Err(unread(io::ErrorKind::IsADirectory.into()));
    }
    let (mut hash, mut size, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok((size, hex(hash.finalize().as_slice()))),
            Ok(read) => chunk.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unread(error)),
        };
        hash.update(read);
        size += read.len() as u64;
        to.write_all(read).map_err(|error| ContentError::write(place, &error))?;
    }
}

/// Makes a folder and all above it, each of them durable.
fn make_folders(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folders(folder.parent().ok_or(error)?)?;
            return make_folders(folder);
        }
        Err(error) => return Err(error),
    }
    folder.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // A relative path of one part has an empty parent.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ContentError> + Send + 'static,
) -> Result<T, ContentError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ContentError::Broken(error.to_string())))
}
