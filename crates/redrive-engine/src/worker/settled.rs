//! What is done once the end of an attempt is written, whoever wrote it: the worker that made the
//! attempt, or a reaper for one that was lost.

use redrive_store::Written;

use crate::worker::work::Work;

/// Tells of ends that were written: each is logged, and traced if its row is in the ledger.
pub(crate) fn settled<W: Work>(work: &W, end: &W::End, written: Written) {
    work.written(end, written);
    if written == Written::Applied
        && let Some(traces) = work.traces()
    {
        traces.record(|| work.attempt(end));
    }
}
