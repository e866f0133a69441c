//! Where it happens: a folder with a configuration and programs, a store, and a server that receives items.

use std::{
    fmt, fs,
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
};

use redrive::{Clock, SystemClock, jiff::Timestamp};

use super::{
    disk::SmallDisk,
    handlers::{CONFIG, CORN, CORN_TIMES, EXTRACT, FLOW, STAY, WORK},
    limited_server::LimitedServer,
};
use crate::{
    folder::{Ended, Folder},
    own_postgres::OwnPostgres,
    proxy::Proxy,
    upload_server::{Received, Reply, Server},
};

/// Which store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        })
    }
}

/// An item as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Receipt {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) at: Timestamp,
    pub(super) acknowledged: bool,
}

/// The place. All of it is gone afterwards.
pub(super) struct ServerSetup {
    pub(super) database: Option<Database>,
    /// What the store or its raw partitions are on; or why there is none.
    pub(super) disk: Result<SmallDisk, String>,
    receipts: Arc<Mutex<Vec<Receipt>>>,
    pub(super) limited: LimitedServer,
    // Last, so that what is mounted in it is gone before it.
    pub(super) folder: Folder,
}

/// A PostgreSQL server of its own, and the way there.
pub(super) struct Database {
    pub(super) server: OwnPostgres,
    pub(super) proxy: Proxy,
}

impl ServerSetup {
    /// A new one, with a migrated store, or why that is not possible here.
    pub(super) fn new(kind: StoreKind) -> Result<Self, String> {
        let database = match kind {
            StoreKind::Sqlite => None,
            StoreKind::Postgres => {
                let server = OwnPostgres::start()?;
                let proxy = Proxy::to(server.port());
                Some(Database { server, proxy })
            }
        };
        let folder = Folder::new();
        for made in ["disk", "logs", "asked"] {
            fs::create_dir(folder.path().join(made)).unwrap();
        }
        let disk = SmallDisk::mount(&folder.path().join("disk"));
        let receipts: Arc<Mutex<Vec<Receipt>>> = Arc::default();
        let server = Server::new({
            let receipts = receipts.clone();
            move |item| receive(item, &receipts)
        });
        let lines = CORN.iter().cycle().take(CORN.len() * CORN_TIMES).enumerate();
        let corn = lines.map(|(n, (what, _))| format!("{{\"n\":{n},\"do\":\"{what}\"}}\n"));
        let limited = LimitedServer::new(folder.path().join("ledger"));
        let config = CONFIG.replace("URL", &server.url()).replace("SERVICE", &limited.url);
        folder.write("redrive.toml", config);
        folder.write("corn.jsonl", corn.collect::<String>());
        folder.write("work.sh", WORK).write("stay.sh", STAY);
        folder.write("extract.sh", EXTRACT).write("flow.sh", FLOW).write("ledger", "");
        let site = Self { database, disk, receipts, limited, folder };
        site.ask(&["db", "migrate"]).ok();
        Ok(site)
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The store as workers know it.
    pub(super) fn store(&self) -> String {
        match &self.database {
            None => self.own_store(),
            Some(database) => database.server.url_by(database.proxy.port()),
        }
    }

    /// The store by a way that nobody cuts.
    pub(super) fn own_store(&self) -> String {
        match &self.database {
            None => format!("sqlite:{}", self.path().join("disk/store.db").display()),
            Some(database) => database.server.url(),
        }
    }

    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        self.folder.command(&[arguments, &["--store", &self.store()]].concat())
    }

    /// Runs the program by the way that nobody cuts.
    pub(super) fn ask(&self, arguments: &[&str]) -> Ended {
        self.folder.run(&[arguments, &["--store", &self.own_store()]].concat())
    }

    pub(super) fn receipts(&self) -> Vec<Receipt> {
        self.receipts.lock().unwrap().clone()
    }

    /// Leaves everything where it is, for whoever looks for the reason, and says where.
    pub(super) fn keep(self) -> String {
        let path = self.path().to_owned();
        // What is on the small disk goes with it.
        _ = Command::new("cp").arg("-r").args([path.join("disk"), path.join("kept")]).output();
        std::mem::forget(self.folder);
        path.display().to_string()
    }
}

/// Says how an item is received, by the beginning of its name, and writes it down.
fn receive(item: &Received, receipts: &Mutex<Vec<Receipt>>) -> Reply {
    let at = SystemClock.now();
    let name = item.name.rsplit('/').next().unwrap();
    let reply = match (name.split('-').next().unwrap(), item.time) {
        ("flaky", 1) => Reply::status(503),
        ("cut", 1) => Reply::Drop,
        ("bad", _) => Reply::status(422),
        _ => Reply::status(200),
    };
    let acknowledged = matches!(reply, Reply::Status(200, ..));
    let (name, key) = (item.name.clone(), item.key.clone());
    receipts.lock().unwrap().push(Receipt { name, key, at, acknowledged });
    reply
}
