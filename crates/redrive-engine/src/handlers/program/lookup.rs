//! Where a program is.
//!
//! The standard library can look for a program itself, but with an environment of its own it does so
//! in a forked copy of this process, and copying a worker of 200 MB takes ten milliseconds. Told the
//! place, it starts the program without a copy: twice to twenty times as many starts per second.

use std::{borrow::Cow, env, ffi::OsStr, os::unix::fs::PermissionsExt, path::Path};

/// The place of a program: its path as it is, or the first of its name in `search` (a `PATH`), whose
/// relative entries count from the folder. What is not found stays a name: the system may know better.
pub(super) fn locate<'a>(
    program: &'a Path,
    search: Option<&OsStr>,
    folder: &Path,
) -> Cow<'a, Path> {
    let search = search.filter(|_| !program.is_absolute());
    let mut places = search.into_iter().flat_map(env::split_paths);
    let found = places.find_map(|place| {
        let place = folder.join(place).join(program);
        is_executable(&place).then_some(place)
    });
    found.map_or(Cow::Borrowed(program), Cow::Owned)
}

fn is_executable(place: &Path) -> bool {
    place.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
