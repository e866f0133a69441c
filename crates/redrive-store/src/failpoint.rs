//! Failpoints: named places at which a test can kill the process, as `kill -9` would.
//!
//! There is a failpoint between any two steps of a write. Without the feature `failpoints`, which
//! only tests enable, the macro expands to nothing. With the feature, two environment variables
//! apply:
//!
//! - `REDRIVE_KILL_AT=NAME` kills the process when it passes the failpoint, `NAME:N` when it passes
//!   the failpoint for the N-th time.
//! - `REDRIVE_FAILPOINTS_SEEN=FILE` appends a line `failpoint NAME` to the file when the process
//!   first passes a failpoint.

/// Marks a place between two steps of a write.
#[cfg(not(feature = "failpoints"))]
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {};
}

/// Marks a place between two steps of a write.
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

    /// The settings from the environment, read once.
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

    /// The implementation of [`failpoint!`](crate::failpoint!).
    pub fn pass_failpoint(name: &'static str) {
        static PLAN: OnceLock<FailpointPlan> = OnceLock::new();
        let plan = PLAN.get_or_init(FailpointPlan::from_environment);
        if let Some(passed) = &plan.passed {
            passed.lock().unwrap_or_else(PoisonError::into_inner).record(name);
        }
        if plan.kill_at.as_ref().is_some_and(|kill_at| kill_at.is_now(name)) {
            _ = kill_process(getpid(), Signal::KILL);
            // Reached only if the system refuses the signal. The process must not write anything
            // more.
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
                // A single write, so that lines of several processes do not mix.
                _ = self.file.write_all(format!("failpoint {name}\n").as_bytes());
            }
        }
    }
}
