//! Causes: what failures of all kinds have in common.

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    AttemptRecord, CauseChange, CauseFilter, CauseMark, CauseMiscount, CauseRecord, Causes,
    Operator, Result, SOURCE_STAGE, UnitKind, Written, cause_hours_pruned, cause_records, hour_of,
};

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{bind, columns},
    columns::{Micros, read_records},
    journal::JournalColumns,
    queries,
};

#[async_trait]
impl Causes for PostgresStore {
    async fn causes(&self, filter: &CauseFilter) -> Result<Vec<CauseRecord>> {
        const DOING: &str = "reading causes";
        let (kind, since) = (filter.kind.map(UnitKind::name), Micros(hour_of(filter.since)));
        let mut session = self.session(DOING).await?;
        let causes = bind!(
            queries::CAUSES,
            since => &since,
            kind => &kind,
            fingerprint => &filter.fingerprint,
            limit => &i64::from(filter.limit),
        );
        let rows: Vec<(CauseRecord, _)> = read_records(&session.query(causes).await?, DOING)?;
        let mut named = each(&rows, |(cause, _)| cause.fingerprint.as_str());
        named.dedup();
        let hours = bind!(
            queries::CAUSE_HOURS,
            since => &Micros(hour_of(filter.hours_since)),
            kind => &kind,
            fingerprints => &named,
        );
        let hours = read_records(&session.query(hours).await?, DOING)?;
        Ok(cause_records(rows, hours))
    }

    async fn miscounted_causes(
        &self,
        since: Option<Timestamp>,
        limit: u32,
    ) -> Result<Vec<CauseMiscount>> {
        const DOING: &str = "comparing the counts of causes with the ledger";
        let miscounted = bind!(
            queries::MISCOUNTED_CAUSES,
            since => &since.map(Micros),
            source_stage => &SOURCE_STAGE,
            limit => &i64::from(limit),
        );
        let rows = self.session(DOING).await?.query(miscounted).await?;
        read_records(&rows, DOING)
    }

    async fn prune_cause_hours(&self, before: Timestamp, by: &Operator) -> Result<u64> {
        const DOING: &str = "pruning the counts of causes";
        let delete = bind!(queries::PRUNE_CAUSE_HOURS, before => &Micros(hour_of(before)));
        let mut session = self.session(DOING).await?;
        let removed = read_records(&session.begin(delete).await?, DOING)?;
        let removed: u64 = removed.into_iter().next().unwrap_or_default();
        if removed == 0 {
            session.commit().await?;
            return Ok(0);
        }
        let entry = cause_hours_pruned(before, removed, by);
        let journal = JournalColumns::of([Some(&entry)]);
        session.commit_all(&[bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))]).await?;
        Ok(removed)
    }

    async fn change_cause(
        &self,
        fingerprint: &str,
        change: &CauseChange,
        by: &Operator,
    ) -> Result<Written> {
        const DOING: &str = "changing a cause";
        let (by, mark) = (by.cleaned(), change.mark().flatten().map(CauseMark::name));
        let update = bind!(
            queries::CHANGE_CAUSE,
            fingerprint => &fingerprint,
            marks => &change.mark().is_some(),
            mark => &mark,
            marked_at => &mark.map(|_| Micros(by.at)),
            marked_by => &mark.map(|_| by.actor.as_str()),
            note => &change.note(),
            ticket => &change.ticket(),
        );
        let mut session = self.session(DOING).await?;
        if session.begin(update).await?.is_empty() {
            session.commit().await?;
            return Ok(Written::Stale);
        }
        let entry = change.journal_entry(fingerprint, &by);
        let journal = JournalColumns::of([Some(&entry)]);
        session.commit_all(&[bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal))]).await?;
        Ok(Written::Applied)
    }
}

columns! {
    /// Failures as arrays, for `RECORD_CAUSES`.
    pub(crate) struct FailureColumns<'a> {
        kind: Vec<&'static str>,
        unit_id: Vec<i64>,
        stage: Vec<&'a str>,
        class: Vec<&'a str>,
        code: Vec<&'a str>,
        message: Vec<&'a str>,
        fingerprint: Vec<&'a str>,
        started_at: Vec<Micros>,
        ended_at: Vec<Micros>,
        worker: Vec<&'a str>,
        place: Vec<Option<&'a str>>,
        number: Vec<i64>,
    }
}

struct CountedFailure<'a> {
    attempt: &'a AttemptRecord,
    /// Where the unit belongs, if the caller knows; otherwise it is looked up.
    place: Option<&'a str>,
    /// How many attempts with its cause, hour and place this one stands for.
    number: i64,
}

impl<'a> FailureColumns<'a> {
    /// The failures among some attempts.
    pub(crate) fn of(attempts: impl IntoIterator<Item = &'a AttemptRecord>) -> Self {
        let failed = attempts.into_iter().filter(|attempt| attempt.fingerprint.is_some());
        Self::counted(failed.map(|attempt| CountedFailure { attempt, place: None, number: 1 }))
    }

    /// The failures among some attempts with known places, few for each cause, hour and place: those that tell its
    /// first message and time, whether it came back, and its last unit.
    pub(crate) fn at(attempts: impl IntoIterator<Item = (&'a AttemptRecord, &'a str)>) -> Self {
        let mut groups: HashMap<_, Vec<&AttemptRecord>> = HashMap::new();
        for (attempt, place) in attempts {
            if let Some(fingerprint) = &attempt.fingerprint {
                let key = (fingerprint.as_str(), hour_of(attempt.ended_at), place);
                groups.entry(key).or_default().push(attempt);
            }
        }
        let few = groups.into_iter().flat_map(|((_, _, place), attempts)| {
            let by_end = |attempt: &&&AttemptRecord| attempt.ended_at;
            let mut few: Vec<&AttemptRecord> = [
                attempts.iter().min_by_key(by_end),
                attempts.iter().max_by_key(by_end),
                attempts.iter().max_by_key(|attempt| attempt.started_at),
            ]
            .into_iter()
            .flatten()
            .copied()
            .collect();
            few.sort_unstable_by_key(|attempt| attempt.unit.id);
            few.dedup_by_key(|attempt| attempt.unit.id);
            let mut number = 1 + attempts.len().saturating_sub(few.len()) as i64;
            few.into_iter().map(move |attempt| CountedFailure {
                attempt,
                place: Some(place),
                number: std::mem::replace(&mut number, 1),
            })
        });
        Self::counted(few)
    }

    fn counted(failed: impl Iterator<Item = CountedFailure<'a>>) -> Self {
        let counted: Vec<CountedFailure<'_>> = failed.collect();
        let failed = each(&counted, |failure| failure.attempt);
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        Self {
            kind: each(&failed, |attempt| attempt.unit.kind.name()),
            unit_id: each(&failed, |attempt| attempt.unit.id),
            stage: each(&failed, |attempt| attempt.unit.stage.as_str()),
            class: each(&failed, |attempt| text(&attempt.class)),
            code: each(&failed, |attempt| text(&attempt.code)),
            message: each(&failed, |attempt| text(&attempt.message)),
            fingerprint: each(&failed, |attempt| text(&attempt.fingerprint)),
            started_at: each(&failed, |attempt| Micros(attempt.started_at)),
            ended_at: each(&failed, |attempt| Micros(attempt.ended_at)),
            worker: each(&failed, |attempt| attempt.worker.as_str()),
            place: each(&counted, |failure| failure.place),
            number: each(&counted, |failure| failure.number),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unit_id.is_empty()
    }
}
