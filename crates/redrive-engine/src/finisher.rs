//! Writing the ends of attempts, in batches.
//!
//! While one batch is being written the next one gathers, so a quiet queue writes at once and a busy
//! one writes seldom. A batch that the store cannot take is kept and tried again until its leases
//! have surely ended: a result is never lost to a restart of the database. A batch that the store
//! refuses is split, so that one bad row strands nobody else's result.

use std::{sync::Arc, time::Duration};

use redrive_store::{LeaseRef, Written};
use tokio::sync::mpsc;

use crate::{held::Held, work::Work};

/// Ends that are written together at most.
const MAX_BATCH: usize = 1_000;

/// The first wait after a store that did not answer; it doubles up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(50);
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Writes ends until no more can come.
pub(crate) async fn finish_all<W: Work>(
    work: Arc<W>,
    held: Arc<Held>,
    mut ends: mpsc::UnboundedReceiver<W::End>,
) {
    let mut batch = Vec::new();
    while ends.recv_many(&mut batch, MAX_BATCH).await > 0 {
        finish_batch(&*work, &held, std::mem::take(&mut batch)).await;
    }
}

async fn finish_batch<W: Work>(work: &W, held: &Held, mut batch: Vec<W::End>) {
    let mut wait = FIRST_WAIT;
    while !batch.is_empty() {
        match work.finish(&batch).await {
            Ok(written) => {
                for (end, written) in batch.iter().zip(written) {
                    work.written(end, written);
                }
                held.remove(batch.iter().map(|end| work.end_lease(end)));
                return;
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(
                    work = work.name(),
                    results = batch.len(),
                    error = &error as &dyn std::error::Error,
                    "cannot write results; they are kept and tried again"
                );
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(MAX_WAIT);
                batch = without_ended(work, held, batch);
            }
            Err(error) => return finish_apart(work, held, batch, &error).await,
        }
    }
}

/// Drops the results whose leases have surely ended: whoever has the units now decides about them.
fn without_ended<W: Work>(work: &W, held: &Held, batch: Vec<W::End>) -> Vec<W::End> {
    let now = work.lease_now();
    let (ended, kept): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|end| held.has_ended(work.end_lease(end), now));
    for end in &ended {
        work.written(end, Written::Stale);
    }
    held.remove(ended.iter().map(|end| work.end_lease(end)));
    kept
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
        Box::pin(finish_batch(work, held, vec![end])).await;
    }
}
