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
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use crate::{pool::Pool, queries};

/// The least time between two notifications.
const PACE: Duration = Duration::from_millis(3);

/// The wait before a notification that failed is tried again; it doubles up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Sends notifications, one at a time.
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    runtime: Handle,
    /// Ends with the store.
    sending: Mutex<JoinSet<()>>,
}

struct Shared {
    pool: Pool,
    turn: Mutex<Turn>,
}

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    /// Whether a notification is still to be sent.
    pending: bool,
    /// When the next one may be sent.
    not_before: Option<Instant>,
}

impl Notifier {
    pub(crate) fn new(pool: Pool, runtime: Handle) -> Self {
        let shared = Arc::new(Shared { pool, turn: Mutex::default() });
        Self { shared, runtime, sending: Mutex::default() }
    }

    /// Tells of what was committed before. Waits only where the notification goes out at once. The
    /// caller holds no connection, or with a pool of one it would wait for itself.
    pub(crate) async fn tell(&self) {
        let Some(at) = self.shared.take_turn() else { return };
        let (shared, (sent, waits)) = (Arc::clone(&self.shared), tokio::sync::oneshot::channel());
        let send = async move {
            sleep_until(at).await;
            shared.send(sent).await;
        };
        {
            let mut sending = locked(&self.sending);
            while sending.try_join_next().is_some() {}
            sending.spawn_on(send, &self.runtime);
        }
        if at <= Instant::now() {
            // A sender that is gone has gone with the store.
            _ = waits.await;
        }
    }
}

impl Shared {
    /// When to send; nothing if a notification is still to be sent, which then serves this one too.
    fn take_turn(&self) -> Option<Instant> {
        let mut turn = locked(&self.turn);
        let now = Instant::now();
        (!std::mem::replace(&mut turn.pending, true)).then(|| turn.not_before.unwrap_or(now))
    }

    /// Sends until it is sent. Who commits after this has begun needs another one.
    async fn send(&self, sent: tokio::sync::oneshot::Sender<()>) {
        let mut sent = Some(sent);
        let mut wait = FIRST_WAIT;
        loop {
            {
                let mut turn = locked(&self.turn);
                *turn = Turn { pending: false, not_before: Some(Instant::now() + PACE) };
            }
            let outcome = self.notify().await;
            // Nobody waits for a second try.
            drop(sent.take());
            let Err(error) = outcome else { return };
            tracing::debug!(
                error = &error as &dyn std::error::Error,
                "cannot notify; polling goes on"
            );
            if std::mem::replace(&mut locked(&self.turn).pending, true) {
                return;
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn notify(&self) -> Result<()> {
        let mut session = self.pool.session("notifying others").await?;
        session.query(queries::NOTIFY_WAKE, &[]).await.map(drop)
    }
}

/// Every change behind these locks is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
