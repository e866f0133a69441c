//! How every connection is made and set up.

use std::{future::Future, pin::Pin, time::Duration};

use deadpool_postgres::Connect;
use redrive_store::Result;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{tls, url::Target};

/// What every session of a store starts with, beside its time limits.
///
/// Nothing is looked up by search path: the statements name the schema. Statements rely on seeing
/// what was committed before each of them, whatever the database's default is. Plans are pinned: they
/// do not depend on the values of a batch, and with fresh statistics none of them may fall back to
/// reading whole tables (a finish by sequential scan costs a hundred times as much). The penalties
/// that pin them look like costs worth compiling for; they are not. Listings go by keys as well, so
/// the same settings suit them; a bitmap would collect and sort everything between two keys for the
/// sake of one page. An index that has only the beginning of an order does not stand in for the one that
/// has all of it.
///
/// A commit is answered when it is on the server's disk. Where server, database or role have `synchronous_commit` off
/// it would be answered before, and what was acknowledged could be lost. What else it may be set to says
/// which replicas are waited for: that is for those who run them to say, and stays.
pub const SESSION: &str = "
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

/// Begins the transaction of a count of everything. There is no other way than to read all of it, and under the
/// penalty for that the planner would sort what it could hash.
pub(crate) const WHOLE_TABLES: &str = "BEGIN; SET LOCAL enable_seqscan = on";

/// Makes connections to one database.
pub(crate) struct Connector {
    tls: MakeRustlsConnect,
    session: String,
}

impl Connector {
    /// A connector whose sessions bound every statement on the server's side too.
    pub(crate) fn new(target: &Target, statement_timeout: Duration) -> Result<Self> {
        Ok(Self {
            tls: tls::connector(&target.trust)?,
            session: format!("{SESSION};{}", time_limits(statement_timeout)),
        })
    }
}

/// Sets how long the server lets a statement, and an idle transaction, take.
pub(crate) fn time_limits(limit: Duration) -> String {
    let millis = limit.as_millis().clamp(1, i32::MAX as u128);
    format!(
        "
    SET statement_timeout = {millis};
    SET idle_in_transaction_session_timeout = {millis}"
    )
}

impl Connect for Connector {
    fn connect(&self, config: &Config) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move {
            let (client, connection) = config.connect(self.tls.clone()).await?;
            // Its errors reach whoever waits for an answer.
            let task = tokio::spawn(async move { drop(connection.await) });
            client.batch_execute(&self.session).await?;
            Ok((client, task))
        })
    }
}

type Connected = Result<(Client, JoinHandle<()>), tokio_postgres::Error>;
