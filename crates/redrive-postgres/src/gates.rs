//! Gates: what claims may take, what results change, and orders of operators.
//!
//! A gate has an advisory lock, which is fair: a claim that takes gates as open shares it; a claim that must count, and everything
//! that changes a row of the gate, has it alone. It is taken after the units of a finish and before those of a claim, which waits
//! for none, so there is no cycle.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    ClaimGates, DeclaredGate, Error, GateDeclarations, GateOrder, GateOrdered, GatePass,
    GatePermit, GateRecord, GateResultWrites, GateResults, GateRule, GateRules, Gates, LeaseRef,
    LetThrough, MAX_WAITING_BEHIND, Operator, PermitHolder, ReadColumn, Result, Store, UnitKind,
    WorkerId,
};
use tokio_postgres::Row;

use crate::{
    PostgresStore,
    batch::each,
    bound_query::{BoundQuery, bind},
    columns::{Micros, read_records, read_rows},
    journal::JournalColumns,
    queries,
    session::Session,
};

const READING: &str = "reading gates";
const WRITING: &str = "writing gates";

#[async_trait]
impl Gates for PostgresStore {
    async fn declare_gates(&self, declarations: &GateDeclarations, at: Timestamp) -> Result<()> {
        let known = self.declared_gates().await?;
        let mut session = self.session(WRITING).await?;
        let gates = declarations.merged(&known);
        let names = each(&gates, |gate| gate.name.as_str());
        let read = [bind!(queries::LOCK_GATES, name => &names), bind!(queries::DECLARED_GATES)];
        let read = session.begin_all(&read).await?.pop().unwrap_or_default();
        let known: Vec<DeclaredGate> = read_records(&read, READING)?;
        let (gates, mut strands_units) = (declarations.merged(&known), false);
        for gate in &gates {
            let declare = bind!(
                queries::DECLARE_GATE,
                name => &gate.name,
                per => &gate.per,
                key => &gate.key,
                limits => &gate.limits,
                places => &gate.places_json(),
            );
            session.continue_all(&[declare]).await?;
            if gate.strands_units(&known) {
                forget_keys(&mut session, gate, &known, at).await?;
                strands_units = true;
            }
        }
        session.commit().await?;
        drop(session);
        self.notify_if(strands_units).await;
        let undivided = gates.iter().filter(|gate| gate.per.is_none());
        let undivided: Vec<(&str, &str)> = undivided.map(|gate| (&*gate.name, "")).collect();
        self.note_gate_keys(&undivided).await
    }

    async fn declared_gates(&self) -> Result<Vec<DeclaredGate>> {
        let mut session = self.session(READING).await?;
        read_records(&session.query(bind!(queries::DECLARED_GATES)).await?, READING)
    }

    async fn note_gate_keys(&self, keys: &[(&str, &str)]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let note = bind!(
            queries::NOTE_GATE_KEYS,
            gate => &each(keys, |(gate, _)| *gate),
            key => &each(keys, |(_, key)| *key),
            state => &GateRecord::new("", "").state_json(),
        );
        self.session(WRITING).await?.query(note).await?;
        Ok(())
    }

    async fn gates_page(
        &self,
        gate: Option<&str>,
        only_shut: bool,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<GateRecord>> {
        let page = bind!(
            match only_shut {
                true => queries::SHUT_GATES_PAGE,
                false => queries::GATES_PAGE,
            },
            gate => &gate,
            after_gate => &after.0,
            after_key => &after.1,
            limit => &i64::from(limit),
        );
        read_records(&self.session(READING).await?.query(page).await?, READING)
    }

    async fn gate_rows(&self, keys: &[(&str, &str)]) -> Result<Vec<GateRecord>> {
        keys_of(&mut self.session(READING).await?, keys.iter().copied()).await
    }

    async fn waiting_behind(&self, gate: &str, key: &str) -> Result<u64> {
        let mut session = self.session(READING).await?;
        let gates: Vec<DeclaredGate> =
            read_records(&session.query(bind!(queries::DECLARED_GATES)).await?, READING)?;
        let Some(gate) = gates.iter().find(|known| known.name == gate) else { return Ok(0) };
        let (places, key) = (UnitPlaces::of(gate), gate.per.is_some().then_some(key));
        let limit = i64::from(MAX_WAITING_BEHIND);
        let count = [
            bind!(queries::WAITING_RUNS, places => &places.queues, key => &key, limit => &limit),
            bind!(queries::WAITING_PARTITIONS, places => &places.sources, key => &key, limit => &limit),
            bind!(queries::WAITING_SAMPLES, places => &places.stages, key => &key, limit => &limit),
        ];
        let counts = session.transaction(&count).await?;
        Ok(sum(&counts)?.min(u64::from(MAX_WAITING_BEHIND)))
    }

    async fn gate_permits(&self, gate: &str, key: &str, limit: u32) -> Result<Vec<PermitHolder>> {
        let page = bind!(
            queries::GATE_PERMITS,
            gate => &gate,
            key => &key,
            limit => &i64::from(limit),
        );
        read_records(&self.session(READING).await?.query(page).await?, READING)
    }

    async fn order_gate(
        &self,
        gate: &str,
        key: &str,
        order: &GateOrder,
        by: &Operator,
    ) -> Result<GateOrdered> {
        GateOrder::check(key).map_err(|problem| Error::misuse(WRITING, problem))?;
        let by = by.cleaned();
        let mut session = self.session(WRITING).await?;
        let names = vec![gate];
        let lock = [
            bind!(queries::LOCK_GATES, name => &names),
            bind!(queries::GATE_KEYS_OF, gate => &names, key => &vec![key]),
            bind!(queries::DECLARED_GATES),
        ];
        let read = session.begin_all(&lock).await?;
        let [_, rows, gates] = &read[..] else {
            return Err(Error::misuse(WRITING, "the server left out an answer"));
        };
        let gates: Vec<DeclaredGate> = read_records(gates, READING)?;
        if !gates.iter().any(|known| known.name == gate) {
            session.commit().await?;
            return Ok(GateOrdered::Unknown);
        }
        let mut row = read_records(rows, READING)?.pop();
        let row = row.get_or_insert_with(|| GateRecord::new(gate, key));
        let ran = held(&mut session, &gates, gate, key).await?;
        let Some(entry) = row.order(order, &by, ran) else {
            session.commit().await?;
            return Ok(GateOrdered::Refused(row.state.status));
        };
        let (rows, journal) = (vec![row.clone()], vec![entry]);
        let writes = GateResultWrites { rows, journal, ..GateResultWrites::default() };
        commit(&mut session, &writes, &[]).await?;
        drop(session);
        redrive_store::failpoint!("postgres.gate.ordered");
        self.claim_cursors.runs_became_ready_anywhere();
        self.notify_if(true).await;
        Ok(GateOrdered::Done)
    }
}

async fn forget_keys(
    session: &mut Session,
    gate: &DeclaredGate,
    known: &[DeclaredGate],
    at: Timestamp,
) -> Result<()> {
    let stages: Vec<&str> = gate.places_of(UnitKind::Sample).collect();
    let forget = [
        bind!(queries::UNKEY_SAMPLES, places => &stages),
        bind!(queries::SHUT_GATE_KEYS, name => &vec![gate.name.as_str()]),
    ];
    let shut = session.continue_all(&forget).await?.pop().unwrap_or_default();
    let mut rows: Vec<GateRecord> = read_records(&shut, READING)?;
    let journal = gate.open_stranded(known, &mut rows, at);
    write(session, &GateResultWrites { rows, journal, ..GateResultWrites::default() }).await
}

/// Where the units of a gate are.
struct UnitPlaces<'a> {
    queues: Vec<&'a str>,
    sources: Vec<&'a str>,
    stages: Vec<&'a str>,
}

impl<'a> UnitPlaces<'a> {
    fn of(gate: &'a DeclaredGate) -> Self {
        Self {
            queues: gate.places_of(UnitKind::Run).collect(),
            sources: gate.places_of(UnitKind::Partition).collect(),
            stages: gate.places_of(UnitKind::Sample).collect(),
        }
    }
}

fn sum(counts: &[Vec<Row>]) -> Result<u64> {
    let each_kind = counts.iter().map(|rows| read_records::<u64>(rows, READING));
    Ok(each_kind.collect::<Result<Vec<_>>>()?.into_iter().flatten().sum())
}

/// The units that run behind a gate and key, in the open transaction.
async fn held(session: &mut Session, gates: &[DeclaredGate], gate: &str, key: &str) -> Result<u32> {
    let Some(gate) = gates.iter().find(|known| known.name == gate) else { return Ok(0) };
    let (places, key) = (UnitPlaces::of(gate), gate.per.is_some().then_some(key));
    let count = [
        bind!(queries::HELD_RUNS, places => &places.queues, key => &key),
        bind!(queries::HELD_PARTITIONS, places => &places.sources, key => &key),
        bind!(queries::HELD_SAMPLES, places => &places.stages, key => &key),
    ];
    let counts = session.continue_all(&count).await?;
    Ok(u32::try_from(sum(&counts)?).unwrap_or(u32::MAX))
}

/// Writes rows of gates with their journal entries, and commits.
pub(crate) async fn commit(
    session: &mut Session,
    writes: &GateResultWrites,
    others: &[BoundQuery<'_>],
) -> Result<()> {
    put(session, writes, others, true).await
}

/// Writes rows of gates with their journal entries, in the open transaction.
pub(crate) async fn write(session: &mut Session, writes: &GateResultWrites) -> Result<()> {
    put(session, writes, &[], false).await
}

async fn put(
    session: &mut Session,
    writes: &GateResultWrites,
    others: &[BoundQuery<'_>],
    commits: bool,
) -> Result<()> {
    let GateResultWrites { rows, journal, .. } = writes;
    let journal = JournalColumns::of(journal.iter().map(Some));
    let put_rows = bind!(
        queries::PUT_GATE_KEYS,
        gate => &each(rows, |row| &row.gate),
        key => &each(rows, |row| &row.key),
        status => &each(rows, |row| row.state.status.name()),
        has_failures => &each(rows, |row| !row.state.recent.failures.is_empty()),
        state => &each(rows, GateRecord::state_json),
    );
    let insert = bind!(queries::INSERT_JOURNAL, ..JournalColumns(journal));
    let mut all = others.to_vec();
    if !rows.is_empty() {
        all.push(put_rows);
    }
    if !writes.journal.is_empty() {
        all.push(insert);
    }
    match (commits, all.is_empty()) {
        (true, _) => session.commit_all(&all).await.map(drop),
        (false, true) => Ok(()),
        (false, false) => session.continue_all(&all).await.map(drop),
    }
}

/// What a claim takes of each key.
pub(crate) struct GatedClaim {
    pub(crate) most: Vec<(String, u32)>,
    pub(crate) limit: u32,
    gates: ClaimGates,
}

/// What a claim asks of its gates.
pub(crate) struct GateRequest<'a> {
    pub(crate) gates: &'a GateRules,
    pub(crate) kind: UnitKind,
    pub(crate) owner: &'a WorkerId,
    pub(crate) limit: u32,
    pub(crate) now: Timestamp,
}

pub(crate) fn names(gates: &[GateRule]) -> Vec<&str> {
    each(gates, |gate| gate.name.as_str())
}

impl GateRequest<'_> {
    /// Begins the transaction of a claim with `first`, and locks the gates. Returns their rows that are not open; `None` if all
    /// are, and have no limits.
    pub(crate) async fn begin(
        &self,
        store: &PostgresStore,
        session: &mut Session,
        first: &[BoundQuery<'_>],
    ) -> Result<Option<Vec<GateRecord>>> {
        let (names, now) = (names(self.gates), Micros(store.now()));
        let lock = bind!(queries::LOCK_GATES, name => &names);
        let lost = bind!(queries::END_LOST_PERMITS, name => &names, now => &now);
        let shut = bind!(queries::SHUT_GATE_KEYS, name => &names);
        let mut begin = first.to_vec();
        begin.extend([lock, lost, shut]);
        let shut = session.begin_all(&begin).await?.pop().unwrap_or_default();
        let rows: Vec<GateRecord> = read_records(&shut, READING)?;
        let is_open = rows.is_empty() && !ClaimGates::limits_open_keys(self.gates);
        Ok((!is_open).then_some(rows))
    }

    /// What a claim takes of the keys that have units.
    pub(crate) async fn look(
        &self,
        store: &PostgresStore,
        session: &mut Session,
        mut rows: Vec<GateRecord>,
        present: Vec<String>,
        is_wanted: impl Fn(&String) -> bool,
    ) -> Result<GatedClaim> {
        let limited = self.gates.iter().filter(|gate| gate.settings.limits_open_keys());
        let mut limited: Vec<(&str, &str)> = limited
            .flat_map(|gate| {
                let wanted = present.iter().filter(|key| is_wanted(key));
                wanted.map(|key| (gate.name.as_str(), gate.key(key)))
            })
            .collect();
        limited.dedup();
        if !limited.is_empty() {
            let read = keys_of(session, limited.into_iter()).await?;
            rows.extend(read.into_iter().filter(GateRecord::is_open));
        }
        let rules = self.gates.clone();
        let gates = ClaimGates::new(rules, rows, &present, self.owner, self.now, store.now());
        let (limit, most) = gates.allowed(present, is_wanted, self.limit);
        Ok(GatedClaim { most, limit, gates })
    }

    /// Lets claimed units through, and commits. Returns how each passed.
    pub(crate) async fn commit(
        &self,
        store: &PostgresStore,
        session: &mut Session,
        claim: GatedClaim,
        units: &[LetThrough<'_>],
    ) -> Result<Vec<GatePass>> {
        let writes = claim.gates.let_through(units, store.now());
        let permits = &writes.permits;
        let insert = bind!(
            queries::INSERT_GATE_PERMITS,
            kind => &self.kind.name(),
            unit_id => &each(permits, |permit| permit.unit_id),
            gate => &each(permits, |permit| &permit.gate),
            key => &each(permits, |permit| &permit.key),
            lease_epoch => &each(permits, |permit| permit.lease_epoch),
            gate_epoch => &each(permits, epoch_of),
        );
        let others = if permits.is_empty() { &[][..] } else { &[insert] };
        let (rows, journal) = (writes.rows, writes.journal);
        let changes = GateResultWrites { rows, journal, ..GateResultWrites::default() };
        commit(session, &changes, others).await?;
        Ok(writes.passes)
    }
}

fn epoch_of(permit: &GatePermit) -> i64 {
    i64::try_from(permit.gate_epoch).unwrap_or(i64::MAX)
}

/// Ends the permits of units that the open transaction writes, and finds out what their results change of the gates.
pub(crate) async fn settle(
    session: &mut Session,
    kind: UnitKind,
    mut results: GateResults,
    written: &[LeaseRef],
    worker: &WorkerId,
) -> Result<GateResultWrites> {
    let (gates, keys): (Vec<&str>, Vec<&str>) = results.names().unzip();
    let read = [
        bind!(
            queries::END_GATE_PERMITS,
            kind => &kind.name(),
            unit_id => &each(written, |lease| lease.id),
            lease_epoch => &each(written, |lease| lease.epoch.0),
        ),
        bind!(queries::UNSETTLED_GATE_KEYS, gate => &gates, key => &keys),
    ];
    let mut answers = session.continue_all(&read).await?.into_iter();
    let permits = read_records(&answers.next().unwrap_or_default(), WRITING)?;
    let unsettled = read_unsettled(&answers.next().unwrap_or_default())?;
    let ids: HashSet<i64> = written.iter().map(|lease| lease.id).collect();
    results.retain(|id| ids.contains(&id));
    results.add_permits(permits);
    record(session, &results, unsettled, worker).await
}

pub(crate) fn read_unsettled(rows: &[Row]) -> Result<Vec<(String, String)>> {
    read_rows(rows, WRITING, |row| Ok((row.get()?, row.get()?)))
}

async fn keys_of<'a>(
    session: &mut Session,
    keys: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<GateRecord>> {
    let (gates, keys): (Vec<&str>, Vec<&str>) = keys.unzip();
    let read = bind!(queries::GATE_KEYS_OF, gate => &gates, key => &keys);
    read_records(&session.query(read).await?, READING)
}

/// What the results of a batch change of its gates, which are locked until the open transaction ends. `unsettled` are those for
/// which a success means something.
pub(crate) async fn record(
    session: &mut Session,
    results: &GateResults,
    unsettled: Vec<(String, String)>,
    worker: &WorkerId,
) -> Result<GateResultWrites> {
    let mut keys: Vec<(&str, &str)> = results.matters().collect();
    keys.extend(unsettled.iter().map(|(gate, key)| (gate.as_str(), key.as_str())));
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Ok(results.record(Vec::new(), |_| 0, worker));
    }
    let mut names = each(&keys, |(gate, _)| *gate);
    names.dedup();
    let (gates, of): (Vec<&str>, Vec<&str>) = keys.iter().copied().unzip();
    let read = [
        bind!(queries::LOCK_GATES, name => &names),
        bind!(queries::GATE_KEYS_OF, gate => &gates, key => &of),
        bind!(queries::DECLARED_GATES),
    ];
    let read = session.continue_all(&read).await?;
    let mut answers = read.iter().skip(1);
    let (Some(rows), Some(gates)) = (answers.next(), answers.next()) else {
        return Err(Error::misuse(WRITING, "the server left out an answer"));
    };
    let mut rows: Vec<GateRecord> = read_records(rows, READING)?;
    let gates: Vec<DeclaredGate> = read_records(gates, READING)?;
    for (gate, key) in &keys {
        if !rows.iter().any(|row| row.gate == *gate && row.key == *key) {
            rows.push(GateRecord::new(gate, key));
        }
    }
    let mut still_held = HashMap::new();
    for row in rows.iter().filter(|row| results.close(row)) {
        still_held.insert(row.name(), held(session, &gates, &row.gate, &row.key).await?);
    }
    let still_held = |row: &GateRecord| still_held.get(&row.name()).copied().unwrap_or_default();
    Ok(results.record(rows, still_held, worker))
}
