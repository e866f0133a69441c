//! Gates: what claims may take, what results change, and orders of operators. There is one writer, so nothing is locked.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    ClaimGates, DeclaredGate, EndedPermit, Error, GateDeclarations, GateOrder, GateOrdered,
    GatePass, GateRecord, GateResultWrites, GateResults, GateRules, Gates, LeaseRef, LetThrough,
    MAX_WAITING_BEHIND, Operator, PermitHolder, ReadColumn, Result, UnitKind, WorkerId,
};
use rusqlite::{Connection, params};

use crate::{
    SqliteStore,
    columns::{json_list, micros, read_records, read_rows},
    error::Doing,
    journal::insert_journal,
    queries,
};

const READING: &str = "reading gates";
const WRITING: &str = "writing gates";

#[async_trait]
impl Gates for SqliteStore {
    async fn declare_gates(&self, declarations: &GateDeclarations, at: Timestamp) -> Result<()> {
        let declarations = declarations.clone();
        let change = move |connection: &Connection| {
            let (known, mut strands_units) = (declared(connection)?, false);
            for gate in declarations.merged(&known) {
                let own = params![gate.name, gate.per, gate.key, gate.limits, gate.places_json()];
                execute(connection, queries::DECLARE_GATE, own)?;
                if gate.per.is_none() {
                    note(connection, &gate.name, "")?;
                }
                if gate.strands_units(&known) {
                    forget_keys(connection, &gate, &known, at)?;
                    strands_units = true;
                }
            }
            Ok(strands_units)
        };
        let strands_units = self.write(change).await?;
        self.wakes.wake_if(strands_units);
        Ok(())
    }

    async fn note_gate_keys(&self, keys: &[(&str, &str)]) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let own = |(gate, key): &(&str, &str)| ((*gate).to_owned(), (*key).to_owned());
        let keys: Vec<(String, String)> = keys.iter().map(own).collect();
        self.write(move |connection| {
            keys.iter().try_for_each(|(gate, key)| note(connection, gate, key))
        })
        .await
    }

    async fn declared_gates(&self) -> Result<Vec<DeclaredGate>> {
        self.read(declared).await
    }

    async fn gates_page(
        &self,
        gate: Option<&str>,
        only_shut: bool,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<GateRecord>> {
        let (gate, after) = (gate.map(str::to_owned), (after.0.to_owned(), after.1.to_owned()));
        self.read(move |connection| {
            let page = match only_shut {
                true => queries::SHUT_GATES_PAGE,
                false => queries::GATES_PAGE,
            };
            read_records(connection, READING, page, params![gate, after.0, after.1, limit])
        })
        .await
    }

    async fn gate_rows(&self, keys: &[(&str, &str)]) -> Result<Vec<GateRecord>> {
        let own = |(gate, key): &(&str, &str)| ((*gate).to_owned(), (*key).to_owned());
        let keys: Vec<(String, String)> = keys.iter().map(own).collect();
        self.read(move |connection| {
            let read = |(gate, key): &(String, String)| {
                read_records(connection, READING, queries::GATE_KEYS_OF, params![gate, key])
            };
            let rows: Result<Vec<Vec<GateRecord>>> = keys.iter().map(read).collect();
            Ok(rows?.into_iter().flatten().collect())
        })
        .await
    }

    async fn waiting_behind(&self, gate: &str, key: &str) -> Result<u64> {
        let (gate, key) = (gate.to_owned(), key.to_owned());
        self.read(move |connection| {
            let gates = declared(connection)?;
            let Some(gate) = gates.iter().find(|known| known.name == gate) else { return Ok(0) };
            let (key, mut waiting) = (gate.per.is_some().then_some(&key), 0);
            for (kind, sql) in [
                (UnitKind::Run, queries::WAITING_RUNS),
                (UnitKind::Partition, queries::WAITING_PARTITIONS),
                (UnitKind::Sample, queries::WAITING_SAMPLES),
            ] {
                let places: Vec<&str> = gate.places_of(kind).collect();
                let own = params![json_list(&places), key, MAX_WAITING_BEHIND];
                waiting += read_records::<u64>(connection, READING, sql, own)?.iter().sum::<u64>();
            }
            Ok(waiting.min(u64::from(MAX_WAITING_BEHIND)))
        })
        .await
    }

    async fn gate_permits(&self, gate: &str, key: &str, limit: u32) -> Result<Vec<PermitHolder>> {
        let (gate, key) = (gate.to_owned(), key.to_owned());
        self.read(move |connection| {
            let own = params![gate, key, limit];
            read_records(connection, READING, queries::GATE_PERMITS, own)
        })
        .await
    }

    async fn order_gate(
        &self,
        gate: &str,
        key: &str,
        order: &GateOrder,
        by: &Operator,
    ) -> Result<GateOrdered> {
        GateOrder::check(key).map_err(|problem| Error::misuse(WRITING, problem))?;
        let (gate, key, order, by) = (gate.to_owned(), key.to_owned(), *order, by.cleaned());
        let ordered = self
            .write(move |connection| {
                let gates = declared(connection)?;
                if !gates.iter().any(|known| known.name == gate) {
                    return Ok(GateOrdered::Unknown);
                }
                let mut row = row(connection, &gate, &key)?;
                let ran = held(connection, &gates, &row)?;
                let Some(entry) = row.order(&order, &by, ran) else {
                    return Ok(GateOrdered::Refused(row.state.status));
                };
                put(connection, &row)?;
                redrive_store::failpoint!("sqlite.gate.ordered");
                insert_journal(connection, &entry)?;
                Ok(GateOrdered::Done)
            })
            .await?;
        self.wakes.wake_if(ordered == GateOrdered::Done);
        Ok(ordered)
    }
}

fn execute(connection: &Connection, sql: &str, own: impl rusqlite::Params) -> Result<()> {
    connection.prepare_cached(sql).doing(WRITING)?.execute(own).doing(WRITING)?;
    Ok(())
}

fn note(connection: &Connection, gate: &str, key: &str) -> Result<()> {
    let state = GateRecord::new(gate, key).state_json();
    execute(connection, queries::NOTE_GATE_KEYS, params![gate, key, state])
}

fn forget_keys(
    connection: &Connection,
    gate: &DeclaredGate,
    known: &[DeclaredGate],
    at: Timestamp,
) -> Result<()> {
    let stages: Vec<&str> = gate.places_of(UnitKind::Sample).collect();
    execute(connection, queries::UNKEY_SAMPLES, [json_list(&stages)])?;
    let name = json_list(&[&gate.name]);
    let mut rows: Vec<GateRecord> =
        read_records(connection, READING, queries::SHUT_GATE_KEYS, [name])?;
    let journal = gate.open_stranded(known, &mut rows, at);
    rows.iter().try_for_each(|row| put(connection, row))?;
    journal.iter().try_for_each(|entry| insert_journal(connection, entry).map(drop))
}

fn put(connection: &Connection, row: &GateRecord) -> Result<()> {
    let has_failures = !row.state.recent.failures.is_empty();
    let status = row.state.status.name();
    let own = params![row.gate, row.key, status, has_failures, row.state_json()];
    execute(connection, queries::PUT_GATE_KEYS, own)
}

fn declared(connection: &Connection) -> Result<Vec<DeclaredGate>> {
    read_records(connection, READING, queries::DECLARED_GATES, [])
}

fn row(connection: &Connection, gate: &str, key: &str) -> Result<GateRecord> {
    let found: Vec<GateRecord> =
        read_records(connection, READING, queries::GATE_KEYS_OF, params![gate, key])?;
    Ok(found.into_iter().next().unwrap_or_else(|| GateRecord::new(gate, key)))
}

/// The units that run behind a gate and key.
fn held(connection: &Connection, gates: &[DeclaredGate], row: &GateRecord) -> Result<u32> {
    let Some(gate) = gates.iter().find(|known| known.name == row.gate) else { return Ok(0) };
    let (key, mut held) = (gate.per.is_some().then_some(&row.key), 0);
    for (kind, sql) in [
        (UnitKind::Run, queries::HELD_RUNS),
        (UnitKind::Partition, queries::HELD_PARTITIONS),
        (UnitKind::Sample, queries::HELD_SAMPLES),
    ] {
        let places: Vec<&str> = gate.places_of(kind).collect();
        let own = params![json_list(&places), key];
        held += read_records::<u64>(connection, READING, sql, own)?.iter().sum::<u64>();
    }
    Ok(u32::try_from(held).unwrap_or(u32::MAX))
}

/// What a claim takes of each key, if its gates are not all open, or have limits.
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

impl GateRequest<'_> {
    /// `present` reads the keys that have units.
    pub(crate) fn look(
        &self,
        connection: &Connection,
        clock: Timestamp,
        present: impl FnOnce() -> Result<Vec<String>>,
        is_wanted: impl Fn(&String) -> bool,
    ) -> Result<Option<GatedClaim>> {
        if self.gates.is_empty() {
            return Ok(None);
        }
        let names: Vec<&str> = self.gates.iter().map(|gate| gate.name.as_str()).collect();
        let names = json_list(&names);
        let is_limited = ClaimGates::limits_open_keys(self.gates);
        let shut = || read_records(connection, READING, queries::SHUT_GATE_KEYS, [&names]);
        let mut rows: Vec<GateRecord> = shut()?;
        if rows.is_empty() && !is_limited {
            return Ok(None);
        }
        execute(connection, queries::END_LOST_PERMITS, params![names, micros(clock)])?;
        if rows.iter().any(|row| row.held.all > 0) {
            rows = shut()?;
        }
        let present = present()?;
        for gate in self.gates.iter().filter(|gate| gate.settings.limits_open_keys()) {
            let wanted = present.iter().filter(|key| is_wanted(key));
            let mut keys: Vec<&str> = wanted.map(|key| gate.key(key)).collect();
            keys.dedup();
            for key in keys {
                let row = row(connection, &gate.name, key)?;
                if row.is_open() {
                    rows.push(row);
                }
            }
        }
        let rules = self.gates.clone();
        let gates = ClaimGates::new(rules, rows, &present, self.owner, self.now, clock);
        let (limit, most) = gates.allowed(present, is_wanted, self.limit);
        Ok(Some(GatedClaim { most, limit, gates }))
    }

    /// Lets claimed units through, in the transaction of their claim. Returns how each passed.
    pub(crate) fn let_through(
        &self,
        connection: &Connection,
        clock: Timestamp,
        claim: GatedClaim,
        units: &[LetThrough<'_>],
    ) -> Result<Vec<GatePass>> {
        let writes = claim.gates.let_through(units, clock);
        for row in &writes.rows {
            put(connection, row)?;
        }
        for entry in &writes.journal {
            insert_journal(connection, entry)?;
        }
        for permit in &writes.permits {
            let gate_epoch = i64::try_from(permit.gate_epoch).unwrap_or(i64::MAX);
            let own = params![
                self.kind.name(),
                permit.unit_id,
                permit.gate,
                permit.key,
                permit.lease_epoch,
                gate_epoch
            ];
            execute(connection, queries::INSERT_GATE_PERMITS, own)?;
        }
        Ok(writes.passes)
    }
}

/// Ends the permits of units that were written, and records their results, in the transaction of the batch. Returns whether more
/// or fewer units may be let through than before.
pub(crate) fn settle(
    connection: &Connection,
    kind: UnitKind,
    mut results: GateResults,
    written: &[LeaseRef],
    worker: &WorkerId,
) -> Result<bool> {
    if results.is_empty() {
        return Ok(false);
    }
    let ids: HashSet<i64> = written.iter().map(|lease| lease.id).collect();
    results.retain(|id| ids.contains(&id));
    let has_permits = read_rows(connection, READING, queries::HAS_PERMITS, [], |row| row.get())?;
    if has_permits.contains(&true) {
        for lease in written {
            results.add_permits(end_permits(connection, kind, *lease)?);
        }
    }
    record(connection, &results, worker)
}

/// Ends the permits of a lease.
pub(crate) fn end_permits(
    connection: &Connection,
    kind: UnitKind,
    lease: LeaseRef,
) -> Result<Vec<EndedPermit>> {
    let own = params![kind.name(), lease.id, lease.epoch.0];
    read_records(connection, WRITING, queries::END_GATE_PERMITS, own)
}

/// Records the results of a batch in its gates, in the transaction of the batch. Returns whether more or fewer units may be let
/// through than before.
fn record(connection: &Connection, results: &GateResults, worker: &WorkerId) -> Result<bool> {
    let mut rows = Vec::new();
    let matters: Vec<(&str, &str)> = results.matters().collect();
    for (gate, key) in results.names() {
        let row = row(connection, gate, key)?;
        if matters.contains(&(gate, key)) || !row.state.ignores_successes() {
            rows.push(row);
        }
    }
    let gates = if rows.is_empty() { Vec::new() } else { declared(connection)? };
    let mut still_held = Vec::new();
    for row in rows.iter().filter(|row| results.close(row)) {
        still_held.push((row.name(), held(connection, &gates, row)?));
    }
    let still_held = |row: &GateRecord| {
        still_held.iter().find(|(name, _)| *name == row.name()).map_or(0, |(_, held)| *held)
    };
    let GateResultWrites { rows, journal, changed, freed } =
        results.record(rows, still_held, worker);
    for row in &rows {
        put(connection, row)?;
    }
    redrive_store::failpoint!("sqlite.finish.gates");
    for entry in &journal {
        insert_journal(connection, entry)?;
    }
    Ok(changed || freed)
}
