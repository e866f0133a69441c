//! Processes of the program, and what is done to them.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

/// A process that was started. It does not outlive the test.
pub(super) struct Process {
    /// A name that no other process has.
    pub(super) name: String,
    child: Child,
    files: PathBuf,
    frozen: bool,
}

impl Process {
    /// Starts one whose output goes to files of its name in a folder.
    pub(super) fn start(mut command: Command, name: String, folder: &Path) -> Self {
        let files = folder.join(&name);
        let file = |end| File::create(files.with_added_extension(end)).unwrap();
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap();
        Self { name, child, files, frozen: false }
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        // Nobody is to take a process for dead that still writes.
        self.child.wait().unwrap();
    }

    pub(super) fn freeze(&mut self) {
        self.signal("-STOP");
        self.frozen = true;
    }

    pub(super) fn thaw(&mut self) {
        self.signal("-CONT");
        self.frozen = false;
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    pub(super) fn terminate(&self) {
        self.signal("-TERM");
    }

    fn signal(&self, signal: &str) {
        // One that has just ended cannot be signalled; it is not waited for, so its id is not another's.
        _ = Command::new("kill").args([signal, &self.child.id().to_string()]).output();
    }

    pub(super) fn printed(&self) -> String {
        self.read("out")
    }

    pub(super) fn log(&self) -> String {
        self.read("err")
    }

    fn read(&self, end: &str) -> String {
        let bytes = fs::read(self.files.with_added_extension(end)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The name under which it holds leases, once it has told.
    pub(super) fn worker(&self) -> Option<String> {
        let log = self.log();
        let (_, rest) = log.split_once(" worker=")?;
        rest.split_whitespace().next().map(|name| name.trim_matches('"').to_owned())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is not signalled.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
