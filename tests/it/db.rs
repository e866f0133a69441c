//! `redrive db`.

use std::{
    fs,
    net::TcpListener,
    process::{Command, Stdio},
};

use rusqlite::Connection;
use serde_json::json;

use crate::{
    databases::{execute, fresh_postgres, one_of_each, server},
    folder::{Ended, Folder},
    shop::Shop,
};

/// Every migration there is, in order.
const MIGRATIONS: [&str; 21] = [
    "runs_items_attempts_journal",
    "upload_attempts",
    "partitions",
    "upload_groups",
    "plain_checks",
    "pipelines",
    "prune",
    "journal_readers",
    "claim_stage",
    "cheaper_writes",
    "run_leases",
    "claims_and_hints",
    "causes",
    "run_claims",
    "plans",
    "run_states",
    "room_for_updates",
    "gates",
    "plan_counts",
    "attempt_logs",
    "workers",
];
const LATEST: usize = MIGRATIONS.len();

fn db(folder: &Folder, store: &str, arguments: &[&str]) -> Ended {
    folder.run(&[&["db", "--store", store], arguments].concat())
}

/// The versions a store has, as `db status` tells them.
#[track_caller]
fn versions(folder: &Folder, store: &str) -> Vec<bool> {
    let status = db(folder, store, &["status", "-o", "json"]).json();
    let rows = status.as_array().unwrap();
    rows.iter().map(|row| !row["applied_at"].is_null()).collect()
}

fn without_the_last() -> Vec<bool> {
    (1..=LATEST).map(|version| version < LATEST).collect()
}

// OPS-2
#[test]
fn a_store_goes_up_and_down_and_up_again() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        assert_eq!(versions(&folder, &store), [false; LATEST]);
        let up = db(&folder, &store, &["migrate", "-o", "json"]).json();
        let step = |version: usize, direction: &str| json!({ "version": version, "name": MIGRATIONS[version - 1], "direction": direction });
        let all: Vec<_> = (1..=LATEST).map(|version| step(version, "up")).collect();
        assert_eq!(up, json!(all));
        assert_eq!(versions(&folder, &store), [true; LATEST]);

        let again = db(&folder, &store, &["migrate"]);
        assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
        assert!(again.stderr.contains("the schema is up to date"), "{}", again.stderr);

        let down = db(&folder, &store, &["rollback", "--yes", "-o", "json"]).json();
        assert_eq!(down, json!([step(LATEST, "down")]));
        assert_eq!(versions(&folder, &store), without_the_last());
        let down = db(&folder, &store, &["rollback", "--to", "0", "--yes", "-o", "json"]).json();
        let rest: Vec<_> = (1..LATEST).rev().map(|version| step(version, "down")).collect();
        assert_eq!(down, json!(rest));
        assert_eq!(versions(&folder, &store), [false; LATEST]);

        db(&folder, &store, &["migrate"]).ok();
        assert_eq!(versions(&folder, &store), [true; LATEST]);
    }
}

// OPS-2, OPS-4
#[test]
fn a_rollback_is_refused_where_nobody_can_be_asked() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        db(&folder, &store, &["migrate"]).ok();
        let complaint = db(&folder, &store, &["rollback"]).failed(4);
        assert!(complaint.contains("add --yes"), "{complaint}");
        assert_eq!(versions(&folder, &store), [true; LATEST], "nothing was changed");
    }
}

/// `script` gives the program a terminal.
fn on_a_terminal(folder: &Folder, answer: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_redrive");
    let command = format!("{program} db rollback --store sqlite:store.db");
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(folder.path());
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = script.spawn().expect("util-linux has `script`");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

// OPS-4
#[test]
fn a_rollback_asks_on_a_terminal_and_does_as_it_is_told() {
    let folder = Folder::new();
    let store = format!("sqlite:{}", folder.path().join("store.db").display());
    db(&folder, &store, &["migrate"]).ok();
    for answer in ["n\n", "\n", "what?\n"] {
        let (code, shown) = on_a_terminal(&folder, answer);
        let question = format!(
            "from schema {LATEST} to {} and lose the data of the newer schema?",
            LATEST - 1
        );
        assert!(shown.contains(&format!("{question} [y/N]")), "{shown}");
        assert_eq!(code, Some(4), "{shown}");
        assert_eq!(versions(&folder, &store), [true; LATEST]);
    }
    let (code, shown) = on_a_terminal(&folder, "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(versions(&folder, &store), without_the_last());
}

#[test]
fn a_version_that_cannot_be_gone_back_to_is_refused() {
    let folder = Folder::new();
    for store in one_of_each(&folder) {
        db(&folder, &store, &["migrate"]).ok();
        let next = (LATEST + 1).to_string();
        let complaint = db(&folder, &store, &["rollback", "--to", &next, "--yes"]).failed(2);
        let why = format!("cannot roll back to {next}: the store has schema {LATEST}");
        assert!(complaint.contains(&why), "{complaint}");
        for wrong in ["-1", "one", "1.5", "", "4294967296"] {
            let to = format!("--to={wrong}");
            let complaint = db(&folder, &store, &["rollback", &to, "--yes"]).failed(2);
            assert!(complaint.contains("--to <N>"), "{complaint}");
        }
        assert_eq!(versions(&folder, &store), [true; LATEST]);
    }
}

// OPS-2
#[test]
fn a_store_newer_than_the_program_is_refused_and_left_alone() {
    let folder = Folder::new();
    let [sqlite, postgres] = one_of_each(&folder);
    for store in [&sqlite, &postgres] {
        db(&folder, store, &["migrate"]).ok();
    }
    let connection = Connection::open(folder.path().join("store.db")).unwrap();
    connection.execute("INSERT INTO schema_migrations VALUES (99, 'future', 0)", []).unwrap();
    execute(&postgres, "INSERT INTO redrive.schema_migrations VALUES (99, 'future', 'epoch')");
    for store in [&sqlite, &postgres] {
        for arguments in
            [&["migrate"][..], &["rollback", "--yes"], &["rollback", "--to", "0", "--yes"]]
        {
            let complaint = db(&folder, store, arguments).failed(1);
            let why = format!("schema 99, this program knows up to {LATEST}");
            assert!(complaint.contains(&why), "{complaint}");
        }
        let doctor = folder.run(&["doctor", "--store", store]);
        assert_eq!(doctor.code, Some(1));
        let why = format!("99 is newer than this program's {LATEST}");
        assert!(doctor.stdout.contains(&why), "{}", doctor.stdout);
    }
}

// OPS-1
#[test]
fn postgres_is_never_migrated_by_a_command_that_was_not_asked_to() {
    let store = fresh_postgres();
    let folder = Folder::new();
    let complaint = folder.run(&["serve", "--store", &store, "--listen", "127.0.0.1:0"]).failed(1);
    assert!(complaint.contains("redrive db migrate"), "{complaint}");
    assert_eq!(versions(&folder, &store), [false; LATEST]);
}

// OPS-4
#[test]
fn a_file_that_is_no_store_of_ours_is_refused_and_left_alone() {
    let folder = Folder::new();
    let whole = format!("sqlite:{}", folder.path().join("whole.db").display());
    db(&folder, &whole, &["migrate"]).ok();
    let bytes = fs::read(folder.path().join("whole.db")).unwrap();
    folder.write("empty.db", "").write("text.db", "x".repeat(5_000));
    folder.write("cut.db", &bytes[..bytes.len() / 2]);
    folder.write("folder.db/x", "");
    let foreign = Connection::open(folder.path().join("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (id INTEGER)").unwrap();
    drop(foreign);
    let cases = [
        ("empty.db", "the file is empty"),
        ("text.db", "not an SQLite database"),
        ("cut.db", "cut short"),
        ("folder.db", "it is a folder"),
        ("foreign.db", "of another program"),
        ("missing/store.db", "the folder [FOLDER]/missing does not exist"),
    ];
    for (file, problem) in cases {
        let path = folder.path().join(file);
        let before = fs::read(&path).ok();
        let complaint = db(&folder, &format!("sqlite:{file}"), &["migrate"]).failed(1);
        assert!(complaint.contains(problem), "{file}: {complaint}");
        assert!(complaint.contains(file), "{file}: {complaint}");
        assert_eq!(fs::read(&path).ok(), before, "{file} was changed");
    }
}

// OPS-8
#[test]
fn a_backup_is_a_whole_store_in_a_new_file() {
    let folder = Folder::new();
    let [sqlite, postgres] = one_of_each(&folder);
    let missing = db(&folder, &sqlite, &["backup", "copy.db"]).failed(1);
    assert!(missing.contains("there is no such file"), "{missing}");
    db(&folder, &sqlite, &["migrate"]).ok();
    let made = db(&folder, &sqlite, &["backup", "copy.db"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(versions(&folder, "sqlite:copy.db"), [true; LATEST]);
    folder.run(&["doctor", "--store", "sqlite:copy.db"]).ok();

    db(&folder, &sqlite, &["rollback", "--yes"]).ok();
    let older = db(&folder, &sqlite, &["backup", "older.db"]);
    assert_eq!(older.code, Some(0), "before a migration is when one is wanted: {}", older.stderr);
    assert_eq!(versions(&folder, "sqlite:older.db"), without_the_last());

    let again = db(&folder, &sqlite, &["backup", "copy.db"]).failed(1);
    assert!(again.contains("exists already"), "{again}");
    let nowhere = db(&folder, &sqlite, &["backup", "no/copy.db"]).failed(1);
    assert!(nowhere.contains("the folder no does not exist"), "{nowhere}");
    let advice = db(&folder, &postgres, &["backup", "pg.db"]).failed(1);
    assert!(advice.contains("pg_dump --schema=redrive"), "{advice}");
    let memory = db(&folder, "sqlite::memory:", &["backup", "m.db"]).failed(1);
    assert!(memory.contains("not a SQLite file"), "{memory}");
}

/// A backup that has written a part of its copy.
struct Unfinished(std::process::Child);

impl Unfinished {
    fn start(folder: &Folder, before: &[String]) -> Self {
        let mut command = folder.command(&["db", "backup", "--store", "sqlite:store.db", "b.db"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let is_begun = |name: &String| {
            let size = fs::metadata(folder.path().join(name)).map_or(0, |file| file.len());
            size > 1_000_000 && !before.contains(name)
        };
        while !copies(folder).iter().any(is_begun) {
            assert!(child.try_wait().unwrap().is_none(), "it was too fast");
        }
        Self(child)
    }

    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn copies(folder: &Folder) -> Vec<String> {
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with(".redrive-backup-")).collect()
}

// OPS-8
#[test]
fn the_unfinished_copy_of_a_killed_backup_is_removed_by_the_next_backup() {
    let folder = Folder::new();
    db(&folder, "sqlite:store.db", &["migrate"]).ok();
    let rows = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
        INSERT INTO runs (queue, payload, submitted_at, status, ready)
        SELECT 'q', hex(zeroblob(25000)), 0, 'discovered', 1 FROM n";
    let connection = Connection::open(folder.path().join("store.db")).unwrap();
    connection.execute_batch(rows).unwrap();
    drop(connection);
    Unfinished::start(&folder, &[]).kill();
    let killed = copies(&folder);
    assert!(!killed.is_empty());
    let running = Unfinished::start(&folder, &killed);
    running.signal("-STOP");
    let left = copies(&folder);
    assert!(!left.is_empty() && left.iter().all(|name| !killed.contains(name)), "{left:?}");
    assert_eq!(db(&folder, "sqlite:store.db", &["backup", "other.db"]).code, Some(0));
    assert_eq!(copies(&folder), left, "the copy of a running backup is left alone");
    running.kill();
    assert_eq!(db(&folder, "sqlite:store.db", &["backup", "b.db"]).code, Some(0));
    assert_eq!(copies(&folder), [""; 0]);
}

// OPS-2
#[test]
fn a_rollback_is_refused_while_workers_hold_leases() {
    let config = "[[queue]]\nname = \"work\"\nlease = \"2s\"\n\
                  handler = { exec = [\"/bin/sh\", \"work.sh\"] }\n";
    let handler = "while kill -0 \"$PPID\"; do sleep 0.1; done\n";
    let (folder, other) = (Folder::new(), Folder::new());
    let [_, postgres] = one_of_each(&folder);
    for (folder, store) in [(folder, "sqlite:store.db"), (other, postgres.as_str())] {
        let shop = Shop::selling(folder, store, config, handler);
        shop.submit("");
        let mut worker = shop.start_worker(&[]);
        worker.wait_for("queue=work attempt=");
        let rollback = || shop.run(&["db", "rollback", "--to", "0", "--yes"]);
        let refused = rollback().failed(4);
        let run = shop.show(1);
        let holder = run["lease_owner"].as_str().unwrap();
        assert!(refused.contains(&format!("{holder} (1)")), "{refused}");
        assert!(
            refused.contains("nothing was changed") && refused.contains("stop the workers"),
            "{refused}"
        );
        worker.signal("-KILL");
        worker.end();
        // The lease of a lost worker ends by itself.
        let rolled_back = loop {
            let ended = rollback();
            if ended.code != Some(4) {
                break ended;
            }
        };
        assert_eq!(rolled_back.code, Some(0), "{}", rolled_back.stderr);
    }
}

// OPS-4
#[test]
fn a_server_that_cannot_be_used_is_one_clear_message_without_its_password() {
    let folder = Folder::new();
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hanging.local_addr().unwrap().port();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = closed.local_addr().unwrap().port();
    drop(closed);
    let server = server();
    let (_, place) = server.rsplit_once('@').unwrap();
    let (address, _) = place.rsplit_once('/').unwrap();
    let cases = [
        (format!("postgres://redrive_test:s3cret@{address}/postgres"), "password"),
        (format!("postgres://redrive_test:s3cret@127.0.0.1:{free}/postgres"), "not available"),
        (format!("postgres://u:s3cret@127.0.0.1:{port}/x?connect_timeout=1"), "not available"),
        (format!("{}/no_such_database", server.rsplit_once('/').unwrap().0), "no_such_database"),
    ];
    for (store, problem) in cases {
        for arguments in [&["db", "status"][..], &["db", "migrate"], &["serve"]] {
            let complaint = folder.run(&[arguments, &["--store", &store]].concat()).failed(1);
            assert!(complaint.contains(problem), "{store}: {complaint}");
            assert!(!complaint.contains("s3cret"), "{complaint}");
        }
        let doctor = folder.run(&["doctor", "--store", &store]);
        assert_eq!(doctor.code, Some(1), "{}", doctor.stdout);
        assert!(!doctor.stdout.contains("s3cret"), "{}", doctor.stdout);
    }
}
