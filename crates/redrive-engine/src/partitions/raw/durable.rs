//! Folders that survive a power loss.
//!
//! A new folder is an entry in its parent, and is durable only once the parent is synced. Another process may
//! have created an existing folder a moment ago without syncing it yet, so its parent is synced too, unless this
//! process knows that it was.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// The most folders to remember as synced. Beyond that all are forgotten, which costs some syncs.
const MAX_KNOWN: usize = 65_536;

/// The folders below a root, the root included.
#[derive(Debug)]
pub(crate) struct DurableFolders {
    root: PathBuf,
    known: Mutex<HashSet<PathBuf>>,
}

/// Folders whose parents must be synced before their content is durable, the deepest first.
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

    /// Creates a folder and its parents.
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
                // Existing folders above the root are the user's responsibility.
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

    /// Syncs the folders that [`make`](Self::make) returned.
    pub(crate) fn sync(&self, unsynced: Unsynced) -> io::Result<()> {
        for folder in &unsynced.0 {
            match folder.parent().map(sync_folder) {
                // The parent of the root may be a folder that this user can enter but not read.
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

    /// The folder was removed and created again.
    fn forget(&self, folder: &Path) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(folder);
    }
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let folder = if folder.as_os_str().is_empty() { here } else { folder };
    fs::File::open(folder)?.sync_all()
}
