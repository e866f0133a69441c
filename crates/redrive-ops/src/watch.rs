//! A cache of the overview, shared by the dashboard, the API and the metrics.
//!
//! A refresh first reads the change token of the store, which is cheap, and counts units only when the token has changed.
//! The ledger is read incrementally, from the end of the last refresh. Counting a million runs takes a while, so a caller
//! gets the previous overview, as long as it is recent, while a refresh runs in the background.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex as Lock, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use redrive_store::{Activity, ActivityCount, AttemptOutcome, LagCount, Result, UnitKind};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    AttemptCounters, Ops,
    overview::OverviewReader,
    views::{MinuteView, OverviewView},
};

/// A younger overview is returned without a refresh.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// A caller waits for a refresh when the overview is older.
const RECENT: SignedDuration = SignedDuration::from_secs(2);

/// Units are counted again after this time even without writes, because due times and the last hour move on.
const STALE: SignedDuration = SignedDuration::from_secs(60);

const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The most attempts that the first refresh reads.
const MAX_ATTEMPTS: u32 = 200_000;

/// The shared overview of a store.
#[derive(Clone)]
pub struct Watch {
    ops: Ops,
    /// Never locked across an await.
    last: Arc<Lock<Option<Snapshot>>>,
    /// Locked during a refresh.
    window: Arc<Mutex<ActivityWindow>>,
}

/// The overview of the last refresh.
#[derive(Clone)]
struct Snapshot {
    refreshed_at: Timestamp,
    overview: Arc<OverviewView>,
}

impl Snapshot {
    fn is_younger(&self, than: SignedDuration, now: Timestamp) -> bool {
        (SignedDuration::ZERO..than).contains(&now.duration_since(self.refreshed_at))
    }
}

/// Attempts of the last hour, and counters since the start.
#[derive(Default)]
pub(crate) struct ActivityWindow {
    change_token: Option<u64>,
    /// When units were last counted.
    counted_at: Option<Timestamp>,
    ledger_end: i64,
    minutes: BTreeMap<(Timestamp, UnitKind), Minute>,
    /// False until the existing ledger is read: counters start after that.
    started: bool,
    counters: AttemptCounters,
}

#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    good: u64,
    retrying: u64,
    failed: u64,
}

impl Watch {
    pub fn new(ops: Ops) -> Self {
        Self { ops, last: Arc::default(), window: Arc::default() }
    }

    /// Starts the counters: attempts that end from now on are counted.
    pub async fn start(&self) -> Result<()> {
        let mut window = self.window.lock().await;
        self.read_ledger(&mut window, self.ops.now()).await
    }

    /// An overview that is at most two seconds old.
    pub async fn overview(&self) -> Result<Arc<OverviewView>> {
        let now = self.ops.now();
        match self.last().filter(|last| last.is_younger(RECENT, now)) {
            Some(last) => {
                if !last.is_younger(FRESH, now)
                    && let Ok(window) = Arc::clone(&self.window).try_lock_owned()
                {
                    let watch = self.clone();
                    // An error is not lost: the next caller after `RECENT` refreshes and gets it.
                    tokio::spawn(async move { watch.refresh(window).await.map(drop) });
                }
                Ok(last.overview)
            }
            None => self.newest().await,
        }
    }

    /// An overview that is at most a second old. Concurrent callers share one refresh.
    pub async fn newest(&self) -> Result<Arc<OverviewView>> {
        let window = Arc::clone(&self.window).lock_owned().await;
        self.refresh(window).await
    }

    /// The version of the last overview; zero before the first refresh.
    pub fn version(&self) -> u64 {
        self.last().map_or(0, |last| last.overview.version)
    }

    /// The newest overview, and the counters since the start.
    pub async fn counters(&self) -> Result<(Arc<OverviewView>, AttemptCounters)> {
        let overview = self.newest().await?;
        Ok((overview, self.window.lock().await.counters.clone()))
    }

    fn last(&self) -> Option<Snapshot> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads new ledger rows. The first read skips the waits of runs, which only the counters need: that would look up
    /// as many as 200,000 runs.
    async fn read_ledger(&self, window: &mut ActivityWindow, now: Timestamp) -> Result<()> {
        let store = self.ops.store();
        let activity = store.activity(window.ledger_end, MAX_ATTEMPTS).await?;
        let lags = match window.started {
            true => store.lags(activity.after, activity.end).await?,
            false => Vec::new(),
        };
        window.record(activity, &lags, now);
        Ok(())
    }

    async fn refresh(
        &self,
        mut window: OwnedMutexGuard<ActivityWindow>,
    ) -> Result<Arc<OverviewView>> {
        let (now, last) = (self.ops.now(), self.last());
        if let Some(fresh) = last.as_ref().filter(|last| last.is_younger(FRESH, now)) {
            return Ok(Arc::clone(&fresh.overview));
        }
        let change_token = self.ops.store().change_token().await?;
        let age = window.counted_at.map(|at| now.duration_since(at));
        let is_recent = age.is_some_and(|age| (SignedDuration::ZERO..STALE).contains(&age));
        let is_same = is_recent && window.change_token == Some(change_token);
        let overview = match last.filter(|_| is_same) {
            Some(last) => last.overview,
            None => {
                self.read_ledger(&mut window, now).await?;
                let reader = OverviewReader { ops: &self.ops, at: now };
                let overview = reader.overview(&window, self.version() + 1).await?;
                (window.change_token, window.counted_at) = (Some(change_token), Some(now));
                Arc::new(overview)
            }
        };
        let snapshot = Snapshot { refreshed_at: now, overview: Arc::clone(&overview) };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
        Ok(overview)
    }
}

impl ActivityWindow {
    fn record(&mut self, activity: Activity, lags: &[LagCount], now: Timestamp) {
        if std::mem::replace(&mut self.started, true) {
            self.counters.record(&activity, lags);
        }
        self.ledger_end = activity.end;
        for ActivityCount { kind, outcome, minute, attempts, .. } in activity.counts {
            let counted = self.minutes.entry((minute, kind)).or_default();
            let count = match outcome {
                AttemptOutcome::Success | AttemptOutcome::Skipped => &mut counted.good,
                AttemptOutcome::Retrying => &mut counted.retrying,
                AttemptOutcome::Failed => &mut counted.failed,
            };
            *count += attempts;
        }
        let since = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        self.minutes.retain(|(minute, _), _| *minute >= since);
    }

    pub(crate) fn minutes(&self) -> Vec<MinuteView> {
        let to_view = |((minute, kind), counted): (&(Timestamp, UnitKind), &Minute)| MinuteView {
            minute: minute.to_string(),
            kind: kind.name(),
            good: counted.good,
            retrying: counted.retrying,
            failed: counted.failed,
        };
        self.minutes.iter().map(to_view).collect()
    }
}
