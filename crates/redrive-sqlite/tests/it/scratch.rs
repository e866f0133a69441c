//! A database in a folder of its own, and what the tests fill it with.

use std::{
    collections::BTreeMap,
    error::Error as _,
    fs,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    process::Command,
    task::{Context, Poll, Waker},
};

use jiff::{SignedDuration, Timestamp};
use redrive_core::RunId;
use redrive_sqlite::{Location, SqliteMigrator, SqliteOptions, SqliteStore, WriterMode};
use redrive_store::{
    Categories, ClaimRequest, ClaimedRun, Error, JournalEntry, NewRun, RunCompletion, RunFinish,
    Runs, Selection, SubmittedRun, Verdict, WorkerId,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// A folder with a database, gone at the end of the test.
pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// With an empty folder.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    /// With a migrated database that is closed.
    pub(crate) fn migrated() -> Self {
        let scratch = Self::new();
        drop(scratch.open());
        scratch
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("store.db")
    }

    pub(crate) fn location(&self) -> Location {
        Location::File(self.path())
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, Error> {
        SqliteStore::open(self.location(), SqliteOptions::default(), at(0))
    }

    pub(crate) fn open_inline(&self) -> SqliteStore {
        let options = SqliteOptions { writer: WriterMode::Inline, ..SqliteOptions::default() };
        SqliteStore::open(self.location(), options, at(0)).unwrap()
    }

    pub(crate) fn migrator(&self) -> SqliteMigrator {
        SqliteMigrator::new(self.location())
    }

    /// A connection such as any other program would open.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Every file of the folder, byte by byte. Never while this process has a database open there:
    /// closing a file by hand drops SQLite's locks on it.
    pub(crate) fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.folder()).unwrap().map(Result::unwrap);
        entries
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                let is_file = entry.file_type().unwrap().is_file();
                let bytes = is_file.then(|| fs::read(entry.path()).unwrap());
                (name, bytes.unwrap_or_default())
            })
            .collect()
    }

    /// The same files in another folder, as a crash at this moment would leave them. Copied by
    /// another process, for the sake of the locks of this one.
    pub(crate) fn crashed(&self) -> Self {
        let copy = Self::new();
        let copied = Command::new("cp")
            .args([self.path(), self.wal_path()])
            .arg(copy.folder())
            .status()
            .unwrap();
        assert!(copied.success());
        copy
    }

    pub(crate) fn wal_path(&self) -> PathBuf {
        self.folder().join("store.db-wal")
    }

    /// Commits in the log so far. Counts the frames that end a transaction.
    pub(crate) fn commits(&self) -> usize {
        const HEADER: usize = 32;
        const FRAME_HEADER: usize = 24;
        let log = fs::read(self.wal_path()).unwrap();
        let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
        let (page_size, salt) = (number(8) as usize, number(16));
        (HEADER..log.len().saturating_sub(FRAME_HEADER))
            .step_by(FRAME_HEADER + page_size)
            .take_while(|&frame| number(frame + 8) == salt)
            .filter(|&frame| number(frame + 4) != 0)
            .count()
    }
}

/// A moment, so many seconds into a day in 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

pub(crate) fn new_run(category: &str, submitted_at: Timestamp) -> NewRun {
    NewRun::new("q", &serde_json::json!({ "n": 1 }), submitted_at)
        .and_then(|run| run.with_category(category))
        .unwrap()
}

pub(crate) fn new_runs(count: usize) -> Vec<NewRun> {
    vec![new_run("", at(0)); count]
}

/// Submits runs that must be accepted.
pub(crate) async fn submit(store: &SqliteStore, count: usize) -> Vec<RunId> {
    let submitted = store.submit_runs(&new_runs(count), at(0)).await.unwrap();
    submitted.into_iter().map(accepted).collect()
}

pub(crate) fn accepted(submitted: SubmittedRun) -> RunId {
    match submitted {
        SubmittedRun::Accepted(id) => id,
        refused => panic!("not accepted: {refused:?}"),
    }
}

pub(crate) fn claim(limit: u32) -> ClaimRequest {
    ClaimRequest {
        queue: "q".to_owned(),
        categories: Categories::All,
        limit,
        owner: WorkerId("w1".to_owned()),
        lease_until: at(60),
        now: at(1),
        gates: Default::default(),
    }
}

pub(crate) fn passed(run: &ClaimedRun) -> RunFinish {
    RunFinish {
        id: run.id,
        epoch: run.epoch,
        attempt: run.attempt,
        history: run.history,
        started_at: at(1),
        ended_at: at(2),
        worker: WorkerId("w1".to_owned()),
        completion: RunCompletion::Judged { verdict: Verdict::Passed, result: None },
        gates: None,
    }
}

pub(crate) fn entry(action: &str) -> JournalEntry {
    JournalEntry {
        at: at(1),
        actor: "operator".to_owned(),
        action: action.to_owned(),
        unit: None,
        filter: None,
        details: "{}".to_owned(),
        dedupe_key: None,
    }
}

/// Every run of a store, in pages as large as they come.
pub(crate) async fn all_runs(store: &SqliteStore) -> Vec<RunId> {
    let (mut after, mut ids) = (RunId(0), Vec::new());
    loop {
        let page = store.runs_page(&Selection::default(), after, 10_000.into()).await.unwrap();
        let Some(last) = page.last() else { return ids };
        after = last.id;
        ids.extend(page.iter().map(|run| run.id));
    }
}

/// An error and its causes, as a person would read them.
pub(crate) fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

/// Lets a call begin, as far as it gets without waiting. It must not be done yet.
pub(crate) fn begin<T>(call: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) {
    assert!(begun(call.as_mut()).is_pending(), "it did not wait");
}

/// Lets a call begin, as far as it gets without waiting.
pub(crate) fn begun<F: Future + ?Sized>(call: Pin<&mut F>) -> Poll<F::Output> {
    // Otherwise the runtime makes a task that does much at once wait a little.
    let call = pin!(tokio::task::unconstrained(call));
    call.poll(&mut Context::from_waker(Waker::noop()))
}
