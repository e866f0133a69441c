//! A folder with a configuration, a handler that is a shell script, and a store: all that a queue
//! needs.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    databases::one_of_each,
    folder::{Ended, Folder},
};

const CONFIG: &str = r#"
[[queue]]
name = "work"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "10ms", cap = "1s", max-hint = "30ms" }

[[queue]]
name = "patient"
handler = { exec = ["/bin/sh", "work.sh"] }
policy = { max-attempts = 3, base = "1h", cap = "2h" }
categories = ["down"]
"#;

/// What the handler does is chosen by the category of the run.
const HANDLER: &str = r#"
case "$REDRIVE_CATEGORY:$REDRIVE_ATTEMPT" in
fine:*) echo '{"ok": {"answer": 42}}' ;;
flaky:1) echo 'not yet' >&2; exit 75 ;;
flaky:*) echo '{"ok": "at last"}' ;;
limited:1) echo '{"error": {"class": "rate_limited", "code": 429, "message": "slow down", "retry_after": 2}}' ;;
bad:*) echo 'cannot be read' >&2; exit 65 ;;
down:*) echo 'the service is down' >&2; exit 75 ;;
review:*) echo '{"ok": null, "verdict": "needs_review"}' ;;
wrong:*) echo '{"ok": null, "verdict": "failed"}' ;;
escape:*) printf 'red \033[31m \302\233 \342\200\256' >&2; exit 65 ;;
gate:*) read -r word < gate; echo "{\"ok\": \"$word\"}" ;;
stuck:*) trap '' TERM; exec 3> alive; read -r word < gate ;;
esac
"#;

/// One of them.
pub(crate) struct Shop {
    pub(crate) folder: Folder,
    store: String,
}

impl Shop {
    /// One on each kind of store, migrated.
    pub(crate) fn both() -> [Self; 2] {
        let [sqlite, postgres] = [Folder::new(), Folder::new()];
        let [_, postgres_url] = one_of_each(&sqlite);
        [Self::new(sqlite, "sqlite:store.db"), Self::new(postgres, &postgres_url)]
    }

    /// One on SQLite, for what no store has a part in.
    pub(crate) fn on_sqlite() -> Self {
        Self::new(Folder::new(), "sqlite:store.db")
    }

    fn new(folder: Folder, store: &str) -> Self {
        Self::selling(folder, store, CONFIG, HANDLER)
    }

    /// One with a configuration and a handler of its own, migrated.
    pub(crate) fn selling(folder: Folder, store: &str, config: &str, handler: &str) -> Self {
        let shop = Self::unopened(folder, store, config, handler);
        shop.run(&["db", "migrate"]).ok();
        shop
    }

    /// The same before there is a schema.
    pub(crate) fn unopened(folder: Folder, store: &str, config: &str, handler: &str) -> Self {
        folder.write("redrive.toml", config).write("work.sh", handler);
        Self { folder, store: store.to_owned() }
    }

    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// Whether nobody holds the one lock that all writers of a SQLite file need.
    fn lets_others_write(&self) -> bool {
        let Some(path) = self.store.strip_prefix("sqlite:") else { return true };
        let connection = rusqlite::Connection::open(self.folder.path().join(path)).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.folder.command(&[arguments, &["--store", &self.store]].concat())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.folder.ended(self.command(arguments).output().unwrap())
    }

    /// Runs with something to read on standard input.
    pub(crate) fn run_reading(&self, input: impl AsRef<[u8]>, arguments: &[&str]) -> Ended {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_ref()).unwrap();
        self.folder.ended(child.wait_with_output().unwrap())
    }

    /// Submits a run to `work`, and says which it is.
    #[track_caller]
    pub(crate) fn submit(&self, category: &str) -> i64 {
        self.submit_to("work", category)
    }

    /// Submits a run to any queue, and says which it is.
    #[track_caller]
    pub(crate) fn submit_to(&self, queue: &str, category: &str) -> i64 {
        let to = ["--queue", queue, "--category", category, "--allow-unknown"];
        self.run(&[&["runs", "submit"], &to[..], &["-o", "json"]].concat()).json()["id"]
            .as_i64()
            .unwrap()
    }

    /// Submits runs of the categories to `work` and drains it.
    #[track_caller]
    pub(crate) fn drained(&self, categories: &[&str]) -> Vec<i64> {
        let ids = categories.iter().map(|category| self.submit(category)).collect();
        self.drain();
        ids
    }

    #[track_caller]
    pub(crate) fn drain(&self) {
        self.run(&["worker", "--drain", "-q", "-q"]).ok();
    }

    /// A run as `runs show` has it.
    #[track_caller]
    pub(crate) fn show(&self, id: i64) -> Value {
        self.run(&["runs", "show", &id.to_string(), "-o", "json"]).json()[0].take()
    }

    #[track_caller]
    pub(crate) fn status(&self, id: i64) -> String {
        self.show(id)["status"].as_str().unwrap().to_owned()
    }

    /// The story of a run.
    #[track_caller]
    pub(crate) fn why(&self, id: i64) -> Value {
        self.run(&["why", &format!("run:{id}"), "-o", "json"]).json()
    }

    /// Makes a pipe that handlers wait at.
    pub(crate) fn make_gate(&self) {
        self.make_pipe("gate");
    }

    pub(crate) fn make_pipe(&self, name: &str) {
        let path = self.folder.path().join(name);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    /// Lets one handler through. Waits until there is one.
    pub(crate) fn open_gate(&self, word: &str) {
        std::fs::write(self.folder.path().join("gate"), format!("{word}\n")).unwrap();
    }

    /// A worker that runs until it is told to stop, logging everything.
    pub(crate) fn start_worker(&self, arguments: &[&str]) -> Worker {
        Worker::start(self.command(&[&["worker", "-v"], arguments].concat()))
    }
}

/// A worker that runs. It does not outlive its test.
pub(crate) struct Worker {
    child: Child,
    log: BufReader<ChildStderr>,
}

impl Worker {
    /// Starts one.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log }
    }

    /// Reads the log until a line has these words.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        let mut read = String::new();
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "the worker ended and never said {words:?}:\n{read}");
            if line.contains(words) {
                return line;
            }
            read.push_str(&line);
        }
    }

    /// Stops it where it stands, but not in the middle of a write: on SQLite that would stop everyone.
    pub(crate) fn freeze(&self, shop: &Shop) {
        loop {
            self.signal("-STOP");
            if shop.lets_others_write() {
                return;
            }
            self.signal("-CONT");
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for its end: the exit code, and the rest of the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended, and was waited for, is not signalled.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
