//! Which keys of gates are not open, as far as this process knows.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use jiff::Timestamp;
use redrive_retry::{Stop, monotonic};
use redrive_store::{MAX_PAGE, Result, Store};
use tokio::{sync::watch, time::Instant};

/// How often gates are read without a notification.
const POLL: Duration = Duration::from_secs(5);

/// The rest between two reads: a busy store notifies often.
const PAUSE: Duration = Duration::from_millis(50);

/// A result that closes a gate is written within this time, or the gate is taken as the store has it.
const CLOSING_TIME: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct KnownGates {
    shut: RwLock<HashMap<(String, String), ShutGate>>,
    changes: watch::Sender<()>,
}

/// A gate that was not open when it was last read.
struct ShutGate {
    /// When it was read, or when a result of this process closed it.
    known_at: Instant,
    /// `None` for one that this process is about to close.
    epoch: Option<u64>,
    until: Option<Timestamp>,
}

impl KnownGates {
    /// Changes when a gate has closed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Whether a gate has closed since it let a unit through: under an epoch, or at a time if the claim did not read the gate.
    pub(crate) fn has_closed(
        &self,
        gate: &str,
        key: &str,
        epoch: Option<u64>,
        claimed_at: Instant,
    ) -> bool {
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        if shut.is_empty() {
            return false;
        }
        let Some(shut) = shut.get(&(gate.to_owned(), key.to_owned())) else { return false };
        match (epoch, shut.epoch) {
            (Some(passed), Some(closed)) => closed > passed,
            _ => shut.known_at > claimed_at,
        }
    }

    /// Notes that a gate is about to be closed by a result of this process.
    pub(crate) fn note_shut(&self, gate: &str, key: &str) {
        let mut shut = self.shut.write().unwrap_or_else(PoisonError::into_inner);
        let closing = ShutGate { known_at: monotonic(), epoch: None, until: None };
        shut.insert((gate.to_owned(), key.to_owned()), closing);
        drop(shut);
        self.changes.send_replace(());
    }

    /// Whether a result of this process is about to close a gate.
    #[cfg(feature = "http")]
    pub(crate) fn is_closing(&self, gate: &str, key: &str) -> bool {
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let found = shut.get(&(gate.to_owned(), key.to_owned()));
        found.is_some_and(|shut| shut.epoch.is_none())
    }

    pub(crate) fn is_shut(&self, gate: &str, key: &str) -> bool {
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        !shut.is_empty() && shut.contains_key(&(gate.to_owned(), key.to_owned()))
    }

    /// Whether some of the gates are not open, and let a number of units through: the probe, or those of a step.
    pub(crate) fn let_some_through(&self, is_meant: impl Fn(&str) -> bool, now: Timestamp) -> bool {
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let ended = |gate: &ShutGate| gate.until.is_some_and(|until| until <= now);
        shut.iter().any(|((gate, _), shut)| ended(shut) && is_meant(gate))
    }

    /// When the next period of some of the gates ends, after a time.
    pub(crate) fn next_end(
        &self,
        is_meant: impl Fn(&str) -> bool,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let shut = self.shut.read().unwrap_or_else(PoisonError::into_inner);
        let meant = shut.iter().filter(|((gate, _), _)| is_meant(gate));
        meant.filter_map(|(_, shut)| shut.until).filter(|until| *until > now).min()
    }

    /// Follows the gates of a store until stopped.
    pub(crate) async fn follow(self: Arc<Self>, store: Arc<dyn Store>, mut stop: Stop) {
        let mut wakes = store.wakes();
        loop {
            wakes.mark_unchanged();
            if let Err(error) = self.read(&*store).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "cannot read gates; trying again");
            }
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = tokio::time::sleep(POLL) => {}
                _ = wakes.changed() => {}
            }
        }
    }

    async fn read(&self, store: &dyn Store) -> Result<()> {
        let read_at = monotonic();
        let (mut found, mut after) = (HashMap::new(), (String::new(), String::new()));
        loop {
            let page = store.gates_page(None, true, (&after.0, &after.1), MAX_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = (last.gate.clone(), last.key.clone());
            found.extend(page.into_iter().map(|row| {
                let (epoch, until) = (Some(row.state.epoch), row.state.closed_until);
                ((row.gate, row.key), ShutGate { known_at: read_at, epoch, until })
            }));
        }
        let mut shut = self.shut.write().unwrap_or_else(PoisonError::into_inner);
        let is_news = |(name, gate): (&(String, String), &ShutGate)| {
            shut.get(name).is_none_or(|known| known.epoch != gate.epoch)
        };
        let has_closed = found.iter().any(is_news);
        let is_closing =
            |gate: &ShutGate| gate.epoch.is_none() && gate.known_at.elapsed() < CLOSING_TIME;
        let was_shut = |name| shut.get(name).is_some_and(|known| known.epoch.is_some());
        for ((gate, key), known) in found.iter().filter(|(name, _)| !was_shut(*name)) {
            let until = known.until.map(tracing::field::display);
            tracing::info!(gate, key, until, "the gate has closed; its units wait");
        }
        for ((gate, key), known) in &*shut {
            if !is_closing(known) && !found.contains_key(&(gate.clone(), key.clone())) {
                tracing::info!(gate, key, "the gate is open");
            }
        }
        for (name, gate) in shut.drain().filter(|(_, gate)| is_closing(gate)) {
            found.entry(name).or_insert(gate);
        }
        *shut = found;
        drop(shut);
        if has_closed {
            self.changes.send_replace(());
        }
        Ok(())
    }
}
