//! How connections are made and configured.

use std::{future::Future, pin::Pin, time::Duration};

use deadpool_postgres::Connect;
use redrive_store::Result;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{tls, url::ConnectionTarget};

/// The settings of every session of a store, beside its time limits.
///
/// - `search_path`: queries name the schema, so nothing is found by search path.
/// - `default_transaction_isolation`: queries rely on seeing what was committed before each of them, whatever
///   the database's default is.
/// - Plans are generic, independent of the values of a batch, and never read a whole table, also with fresh
///   statistics: a finish by sequential scan costs a hundred times as much. Listings walk keys in order too. A
///   bitmap scan would collect and sort everything between two keys for one page, and an incremental sort would
///   use an index that has only the beginning of the order.
/// - `jit`: the penalties of the disabled plans look like costs that are worth compiling for.
/// - `synchronous_commit`: with `off`, a commit would be acknowledged before it is on disk and could be lost. Other
///   values say which replicas a commit waits for; those belong to the operator and stay.
pub const SESSION_SETTINGS: &str = "
    SET search_path = pg_catalog, pg_temp;
    SET default_transaction_isolation = 'read committed';
    SET plan_cache_mode = force_generic_plan;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_incremental_sort = off;
    SET jit = off;
    SET client_min_messages = warning;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Begins a transaction that counts all rows of a table. With sequential scans disabled the planner would sort
/// rows that it could hash.
pub(crate) const BEGIN_FULL_SCAN: &str = "BEGIN; SET LOCAL enable_seqscan = on";

pub(crate) struct SessionConnector {
    tls: MakeRustlsConnect,
    session: String,
}

impl SessionConnector {
    /// The server of its sessions ends every statement after `statement_timeout`.
    pub(crate) fn new(target: &ConnectionTarget, statement_timeout: Duration) -> Result<Self> {
        Ok(Self {
            tls: tls::connector(&target.trust)?,
            session: format!("{SESSION_SETTINGS};{}", time_limits(statement_timeout)),
        })
    }
}

/// Limits the time of statements and of idle transactions on the server.
pub(crate) fn time_limits(limit: Duration) -> String {
    let millis = limit.as_millis().clamp(1, i32::MAX as u128);
    format!(
        "
    SET statement_timeout = {millis};
    SET idle_in_transaction_session_timeout = {millis}"
    )
}

impl Connect for SessionConnector {
    fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            // Errors of the connection reach the callers that wait for results.
            let task = tokio::spawn(async move { drop(connection.await) });
            client.batch_execute(&self.session).await?;
            Ok((client, task))
        })
    }
}

type Connected = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;
