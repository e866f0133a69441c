//! Shell scripts as handlers, in a folder of their own.

use std::{future::Future, path::PathBuf, time::Duration};

use redrive_core::{AttemptNumber, Class, Code, Failure, RunId, SampleId, Unit};
use redrive_engine::{Call, CallLog, ExecHandler, ExecSpec, Handler, Outcome, Stopper};
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for any program that ends by itself, on a busy machine too.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Long enough for a script to get to its last line.
pub(crate) const SHORT: Duration = Duration::from_millis(700);

/// A program that handles calls.
pub(crate) struct Program {
    pub(crate) folder: TempDir,
    pub(crate) spec: ExecSpec,
}

impl Program {
    /// A program and its arguments.
    pub(crate) fn new(argv: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let argv = argv.iter().map(|argument| (*argument).to_owned()).collect();
        let spec = ExecSpec::new(argv, folder.path());
        Self { folder, spec }
    }

    /// A shell script.
    pub(crate) fn sh(script: &str) -> Self {
        let program = Self::new(&["sh", "work.sh"]);
        std::fs::write(program.path("work.sh"), script).unwrap();
        program
    }

    pub(crate) fn with_grace(mut self, grace: Duration) -> Self {
        self.spec.grace = grace;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn handler(&self) -> ExecHandler {
        ExecHandler::new(self.spec.clone()).unwrap()
    }

    /// Handles a call without hurry.
    pub(crate) async fn handle(&self, call: &Call) -> Outcome {
        self.handle_within(call, LONG).await
    }

    pub(crate) async fn handle_within(&self, call: &Call, time_limit: Duration) -> Outcome {
        let (_stopper, stop) = Stopper::new();
        soon(self.handler().handle(call, time_limit, stop)).await
    }

    /// Handles a run and expects a failure.
    pub(crate) async fn failure(&self) -> Failure {
        failure(self.handle(&run()).await)
    }

    /// The process id that the script wrote to a file.
    pub(crate) fn pid(&self, name: &str) -> Pid {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    /// Makes a pipe with a name, for a script to say how far it got.
    pub(crate) fn make_fifo(&self, name: &str) {
        let made = std::process::Command::new("mkfifo").arg(self.path(name)).status();
        assert!(made.unwrap().success());
    }

    /// Waits until the script writes to that pipe, and reads what.
    pub(crate) async fn hear(&self, name: &str) -> String {
        let path = self.path(name);
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path));
        read.await.unwrap().unwrap()
    }
}

/// Writes a traceback of Python to stderr.
pub(crate) const TRACEBACK: &str = r#"printf '%s\n' 'Traceback (most recent call last):' \
    '  File "/app/work.py", line 12, in fetch' '    raise ValueError("bad day")' 'ValueError: bad day' >&2"#;

/// A call for a run.
pub(crate) fn run() -> Call {
    run_with(json!({"queue": "verify", "category": "fast", "payload": {"n": 1}}))
}

pub(crate) fn run_with(details: Value) -> Call {
    call(Unit::Run(RunId(7)), details)
}

/// A call for a sample.
pub(crate) fn sample() -> Call {
    let unit = Unit::Sample { id: SampleId(9), stage: "llm_call".to_owned() };
    call(unit, json!({"pipeline": "score", "stage": "llm_call", "sample": 9, "data": "text"}))
}

pub(crate) fn call(unit: Unit, details: Value) -> Call {
    let details = details.as_object().unwrap().clone();
    Call { unit, attempt: AttemptNumber(3), run_id: None, details, log: CallLog::default() }
}

#[track_caller]
pub(crate) fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        outcome => panic!("not a failure: {outcome:?}"),
    }
}

pub(crate) fn answered(value: Value) -> Outcome {
    Outcome::Answered { value: Some(value), verdict: None }
}

/// What a failure says of itself in short: its class, whether that was stated, its code.
pub(crate) fn in_short(failure: &Failure) -> (Class, bool, Code) {
    (failure.class(), failure.is_stated(), failure.code().clone())
}

/// Fails a test that hangs.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("it hangs")
}

/// Whether a process is there; one that is dead and not yet reaped is not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with(['Z', 'X']))
}

/// Waits for the end of a process. A signal is sent at once and takes effect a moment later.
pub(crate) async fn gone(pid: Pid) {
    soon(async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until nothing is left of a process, no zombie either.
pub(crate) async fn reaped(pid: Pid) {
    soon(async {
        while std::fs::exists(format!("/proc/{pid}")).unwrap() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
