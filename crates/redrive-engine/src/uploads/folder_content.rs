//! Content in a local folder.

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;

use crate::{
    partitions::raw::{DurableFolders, sync_folder},
    uploads::{
        Chunks, Content, ContentError, KeptContent, NewContent,
        content::content_path,
        local_files::{blocking, copy_new, open_all, referenced_file, write_error},
    },
};

/// Keeps content below the root of the raw sink, and reads referenced files.
#[derive(Debug, Clone)]
pub struct FolderContent {
    folders: Arc<DurableFolders>,
}

impl FolderContent {
    /// The root is created when the first content is kept.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { folders: Arc::new(DurableFolders::new(root.into())) }
    }

    fn items(&self) -> PathBuf {
        self.folders.root().join("items")
    }

    fn path_of(&self, url: &str) -> Result<PathBuf, ContentError> {
        Ok(self.folders.root().join(content_path(url)?))
    }

    fn keep_now(&self, content: &NewContent) -> Result<KeptContent, ContentError> {
        let folder = self.items();
        let failed = |error: &io::Error| write_error(&folder, error);
        let unsynced = self.folders.make(&folder).map_err(|error| failed(&error))?;
        self.folders.sync(unsynced).map_err(|error| failed(&error))?;
        let mut copied = tempfile::Builder::new()
            .prefix(".new-")
            .tempfile_in(&folder)
            .map_err(|error| failed(&error))?;
        let (size_bytes, sha256) = copy_new(content, copied.as_file_mut(), &folder)?;
        let url = format!("sha256:{sha256}");
        let place = self.path_of(&url)?;
        let parent = place.parent().unwrap_or(&folder);
        let kept = KeptContent { url, size_bytes, sha256 };
        if !place.exists() {
            copied.as_file().sync_all().map_err(|error| failed(&error))?;
            redrive_store::failpoint!("engine.content.copied");
            let unsynced = self.folders.make(parent).map_err(|error| failed(&error))?;
            self.folders.sync(unsynced).map_err(|error| failed(&error))?;
            // Another process may have kept the same content meanwhile; the file is equal then.
            copied.persist(&place).map_err(|error| write_error(&place, &error.error))?;
        }
        // Existing content too: the process that wrote it may have crashed before this sync.
        sync_folder(parent).map_err(|error| failed(&error))?;
        redrive_store::failpoint!("engine.content.kept");
        Ok(kept)
    }
}

#[async_trait]
impl Content for FolderContent {
    async fn keep(&self, content: NewContent) -> Result<KeptContent, ContentError> {
        let this = self.clone();
        blocking(move || this.keep_now(&content)).await
    }

    async fn open(&self, urls: Vec<String>) -> Vec<Result<Chunks, ContentError>> {
        let place = |url: &String| referenced_file(url).map_or_else(|| self.path_of(url), Ok);
        open_all(urls.iter().map(place).collect(), Some(self.items())).await
    }
}
