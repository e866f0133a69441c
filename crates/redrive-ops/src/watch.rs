//! How everything stands, for all who ask: read when somebody looks, and kept for a moment.
//!
//! Whether anything was written is asked first, and costs next to nothing. Only then are units counted. What
//! was attempted is read once, from where the last look ended. Counting a million runs takes a while, so whoever asks is
//! shown what the last look saw, as long as that is recent, while the next one is under way.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex as Lock, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use redrive_store::{
    Activity, ActivityCount, AttemptOutcome, LagCount, RecentCause, Result, UnitKind,
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    AttemptCounters, Ops,
    overview::{OverviewReader, SHOWN},
    views::{MinuteView, OverviewView},
};

/// After so long somebody looks again, if anyone asks.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// Nothing older is shown: whoever asks then waits for the look.
const RECENT: SignedDuration = SignedDuration::from_secs(2);

/// So long a look is good while nothing is written: what is due, and what was an hour ago, changes by itself.
const STALE: SignedDuration = SignedDuration::from_secs(60);

/// How far back attempts are shown.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// The most attempts that a first look reads.
const MAX_ATTEMPTS: u32 = 200_000;

/// Looks at a store for all who ask.
#[derive(Clone)]
pub struct Watch {
    ops: Ops,
    /// What the last look saw. It is never held for long.
    last: Arc<Lock<Option<Snapshot>>>,
    /// Held by who looks.
    seen: Arc<Mutex<ActivityWindow>>,
}

/// What the last look saw.
#[derive(Clone)]
struct Snapshot {
    /// When it began.
    looked: Timestamp,
    overview: Arc<OverviewView>,
}

impl Snapshot {
    fn is_younger(&self, than: SignedDuration, now: Timestamp) -> bool {
        (SignedDuration::ZERO..than).contains(&now.duration_since(self.looked))
    }
}

/// What looks have gathered.
#[derive(Default)]
pub(crate) struct ActivityWindow {
    change_token: Option<u64>,
    /// When units were last counted, and not only looked whether there is anything new.
    read: Option<Timestamp>,
    ledger_end: i64,
    minutes: BTreeMap<(Timestamp, UnitKind), Minute>,
    causes: HashMap<(UnitKind, String, String), RecentCause>,
    /// Whether what was there before is known.
    begun: bool,
    /// Since then.
    counted: AttemptCounters,
}

#[derive(Debug, Clone, Copy, Default)]
struct Minute {
    good: u64,
    retrying: u64,
    failed: u64,
}

impl Watch {
    /// Looks at the store of a desk.
    pub fn new(ops: Ops) -> Self {
        Self { ops, last: Arc::default(), seen: Arc::default() }
    }

    /// Begins to count: what is attempted from now on.
    pub async fn begin(&self) -> Result<()> {
        let mut seen = self.seen.lock().await;
        self.read_on(&mut seen, self.ops.now()).await
    }

    /// How everything stood at most two seconds ago.
    pub async fn overview(&self) -> Result<Arc<OverviewView>> {
        let now = self.ops.now();
        match self.last().filter(|last| last.is_younger(RECENT, now)) {
            Some(last) => {
                if !last.is_younger(FRESH, now)
                    && let Ok(seen) = Arc::clone(&self.seen).try_lock_owned()
                {
                    let watch = self.clone();
                    // Whoever asks when this is too old sees what is wrong.
                    tokio::spawn(async move { watch.look(seen).await.map(drop) });
                }
                Ok(last.overview)
            }
            None => self.newest().await,
        }
    }

    /// How everything stands, at most a second ago. Whoever asks while somebody looks waits for that look.
    pub async fn newest(&self) -> Result<Arc<OverviewView>> {
        let seen = Arc::clone(&self.seen).lock_owned().await;
        self.look(seen).await
    }

    /// The version of what the last look saw; zero before the first.
    pub fn version(&self) -> u64 {
        self.last().map_or(0, |last| last.overview.version)
    }

    /// How everything stands, and what was counted since the watch began.
    pub async fn counted(&self) -> Result<(Arc<OverviewView>, AttemptCounters)> {
        let overview = self.newest().await?;
        Ok((overview, self.seen.lock().await.counted.clone()))
    }

    fn last(&self) -> Option<Snapshot> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads on in the ledger. How long runs waited is counted from the beginning on, so of what was there
    /// before it is not asked: there may be 200,000 runs to look up.
    async fn read_on(&self, seen: &mut ActivityWindow, now: Timestamp) -> Result<()> {
        let store = self.ops.store();
        let activity = store.activity(seen.ledger_end, MAX_ATTEMPTS).await?;
        let lags = match seen.begun {
            true => store.lags(activity.after, activity.end).await?,
            false => Vec::new(),
        };
        seen.record(activity, &lags, now);
        Ok(())
    }

    async fn look(&self, mut seen: OwnedMutexGuard<ActivityWindow>) -> Result<Arc<OverviewView>> {
        let (now, last) = (self.ops.now(), self.last());
        if let Some(fresh) = last.as_ref().filter(|last| last.is_younger(FRESH, now)) {
            return Ok(Arc::clone(&fresh.overview));
        }
        let change_token = self.ops.store().change_token().await?;
        let age = seen.read.map(|read| now.duration_since(read));
        let is_recent = age.is_some_and(|age| (SignedDuration::ZERO..STALE).contains(&age));
        let is_same = is_recent && seen.change_token == Some(change_token);
        let overview = match last.filter(|_| is_same) {
            Some(last) => last.overview,
            None => {
                self.read_on(&mut seen, now).await?;
                let look = OverviewReader { ops: &self.ops, at: now };
                let overview = look.overview(&seen, self.version() + 1).await?;
                (seen.change_token, seen.read) = (Some(change_token), Some(now));
                Arc::new(overview)
            }
        };
        let looked = Snapshot { looked: now, overview: Arc::clone(&overview) };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked);
        Ok(overview)
    }
}

impl ActivityWindow {
    fn record(&mut self, activity: Activity, lags: &[LagCount], now: Timestamp) {
        if std::mem::replace(&mut self.begun, true) {
            self.counted.record(&activity, lags);
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
        for cause in activity.causes {
            let key = (cause.kind, cause.fingerprint.clone(), cause.code.clone());
            let before = self.causes.get(&key).map_or(0, |known| known.attempts);
            self.causes.insert(key, RecentCause { attempts: before + cause.attempts, ..cause });
        }
        let since = now.checked_sub(WINDOW).unwrap_or(Timestamp::MIN);
        self.minutes.retain(|(minute, _), _| *minute >= since);
        self.causes.retain(|_, cause| cause.last_at >= since);
    }

    pub(crate) fn minutes(&self) -> Vec<MinuteView> {
        let shown = |((minute, kind), counted): (&(Timestamp, UnitKind), &Minute)| MinuteView {
            minute: minute.to_string(),
            kind: kind.name(),
            good: counted.good,
            retrying: counted.retrying,
            failed: counted.failed,
        };
        self.minutes.iter().map(shown).collect()
    }

    pub(crate) fn causes(&self) -> Vec<&RecentCause> {
        let mut causes: Vec<&RecentCause> = self.causes.values().collect();
        causes.sort_by(|one, other| {
            (other.attempts, other.last_at).cmp(&(one.attempts, one.last_at))
        });
        causes.truncate(SHOWN);
        causes
    }
}
