//! Reads, copies and hashes local files.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    task::Poll,
};

use bytes::Bytes;
use futures_util::stream;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use crate::uploads::{
    Chunks, ContentError, KeptContent, NewContent,
    content::{CHUNK_BYTES, CHUNKS_AHEAD, hex},
};

/// References a file where it is. The URL has the absolute path, because items outlive the working folder.
pub async fn reference_content(file: &Path) -> Result<KeptContent, ContentError> {
    let path = file.to_owned();
    blocking(move || {
        let path = fs::canonicalize(&path).map_err(|error| read_error(&path, &error))?;
        let name = path.to_str().ok_or_else(|| ContentError::Read {
            place: path.display().to_string(),
            problem: "the path is not UTF-8".to_owned(),
        })?;
        let url = format!("file:{name}");
        let (size_bytes, sha256) = copy(&path, &mut io::sink(), &path)?;
        Ok(KeptContent { url, size_bytes, sha256 })
    })
    .await
}

/// The path of a `file:` URL.
pub(super) fn referenced_file(url: &str) -> Option<PathBuf> {
    url.strip_prefix("file:").map(PathBuf::from)
}

/// Opens all files in one task of the blocking pool. Copied content is below `kept`.
pub(super) async fn open_all(
    files: Vec<Result<PathBuf, ContentError>>,
    kept: Option<PathBuf>,
) -> Vec<Result<Chunks, ContentError>> {
    let count = files.len();
    let opened = tokio::task::spawn_blocking(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        let begin =
            |file: Result<PathBuf, _>| OpenedFile::new(&file?, &mut buffer, kept.as_deref());
        files.into_iter().map(begin).collect::<Vec<_>>()
    });
    let opened = opened.await.unwrap_or_else(|error| {
        (0..count).map(|_| Err(ContentError::Broken(error.to_string()))).collect()
    });
    opened.into_iter().map(|opened| opened.map(OpenedFile::into_chunks)).collect()
}

struct OpenedFile {
    file: File,
    first: Bytes,
}

impl OpenedFile {
    fn new(path: &Path, buffer: &mut [u8], kept: Option<&Path>) -> Result<Self, ContentError> {
        let read_error = |error| read_error(path, &error);
        let mut file = open_without_atime(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(path, kept, &error),
            _ => read_error(error),
        })?;
        let first = read_chunk(&mut file, buffer).map_err(read_error)?;
        Ok(Self { file, first })
    }

    /// Reads the rest of the file on demand.
    fn into_chunks(self) -> Chunks {
        if self.first.len() < CHUNK_BYTES {
            return Chunks::whole(self.first);
        }
        let (mut file, mut rest) = (Some(self.file), None);
        let rest = stream::poll_fn(move |context| {
            if let Some(file) = file.take() {
                let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
                tokio::task::spawn_blocking(move || read_rest(file, &sender));
                rest = Some(receiver);
            }
            rest.as_mut().map_or(Poll::Ready(None), |rest| rest.poll_recv(context))
        });
        Chunks::streamed(rest).after(self.first)
    }
}

/// Opens a file without updating its access time, which would be a write. Only the owner of a file may do
/// that; other users open it normally.
fn open_without_atime(path: &Path) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let no_atime = rustix::fs::OFlags::NOATIME.bits().cast_signed();
        match File::options().read(true).custom_flags(no_atime).open(path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            opened => return opened,
        }
    }
    File::open(path)
}

/// Reads a full chunk, or less at the end of the file.
fn read_chunk(file: &mut File, buffer: &mut [u8]) -> io::Result<Bytes> {
    let mut length = 0;
    while let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) {
        match file.read(room) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default()))
}

/// Reads until the end, an error, or until the receiver is dropped.
fn read_rest(mut file: File, to: &mpsc::Sender<Result<Bytes, ContentError>>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let chunk = read_chunk(&mut file, &mut buffer);
        let over = chunk.as_ref().map_or(true, |chunk| chunk.len() < CHUNK_BYTES);
        let chunk = chunk.map_err(|error| ContentError::Broken(error.to_string()));
        if to.blocking_send(chunk).is_err() || over {
            return;
        }
    }
}

/// Copies a file; returns its size and hash. `place` is the destination, for messages.
pub(super) fn copy(
    from: &Path,
    to: &mut impl Write,
    place: &Path,
) -> Result<(u64, String), ContentError> {
    let read_error = |error| read_error(from, &error);
    let file = File::open(from).map_err(read_error)?;
    if file.metadata().map_err(read_error)?.is_dir() {
        return Err(read_error(io::ErrorKind::IsADirectory.into()));
    }
    copy_from(file, read_error, to, place)
}

pub(super) fn copy_new(
    from: &NewContent,
    to: &mut impl Write,
    place: &Path,
) -> Result<(u64, String), ContentError> {
    match from {
        NewContent::File(path) => copy(path, to, place),
        NewContent::Bytes(bytes) => {
            copy_from(&**bytes, |error| write_error(place, &error), to, place)
        }
    }
}

fn copy_from(
    mut from: impl Read,
    read_error: impl Fn(io::Error) -> ContentError,
    to: &mut impl Write,
    place: &Path,
) -> Result<(u64, String), ContentError> {
    let (mut hash, mut size, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK_BYTES]);
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok((size, hex(hash.finalize().as_slice()))),
            Ok(read) => chunk.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(read_error(error)),
        };
        hash.update(read);
        size += read.len() as u64;
        to.write_all(read).map_err(|error| write_error(place, &error))?;
    }
}

pub(super) fn read_error(path: &Path, error: &io::Error) -> ContentError {
    ContentError::Read { place: path.display().to_string(), problem: error.to_string() }
}

/// The error of a file that does not exist.
fn missing(path: &Path, kept: Option<&Path>, error: &io::Error) -> ContentError {
    let place = path.display().to_string();
    let folder = kept.filter(|kept| path.starts_with(kept)).or_else(|| path.parent());
    let is_empty =
        |folder: &Path| fs::read_dir(folder).map_or(true, |mut all| all.next().is_none());
    match folder.filter(|folder| is_empty(folder)) {
        Some(folder) => ContentError::NoFolder { place, folder: folder.display().to_string() },
        None => ContentError::Missing { place, problem: error.to_string() },
    }
}

pub(super) fn write_error(path: &Path, error: &io::Error) -> ContentError {
    ContentError::Write { place: path.display().to_string(), problem: error.to_string() }
}

/// Runs disk I/O on a thread of the blocking pool.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ContentError> + Send + 'static,
) -> Result<T, ContentError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ContentError::Broken(error.to_string())))
}
