//! What `pipeline run` shows while it works: stages that change in place on a terminal, plain lines
//! elsewhere.

use std::{
    io::{BufReader, Read},
    process::{Child, Command, Stdio},
};

use super::mill::{CONFIG, Mill};

/// A command that runs and is read from as it goes. It does not outlive its test.
struct Shown {
    child: Child,
    seen: String,
}

impl Shown {
    /// Reads on until something has been shown.
    #[track_caller]
    fn wait_for(&mut self, from: &mut impl Read, words: &str) {
        let mut bytes = [0; 4_096];
        while !self.seen.contains(words) {
            let length = from.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "it ended and never showed {words:?}: {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }

    /// Reads to the end: the exit code.
    fn end(&mut self, from: &mut impl Read) -> Option<i32> {
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        self.child.wait().unwrap().code()
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// One sample waits at a gate, the others are through or dead.
fn mill() -> Mill {
    let mill = Mill::on_sqlite(CONFIG, &["fine", "fine", "bad", "gate"]);
    mill.shop.make_gate();
    mill
}

// PIP-8
#[test]
fn on_a_terminal_every_stage_has_a_line_that_changes_in_place() {
    let mill = mill();
    // `script` gives the program a terminal of its own, and passes on what it draws.
    let program = mill.shop.command(&["pipeline", "run", "flour"]);
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let line = format!("stty cols 120 rows 40; exec {}", words.join(" "));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    command.current_dir(mill.shop.folder.path()).env("TERM", "xterm").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut screen = BufReader::new(child.stdout.take().unwrap());
    let mut shown = Shown { child, seen: String::new() };
    shown.wait_for(&mut screen, "sift ");
    shown.wait_for(&mut screen, "flour run 1: 3 of 4");
    for words in ["1 in flight", "1 dead", "done", "retrying"] {
        assert!(shown.seen.contains(words), "{words:?}: {:?}", shown.seen);
    }
    mill.shop.open_gate("go");
    assert_eq!(shown.end(&mut screen), Some(3), "{:?}", shown.seen);
    assert!(shown.seen.contains("\u{1b}["), "it draws in place: {:?}", shown.seen);
    assert!(shown.seen.contains("partial_success"), "{:?}", shown.seen);
}

// PIP-8
#[test]
fn elsewhere_there_are_plain_lines_and_nothing_is_drawn() {
    let mill = mill();
    let mut command = mill.shop.command(&["pipeline", "run", "flour"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut shown = Shown { child, seen: String::new() };
    shown.wait_for(&mut lines, "3 of 4");
    shown.wait_for(&mut lines, "\n");
    mill.shop.open_gate("go");
    assert_eq!(shown.end(&mut lines), Some(3), "{:?}", shown.seen);
    let line = shown.seen.lines().find(|line| line.contains("3 of 4")).unwrap();
    assert!(line.contains("1 in flight, 0 retrying, 1 dead"), "{line:?}");
    assert!(!shown.seen.contains('\u{1b}'), "{:?}", shown.seen);
}
