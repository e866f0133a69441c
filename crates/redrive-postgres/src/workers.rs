//! Processes that work on units, and the attempts that they counted.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    AttemptCount, AttemptCountFilter, CountPeriod, PeriodCount, Presence, Result, Store, UnitKind,
    WorkerRecord, Workers, worker_kept_since,
};

use crate::{
    PostgresStore,
    batch::each,
    bound_query::bind,
    columns::{Micros, read_records},
    queries,
};

#[async_trait]
impl Workers for PostgresStore {
    async fn report(
        &self,
        presence: &Presence,
        counts: &[AttemptCount],
        at: Timestamp,
    ) -> Result<()> {
        const DOING: &str = "reporting a worker";
        let took = |count: &AttemptCount| i64::try_from(count.took.as_micros()).unwrap_or(i64::MAX);
        let add = bind!(
            queries::ADD_ATTEMPT_COUNTS,
            seconds => &each(counts, |count| count.period.seconds()),
            kind => &each(counts, |count| count.kind.name()),
            place => &each(counts, |count| count.place.as_str()),
            started_at => &each(counts, |count| Micros(count.started_at)),
            outcome => &each(counts, |count| count.outcome.name()),
            attempts => &each(counts, |count| count.attempts as i64),
            took => &each(counts, took),
        );
        let silent = bind!(
            queries::REMOVE_SILENT_WORKERS,
            heard_before => &Micros(worker_kept_since(self.now())),
        );
        let old = bind!(
            queries::REMOVE_ATTEMPT_COUNTS,
            seconds => &each(&CountPeriod::ALL, |period| period.seconds()),
            before => &each(&CountPeriod::ALL, |period| Micros(period.kept_since(at))),
        );
        let mut session = self.session(DOING).await?;
        match presence {
            Presence::Working(worker) => {
                let put = bind!(
                    queries::PUT_WORKER,
                    id => &worker.id.0,
                    host => &worker.host,
                    process => &i64::from(worker.process),
                    version => &worker.version,
                    started_at => &Micros(worker.started_at),
                    heard_at => &Micros(worker.heard_at),
                    lease_until => &Micros(worker.lease_until),
                    draining => &worker.draining,
                    places => &worker.places_json(),
                );
                session.transaction(&[put, add, silent, old]).await?;
            }
            Presence::Stopped(id) => {
                let remove = bind!(queries::REMOVE_WORKER, id => &id.0);
                session.transaction(&[remove, add, silent, old]).await?;
            }
            Presence::NoWorker => _ = session.transaction(&[add, silent, old]).await?,
        }
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>> {
        const DOING: &str = "reading workers";
        let rows = self.session(DOING).await?.query(bind!(queries::WORKERS)).await?;
        read_records(&rows, DOING)
    }

    async fn attempt_counts(&self, filter: &AttemptCountFilter) -> Result<Vec<PeriodCount>> {
        const DOING: &str = "reading counted attempts";
        let kinds = filter.kind.map_or(UnitKind::ALL.to_vec(), |kind| vec![kind]);
        let counts = bind!(
            queries::ATTEMPT_COUNTS,
            seconds => &filter.period.seconds(),
            kinds => &each(&kinds, |kind| kind.name()),
            place => &filter.place,
            since => &Micros(filter.since),
        );
        let rows = self.session(DOING).await?.query(counts).await?;
        read_records(&rows, DOING)
    }
}
