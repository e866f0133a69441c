//! The store: connecting, its clock, and operations that belong to no kind of unit.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    Error, ReadColumn, Result, RowReader, SchemaStatus, Store, Wakes, latest_version,
    require_version,
};
use tokio::{runtime::Handle, sync::watch};

use crate::{
    bound_query::{SqlQuery, bind, sql_query},
    claim_cursor::ClaimCursors,
    columns::read_rows,
    listener::WakeListener,
    migrator::{MIGRATIONS, read_status},
    notifier::WakeNotifier,
    pool::{ConnectionPool, ConnectionTimeouts},
    queries,
    server_clock::{ClockSample, MonotonicClock, PostgresLeaseClock, ServerClock, machine_clock},
    session::Session,
    url::ConnectionTarget,
};

/// Settings that must be on for commits to survive a crash. `synchronous_commit` is read as our sessions have it.
const DURABILITY_SETTINGS: SqlQuery = sql_query!(
    "durability_settings",
    "SELECT name, pg_catalog.current_setting(name)
     FROM (VALUES ('fsync'), ('full_page_writes'), ('synchronous_commit')) AS setting (name)"
);
const SERVER_VERSION: SqlQuery =
    sql_query!("server_version", "SELECT pg_catalog.current_setting('server_version')");
/// Changes nothing, and writes nothing to the log. A server that takes no writes refuses the statement.
const PING: SqlQuery = sql_query!("ping", "DELETE FROM redrive.paused_queues WHERE false");

#[derive(Clone)]
pub struct PostgresOptions {
    /// Open connections at most; further callers wait for one. Default 10.
    pub max_connections: usize,
    /// For a whole connect, from resolving the host to the end of the handshake. Default 10 s.
    pub connect_timeout: Duration,
    /// For every statement. Default 30 s.
    pub statement_timeout: Duration,
    /// Replaces the server's clock for leases.
    pub lease_clock: Option<PostgresLeaseClock>,
    /// Replaces the machine's monotonic clock.
    pub monotonic: Option<MonotonicClock>,
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
    pub(crate) fn timeouts(&self) -> ConnectionTimeouts {
        ConnectionTimeouts { connect: self.connect_timeout, statement: self.statement_timeout }
    }
}

/// A store in a PostgreSQL database, shared by any number of processes.
pub struct PostgresStore {
    pool: ConnectionPool,
    clock: StoreClock,
    description: String,
    wakes: Wakes,
    pub(crate) claim_cursors: ClaimCursors,
    notifier: WakeNotifier,
    /// Started by the first call of [`Store::wakes`], so that a short-lived store takes no connection for it.
    listener: OnceLock<WakeListener>,
    target: ConnectionTarget,
    timeouts: ConnectionTimeouts,
    /// Runs the tasks that [`Store::now`] and [`Store::wakes`], which are not async, start.
    runtime: Handle,
}

enum StoreClock {
    Injected(PostgresLeaseClock),
    Server(Arc<ServerClock>),
}

impl PostgresStore {
    /// Connects to a database whose schema must be up to date; never changes it.
    ///
    /// The URL is `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`. `sslmode` means what it
    /// means to libpq, except that `verify-ca` checks the host name as `verify-full` does.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self> {
        let target = ConnectionTarget::parse(url)?;
        let timeouts = options.timeouts();
        let pool = ConnectionPool::new(&target, options.max_connections, timeouts)?;
        let mut session = pool.session("reading the schema version").await?;
        let current = read_status(&mut session).await?.current();
        require_version(current, latest_version(MIGRATIONS))?;
        let version = server_version(&mut session).await?;
        let monotonic = options.monotonic.unwrap_or_else(machine_clock);
        let clock = match options.lease_clock {
            Some(clock) => StoreClock::Injected(clock),
            None => {
                let first = sample_clock(&mut session, &*monotonic).await?;
                StoreClock::Server(Arc::new(ServerClock::new(monotonic.clone(), first)))
            }
        };
        drop(session);
        Ok(Self {
            notifier: WakeNotifier::new(pool.clone(), Handle::current()),
            pool,
            clock,
            description: format!("PostgreSQL {version} at {}", target.address()),
            wakes: Wakes::new(),
            claim_cursors: ClaimCursors::new(monotonic),
            listener: OnceLock::new(),
            target,
            timeouts,
            runtime: Handle::current(),
        })
    }

    /// A connection for one operation, which error messages mention.
    pub(crate) async fn session(&self, doing: &'static str) -> Result<Session> {
        self.pool.session(doing).await
    }

    /// Samples the server's clock with each renewal: if the clock was set, holders of leases follow it before
    /// a reaper takes them for lost. If the sample fails, the machine's clock continues.
    pub(crate) async fn correct_clock(&self, session: &mut Session) {
        if let StoreClock::Server(clock) = &self.clock
            && let Ok(sample) = sample_clock(session, &|| clock.monotonic()).await
        {
            clock.correct(sample);
        }
    }

    /// Wakes the workers of all processes if work may be claimable. The caller must hold no connection.
    pub(crate) async fn notify_if(&self, claimable: bool) {
        self.wakes.wake_if(claimable);
        if claimable {
            self.notifier.notify_others().await;
        }
    }

    /// Wakes the workers of this process only.
    pub(crate) fn wake_if(&self, claimable: bool) {
        self.wakes.wake_if(claimable);
    }
}

async fn server_version(session: &mut Session) -> Result<String> {
    const DOING: &str = "reading the server's version";
    let rows = session.query(bind!(SERVER_VERSION)).await?;
    let mut versions: Vec<String> = read_rows(&rows, DOING, |row| row.get())?;
    // "15.14 (Debian 15.14-0+deb12u1)"
    let version = versions.pop().unwrap_or_default();
    Ok(version.split(' ').next().unwrap_or_default().to_owned())
}

async fn sample_clock(
    session: &mut Session,
    monotonic: &(dyn Fn() -> Duration + Sync),
) -> Result<ClockSample> {
    const DOING: &str = "reading the server's clock";
    session.set_doing(DOING);
    // Preparing the query would add a round trip to the first sample, which is accepted all the same.
    let sent_at = monotonic();
    let rows = session.query(bind!(queries::READ_SERVER_CLOCK)).await?;
    let answered_at = monotonic();
    let server = read_rows(&rows, DOING, |row| row.timestamp())?
        .pop()
        .ok_or_else(|| Error::misuse(DOING, "the server gave no answer"))?;
    Ok(ClockSample { server, sent_at, answered_at })
}

#[async_trait]
impl Store for PostgresStore {
    fn now(&self) -> Timestamp {
        match &self.clock {
            StoreClock::Injected(clock) => clock(),
            StoreClock::Server(clock) => {
                if clock.sample_is_due() {
                    let (clock, pool) = (Arc::clone(clock), self.pool.clone());
                    self.runtime.spawn(async move {
                        // If the sample fails, the machine's clock continues.
                        if let Ok(mut session) = pool.session("reading the server's clock").await
                            && let Ok(sample) =
                                sample_clock(&mut session, &|| clock.monotonic()).await
                        {
                            clock.correct(sample);
                        }
                    });
                }
                clock.now()
            }
        }
    }

    fn wakes(&self) -> watch::Receiver<u64> {
        self.listener.get_or_init(|| {
            let (target, wakes) = (self.target.clone(), self.wakes.clone());
            WakeListener::start(&self.runtime, target, self.timeouts, wakes)
        });
        self.wakes.listen()
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    async fn ping(&self) -> Result<()> {
        let mut session = self.session("pinging the database").await?;
        session.query(bind!(PING)).await.map(drop)
    }

    async fn schema(&self) -> Result<SchemaStatus> {
        read_status(&mut self.session("reading the schema version").await?).await
    }

    async fn durability_doubts(&self) -> Result<Vec<String>> {
        const DOING: &str = "reading the server's settings";
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
