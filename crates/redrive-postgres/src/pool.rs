//! The connection pool of one database.

use std::{borrow::Cow, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use redrive_store::{Error, Result};
use tokio_postgres::Config;

use crate::{connection::SessionConnector, error, session::Session, url::ConnectionTarget};

/// How much longer than the server's limit a caller waits at most, so that the server's own error arrives
/// first if the server still answers.
const MAX_GRACE: Duration = Duration::from_secs(2);

/// Uses of a connection after which it discards its cached plans.
///
/// The server keeps a plan until it gathers statistics again. A plan made for an empty table reads the whole
/// table, and would do so for a minute after a burst of submissions.
const PLAN_USES: usize = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTimeouts {
    /// For a whole connect, including the TLS and authentication handshakes.
    pub(crate) connect: Duration,
    /// For a statement, and for waiting for a free connection.
    pub(crate) statement: Duration,
}

impl ConnectionTimeouts {
    pub(crate) fn config_for(self, target: &ConnectionTarget) -> Config {
        let mut config = target.config.clone();
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        if config.get_connect_timeout().is_none() {
            // A host that does not answer must leave time for the next one.
            config.connect_timeout(self.connect / hosts);
        }
        config.tcp_user_timeout(client_timeout(self.statement));
        config
    }
}

#[derive(Clone)]
pub(crate) struct ConnectionPool {
    inner: deadpool_postgres::Pool,
    client_timeout: Duration,
    connect: Duration,
    address: String,
}

impl ConnectionPool {
    pub(crate) fn new(
        target: &ConnectionTarget,
        size: usize,
        timeouts: ConnectionTimeouts,
    ) -> Result<Self> {
        let connector = SessionConnector::new(target, timeouts.statement)?;
        let (config, client_timeout) =
            (timeouts.config_for(target), client_timeout(timeouts.statement));
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let inner = deadpool_postgres::Pool::builder(Manager::from_connect(config, connector, how))
            .max_size(size.max(1))
            .create_timeout(Some(timeouts.connect))
            .wait_timeout(Some(client_timeout))
            .recycle_timeout(Some(timeouts.connect))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|source| Error::Database {
                doing: "setting up connections".to_owned(),
                source: source.into(),
            })?;
        Ok(Self {
            inner,
            client_timeout,
            connect: timeouts.connect,
            address: target.address().to_owned(),
        })
    }

    /// A connection for one operation, which error messages mention.
    pub(crate) async fn session(&self, doing: impl Into<Cow<'static, str>>) -> Result<Session> {
        let doing = doing.into();
        let client = self.inner.get().await.map_err(|source| {
            let connecting = format!("connecting to PostgreSQL at {}", self.address);
            match source {
                PoolError::Timeout(TimeoutType::Create) => {
                    error::timed_out(&connecting, self.connect)
                }
                PoolError::Timeout(_) => error::pool(&doing, source),
                source => error::pool(&connecting, source),
            }
        })?;
        let uses = Object::metrics(&client).recycle_count;
        // More often at first, because a new table grows fastest.
        let discard_plans = uses.is_power_of_two() || uses > 0 && uses.is_multiple_of(PLAN_USES);
        Ok(Session::new(client, self.client_timeout, discard_plans, doing))
    }
}

/// How long a caller waits for a statement that the server ends after `limit`.
pub(crate) fn client_timeout(limit: Duration) -> Duration {
    limit.saturating_add((limit / 2).min(MAX_GRACE))
}
