//! A fresh folder in which the program runs.

use std::{path::Path, process::Command};

use tempfile::TempDir;

pub(crate) struct BenchFolder(TempDir);

#[derive(Debug)]
pub(crate) struct BenchOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl BenchFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path()).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }

    /// Runs the program with an empty environment.
    pub(crate) fn run(&self, arguments: &[&str]) -> BenchOutput {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive-bench"));
        command.current_dir(self.path()).env_clear().args(arguments);
        let output = command.output().unwrap();
        BenchOutput {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl BenchOutput {
    /// The rows of a run that succeeded and logged nothing.
    #[track_caller]
    pub(crate) fn rows(self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.text()).unwrap()
    }

    /// The output of a run that succeeded and logged nothing.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// The error message of a run that failed with a code and printed no result.
    #[track_caller]
    pub(crate) fn error(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        self.stderr
    }
}
