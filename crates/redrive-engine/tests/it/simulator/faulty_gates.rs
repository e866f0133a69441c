//! Gates through the way to the store.

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_store::{
    DeclaredGate, GateDeclarations, GateOrder, GateOrdered, GateRecord, Gates, Operator,
    PermitHolder, Result,
};

use super::faulty_store::FaultyStore;

#[async_trait]
impl Gates for FaultyStore {
    async fn declare_gates(&self, gates: &GateDeclarations, at: Timestamp) -> Result<()> {
        self.call("declare_gates", self.inner.declare_gates(gates, at)).await
    }

    async fn note_gate_keys(&self, keys: &[(&str, &str)]) -> Result<()> {
        self.call("note_gate_keys", self.inner.note_gate_keys(keys)).await
    }

    async fn declared_gates(&self) -> Result<Vec<DeclaredGate>> {
        self.call("declared_gates", self.inner.declared_gates()).await
    }

    async fn gates_page(
        &self,
        gate: Option<&str>,
        only_shut: bool,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<GateRecord>> {
        self.call("gates_page", self.inner.gates_page(gate, only_shut, after, limit)).await
    }

    async fn gate_rows(&self, keys: &[(&str, &str)]) -> Result<Vec<GateRecord>> {
        self.call("gate_rows", self.inner.gate_rows(keys)).await
    }

    async fn waiting_behind(&self, gate: &str, key: &str) -> Result<u64> {
        self.call("waiting_behind", self.inner.waiting_behind(gate, key)).await
    }

    async fn gate_permits(&self, gate: &str, key: &str, limit: u32) -> Result<Vec<PermitHolder>> {
        self.call("gate_permits", self.inner.gate_permits(gate, key, limit)).await
    }

    async fn order_gate(
        &self,
        gate: &str,
        key: &str,
        order: &GateOrder,
        by: &Operator,
    ) -> Result<GateOrdered> {
        self.call("order_gate", self.inner.order_gate(gate, key, order, by)).await
    }
}
