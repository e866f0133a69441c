//! Places at which a test ends the process, as a `kill -9` in that very moment would.
//!
//! Everything that is written in steps has a failpoint between them. Without the feature `failpoints`,
//! which tests alone turn on, the macro stands for nothing. With it, the environment decides:
//!
//! - `REDRIVE_KILL_AT=NAME` ends the process when it passes the failpoint, `NAME:N` when it does so for
//!   the N-th time.
//! - `REDRIVE_FAILPOINTS_SEEN=FILE` adds a line `failpoint NAME` to the file for each that is passed,
//!   when it first is.

/// Marks a place between two steps, by a name that says which. A statement.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {};
}

/// Marks a place between two steps, by a name that says which. A statement.
#[cfg(feature = "failpoints")]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        $crate::pass_failpoint($name)
    };
}

#[cfg(feature = "failpoints")]
pub use passing::pass_failpoint;

#[cfg(feature = "failpoints")]
mod passing {
    use std::{
        collections::HashSet,
        env,
        fs::{File, OpenOptions},
        io::Write,
        process,
        sync::{
            Mutex, OnceLock, PoisonError,
            atomic::{AtomicU32, Ordering},
        },
    };

    use rustix::process::{Signal, getpid, kill_process};

    /// What the environment asks for. Read once.
    struct FailpointPlan {
        kill_at: Option<KillAt>,
        passed: Option<Mutex<PassedFailpoints>>,
    }

    struct KillAt {
        name: String,
        passages_left: AtomicU32,
    }

    struct PassedFailpoints {
        file: File,
        names: HashSet<&'static str>,
    }

    /// What [`failpoint!`](crate::failpoint!) does: tells that it was passed, and ends the process if
    /// that is asked for.
    pub fn pass_failpoint(name: &'static str) {
        static PLAN: OnceLock<FailpointPlan> = OnceLock::new();
        let plan = PLAN.get_or_init(FailpointPlan::from_environment);
        if let Some(passed) = &plan.passed {
            passed.lock().unwrap_or_else(PoisonError::into_inner).record(name);
        }
        if plan.kill_at.as_ref().is_some_and(|kill_at| kill_at.is_now(name)) {
            _ = kill_process(getpid(), Signal::KILL);
            // Not reached, unless the system refuses; then nothing more may be written either.
            process::abort();
        }
    }

    impl FailpointPlan {
        fn from_environment() -> Self {
            let kill_at = env::var("REDRIVE_KILL_AT").ok().map(|action| KillAt::parse(&action));
            let passed = env::var_os("REDRIVE_FAILPOINTS_SEEN")
                .and_then(|path| OpenOptions::new().append(true).create(true).open(path).ok())
                .map(|file| Mutex::new(PassedFailpoints { file, names: HashSet::new() }));
            Self { kill_at, passed }
        }
    }

    impl KillAt {
        fn parse(action: &str) -> Self {
            let numbered = action.split_once(':');
            let numbered = numbered.and_then(|(name, number)| Some((name, number.parse().ok()?)));
            let (name, number) = numbered.unwrap_or((action, 1));
            Self { name: name.to_owned(), passages_left: AtomicU32::new(number) }
        }

        fn is_now(&self, name: &str) -> bool {
            self.name == name && self.passages_left.fetch_sub(1, Ordering::Relaxed) == 1
        }
    }

    impl PassedFailpoints {
        fn record(&mut self, name: &'static str) {
            if self.names.insert(name) {
                // One write, so that lines of several processes stay whole. A test that misses one says so.
                _ = self.file.write_all(format!("failpoint {name}\n").as_bytes());
            }
        }
    }
}
