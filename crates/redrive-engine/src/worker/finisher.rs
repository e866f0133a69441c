//! Writing what became of held units, in batches.
//!
//! While batches are being written the next one gathers, so a quiet queue writes at once and a busy
//! one writes seldom. Two are written at a time: one alone leaves a database idle between its answer
//! and the next question. A batch that the store cannot take is kept and tried again until the store has
//! answered: neither a result nor a hand-back is lost to a restart of the database, however long it
//! takes. If the lease ended meanwhile and someone else has the unit, the store says so. A batch that
//! the store refuses is split, so that one bad row strands nobody else's result.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redrive_store::LeaseRef;
use tokio::sync::{Mutex, mpsc};

use crate::worker::{held_leases::Held, settled::settled, work::Work, write_times::wrote};
use redrive_retry::monotonic;

/// Units that are written about together at most.
const MAX_BATCH: usize = 1_000;

/// The first wait after a store that did not answer; it doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(5);

/// What became of a held unit.
pub(crate) enum Fate<E> {
    /// Its attempt ended.
    Ended(E),
    /// It goes back without an attempt, with the reason for the journal.
    Returned(LeaseRef, &'static str),
}

/// Writes fates until no more can come.
pub(crate) async fn finish_all<W: Work>(
    work: Arc<W>,
    held: Arc<Held>,
    fates: mpsc::UnboundedReceiver<Fate<W::End>>,
) {
    let fates = Mutex::new(fates);
    tokio::join!(finish_in_turn(&*work, &held, &fates), finish_in_turn(&*work, &held, &fates));
}

/// Waits for its turn to take a batch, and writes it while the other waits for the next one.
async fn finish_in_turn<W: Work>(
    work: &W,
    held: &Held,
    fates: &Mutex<mpsc::UnboundedReceiver<Fate<W::End>>>,
) {
    let mut batch = Vec::new();
    while fates.lock().await.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut ends = Vec::with_capacity(batch.len());
        let mut returns: BTreeMap<&str, Vec<LeaseRef>> = BTreeMap::new();
        for fate in batch.drain(..) {
            match fate {
                Fate::Ended(end) => ends.push(end),
                Fate::Returned(lease, why) => returns.entry(why).or_default().push(lease),
            }
        }
        if !ends.is_empty() {
            finish(work, held, ends).await;
        }
        for (why, leases) in returns {
            release_leases(work, held, leases, why).await;
        }
    }
}

async fn finish<W: Work>(work: &W, held: &Held, batch: Vec<W::End>) {
    let mut patience = Patience::new(work.name(), "results", batch.len());
    let written = loop {
        let began = monotonic();
        let answer = work.finish(&batch).await;
        wrote(began.elapsed());
        match answer {
            Err(error) if error.is_transient() => patience.after(&error).await,
            answer => break answer,
        }
    };
    match written {
        Ok(written) => {
            redrive_store::failpoint!("engine.finish.written");
            for (end, written) in batch.iter().zip(written) {
                settled(work, end, written);
            }
            held.remove(batch.iter().map(|end| work.end_lease(end)));
        }
        Err(refusal) => finish_apart(work, held, batch, &refusal).await,
    }
}

/// Writes the results of a refused batch one by one. What is refused again waits for its lease to
/// end, like the work of a lost worker.
async fn finish_apart<W: Work>(
    work: &W,
    held: &Held,
    batch: Vec<W::End>,
    refusal: &redrive_store::Error,
) {
    if let [end] = &batch[..] {
        let lease: LeaseRef = work.end_lease(end);
        tracing::error!(
            work = work.name(),
            id = lease.id,
            error = refusal as &dyn std::error::Error,
            "a result cannot be written; its unit comes back when its lease ends"
        );
        held.remove([lease]);
        return;
    }
    for end in batch {
        Box::pin(finish(work, held, vec![end])).await;
    }
}

async fn release_leases<W: Work>(work: &W, held: &Held, mut leases: Vec<LeaseRef>, why: &str) {
    leases.sort_unstable_by_key(|lease| lease.id);
    let units = leases.len();
    redrive_store::failpoint!("engine.hand_back.sending");
    let mut patience = Patience::new(work.name(), "hand-backs", units);
    let returned = loop {
        match work.release_leases(&leases, why).await {
            Err(error) if error.is_transient() => patience.after(&error).await,
            answer => break answer,
        }
    };
    match returned {
        Ok(_) => tracing::info!(work = work.name(), units, why, "handed back"),
        Err(error) => tracing::error!(
            work = work.name(),
            units,
            error = &error as &dyn std::error::Error,
            "cannot hand back; the units come back when their leases end"
        ),
    }
    redrive_store::failpoint!("engine.hand_back.written");
    held.remove(leases);
}

/// Waiting for a store that does not answer, a little longer each time.
pub(crate) struct Patience<'a> {
    work: &'a str,
    what: &'a str,
    units: usize,
    wait: Duration,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(work: &'a str, what: &'a str, units: usize) -> Self {
        Self { work, what, units, wait: FIRST_WAIT }
    }

    pub(crate) async fn after(&mut self, error: &redrive_store::Error) {
        let Self { work, what, units, wait } = *self;
        tracing::warn!(
            work,
            units,
            error = error as &dyn std::error::Error,
            "cannot write {what}; they are kept and tried again"
        );
        tokio::time::sleep(wait).await;
        self.wait = (wait * 2).min(MAX_WAIT);
    }
}
