//! Parts of tests that need a process of their own: one that is killed, one whose memory is measured, one
//! on a small disk.
//!
//! The test binary starts itself, asks for the one test below and tells it by the environment which
//! part to play. A part answers with lines that begin with `> `.

use std::{
    env,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use redrive_engine::RawSink;

use super::{a_key, folder, long, no_room, run, seal};

const ROLE: &str = "REDRIVE_TEST_ROLE";
const FOLDER: &str = "REDRIVE_TEST_FOLDER";

#[test]
#[ignore = "a part of other tests, which start it in a process of its own"]
fn plays_its_part() {
    let (Ok(role), Some(path)) = (env::var(ROLE), env::var_os(FOLDER)) else {
        return;
    };
    let path = PathBuf::from(path);
    match role.as_str() {
        "write without an end" => folder::in_runtime(write_without_an_end(&path)),
        "seal until killed" => folder::in_runtime(seal_until_killed(&path)),
        "fill the disk" => folder::fill_and_go_on(&path),
        "extract without room" => folder::in_runtime(no_room::extract(&path)),
        "extract one too large" => folder::in_runtime(no_room::extract_one_too_large(&path)),
        "extract beside another" => folder::in_runtime(no_room::extract_beside_another(&path)),
        "much in a folder" => long::in_a_folder(&path),
        "much on S3" => long::on_s3(),
        unknown => panic!("no such part: {unknown}"),
    }
}

async fn write_without_an_end(folder: &Path) {
    let sink = RawSink::folder(folder);
    let mut writer = sink.begin(&a_key(), &run("r-1")).await.unwrap();
    for _ in 0..100 {
        writer.write(&b"{\"a\":1}\n".repeat(10_000)).await.unwrap();
    }
    answer("written");
    std::future::pending().await
}

async fn seal_until_killed(folder: &Path) {
    let sink = RawSink::folder(folder);
    for at in 0.. {
        let run_id = format!("r-{}-{at}", std::process::id());
        seal(&sink, &a_key(), &run(&run_id), b"{\"a\":1}\n{\"a\":2}\n").await.unwrap();
        answer(&run_id);
    }
}

/// What a part says to its parent.
pub(super) fn answer(line: &str) {
    println!("> {line}");
}

/// Adds to a command that ends in a program what makes the test binary play a part.
pub(super) fn dress(command: &mut Command, role: &str, folder: &Path) {
    command
        .args(["--exact", "raw::child::plays_its_part"])
        .args(["--ignored", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, folder);
}

/// Plays a part to its end and returns what it answered.
pub(super) fn play(role: &str, folder: &Path) -> Vec<String> {
    let mut command = Command::new(env::current_exe().unwrap());
    dress(&mut command, role, folder);
    answers(&command.output().unwrap())
}

/// The same on a disk of 4 MiB; nothing, where none can be mounted.
pub(super) fn play_on_a_small_disk(role: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@""#;
    let small_disk = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]);
        command.args(["sh", "-c", mount]).arg(folder.path());
        command
    };
    match small_disk().arg("true").output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: a small disk cannot be mounted here: {why}");
            return None;
        }
        Err(error) => {
            eprintln!("skipped: there is no unshare here: {error}");
            return None;
        }
    }
    let mut command = small_disk();
    command.arg(env::current_exe().unwrap());
    dress(&mut command, role, folder.path());
    Some(answers(&command.output().unwrap()))
}

pub(super) fn answers(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text.lines().filter_map(answered).collect()
}

fn answered(line: &str) -> Option<String> {
    line.split_once("> ").map(|(_, answer)| answer.to_owned())
}

/// A part that is still being played.
pub(super) struct Playing {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Playing {
    pub(super) fn start(role: &str, folder: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        dress(&mut command, role, folder);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Its next answer; none when it has ended.
    pub(super) fn next(&mut self) -> Option<String> {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find_map(|line| answered(&line))
    }

    /// Kills it at once, and returns what it had still answered.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let said = std::iter::from_fn(|| self.next()).collect();
        self.child.wait().unwrap();
        said
    }
}
