//! A disk so small that it can be filled.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Room for what ten minutes of chaos write, and soon filled.
const SIZE: &str = "size=256m";

/// A file system in memory. It is gone after the test.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one on a folder, or says why that is not possible here.
    pub(super) fn mount(folder: &Path) -> Result<Self, String> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "redrive-chaos"]).arg(folder);
        let output = mount.output().map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Self(folder.to_owned())),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Leaves no room for a single byte more.
    pub(super) fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            let zeros = vec![0; size];
            while file.write_all(&zeros).is_ok() {}
        }
    }

    /// Makes room again.
    pub(super) fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
