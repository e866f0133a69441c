//! Finds the units that this process holds without knowing it, and releases them.
//!
//! A claim may be made although its answer is lost: the connection broke, or the server crashed after the commit. Nobody
//! begins such a unit, and when its lease ends it looks as if its worker was lost. Its owner is this process, which knows
//! what it holds; so after a claim that failed it reads its leases back. Whatever no loop knows never began: it is released,
//! uncounted. A server may also make a claim after the client has given up on it, so this is repeated for the length of a
//! lease.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use redrive_retry::monotonic;
use redrive_store::{ExpiredLease, LeaseRef, Result, Written};

use crate::worker::{
    lease_clock::lease_margin, reaper::Reaped, release::UNANSWERED, store_retry::StoreRetry,
};

/// Leases that are read at a time.
const PAGE: u32 = 500;

/// The leases of one kind of unit that the loops of this process know.
pub(crate) struct KnownLeases(pub(crate) Vec<Arc<dyn Reaped>>);

impl KnownLeases {
    /// Whether a loop has the lease, or is about to get it.
    pub(crate) fn contains(&self, lease: LeaseRef) -> bool {
        self.0.iter().any(|member| member.knows(lease))
    }

    /// Whether a lease that no loop knows belongs to this process: then no attempt began under it.
    pub(crate) fn never_began(&self, unknown: &ExpiredLease) -> bool {
        let ours = self.0.first().is_some_and(|first| *first.leases().worker() == unknown.owner);
        ours && !self.was_refused(unknown.lease)
    }

    /// Whether the store refused the result of the attempt under a lease.
    pub(crate) fn was_refused(&self, lease: LeaseRef) -> bool {
        self.0.iter().any(|member| member.held().was_refused(lease))
    }

    /// Forgets refused leases that have ended, unless the store still has them.
    pub(crate) fn forget_refused(&self, stored: &HashSet<LeaseRef>) {
        self.0.iter().for_each(|member| member.held().forget_refused(stored, member.lease()));
    }

    /// Whether a claim failed, and the store may still make it.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.0.iter().any(|member| member.held().is_in_doubt())
    }

    /// Waits until a claim fails; forever without members.
    pub(crate) async fn doubted(&self) {
        let doubted = self.0.iter().map(|member| Box::pin(member.held().doubted()));
        match doubted.collect::<Vec<_>>() {
            none if none.is_empty() => std::future::pending().await,
            doubted => _ = futures_util::future::select_all(doubted).await,
        }
    }

    /// Releases what this process holds and no loop knows.
    pub(crate) async fn release_unknown(&self) -> Result<()> {
        let Some(leases) = self.0.first().map(|first| first.leases()) else { return Ok(()) };
        let started = monotonic();
        let mut after = i64::MIN;
        loop {
            let ours = leases.expired(Timestamp::MAX, Some(leases.worker()), after, PAGE).await?;
            let Some(last) = ours.last() else { break };
            after = last.lease.id;
            // In this order: the units of a claim are held before it is no longer pending.
            let pending = self.first_pending_end();
            let unknown = ours.into_iter().filter(|held| {
                pending.is_none_or(|pending| held.until < pending)
                    && !self.contains(held.lease)
                    && self.never_began(held)
            });
            self.release(&unknown.collect::<Vec<_>>()).await?;
        }
        for member in &self.0 {
            member.held().doubt_resolved(started, member.lease());
        }
        Ok(())
    }

    /// The earliest lease end that a pending claim requested, in microseconds as it is stored.
    fn first_pending_end(&self) -> Option<Timestamp> {
        let first = self.0.iter().filter_map(|member| member.held().pending_claim()).min()?;
        Some(Timestamp::from_microsecond(first.as_microsecond()).unwrap_or(first))
    }

    /// Releases units, one by one if the store refuses them together: one bad row blocks no other.
    pub(crate) async fn release(&self, unknown: &[ExpiredLease]) -> Result<()> {
        let Some(leases) = self.0.first().map(|first| first.leases()) else { return Ok(()) };
        let refs: Vec<LeaseRef> = unknown.iter().map(|unknown| unknown.lease).collect();
        let written = match refs[..] {
            [] => return Ok(()),
            _ => leases.release(&refs, UNANSWERED).await,
        };
        match written {
            Ok(written) => {
                let units = written.iter().filter(|written| **written == Written::Applied).count();
                if units > 0 {
                    tracing::warn!(units, "released units whose claim was not answered");
                }
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) if unknown.len() == 1 => tracing::error!(
                id = refs.first().map(|lease| lease.id),
                error = &error as &dyn std::error::Error,
                "the store refused to release a unit whose claim was not answered"
            ),
            Err(_) => {
                for one in unknown.chunks(1) {
                    Box::pin(self.release(one)).await?;
                }
            }
        }
        self.0.iter().for_each(|member| member.held().wake());
        Ok(())
    }

    /// Releases what is left, unless the store does not answer soon.
    pub(crate) async fn release_before_stopping(&self) {
        let Some(lease) = self.0.iter().map(|member| member.lease()).max() else { return };
        if !self.is_in_doubt() {
            return;
        }
        let release = async {
            let mut retry = StoreRetry::new("stopping", "releases", 0);
            while let Err(error) = self.release_unknown().await {
                if !error.is_transient() {
                    return;
                }
                retry.wait_after(&error).await;
            }
        };
        _ = tokio::time::timeout(lease_margin(lease), release).await;
    }
}
