//! A fresh folder in which the program runs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// A folder that is gone after the test.
pub(crate) struct Folder {
    path: PathBuf,
    _owned: TempDir,
}

/// What a run of the program left behind. The name of the folder is `[FOLDER]` in its output.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        let owned = tempfile::tempdir().unwrap();
        Self { path: owned.path().canonicalize().unwrap(), _owned: owned }
    }

    /// A folder with a configuration.
    pub(crate) fn with_config(text: &str) -> Self {
        let folder = Self::new();
        folder.write("redrive.toml", text);
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Writes programs that do nothing.
    pub(crate) fn programs(&self, names: &[&str]) -> &Self {
        for name in names {
            self.write(name, "#!/bin/sh\n");
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(self.path.join(name), executable).unwrap();
        }
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap()
    }

    /// The program with an empty environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.current_dir(&self.path).env_clear().args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.ended(self.command(arguments).output().unwrap())
    }

    /// Runs with environment variables.
    pub(crate) fn run_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        self.ended(command.output().unwrap())
    }

    pub(crate) fn ended(&self, output: Output) -> Ended {
        let path = self.path.display().to_string();
        let text = |bytes| String::from_utf8(bytes).unwrap().replace(&path, "[FOLDER]");
        Ended {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ended {
    /// The output of a run that went well and had nothing to complain about.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{}", self.stdout);
        self.stdout
    }

    /// The output of a run that went well, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The complaint of a run that failed with a code and printed no result.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
        self.stderr
    }
}
