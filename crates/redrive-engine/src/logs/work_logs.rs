//! The logs of the attempts of one loop, on their way to the store.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redrive_core::AttemptNumber;
use redrive_retry::Stop;
use redrive_store::{AttemptLog, LeaseRef, Result, UnitRow};
use tokio::{sync::Notify, time::sleep};

use super::{
    call_log::{CallLog, LogContent, OpenLog},
    log_limits::{LogLimits, SuccessSample},
};
use crate::worker::{held_leases::HeldLeases, unit_leases::WorkContext};

/// How often the logs of running attempts are written.
const INTERVAL: Duration = Duration::from_secs(1);

/// At most so much text is written in an interval, so that programs that print much do not fill the store's time. The logs of
/// other attempts follow in the next.
const MAX_INTERVAL_BYTES: usize = 1024 * 1024;

/// The logs of the attempts of one loop.
pub struct WorkLogs {
    pub(super) limits: LogLimits,
    context: WorkContext,
    /// Of attempts that have logged something and whose result is not written.
    live: Mutex<HashMap<LeaseRef, Arc<OpenLog>>>,
    begun: Notify,
    successes: SuccessSample,
}

impl WorkLogs {
    pub(crate) fn new(limits: LogLimits, context: &WorkContext) -> Arc<Self> {
        Arc::new(Self {
            limits,
            context: context.clone(),
            live: Mutex::default(),
            begun: Notify::new(),
            successes: SuccessSample::default(),
        })
    }

    /// The log of an attempt that starts.
    pub(crate) fn of_attempt(
        self: &Arc<Self>,
        unit: UnitRow,
        attempt: AttemptNumber,
        lease: LeaseRef,
    ) -> CallLog {
        if self.limits.bytes == 0 {
            return CallLog::default();
        }
        let content = Mutex::new(LogContent::default());
        CallLog::of(OpenLog { unit, attempt, lease, logs: self.clone(), content })
    }

    pub(super) fn begin(&self, lease: LeaseRef, log: Arc<OpenLog>) {
        self.live().insert(lease, log);
        self.begun.notify_one();
    }

    fn live(&self) -> MutexGuard<'_, HashMap<LeaseRef, Arc<OpenLog>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The logs of attempts whose results are about to be written: of those that failed, and of some that succeeded.
    pub(crate) fn ended<'a, F>(
        &self,
        finishes: &'a [F],
        lease: impl Fn(&'a F) -> LeaseRef,
        succeeded: impl Fn(&'a F) -> bool,
    ) -> Vec<AttemptLog> {
        let logged: Vec<(&F, Arc<OpenLog>)> = {
            let live = self.live();
            if live.is_empty() {
                return Vec::new();
            }
            finishes.iter().filter_map(|it| Some((it, live.get(&lease(it))?.clone()))).collect()
        };
        let (now, rate) = (self.context.clock.now(), self.limits.successes);
        // What is begun in the store is completed.
        let kept = logged.iter().filter(|(finish, log)| {
            !succeeded(finish) || log.last_write().is_some() || self.successes.takes(rate, now)
        });
        kept.filter_map(|(_, log)| log.unwritten(&self.context.worker, now)).collect()
    }

    pub(crate) async fn write(&self, logs: &[AttemptLog]) -> Result<()> {
        if logs.is_empty() { Ok(()) } else { self.context.store.write_logs(logs).await }
    }

    /// Drops the logs of attempts whose results are written, or that were released.
    pub(crate) fn forget(&self, leases: impl Iterator<Item = LeaseRef>) {
        let mut live = self.live();
        if !live.is_empty() {
            leases.for_each(|lease| _ = live.remove(&lease));
        }
    }

    /// Writes the logs of running attempts now and then, until stopped.
    pub(crate) async fn follow(self: Arc<Self>, held: Arc<HeldLeases>, mut stop: Stop) {
        loop {
            let next = async {
                if self.live().is_empty() {
                    self.begun.notified().await;
                }
                sleep(INTERVAL).await;
            };
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = next => {}
            }
            self.write_live(&held).await;
        }
    }

    async fn write_live(&self, held: &HeldLeases) {
        let now = self.context.clock.now();
        let mut open: Vec<Arc<OpenLog>> = {
            let mut live = self.live();
            // A handler may log after its end, when nobody asks for the log any more.
            live.retain(|lease, _| held.contains(*lease));
            live.values().cloned().collect()
        };
        // Those first that wait the longest.
        open.sort_by_key(|log| log.last_write());
        let (mut logs, mut bytes) = (Vec::new(), 0);
        for log in &open {
            let Some(text) = log.unwritten(&self.context.worker, now) else { continue };
            bytes += text.text.len();
            logs.push((log, text));
            if bytes >= MAX_INTERVAL_BYTES {
                break;
            }
        }
        let (open, logs): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
        match self.write(&logs).await {
            Ok(()) => open.iter().zip(&logs).for_each(|(open, log)| open.was_written(log)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "cannot write the logs of running attempts; tries again");
            }
        }
    }
}
