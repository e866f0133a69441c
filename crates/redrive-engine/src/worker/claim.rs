//! One claim of a worker, and what it looks for if there is nothing.

use std::sync::Arc;

use redrive_store::{Backlog, Result};
use tokio::{task::JoinHandle, time::Instant};

use crate::worker::{
    lease_clock::Reading,
    renewer::{later, relied_on},
    work::Work,
    worker_loop::Until,
};

/// What a claim brought, and what had been asked for.
pub(crate) struct Claim<W: Work> {
    pub(crate) units: Vec<W::Unit>,
    pub(crate) asked: usize,
    /// When its leases were asked for.
    pub(crate) asked_at: Instant,
    /// Whether the leases are about to end, or someone else has them already.
    pub(crate) late: bool,
    /// What there is to do later, if there is nothing to do now.
    pub(crate) backlog: Option<Backlog>,
}

/// A claim under way.
pub(crate) struct Claiming<W: Work> {
    pub(crate) asked: usize,
    task: JoinHandle<Result<Claim<W>>>,
}

impl<W: Work> Claiming<W> {
    /// Asks for so many units.
    pub(crate) fn new(work: Arc<W>, asked: usize, limit: u32, end: Until) -> Self {
        Self { asked, task: tokio::spawn(claim(work, asked, limit, end)) }
    }
}

/// Claims units, and looks ahead if there are none.
///
/// An answer may take so long that the leases are about to end, or someone else has them already.
/// Such units are not begun: they go back, as far as they are still ours.
async fn claim<W: Work>(work: Arc<W>, asked: usize, limit: u32, end: Until) -> Result<Claim<W>> {
    let Reading { shared, here: asked_at } = Reading::now(work.lease_now());
    let units = work.claim(limit, later(shared, work.limits().lease)).await?;
    redrive_store::failpoint!("engine.claim.answered");
    let late = is_late(&*work, asked_at);
    let backlog = match end {
        _ if !units.is_empty() => None,
        Until::Drained => work.backlog().await.ok(),
        // Whether others hold something is of no use to it.
        Until::Stopped => {
            let due = work.next_due().await.ok();
            due.map(|next_due| Backlog { ready: false, held: true, next_due })
        }
    };
    Ok(Claim { units, asked, asked_at, late, backlog })
}

/// Whether a lease that was asked for at a time is about to end, so that nothing is begun under it.
pub(crate) fn is_late<W: Work>(work: &W, asked_at: Instant) -> bool {
    asked_at.elapsed() >= relied_on(work)
}

/// Waits for a claim under way; for ever if there is none.
pub(crate) async fn claim_of<W: Work>(claiming: &mut Option<Claiming<W>>) -> Result<Claim<W>> {
    let Some(Claiming { task, .. }) = claiming else { return std::future::pending().await };
    let claim = task.await;
    *claiming = None;
    claim.unwrap_or_else(|error| {
        let doing = "claiming".to_owned();
        Err(redrive_store::Error::Unavailable { doing, source: error.into() })
    })
}
