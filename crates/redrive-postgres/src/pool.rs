//! Connections to one database, shared by those who need one for a moment.

use std::{borrow::Cow, time::Duration};

use deadpool_postgres::{
    Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime, TimeoutType,
};
use redrive_store::{Error, Result};
use tokio_postgres::Config;

use crate::{connection::Connector, error, session::Session, url::Target};

/// The most by which the caller's patience exceeds the server's limit, so that the server's own message
/// arrives where the server still speaks.
const MAX_GRACE: Duration = Duration::from_secs(2);

/// Uses after which a connection makes its plans again.
///
/// A plan is kept until the server gathers statistics, and it suits the size that a table had when it
/// was made. On a table that was empty it reads all of it, and goes on so for a minute after a burst of
/// submissions.
const PLAN_USES: usize = 64;

/// Time limits of a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For a whole connect, handshake included.
    pub(crate) connect: Duration,
    /// For a statement, and for waiting for a free connection.
    pub(crate) statement: Duration,
}

impl Limits {
    /// How to connect within them.
    pub(crate) fn bind(self, target: &Target) -> Config {
        let mut config = target.config.clone();
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(1).max(1);
        if config.get_connect_timeout().is_none() {
            // One host that does not answer must leave time for the next.
            config.connect_timeout(self.connect / hosts);
        }
        config.tcp_user_timeout(patience(self.statement));
        config
    }
}

/// Connections to one database.
#[derive(Clone)]
pub(crate) struct Pool {
    inner: deadpool_postgres::Pool,
    patience: Duration,
    connect: Duration,
    place: String,
}

impl Pool {
    pub(crate) fn new(target: &Target, size: usize, limits: Limits) -> Result<Self> {
        let connector = Connector::new(target, limits.statement)?;
        let (config, patience) = (limits.bind(target), patience(limits.statement));
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let inner = deadpool_postgres::Pool::builder(Manager::from_connect(config, connector, how))
            .max_size(size.max(1))
            .create_timeout(Some(limits.connect))
            .wait_timeout(Some(patience))
            .recycle_timeout(Some(limits.connect))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|source| Error::Database {
                doing: "setting up connections".to_owned(),
                source: source.into(),
            })?;
        Ok(Self { inner, patience, connect: limits.connect, place: target.place().to_owned() })
    }

    /// A connection, for one purpose.
    pub(crate) async fn session(&self, doing: impl Into<Cow<'static, str>>) -> Result<Session> {
        let doing = doing.into();
        let client = self.inner.get().await.map_err(|source| {
            let connecting = format!("connecting to PostgreSQL at {}", self.place);
            match source {
                PoolError::Timeout(TimeoutType::Create) => {
                    error::timed_out(&connecting, self.connect)
                }
                PoolError::Timeout(_) => error::pool(&doing, source),
                source => error::pool(&connecting, source),
            }
        })?;
        let uses = Object::metrics(&client).recycle_count;
        // Sooner at first: a new table grows fastest.
        let forget_plans = uses.is_power_of_two() || uses > 0 && uses.is_multiple_of(PLAN_USES);
        Ok(Session::new(client, self.patience, forget_plans, doing))
    }
}

/// How long to wait for an answer that the server must give within a limit.
pub(crate) fn patience(limit: Duration) -> Duration {
    limit.saturating_add((limit / 2).min(MAX_GRACE))
}
