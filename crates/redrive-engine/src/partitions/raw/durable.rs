//! Folders that survive a power cut.
//!
//! A new folder is an entry in its parent, and is only there for sure once the parent is synced. A folder
//! that is already there may have been made a moment ago by somebody who has not synced it yet, so its
//! parent is synced too, unless this process knows that it has been.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// How many folders are remembered. Past that all are forgotten, which costs some syncs.
const MAX_KNOWN: usize = 65_536;

/// The folders below a root, the root included.
#[derive(Debug)]
pub(crate) struct DurableFolders {
    root: PathBuf,
    known: Mutex<HashSet<PathBuf>>,
}

/// Folders whose parents must be synced before anything in them counts, the lowest first.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Unsynced(Vec<PathBuf>);

impl DurableFolders {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, known: Mutex::default() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a folder with all above it.
    pub(crate) fn make(&self, folder: &Path) -> io::Result<Unsynced> {
        let mut unsynced = Unsynced::default();
        self.make_into(folder, &mut unsynced)?;
        Ok(unsynced)
    }

    fn make_into(&self, folder: &Path, unsynced: &mut Unsynced) -> io::Result<()> {
        let mut made = fs::create_dir(folder);
        let mut above = Unsynced::default();
        if matches!(&made, Err(error) if error.kind() == io::ErrorKind::NotFound)
            && let Some(parent) = folder.parent()
        {
            self.make_into(parent, &mut above)?;
            made = fs::create_dir(folder);
        }
        match made {
            Ok(()) => self.forget(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // What is above the root and was there is not our business.
                if self.knows(folder) || !folder.starts_with(&self.root) {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
        unsynced.0.push(folder.to_owned());
        if above.0.is_empty()
            && folder != self.root
            && let Some(parent) = folder.parent()
        {
            self.make_into(parent, &mut above)?;
        }
        unsynced.0.append(&mut above.0);
        Ok(())
    }

    /// Syncs what [`make`](Self::make) left to be synced.
    pub(crate) fn sync(&self, unsynced: Unsynced) -> io::Result<()> {
        for folder in &unsynced.0 {
            match folder.parent().map(sync_folder) {
                // A root may lie in a folder that we may enter and not read.
                Some(Err(error))
                    if *folder == self.root && error.kind() == io::ErrorKind::PermissionDenied => {}
                Some(synced) => synced?,
                None => {}
            }
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() + unsynced.0.len() > MAX_KNOWN {
            known.clear();
        }
        known.extend(unsynced.0);
        Ok(())
    }

    fn knows(&self, folder: &Path) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(folder)
    }

    /// Somebody took it away, and it was made anew.
    fn forget(&self, folder: &Path) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
    }
}

/// Makes the entries of a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let folder = if folder.as_os_str().is_empty() { here } else { folder };
    fs::File::open(folder)?.sync_all()
}
