//! Samples of pipelines: claim, finish, read.

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind},
    columns::{Micros, read_records, read_rows},
    gates::{GateRequest, GatedClaim},
    operators::Edited,
    queries,
    sample_writes::{append, finish, reprocess},
    session::Session,
};
use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::{PipelineRunId, SampleId};
use redrive_store::{
    ChosenSamples, ClaimedSample, DataEdit, DeadCause, FromRow, GateRecord, LeaseRef, MAX_KEYED,
    MAX_PAGE_BYTES, NewSample, Operator, PageLimit, PipelineRunRecord, ReadColumn, Result,
    SampleChange, SampleClaim, SampleFinish, SampleLine, SampleRecord, SampleWritten, Samples,
    Selection, SelectionSql, Served, SourcePosition, UnitKind, Written,
};
use tokio_postgres::Row;

#[async_trait]
impl Samples for PostgresStore {
    async fn append_samples(
        &self,
        feed: LeaseRef,
        samples: &[NewSample],
        position: &SourcePosition,
        at: Timestamp,
    ) -> Result<Option<PipelineRunRecord>> {
        let run = append(self, feed, samples, position, at).await?;
        redrive_store::failpoint!("postgres.append.committed");
        self.notify_if(run.is_some()).await;
        Ok(run)
    }

    async fn claim_samples(&self, claim: &SampleClaim) -> Result<Vec<ClaimedSample>> {
        let mut session = self.session(CLAIMING).await?;
        let claimed = claim_work(self, &mut session, claim).await?;
        redrive_store::failpoint!("postgres.claim_samples.committed");
        Ok(claimed)
    }

    async fn finish_samples(&self, finishes: &[SampleFinish]) -> Result<Vec<SampleWritten>> {
        if finishes.is_empty() {
            return Ok(Vec::new());
        }
        let (written, news) = finish(self, finishes).await?;
        redrive_store::failpoint!("postgres.finish_samples.committed");
        let mut each = written.iter().zip(finishes);
        let leaves_work = each
            .any(|(written, finish)| *written == SampleWritten::Applied && finish.leaves_work());
        self.wake_if(leaves_work);
        self.notify_if(news).await;
        Ok(written)
    }

    async fn samples_by_id(&self, ids: &[SampleId]) -> Result<Vec<SampleRecord>> {
        let ids = each(ids, |id| id.0);
        let mut session = self.session(READING).await?;
        let rows = session.query(bind!(queries::SAMPLES_BY_ID, ids => &ids)).await?;
        read_records(&rows, READING)
    }

    async fn samples_page(
        &self,
        filter: &Selection,
        after: SampleId,
        limit: PageLimit,
    ) -> Result<Vec<SampleRecord>> {
        let page = bind!(
            queries::SAMPLES_PAGE,
            after => &after.0,
            limit => &i64::from(limit.rows),
            with_data => &limit.with_data,
            max_bytes => &(MAX_PAGE_BYTES as i64),
        );
        let units = SelectionSql::SAMPLES.in_order(limit.order);
        let rows = self.session(READING).await?.select(page, &units, filter).await?;
        read_records(&rows, READING)
    }

    async fn newest_dead_samples(
        &self,
        filter: &Selection,
        limit: u32,
    ) -> Result<Vec<SampleRecord>> {
        let newest = bind!(queries::NEWEST_DEAD_SAMPLES, limit => &i64::from(limit));
        read_records(&select(self, newest, filter).await?, READING)
    }

    async fn count_samples(&self, filter: &Selection) -> Result<u64> {
        let rows = select(self, bind!(queries::COUNT_SAMPLES), filter).await?;
        Ok(read_records(&rows, READING)?.pop().unwrap_or_default())
    }

    async fn dead_causes(&self, filter: &Selection, limit: u32) -> Result<Vec<DeadCause>> {
        let causes = bind!(queries::DEAD_CAUSES, limit => &i64::from(limit));
        read_records(&select(self, causes, filter).await?, READING)
    }

    async fn edit_samples(&self, edits: &[DataEdit]) -> Result<Vec<Written>> {
        self.edit_data(Edited::Sample, edits).await
    }

    async fn sample_lines(
        &self,
        run: PipelineRunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<SampleLine>> {
        const DOING: &str = "reading lines";
        let page = bind!(
            queries::SAMPLE_LINES,
            run_id => &run.0,
            after => &i64::try_from(after).unwrap_or(i64::MAX),
            limit => &i64::from(limit),
        );
        let rows = self.session(DOING).await?.query(page).await?;
        read_records(&rows, DOING)
    }

    async fn reprocess_samples(
        &self,
        ids: &[SampleId],
        by: &Operator,
    ) -> Result<Vec<SampleChange>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let changes = reprocess(self, ids, &[], &by.cleaned()).await?;
        redrive_store::failpoint!("postgres.reprocess_samples.committed");
        self.notify_if(changes.contains(&SampleChange::Done)).await;
        Ok(changes)
    }

    async fn reread_samples(&self, edits: &[DataEdit], by: &Operator) -> Result<Vec<SampleChange>> {
        if edits.is_empty() {
            return Ok(Vec::new());
        }
        let ids = each(edits, |edit| SampleId(edit.id));
        let changes = reprocess(self, &ids, edits, &by.cleaned()).await?;
        self.notify_if(changes.contains(&SampleChange::Done)).await;
        Ok(changes)
    }
}

const READING: &str = "reading samples";
const CLAIMING: &str = "claiming samples";

async fn claim_work(
    store: &PostgresStore,
    session: &mut Session,
    claim: &SampleClaim,
) -> Result<Vec<ClaimedSample>> {
    let SampleClaim { gates, owner, limit, now, .. } = claim;
    let asked = GateRequest { gates, kind: UnitKind::Sample, owner, limit: *limit, now: *now };
    let has_gates = !gates.is_empty();
    if has_gates && let Some(rows) = asked.begin(store, session, &[]).await? {
        return claim_behind_gates(store, session, claim, &asked, rows).await;
    }
    take_in_turn(session, claim, claim.limit, has_gates).await
}

/// By run, the oldest first; in each run, due retries before ready samples.
async fn take_in_turn(
    session: &mut Session,
    claim: &SampleClaim,
    limit: u32,
    commits: bool,
) -> Result<Vec<ClaimedSample>> {
    let Served { pipeline, stages, run } = &claim.served;
    let take = bind!(
        queries::CLAIM_SAMPLES,
        pipeline => pipeline,
        stages => stages,
        run_id => &run.map(|run| run.0),
        stage => &i64::from(claim.stage),
        limit => &i64::from(limit),
        owner => &claim.owner.0,
        lease_until => &Micros(claim.lease_until),
        now => &Micros(claim.now),
    );
    let rows = if commits {
        session.commit_all(&[take]).await?.pop().unwrap_or_default()
    } else {
        session.query(take).await?
    };
    let mut claimed = read_rows(&rows, CLAIMING, |row| {
        let due: bool = row.get()?;
        Ok((due, ClaimedSample::from_row(row)?))
    })?;
    // RETURNING has no order.
    claimed.sort_unstable_by_key(|(due, sample)| (sample.run, !due, sample.id));
    Ok(claimed.into_iter().map(|(_, sample)| sample).collect())
}

async fn claim_behind_gates(
    store: &PostgresStore,
    session: &mut Session,
    claim: &SampleClaim,
    asked: &GateRequest<'_>,
    rows: Vec<GateRecord>,
) -> Result<Vec<ClaimedSample>> {
    let (mut present, mut has_more) = (vec![String::new()], false);
    if claim.gate_key.is_some() {
        (has_more, present) = key_samples(session, claim).await?;
    }
    let gated = asked.look(store, session, rows, present, |_| true).await?;
    let (chosen, mut claimed) = if claim.gate_key.is_some() {
        take_of_keys(session, claim, &gated).await?
    } else {
        let limit = gated.most.first().map_or(0, |(_, most)| *most);
        (ChosenSamples::default(), take_in_turn(session, claim, limit, false).await?)
    };
    let passes = asked.commit(store, session, gated, &chosen.units(&claimed)).await?;
    chosen.pass(&mut claimed, passes);
    store.wake_if(has_more);
    Ok(claimed)
}

/// Notes the keys of some samples that have none, and makes due ones ready. Returns whether there may be more of them, and the keys
/// of those that are ready.
async fn key_samples(session: &mut Session, claim: &SampleClaim) -> Result<(bool, Vec<String>)> {
    let Served { pipeline, stages, run } = &claim.served;
    let read = bind!(
        queries::UNKEYED_SAMPLES,
        pipeline => pipeline,
        stages => stages,
        run_id => &run.map(|run| run.0),
        stage => &i64::from(claim.stage),
        now => &Micros(claim.now),
        limit => &i64::from(MAX_KEYED),
    );
    let unkeyed: Vec<(i64, Option<String>)> =
        read_rows(&session.query(read).await?, CLAIMING, |row| Ok((row.get()?, row.get()?)))?;
    let key = |data: &Option<String>| claim.key_of(data.as_deref().unwrap_or_default());
    let note = bind!(
        queries::KEY_SAMPLES,
        id => &each(&unkeyed, |(id, _)| *id),
        gate_key => &each(&unkeyed, |(_, data)| key(data)),
    );
    let keys = bind!(
        queries::SAMPLE_KEYS,
        pipeline => pipeline,
        stages => stages,
        run_id => &run.map(|run| run.0),
        stage => &i64::from(claim.stage),
    );
    let rows = session.continue_all(&[note, keys]).await?.pop().unwrap_or_default();
    let has_more = unkeyed.len() >= MAX_KEYED as usize;
    Ok((has_more, read_rows(&rows, CLAIMING, |row| row.get())?))
}

/// Claims the first samples of each key that the gates let through, of the oldest run first.
async fn take_of_keys(
    session: &mut Session,
    claim: &SampleClaim,
    gated: &GatedClaim,
) -> Result<(ChosenSamples, Vec<ClaimedSample>)> {
    let Served { pipeline, stages, run } = &claim.served;
    let most = |most: u32| i64::from(most.min(gated.limit));
    let read = bind!(
        queries::CLAIMABLE_SAMPLES,
        pipeline => pipeline,
        stages => stages,
        run_id => &run.map(|run| run.0),
        stage => &i64::from(claim.stage),
        key => &each(&gated.most, |(key, _)| key),
        most => &each(&gated.most, |(_, of_key)| most(*of_key)),
    );
    let candidates = read_rows(&session.query(read).await?, CLAIMING, |row| {
        Ok((SampleId(row.get()?), row.get()?))
    })?;
    let chosen = ChosenSamples::of(candidates, gated.limit, &gated.most);
    let take = bind!(
        queries::CLAIM_SAMPLES_BY_ID,
        ids => &chosen.ids,
        owner => &claim.owner.0,
        lease_until => &Micros(claim.lease_until),
        now => &Micros(claim.now),
    );
    let mut claimed: Vec<ClaimedSample> = read_records(&session.query(take).await?, CLAIMING)?;
    chosen.sort(&mut claimed);
    Ok((chosen, claimed))
}

async fn select(
    store: &PostgresStore,
    query: BoundQuery<'_>,
    selection: &Selection,
) -> Result<Vec<Row>> {
    store.session(READING).await?.select(query, &SelectionSql::SAMPLES, selection).await
}
