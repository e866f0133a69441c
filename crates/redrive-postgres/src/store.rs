//! Connecting to a database, and the parts of the store that belong to no aggregate.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{Error, Result, SchemaStatus, Store, Wakes, latest_version, require_version};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    bound_query::{SqlQuery, bind, sql_query},
    columns::read_rows,
    listener::Listener,
    marks::Marks,
    migrator::{MIGRATIONS, read_status},
    notifier::Notifier,
    pool::{Limits, Pool},
    queries,
    server_clock::{LeaseClock, Monotonic, Sample, ServerClock, machine_clock},
    session::Session,
    url::Target,
};

/// What a server must have on to keep what it committed. `synchronous_commit` is told as a session of ours has it.
const DURABILITY_SETTINGS: SqlQuery = sql_query!(
    "durability_settings",
    "SELECT name, pg_catalog.current_setting(name)
     FROM (VALUES ('fsync'), ('full_page_writes'), ('synchronous_commit')) AS setting (name)"
);
const SERVER_VERSION: SqlQuery =
    sql_query!("server_version", "SELECT pg_catalog.current_setting('server_version')");
const PING: SqlQuery = sql_query!("ping", "SELECT 1");

/// How to connect.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Connections that are open at once; more callers wait. Default 10.
    pub max_connections: usize,
    /// For a whole connect, from the name of the host to the end of the handshake. Default 10 s.
    pub connect_timeout: Duration,
    /// For every statement. Default 30 s.
    pub statement_timeout: Duration,
    /// The clock of leases, instead of the server's.
    pub lease_clock: Option<LeaseClock>,
    /// What carries the server's clock on, instead of the machine's monotonic clock.
    pub monotonic: Option<Monotonic>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            max_connections: 10,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lease_clock: None,
            monotonic: None,
        }
    }
}

impl PostgresOptions {
    pub(crate) fn limits(&self) -> Limits {
        Limits { connect: self.connect_timeout, statement: self.statement_timeout }
    }
}

/// The shared store.
pub struct PostgresStore {
    pool: Pool,
    clock: Clock,
    description: String,
    wakes: Wakes,
    pub(crate) marks: Marks,
    notifier: Notifier,
    /// Started by the first who wants to hear, so that a store that is asked one thing takes no
    /// connection for it.
    listener: OnceLock<Listener>,
    target: Target,
    limits: Limits,
    /// Where the server is asked for its clock and listened to, since [`Store::now`] and
    /// [`Store::wakes`] cannot wait.
    runtime: Handle,
}

enum Clock {
    Injected(LeaseClock),
    Server(Arc<ServerClock>),
}

impl PostgresStore {
    /// Connects to a database whose schema must be up to date; never changes it.
    ///
    /// The URL is `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`. `sslmode` means what it
    /// means to libpq, except that `verify-ca` checks the host name as `verify-full` does.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        let target = Target::parse(url)?;
        let limits = options.limits();
        let pool = Pool::new(&target, options.max_connections, limits)?;
        let mut session = pool.session("reading the schema version").await?;
        let current = read_status(&mut session).await?.current();
        require_version(current, latest_version(MIGRATIONS))?;
        let version = server_version(&mut session).await?;
        let monotonic = options.monotonic.unwrap_or_else(machine_clock);
        let clock = match options.lease_clock {
            Some(clock) => Clock::Injected(clock),
            None => {
                let first = sample(&mut session, &*monotonic).await?;
                Clock::Server(Arc::new(ServerClock::new(monotonic.clone(), first)))
            }
        };
        drop(session);
        Ok(Self {
            notifier: Notifier::new(pool.clone(), Handle::current()),
            pool,
            clock,
            description: format!("PostgreSQL {version} at {}", target.place()),
            wakes: Wakes::new(),
            marks: Marks::new(monotonic),
            listener: OnceLock::new(),
            target,
            limits,
            runtime: Handle::current(),
        })
    }

    /// A connection, for one purpose.
    pub(crate) async fn session(&self, doing: &'static str) -> Result<Session> {
        self.pool.session(doing).await
    }

    /// Asks the server for the time with whoever renews a lease: should its clock have been set, holders hear of it
    /// before anybody takes them for lost. While it cannot be asked, the machine's clock carries on.
    pub(crate) async fn correct_clock(&self, session: &mut Session) {
        if let Clock::Server(clock) = &self.clock
            && let Ok(sample) = sample(session, &|| clock.monotonic()).await
        {
            clock.correct(sample);
        }
    }

    /// Tells everyone who waits, here and elsewhere, if there may be something to claim. The caller
    /// holds no connection.
    pub(crate) async fn tell_if(&self, reason: bool) {
        self.wakes.wake_if(reason);
        if reason {
            self.notifier.tell().await;
        }
    }

    /// Tells those in this process alone.
    pub(crate) fn wake_if(&self, reason: bool) {
        self.wakes.wake_if(reason);
    }
}

async fn server_version(session: &mut Session) -> Result<String> {
    const DOING: &str = "asking the server for its version";
    let rows = session.query(bind!(SERVER_VERSION)).await?;
    let mut versions = read_rows(&rows, DOING, |row| row.get::<String>())?;
    // "15.14 (Debian 15.14-0+deb12u1)"
    let version = versions.pop().unwrap_or_default();
    Ok(version.split(' ').next().unwrap_or_default().to_owned())
}

async fn sample(
    session: &mut Session,
    monotonic: &(dyn Fn() -> Duration + Sync),
) -> Result<Sample> {
    const DOING: &str = "asking the server for the time";
    session.now_doing(DOING);
    // The first use of a statement takes a round trip of its own.
    let asked = monotonic();
    let rows = session.query(bind!(queries::READ_SERVER_CLOCK)).await?;
    let answered = monotonic();
    let server = read_rows(&rows, DOING, |row| row.timestamp())?
        .pop()
        .ok_or_else(|| Error::misuse(DOING, "the server gave no answer"))?;
    Ok(Sample { server, asked, answered })
}

#[async_trait]
impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        match &self.clock {
            Clock::Injected(clock) => clock(),
            Clock::Server(clock) => {
                if clock.wants_sample() {
                    let (clock, pool) = (Arc::clone(clock), self.pool.clone());
                    self.runtime.spawn(async move {
                        // While the server cannot be asked, the machine's clock carries on.
                        if let Ok(mut session) = pool.session("asking for the time").await
                            && let Ok(sample) = sample(&mut session, &|| clock.monotonic()).await
                        {
                            clock.correct(sample);
                        }
                    });
                }
                clock.now()
            }
        }
    }

    fn clock_can_be_set(&self) -> bool {
        matches!(self.clock, Clock::Server(_))
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.listener.get_or_init(|| {
            let (target, wakes) = (self.target.clone(), self.wakes.clone());
            Listener::start(&self.runtime, target, self.limits, wakes)
        });
        self.wakes.listen()
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    async fn ping(&self) -> Result<()> {
        let mut session = self.session("asking the database").await?;
        session.query(bind!(PING)).await.map(drop)
    }

    async fn schema(&self) -> Result<SchemaStatus> {
        read_status(&mut self.session("reading the schema version").await?).await
    }

    async fn durability_doubts(&self) -> Result<Vec<String>> {
        const DOING: &str = "asking the server for its settings";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(DURABILITY_SETTINGS)).await?;
        let settings = read_rows(&rows, DOING, |row| Ok((row.get()?, row.get()?)))?;
        let doubts = settings.into_iter().filter(|(_, value): &(String, String)| value == "off");
        Ok(doubts.map(|(name, _)| format!("{name} is off on the server")).collect())
    }

    async fn integrity_problems(&self) -> Result<Vec<String>> {
        const DOING: &str = "checking the database";
        let mut session = self.session(DOING).await?;
        let rows = session.query(bind!(queries::INTEGRITY_PROBLEMS)).await?;
        read_rows(&rows, DOING, |row| row.get())
    }
}
