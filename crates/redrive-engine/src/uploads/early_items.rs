//! Items that were rejected a moment ago and should not be sent yet.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use redrive_core::ItemId;
use redrive_store::{ItemGroup, Result, Store};

/// Items that are read at a time.
const PAGE: u32 = 1_000;

/// Pending items that were rejected a moment ago: sending them before their `next_retry_at` spends an attempt (UPL-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlyItems {
    pub count: u64,
    /// When all of them may be sent.
    pub until: Timestamp,
}

impl EarlyItems {
    /// An item waits for `cap` after its last rejection. `None` if no item of the group waits.
    pub async fn find(
        store: &dyn Store,
        group: &ItemGroup,
        cap: Duration,
        now: Timestamp,
    ) -> Result<Option<Self>> {
        let (mut early, mut after) = (Self { count: 0, until: now }, ItemId(0));
        loop {
            let page = store.pending_items(group, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            for item in page.iter().filter(|item| item.upload_attempts > item.attempts_at_reset) {
                let due = item.updated_at.checked_add(cap).unwrap_or(Timestamp::MAX);
                if due > now {
                    early = Self { count: early.count + 1, until: early.until.max(due) };
                }
            }
        }
        Ok((early.count > 0).then_some(early))
    }
}

impl fmt::Display for EarlyItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = if self.count == 1 { "item was" } else { "items were" };
        let until = self.until.round(jiff::Unit::Second).unwrap_or(self.until);
        write!(f, "{} {items} rejected a moment ago and should wait until {until}", self.count)
    }
}
