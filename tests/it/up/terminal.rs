//! What people see on a terminal.

use std::process::Command;

use super::{Process, folder};

// OPS-3
#[test]
fn on_a_terminal_it_sums_up_and_the_last_line_says_how_things_stand() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no program here that makes a terminal");
        return;
    }
    let folder = folder();
    let bad = "{\"queue\": \"work\", \"category\": \"bad\", \"idempotency_key\": \"bad\"}\n";
    folder.write("runs.jsonl", bad);
    let program = env!("CARGO_BIN_EXE_redrive");
    let up = format!("echo $$ > id; exec {program} up --listen 127.0.0.1:0 --interval 100ms");
    let mut command = Command::new("sh");
    command.current_dir(folder.path()).env_clear().env("TERM", "xterm");
    // What the terminal shows is the log here.
    command.args(["-c", "exec script -qefc \"$0\" /dev/null < /dev/null >&2", &up]);
    let mut terminal = Process::start(command);
    for words in ["redrive is up with redrive.toml", "redrive.db", "work", "ads", "flour"] {
        terminal.wait_for(words);
    }
    terminal.wait_for("open       http://127.0.0.1:");
    terminal.wait_for("0 to do · 1 run given up");
    let id = folder.read("id");
    assert!(Command::new("kill").args(["-INT", id.trim()]).status().unwrap().success());
    let (code, log) = terminal.end();
    assert_eq!(code, Some(130), "{log}");
}
