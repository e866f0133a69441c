//! Notifies other processes that work may be claimable.
//!
//! A notification inside of a transaction makes its commit wait for every other notifying commit on the server:
//! sixteen clients that submit one run at a time got a quarter of the throughput. So notifications are sent after
//! the commit, and one serves all commits before it. The first is sent at once and its caller waits for it, so
//! that a program may submit and exit; later ones are gathered for a moment. A notification that fails is sent
//! again for as long as the store lives.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_store::Result;
use tokio::{runtime::Handle, sync::oneshot, task::JoinSet, time::sleep};

use crate::{bound_query::bind, pool::ConnectionPool, queries};

/// The least time between two notifications.
const MIN_INTERVAL: Duration = Duration::from_millis(3);

/// The wait after a failed notification; it doubles with each failure up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct WakeNotifier {
    state: Arc<NotifierState>,
    runtime: Handle,
    /// At most one task, which ends with the store.
    sending: Mutex<JoinSet<()>>,
}

struct NotifierState {
    pool: ConnectionPool,
    phase: Mutex<NotifyPhase>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NotifyPhase {
    /// No notification was sent for a while, and no task runs.
    Idle,
    /// A notification was sent a moment ago.
    CoolingDown,
    /// Another notification follows after the interval. It serves all requests until then.
    Pending,
}

impl WakeNotifier {
    pub(crate) fn new(pool: ConnectionPool, runtime: Handle) -> Self {
        let state = Arc::new(NotifierState { pool, phase: Mutex::new(NotifyPhase::Idle) });
        Self { state, runtime, sending: Mutex::default() }
    }

    /// Announces what was committed before. Waits only if the notification is sent at once. The caller must
    /// hold no connection: with a pool of one it would wait for itself.
    pub(crate) async fn notify_others(&self) {
        if self.state.request() != NotifyPhase::Idle {
            return;
        }
        let (state, (sent, first_try)) = (Arc::clone(&self.state), oneshot::channel());
        {
            let mut sending = locked(&self.sending);
            while sending.try_join_next().is_some() {}
            sending.spawn_on(async move { state.send(sent).await }, &self.runtime);
        }
        // A dropped sender has sent its notification, or has ended with the store.
        _ = first_try.await;
    }
}

impl NotifierState {
    /// Requests a notification and returns the phase before the request.
    fn request(&self) -> NotifyPhase {
        let mut phase = locked(&self.phase);
        let after = if *phase == NotifyPhase::Idle {
            NotifyPhase::CoolingDown
        } else {
            NotifyPhase::Pending
        };
        std::mem::replace(&mut phase, after)
    }

    /// Sends until no request is left. Callers wait for the first try only.
    async fn send(&self, first_try: oneshot::Sender<()>) {
        let mut first_try = Some(first_try);
        let mut wait = FIRST_WAIT;
        loop {
            let rest = match self.send_once().await {
                Ok(()) => {
                    wait = FIRST_WAIT;
                    MIN_INTERVAL
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::debug!(
                        error,
                        "cannot notify other processes; they find the work by polling"
                    );
                    *locked(&self.phase) = NotifyPhase::Pending;
                    let longer = (wait * 2).min(LONGEST_WAIT);
                    std::mem::replace(&mut wait, longer)
                }
            };
            drop(first_try.take());
            sleep(rest).await;
            let mut phase = locked(&self.phase);
            if *phase != NotifyPhase::Pending {
                *phase = NotifyPhase::Idle;
                return;
            }
            *phase = NotifyPhase::CoolingDown;
        }
    }

    async fn send_once(&self) -> Result<()> {
        let mut session = self.pool.session("notifying other processes").await?;
        session.query(bind!(queries::NOTIFY_WAKE)).await.map(drop)
    }
}

/// Every change behind these locks is complete in itself, so a panic leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
