//! Attempts over time, from the counts that processes add up.

use redrive_store::{AttemptCountFilter, Result};

use crate::{
    Ops,
    views::{ActivityPlace, ActivityRange, ActivityView},
};

impl Ops {
    /// The attempts of a place, or of all, up to now. Counts of the last third of a lease may be missing.
    pub async fn activity(
        &self,
        range: ActivityRange,
        place: Option<&ActivityPlace>,
    ) -> Result<ActivityView> {
        let now = self.now();
        let filter = AttemptCountFilter {
            period: range.period(),
            since: range.since(now),
            kind: place.map(|place| place.kind),
            place: place.map(|place| place.name.clone()).unwrap_or_default(),
        };
        let counts = self.store().attempt_counts(&filter).await?;
        Ok(ActivityView::new(range, place, &counts, now))
    }
}
