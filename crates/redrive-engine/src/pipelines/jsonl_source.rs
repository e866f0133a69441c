//! A file of JSON lines, as a source.

use std::{
    io,
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use redrive_core::Failure;
use redrive_store::SourcePosition;
use sha2::{Digest, Sha256};
use tokio::{fs::File, io::AsyncReadExt};

use super::{
    SOURCE_CHANGED, SampleSource, SampleWriter, SourceCall, SourceEnd, stage::final_failure,
};
use crate::{Stop, uploads::hex};

pub(super) const CHUNK_BYTES: usize = 256 * 1024;

const SOURCE_UNREADABLE: &str = "source_unreadable";

/// A file of JSON lines. To resume, the file is read from its byte offset, if the bytes before it are unchanged.
#[derive(Debug, Clone)]
pub struct JsonlSource {
    path: PathBuf,
}

impl JsonlSource {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Refuses anything but regular files: opening a pipe blocks, and a pipe cannot be read again.
    async fn open(&self) -> Result<File, Failure> {
        let found = tokio::fs::metadata(&self.path).await.map_err(|e| self.unreadable(&e))?;
        if !found.is_file() {
            let message = format!("{}: not a regular file", self.path.display());
            return Err(final_failure(SOURCE_UNREADABLE, &message));
        }
        File::open(&self.path).await.map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        unreadable(&self.path, error)
    }

    /// Skips the bytes that were read before, and checks that they are unchanged.
    async fn skip(
        &self,
        file: &mut File,
        position: &SourcePosition,
        writer: &mut SampleWriter,
    ) -> Result<(), Failure> {
        let mut before = file.take(position.bytes);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let length = before.read(&mut buffer).await.map_err(|e| self.unreadable(&e))?;
            let Some(chunk @ [_, ..]) = buffer.get(..length) else { break };
            writer.skip(chunk);
        }
        self.unchanged(position, &writer.prefix_hash())
    }

    fn unchanged(&self, position: &SourcePosition, found: &str) -> Result<(), Failure> {
        if position.bytes == 0 || position.check.as_deref() == Some(found) {
            return Ok(());
        }
        let (path, lines) = (self.path.display(), position.lines);
        let message = format!(
            "{path} has changed: its first {lines} lines differ from those that were read before; \
             `pipeline resume --source-changed` shows them and goes on by line number"
        );
        Err(final_failure(SOURCE_CHANGED, &message))
    }

    async fn read_rest(
        &self,
        call: &SourceCall,
        writer: &mut SampleWriter,
    ) -> Result<SourceEnd, Failure> {
        let mut file = self.open().await?;
        self.skip(&mut file, &call.position, writer).await?;
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let length = file.read(&mut buffer).await.map_err(|error| self.unreadable(&error))?;
            let Some(chunk @ [_, ..]) = buffer.get(..length) else {
                return Ok(writer.finish().await);
            };
            if !writer.push(chunk).await {
                return Ok(writer.end());
            }
        }
    }
}

pub(super) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    final_failure(SOURCE_UNREADABLE, &format!("{}: {error}", path.display()))
}

#[async_trait]
impl SampleSource for JsonlSource {
    fn file(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    async fn read(
        &self,
        call: &SourceCall,
        writer: &mut SampleWriter,
        mut stop: Stop,
    ) -> SourceEnd {
        tokio::select! {
            biased;
            () = stop.stopped() => SourceEnd::Stopped,
            end = self.read_rest(call, writer) => end.unwrap_or_else(SourceEnd::Failed),
        }
    }

    async fn check(&self, position: &SourcePosition) -> Result<(), Failure> {
        let file = self.open().await?;
        let mut before = file.take(position.bytes);
        let (mut hash, mut buffer) = (Sha256::new(), vec![0; CHUNK_BYTES]);
        loop {
            let length = before.read(&mut buffer).await.map_err(|e| self.unreadable(&e))?;
            let Some(chunk @ [_, ..]) = buffer.get(..length) else { break };
            hash.update(chunk);
        }
        self.unchanged(position, &hex(hash.finalize().as_slice()))
    }
}
