//! Shell scripts that stay running as handlers, in a folder of their own.

use std::{path::PathBuf, sync::Arc, time::Duration};

use redrive_core::{RunId, Unit};
use redrive_engine::{Call, Handler, Outcome, Stopper, StreamHandler, StreamSpec};
use rustix::process::Pid;
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::program::{LONG, call, soon};

/// What scripts begin with: `next` reads a call into `$line` and its id into `$id`, `say` answers it.
const PRELUDE: &str = r#"
next() { IFS= read -r line || return 1; id=${line#'{"id":"'}; id=${id%%'"'*}; }
say() { printf '{"id":"%s",%s}\n' "$id" "$1"; }
"#;

/// A program that stays running.
pub(crate) struct Streaming {
    folder: TempDir,
    pub(crate) handler: Arc<StreamHandler>,
}

impl Streaming {
    /// One of it, one call at a time.
    pub(crate) fn sh(script: &str) -> Self {
        Self::with(script, |_| {})
    }

    /// As many of it, and with as many calls, as wanted.
    pub(crate) fn with(script: &str, adjust: impl FnOnce(&mut StreamSpec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("work.sh"), format!("{PRELUDE}{script}")).unwrap();
        let argv = ["sh", "work.sh"].map(str::to_owned).to_vec();
        let mut spec = StreamSpec::new(argv, folder.path());
        adjust(&mut spec);
        let handler = Arc::new(StreamHandler::new(spec).unwrap());
        Self { folder, handler }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the script wrote to a file.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// How many lines it wrote there: one for each start, by `echo $$ >> starts`.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.read(name).lines().count()
    }

    /// The process id in the last line of a file.
    pub(crate) fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).lines().last().unwrap().parse().unwrap()).unwrap()
    }

    /// Hands over run `n` without hurry.
    pub(crate) async fn ask(&self, n: i64) -> Outcome {
        self.ask_within(n, LONG).await
    }

    pub(crate) async fn ask_within(&self, n: i64, time_limit: Duration) -> Outcome {
        let (_stopper, stop) = Stopper::new();
        soon(self.handler.handle(&run(n), time_limit, stop)).await
    }

    /// Hands over run `n` beside others; what is returned can stop it.
    pub(crate) fn begin(&self, n: i64, time_limit: Duration) -> (Stopper, JoinHandle<Outcome>) {
        let (stopper, stop) = Stopper::new();
        let handler = self.handler.clone();
        let task = tokio::spawn(async move { handler.handle(&run(n), time_limit, stop).await });
        (stopper, task)
    }

    /// Waits until a file has so many lines.
    pub(crate) async fn until(&self, name: &str, lines: usize) {
        soon(async {
            while self.count(name) < lines {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A call for a run.
pub(crate) fn run(n: i64) -> Call {
    let details = json!({"queue": "models", "category": "", "payload": {"n": n}});
    call(Unit::Run(RunId(n)), details)
}
