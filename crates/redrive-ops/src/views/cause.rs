//! The view of a cause.

use jiff::{SignedDuration, Timestamp};
use redrive_core::summary;
use redrive_store::{CauseKind, CauseMark, CauseRecord, UnitKind, hour_of};
use serde::Serialize;

use super::JournalView;

/// The hours of a sparkline.
const HOURS: i64 = 24;

/// What failures have in common: class, code and normalised message.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CauseView {
    pub fingerprint: String,
    /// `final`, `retryable` or `rate_limited`.
    pub class: String,
    pub code: String,
    /// What the first failure said, in one line.
    pub message: String,
    /// Units that were given up, and failed partitions, also those that the daemon retries.
    pub stuck: u64,
    /// Units that wait for a retry.
    pub waiting: u64,
    /// Failed attempts in the period.
    pub attempts: u64,
    /// Failed attempts in each of the last 24 hours, the current one last.
    pub last_day: Vec<u64>,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Counts by kind of unit.
    pub kinds: Vec<CauseKind>,
    /// Where attempts failed in the period, the most attempts first; or where the last one did.
    pub places: Vec<CausePlaceView>,
    /// The unit of the last failure, such as `run:17`.
    pub example: Option<String>,
    pub mark: Option<CauseMark>,
    pub note: Option<String>,
    pub ticket: Option<String>,
    pub marked_at: Option<Timestamp>,
    pub marked_by: Option<String>,
    /// When the cause came back after it was marked as fixed.
    pub returned_at: Option<Timestamp>,
    /// The whole message of the first failure.
    pub full_message: String,
    /// What was written down and reported, the newest entries last; lists of causes leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<Vec<JournalView>>,
}

/// Failed attempts of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CausePlaceView {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub kind: UnitKind,
    /// A queue, a source, an upload, or a pipeline with a stage.
    pub place: String,
    pub attempts: u64,
}

impl CausePlaceView {
    /// What the place is.
    pub fn noun(&self) -> &'static str {
        match self.kind {
            UnitKind::Run => "queue",
            UnitKind::Item => "upload",
            UnitKind::Partition => "source",
            UnitKind::Sample => "pipeline",
        }
    }
}

impl CauseView {
    pub(crate) fn new(
        cause: CauseRecord,
        example: Option<String>,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let sum = |of: fn(&CauseKind) -> u64| cause.kinds.iter().map(of).sum();
        let (stuck, waiting, attempts) =
            (sum(|it| it.stuck), sum(|it| it.waiting), sum(|it| it.attempts));
        let mut places: Vec<CausePlaceView> = Vec::new();
        let mut last_day = vec![0; HOURS as usize];
        for hour in &cause.hours {
            let ago = hour_of(now).duration_since(hour.hour).as_hours();
            let column = usize::try_from(HOURS - 1 - ago).ok();
            if let Some(count) = column.and_then(|column| last_day.get_mut(column)) {
                *count += hour.attempts;
            }
            let attempts = if hour.hour < hour_of(since) { 0 } else { hour.attempts };
            let is_same = |it: &&mut CausePlaceView| it.kind == hour.kind && it.place == hour.place;
            match places.iter_mut().find(is_same) {
                Some(place) => place.attempts += attempts,
                None => places.push(CausePlaceView {
                    kind: hour.kind,
                    place: hour.place.clone(),
                    attempts,
                }),
            }
        }
        places.sort_by_key(|place| std::cmp::Reverse(place.attempts));
        Self {
            message: summary(&cause.message).into_owned(),
            stuck,
            waiting,
            attempts,
            last_day,
            kinds: cause.kinds,
            places,
            example,
            fingerprint: cause.fingerprint,
            class: cause.class,
            code: cause.code,
            first_at: cause.first_at,
            last_at: cause.last_at,
            mark: cause.mark,
            note: cause.note,
            ticket: cause.ticket,
            marked_at: cause.marked_at,
            marked_by: cause.marked_by,
            returned_at: cause.returned_at,
            full_message: cause.message,
            journal: None,
        }
    }

    /// The mark, and whether the cause came back.
    pub fn state(&self) -> &'static str {
        match (self.mark, self.returned_at) {
            (Some(CauseMark::Fixed), Some(_)) => "came back",
            (Some(mark), _) => mark.name(),
            (None, _) => "",
        }
    }

    /// `queue a, source ads`: the places with the most attempts.
    pub fn described_places(&self) -> String {
        const SHOWN: usize = 3;
        let name = |place: &CausePlaceView| format!("{} {}", place.noun(), place.place);
        let mut names: Vec<String> = self.places.iter().take(SHOWN).map(name).collect();
        if let Some(more) = self.places.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            names.push(format!("{more} more"));
        }
        names.join(", ")
    }

    /// The attempts of the last day as a line of characters.
    pub fn sparkline(&self) -> String {
        const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let most = self.last_day.iter().copied().max().unwrap_or(0).max(1);
        let height = |count: &u64| match count {
            0 => '·',
            count => {
                let eighths = usize::try_from((count.saturating_mul(8) - 1) / most).ok();
                eighths.and_then(|eighths| HEIGHTS.get(eighths).copied()).unwrap_or('█')
            }
        };
        self.last_day.iter().map(height).collect()
    }
}

/// The default period of a list of causes.
pub(crate) fn last_day(now: Timestamp) -> Timestamp {
    now.checked_sub(SignedDuration::from_hours(HOURS - 1)).unwrap_or(Timestamp::MIN)
}
