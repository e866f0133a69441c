//! Parts of tests that need a process of their own: another user, another program on the same file,
//! one that is killed.
//!
//! The test binary starts itself, asks for the one test below and tells it by the environment which
//! part to play. A part answers with lines that begin with `> `.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use redrive_sqlite::{Location, SqliteOptions, SqliteStore};

use crate::{
    durability, full_disk,
    scratch::{at, told},
};

const ROLE: &str = "REDRIVE_TEST_ROLE";
const DATABASE: &str = "REDRIVE_TEST_DATABASE";

/// What belongs to nobody in particular; every system has it.
const NOBODY: u32 = 65_534;

#[test]
#[ignore = "a part of other tests, which start it in a process of its own"]
fn plays_its_part() {
    let (Ok(role), Some(path)) = (env::var(ROLE), env::var_os(DATABASE)) else {
        return;
    };
    let path = PathBuf::from(path);
    match role.as_str() {
        "open" => answer(&match open(&path) {
            Ok(_) => "opened".to_owned(),
            Err(error) => told(&error),
        }),
        "open and close" => drop(rusqlite::Connection::open(&path).unwrap().query_row(
            "SELECT count(*) FROM runs",
            [],
            |_| Ok(()),
        )),
        "count" => answer(&count_runs(&path).to_string()),
        "submit 100" => durability::submit_one_by_one(&open(&path).unwrap(), 100),
        "work until killed" => durability::work_until_killed(&open(&path).unwrap()),
        "fill the disk" => full_disk::fill_and_go_on(&path),
        "write much to a small disk" => full_disk::write_much(&path),
        unknown => panic!("no such part: {unknown}"),
    }
}

fn open(path: &Path) -> redrive_store::Result<SqliteStore> {
    let location = Location::File(path.to_owned());
    SqliteStore::open(location, SqliteOptions::default(), at(0))
}

pub(crate) fn count_runs(path: &Path) -> u64 {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap()
}

/// What a part says to its parent.
pub(crate) fn answer(line: &str) {
    println!("> {line}");
}

/// The command that plays a part on a database.
pub(crate) fn command(role: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    dress(&mut command, role, path);
    command
}

/// Adds to a command that ends in a program what makes the test binary play a part.
pub(crate) fn dress(command: &mut Command, role: &str, path: &Path) {
    command
        .args(["--exact", "child::plays_its_part"])
        .args(["--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(DATABASE, path);
}

/// Plays a part to its end and returns what it answered.
pub(crate) fn play(role: &str, path: &Path) -> Vec<String> {
    answers(&command(role, path).output().unwrap())
}

/// Plays a part as a user whom permissions bind. Root hands the folder to that user first.
pub(crate) fn play_as_ordinary_user(role: &str, path: &Path, folder: &Path) -> Vec<String> {
    if fs::metadata(folder).unwrap().uid() != 0 {
        return play(role, path);
    }
    // The user may not be allowed to enter the folder of the test binary. Copied by another process:
    // a file that any process still has open for writing, be it for a moment, cannot be started.
    let stage = tempfile::tempdir().unwrap();
    let program = stage.path().join("program");
    let mut copy = Command::new("cp");
    copy.arg(env::current_exe().unwrap()).arg(&program);
    assert!(copy.status().unwrap().success());
    give_to_nobody(stage.path());
    give_to_nobody(folder);
    let mut command = Command::new(&program);
    dress(&mut command, role, path);
    command.uid(NOBODY).gid(NOBODY);
    let played = answers(&command.current_dir("/").output().unwrap());
    std::os::unix::fs::chown(folder, Some(0), Some(0)).unwrap();
    played
}

fn give_to_nobody(folder: &Path) {
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    give(folder);
    for entry in fs::read_dir(folder).unwrap() {
        give(&entry.unwrap().path());
    }
}

pub(crate) fn answers(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines().filter_map(answered).collect()
}

fn answered(line: &str) -> Option<String> {
    line.split_once("> ").map(|(_, answer)| answer.to_owned())
}

/// A part that is still being played.
pub(crate) struct ChildProcess {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl ChildProcess {
    pub(crate) fn start(role: &str, path: &Path) -> Self {
        let mut command = command(role, path);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next answer; none when it has ended.
    pub(crate) fn next(&mut self) -> Option<String> {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| answered(&line))
    }

    /// Kills it at once, and returns what it had still answered.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let said = std::iter::from_fn(|| self.next()).collect();
        self.child.wait().unwrap();
        said
    }

    /// Waits until it has ended well.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.next()).collect();
        assert!(self.child.wait().unwrap().success());
        said
    }
}
