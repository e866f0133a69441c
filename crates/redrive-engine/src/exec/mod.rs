//! A program started for each unit (HANDLERS-2).
//!
//! Users' programs do what programs do: print without end, ignore TERM, leave children behind that
//! hold their pipes open, never read their input. None of that may hang a worker, cost it memory or
//! lose the outcome. So each program leads a process group of its own, everything it prints is read
//! with a bound, every wait has an end, and the group is gone when the call is over.
//!
//! The way of a call: [`environment`] says what the program may see, [`lookup`] where it is,
//! [`process`] is the group from start to end, [`supervision`] feeds, reads and times it, [`output`]
//! keeps the little that matters of what it prints, and [`conclusion`] makes an outcome of it.

mod spec;

mod environment;
mod lookup;
mod process;

mod output;
mod supervision;

mod conclusion;

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use async_trait::async_trait;
use tokio::process::Command;

pub use self::spec::{DEFAULT_GRACE, ExecSpec, InvalidExec};
use self::{
    conclusion::{cannot_start, conclude},
    process::Group,
    supervision::{Limits, supervise},
};
use crate::{Call, Handler, Outcome, Stop};

/// Handles each call by a program of its own. It needs a runtime with I/O and time enabled.
///
/// The program's exit code, and the last line it prints if that is a [reply](crate::reply), say how
/// the call ended. Whatever it started in its process group ends with it: about a second after the
/// program itself, so that a child that still writes its last lines can do so. A child that leaves
/// the group (`setsid`) is left alone, and not waited for longer than that.
#[derive(Debug)]
pub struct ExecHandler {
    name: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    inherited: Vec<(String, OsString)>,
    grace: Duration,
}

impl ExecHandler {
    /// Checks a specification. The environment is read here, once.
    pub fn new(spec: ExecSpec) -> Result<Self, InvalidExec> {
        let (program, folder) = spec.resolve()?;
        let inherited = environment::inherited(&spec.env);
        let mut argv = spec.argv.into_iter();
        let name = argv.next().unwrap_or_default();
        let arguments = argv.collect();
        Ok(Self { name, program, arguments, folder, inherited, grace: spec.grace })
    }

    fn command(&self, call: &Call) -> Command {
        let search = self.inherited.iter().find(|(name, _)| name == "PATH");
        let search = search.map(|(_, value)| value.as_os_str());
        let program = lookup::locate(&self.program, search, &self.folder);
        let mut command = Command::new(program.as_ref());
        command
            .arg0(&self.name)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.inherited.iter().map(|(name, value)| (name, value)))
            .envs(environment::of_call(call))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

#[async_trait]
impl Handler for ExecHandler {
    async fn handle(&self, call: &Call, time_limit: Duration, mut stop: Stop) -> Outcome {
        if stop.is_told() {
            return Outcome::Stopped;
        }
        let (group, pipes) = match Group::start(self.command(call)) {
            Ok(started) => started,
            Err(error) => {
                return Outcome::Failed(cannot_start(&self.program, &self.folder, &error));
            }
        };
        let line = format!("{}\n", call.to_json());
        let limits = Limits { time_limit, grace: self.grace };
        let (ending, printed) = supervise(group, pipes, line.as_bytes(), limits, &mut stop).await;
        conclude(call.kind(), ending, &printed, time_limit)
    }
}
