//! Gates: their states, and what waits behind them.

use redrive_core::{ItemId, RunId, SampleId, Unit};
use redrive_store::{
    DeclaredGate, GateOrder, GateOrdered, GateRecord, LeaseRef, MAX_PAGE, Operator, Result,
    SampleRecord, UnitKind, gate_key_at,
};

use serde_json::Value;

use crate::{
    Ops,
    views::{ActivityPlace, GateView, gate_obstacle},
};

/// Units that are named with a gate.
const MAX_NAMED: u32 = 10;

impl Ops {
    /// A page of gates and keys after a gate and key, in their order: of one gate, or of all; all of them, or those that are
    /// not open.
    pub async fn gates(
        &self,
        gate: Option<&str>,
        only_shut: bool,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<GateView>> {
        let declared = self.passed_gates().await?;
        let mut rows = self.store().gates_page(gate, only_shut, after, limit.min(MAX_PAGE)).await?;
        rows.retain(|row| declared.iter().any(|gate| gate.name == row.gate));
        let mut views = Vec::with_capacity(rows.len());
        for row in &rows {
            views.push(self.gate_view(row, &declared).await?);
        }
        Ok(views)
    }

    /// `None` if no configuration declares the gate.
    pub async fn gate(&self, gate: &str, key: &str) -> Result<Option<GateView>> {
        let declared = self.passed_gates().await?;
        if !declared.iter().any(|known| known.name == gate) {
            return Ok(None);
        }
        let row = self.store().gate_rows(&[(gate, key)]).await?.pop();
        let row = row.unwrap_or_else(|| GateRecord::new(gate, key));
        self.gate_view(&row, &declared).await.map(Some)
    }

    /// The number of keys that are not open, for each declared gate; at most [`MAX_PAGE`] in all.
    pub async fn shut_keys(&self) -> Result<Vec<(String, u64)>> {
        let declared = self.passed_gates().await?;
        if declared.is_empty() {
            return Ok(Vec::new());
        }
        let shut = self.store().gates_page(None, true, ("", ""), MAX_PAGE).await?;
        let count = |gate: DeclaredGate| {
            let keys = shut.iter().filter(|row| row.gate == gate.name).count();
            (gate.name, keys as u64)
        };
        Ok(declared.into_iter().map(count).collect())
    }

    pub async fn order_gate(
        &self,
        gate: &str,
        key: &str,
        order: &GateOrder,
        by: &Operator,
    ) -> Result<GateOrdered> {
        self.store().order_gate(gate, key, order, by).await
    }

    /// The names of the gates that units of a place pass; for a pipeline, of any of its stages.
    pub async fn gates_of(&self, place: &ActivityPlace) -> Result<Vec<String>> {
        let stages = format!("{}/", place.name);
        let is_here = |known: &str| {
            known == place.name || (place.kind == UnitKind::Sample && known.starts_with(&stages))
        };
        let mut declared = self.passed_gates().await?;
        declared.retain(|gate| gate.places_of(place.kind).any(is_here));
        Ok(declared.into_iter().map(|gate| gate.name).collect())
    }

    /// Gates without places were left by their configuration.
    async fn passed_gates(&self) -> Result<Vec<DeclaredGate>> {
        let mut declared = self.store().declared_gates().await?;
        declared.retain(|gate| !gate.places.is_empty());
        Ok(declared)
    }

    async fn gate_view(&self, row: &GateRecord, declared: &[DeclaredGate]) -> Result<GateView> {
        let declared = declared.iter().find(|gate| gate.name == row.gate);
        let has_limits = declared.is_some_and(|gate| gate.limits.is_some());
        if row.is_open() && row.held.all == 0 && !has_limits {
            return Ok(GateView::new(row, declared, 0, Vec::new()));
        }
        let waiting = self.store().waiting_behind(&row.gate, &row.key).await?;
        let units = self.store().gate_permits(&row.gate, &row.key, MAX_NAMED).await?;
        let work = units.iter().filter(|held| held.kind == UnitKind::Partition);
        let work: Vec<LeaseRef> = work.map(|held| held.lease).collect();
        let partitions = self.store().claimed_partitions(&work).await?;
        let units = units.iter().map(|held| match (held.kind, held.lease.id) {
            (UnitKind::Run, id) => Unit::Run(RunId(id)).to_string(),
            (UnitKind::Sample, id) => format!("sample:{}", SampleId(id)),
            (UnitKind::Partition, id) => {
                let held = partitions.iter().find(|partition| partition.lease == held.lease);
                let unit = held.map(|held| Unit::Partition(held.key.clone()).to_string());
                unit.unwrap_or_else(|| format!("partition work {id}"))
            }
            (UnitKind::Item, id) => Unit::Item(ItemId(id)).to_string(),
        });
        Ok(GateView::new(row, declared, waiting, units.collect()))
    }

    /// Why a gate keeps back a unit that is ready: of a queue or a source, with its key.
    pub(crate) async fn gate_before(
        &self,
        kind: UnitKind,
        place: &str,
        key: &str,
    ) -> Result<Option<String>> {
        self.obstacle(kind, place, |_| key.to_owned()).await
    }

    /// Why a gate keeps back a sample that is ready.
    pub(crate) async fn gate_before_sample(&self, sample: &SampleRecord) -> Result<Option<String>> {
        let place = format!("{}/{}", sample.pipeline, sample.stage_name);
        let data = sample.data.as_deref().unwrap_or_default();
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        let key = |gate: &DeclaredGate| {
            gate.key.as_ref().map(|key| gate_key_at(&data, key)).unwrap_or_default()
        };
        self.obstacle(UnitKind::Sample, &place, key).await
    }

    async fn obstacle(
        &self,
        kind: UnitKind,
        place: &str,
        key: impl Fn(&DeclaredGate) -> String + Send,
    ) -> Result<Option<String>> {
        let declared = self.store().declared_gates().await?;
        let passed = declared.iter().filter(|it| it.places_of(kind).any(|known| known == place));
        let passed = passed.map(|gate| {
            let key = if gate.per.is_some() { key(gate) } else { String::new() };
            (gate.name.as_str(), key)
        });
        let passed: Vec<(&str, String)> = passed.collect();
        if passed.is_empty() {
            return Ok(None);
        }
        let passed: Vec<(&str, &str)> =
            passed.iter().map(|(gate, key)| (*gate, key.as_str())).collect();
        let rows = self.store().gate_rows(&passed).await?;
        // What is not open keeps a unit back for longer than a limit does.
        let (shut, open): (Vec<_>, Vec<_>) = rows.iter().partition(|row| !row.is_open());
        let obstacle = |row: &GateRecord| {
            let declared = declared.iter().find(|gate| gate.name == row.gate);
            gate_obstacle(row, declared, self.now())
        };
        Ok(shut.into_iter().chain(open).find_map(obstacle))
    }
}
