//! The processes of a workload, one after the other, each killed or stopped where it passes a failpoint.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

use crate::{folder::Folder, shop::Shop};

/// What users, workers and their ends do to a store, and what must be true afterwards.
pub(super) struct Workload {
    /// In their order.
    pub(super) steps: &'static [Step],
    /// A shop whose store is still to be made.
    pub(super) open: fn(Folder, &str) -> Shop,
    /// Asks for everything again after a death, given the steps that were survived.
    pub(super) ask_again: fn(&Shop, &[Step], &str),
    /// Checks a store after so many crashes.
    pub(super) check: fn(&Shop, usize, &str),
}

/// One process of the workload.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) arguments: &'static [&'static str],
    /// The signal it gets once it has passed a failpoint.
    pub(super) signal: Option<(&'static str, &'static str)>,
    /// How it ends, unless it dies.
    pub(super) code: Option<i32>,
}

impl Step {
    pub(super) const fn plain(arguments: &'static [&'static str]) -> Self {
        Self { arguments, signal: None, code: Some(0) }
    }

    fn uploads(&self) -> bool {
        self.arguments.starts_with(&["uploads", "run"])
    }

    pub(super) fn resumes(&self) -> bool {
        self.arguments.starts_with(&["pipeline", "resume"])
    }

    /// Whether it works on everything until nothing is left: then slow handlers may end.
    fn drains_all(&self) -> bool {
        self.arguments == DRAIN.arguments
    }

    /// Whether it is killed whatever it passes.
    pub(super) fn is_killed_anyway(&self) -> bool {
        self.code.is_none()
    }
}

pub(super) const DRAIN: Step = Step::plain(&["worker", "--drain"]);

/// The exit code of what is refused.
pub(super) const REFUSED: i32 = 4;

/// What became of a step.
#[derive(Debug)]
pub(super) struct Ended {
    /// The failpoints it passed.
    pub(super) passed: BTreeSet<String>,
    pub(super) killed: bool,
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    /// What it said, apart from the failpoints.
    pub(super) log: Vec<String>,
}

impl Ended {
    /// Whether a step ended as it does when nothing happens.
    pub(super) fn is_as_meant(&self, step: &Step) -> bool {
        self.code == step.code && self.log.is_empty()
    }
}

/// Runs a step, and has it killed where it passes a failpoint. Slow handlers may end in the last one.
/// What a killed upload or reader held is waited for.
pub(super) fn run_step(shop: &Shop, step: &Step, kill_at: Option<&str>) -> Ended {
    loop {
        let ended = run_once(shop, step, kill_at);
        if !(step.uploads() || step.resumes()) || ended.code != Some(REFUSED) {
            return ended;
        }
    }
}

fn run_once(shop: &Shop, step: &Step, kill_at: Option<&str>) -> Ended {
    if step.drains_all() {
        shop.folder.write("calm", "");
    }
    let mut command = shop.command(&[step.arguments, &["-q", "-q"]].concat());
    command.env("REDRIVE_FAILPOINTS_SEEN", "/dev/stderr");
    command.envs(kill_at.map(|point| ("REDRIVE_KILL_AT", point)));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut passed, mut log) = (BTreeSet::new(), Vec::new());
    let mut signal = step.signal;
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        let Some(name) = line.strip_prefix("failpoint ") else {
            // Giving up is what it was told to do.
            if !line.contains("gave up on an item") {
                log.push(line);
            }
            continue;
        };
        if let Some((_, signal)) = signal.take_if(|(awaited, _)| name == *awaited) {
            // One that has died meanwhile, and was not waited for, still has its number.
            let number = child.id().to_string();
            assert!(Command::new("kill").args([signal, &number]).status().unwrap().success());
        }
        passed.insert(name.to_owned());
    }
    let output = child.wait_with_output().unwrap();
    let (code, stdout) = (output.status.code(), String::from_utf8(output.stdout).unwrap());
    let killed = output.status.signal() == Some(9);
    Ended { passed, killed, code, stdout, log }
}
