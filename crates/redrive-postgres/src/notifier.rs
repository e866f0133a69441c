//! Telling other processes that there may be something to claim.
//!
//! A notification that is sent with a submission makes its commit wait for every other one on the
//! server: sixteen clients that submit one run at a time got a quarter as far. So it is sent after the
//! commit, and one serves all who committed before it. The first is sent at once, and its caller
//! waits for it, so that a program may submit and end; what comes right after is gathered for a
//! moment. What cannot be sent is tried again for as long as the store lives.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_store::Result;
use tokio::{runtime::Handle, sync::oneshot, task::JoinSet, time::sleep};

use crate::{bound_query::bind, pool::Pool, queries};

/// The least time between two notifications.
const PACE: Duration = Duration::from_millis(3);

/// The wait before a notification that failed is tried again; it doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Sends notifications, one at a time.
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    runtime: Handle,
    /// The task that sends, if one does. Ends with the store.
    sending: Mutex<JoinSet<()>>,
}

struct Shared {
    pool: Pool,
    turn: Mutex<Turn>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Nothing was told for a while, and no task sends.
    Quiet,
    /// A notification was begun a moment ago.
    Resting,
    /// Another one is to be sent after the rest. It serves all who come until then.
    Pending,
}

impl Notifier {
    pub(crate) fn new(pool: Pool, runtime: Handle) -> Self {
        let shared = Arc::new(Shared { pool, turn: Mutex::new(Turn::Quiet) });
        Self { shared, runtime, sending: Mutex::default() }
    }

    /// Tells of what was committed before. Waits only where the notification goes out at once. The
    /// caller holds no connection, or with a pool of one it would wait for itself.
    pub(crate) async fn tell(&self) {
        if self.shared.take_turn() != Turn::Quiet {
            return;
        }
        let (shared, (sent, waits)) = (Arc::clone(&self.shared), oneshot::channel());
        {
            let mut sending = locked(&self.sending);
            while sending.try_join_next().is_some() {}
            sending.spawn_on(async move { shared.send(sent).await }, &self.runtime);
        }
        // A sender that is gone has sent, or has gone with the store.
        _ = waits.await;
    }
}

impl Shared {
    /// Asks for a notification, and says whose turn it was before.
    fn take_turn(&self) -> Turn {
        let mut turn = locked(&self.turn);
        let after = if *turn == Turn::Quiet { Turn::Resting } else { Turn::Pending };
        std::mem::replace(&mut turn, after)
    }

    /// Sends until nothing is left to be told of. Nobody waits for more than the first try.
    async fn send(&self, first_try: oneshot::Sender<()>) {
        let mut first_try = Some(first_try);
        let mut wait = FIRST_WAIT;
        loop {
            let rest = match self.notify().await {
                Ok(()) => {
                    wait = FIRST_WAIT;
                    PACE
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(error, "cannot notify others; they poll");
                    *locked(&self.turn) = Turn::Pending;
                    let longer = (wait * 2).min(LONGEST_WAIT);
                    std::mem::replace(&mut wait, longer)
                }
            };
            drop(first_try.take());
            sleep(rest).await;
            let mut turn = locked(&self.turn);
            if *turn != Turn::Pending {
                *turn = Turn::Quiet;
                return;
            }
            *turn = Turn::Resting;
        }
    }

    async fn notify(&self) -> Result<()> {
        let mut session = self.pool.session("notifying others").await?;
        session.query(bind!(queries::NOTIFY_WAKE)).await.map(drop)
    }
}

/// Every change behind these locks is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
