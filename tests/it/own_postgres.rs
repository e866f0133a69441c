//! A PostgreSQL server that belongs to one test, for what nobody else's server should suffer.

use std::{
    env, fs,
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

const START_TIMEOUT_S: &str = "30";
const PORT_TRIES: usize = 20;

/// The server. It is gone after the test.
pub(crate) struct OwnPostgres {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
}

impl OwnPostgres {
    /// Starts one, or says why that is not possible here.
    pub(crate) fn start() -> Result<Self, String> {
        let programs = programs().ok_or("initdb and pg_ctl are not here")?;
        // Short, because the paths of sockets are; and where an ordinary user can reach it.
        let folder = tempfile::Builder::new().prefix("redrive-pg.").tempdir_in("/tmp").unwrap();
        let mut server = Self { folder, programs, port: 0 };
        if is_root() {
            owner().ok_or("PostgreSQL does not run as root, and there is no user to lend it to")?;
            server.must(Command::new("chown").arg(owner().unwrap()).arg(server.folder.path()));
        }
        let data = server.data();
        server.must(
            server
                .program("initdb")
                .args(["--username=redrive", "--auth=trust", "--encoding=UTF8", "--locale=C"])
                .arg("--no-sync")
                .arg(format!("--pgdata={data}")),
        );
        // Finding a free port and using it are two moments; only the server's own attempt is proof.
        for _ in 0..PORT_TRIES {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            server.port = free.local_addr().unwrap().port();
            drop(free);
            if server.try_up() {
                return Ok(server);
            }
        }
        Err(fs::read_to_string(server.folder.path().join("log")).unwrap_or_default())
    }

    pub(crate) fn url(&self) -> String {
        self.url_by(self.port)
    }

    /// Its URL by a way that ends at its port.
    pub(crate) fn url_by(&self, port: u16) -> String {
        format!("postgres://redrive@127.0.0.1:{port}/postgres")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Stops it as a crash would: connections break, and it recovers from its log at the next start.
    pub(crate) fn crash(&self) {
        self.must(self.pg_ctl("stop").arg("--mode=immediate"));
    }

    /// Lets it answer questions and refuse writes, as a primary that was demoted; or not any more.
    pub(crate) fn set_read_only(&self, on: bool) {
        let path = self.folder.path().join("data/postgresql.conf");
        let mut settings = fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(settings, "default_transaction_read_only = {on}").unwrap();
        self.must(&mut self.pg_ctl("reload"));
    }

    /// Starts it again.
    pub(crate) fn up(&self) {
        assert!(self.try_up(), "{:?}", fs::read_to_string(self.folder.path().join("log")));
    }

    fn try_up(&self) -> bool {
        let folder = self.folder.path().display();
        let options = format!("-p {} -k {folder} -c listen_addresses=127.0.0.1", self.port);
        let mut start = self.pg_ctl("start");
        start.arg(format!("--log={folder}/log")).arg(format!("--options={options}"));
        // The server would inherit a pipe and keep it open.
        start.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        start.status().unwrap().success()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn pg_ctl(&self, action: &str) -> Command {
        let mut command = self.program("pg_ctl");
        command.args([action, "--wait", "--silent", "--timeout", START_TIMEOUT_S]);
        command.arg(format!("--pgdata={}", self.data()));
        command
    }

    /// A program of the server's, as an ordinary user.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = match owner().filter(|_| is_root()) {
            None => Command::new(program),
            Some(owner) => {
                let mut command = Command::new("setpriv");
                let group = group_of(owner);
                command.args(["--reuid", owner, "--regid", &group, "--clear-groups", "--"]);
                command.arg(program);
                command
            }
        };
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        command
    }

    #[track_caller]
    fn must(&self, command: &mut Command) {
        let Output { status, stderr, .. } = command.output().unwrap();
        assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        _ = self.pg_ctl("stop").arg("--mode=immediate").output();
    }
}

/// The folder of the server's programs: the PATH's, or else the newest version's.
fn programs() -> Option<PathBuf> {
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let mut installed: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.filter_map(|version| Some(version.ok()?.path().join("bin"))))
        .map_or_else(|_| Vec::new(), Iterator::collect);
    installed.sort();
    let has_all = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres"].iter().all(|name| Path::is_file(&folder.join(name)))
    };
    on_path.into_iter().flatten().chain(installed.into_iter().rev()).find(has_all)
}

fn is_root() -> bool {
    said("id", &["-u"]).as_deref() == Some("0")
}

/// Whom root lends the server to.
fn owner() -> Option<&'static str> {
    ["postgres", "nobody"].into_iter().find(|name| said("id", &["-u", name]).is_some())
}

fn group_of(user: &str) -> String {
    said("id", &["-g", user]).unwrap()
}

fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
