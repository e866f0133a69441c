//! Causes: what failures of all kinds have in common.

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
    }
}

impl<'a> FailureColumns<'a> {
    /// The failures among some attempts.
    pub(crate) fn of(attempts: impl IntoIterator<Item = &'a AttemptRecord>) -> Self {
        let attempts = attempts.into_iter();
        let failed: Vec<&AttemptRecord> =
            attempts.filter(|attempt| attempt.fingerprint.is_some()).collect();
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
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unit_id.is_empty()
    }
}
