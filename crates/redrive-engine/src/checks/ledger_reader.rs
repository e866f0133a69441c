//! Reads the ledger of one kind of unit, page by page.

use redrive_core::AttemptNumber;
use redrive_store::{AttemptRecord, LedgerPlace, Result, Store, UnitKind};

pub(crate) const PAGE: u32 = 1_000;

/// The ledger of one kind, ordered by unit.
pub(crate) struct LedgerReader<'a> {
    store: &'a dyn Store,
    kind: UnitKind,
    position: LedgerPlace,
    ahead: std::vec::IntoIter<AttemptRecord>,
    done: bool,
}

impl<'a> LedgerReader<'a> {
    pub(crate) fn new(store: &'a dyn Store, kind: UnitKind) -> Self {
        Self::from(store, kind, LedgerPlace::start())
    }

    fn from(store: &'a dyn Store, kind: UnitKind, position: LedgerPlace) -> Self {
        Self { store, kind, position, ahead: Vec::new().into_iter(), done: false }
    }

    /// The attempts of a unit. The first list has the attempts of smaller ids, which belong to no unit.
    pub(crate) async fn attempts_up_to(
        &mut self,
        id: i64,
    ) -> Result<(Vec<AttemptRecord>, Vec<AttemptRecord>)> {
        let (mut orphans, mut own) = (Vec::new(), Vec::new());
        while self.peek().await?.is_some_and(|attempt| attempt.unit.id <= id) {
            let Some(attempt) = self.ahead.next() else { break };
            if attempt.unit.id == id { own.push(attempt) } else { orphans.push(attempt) }
        }
        Ok((orphans, own))
    }

    /// The remaining attempts, up to a limit.
    pub(crate) async fn rest(&mut self, limit: usize) -> Result<Vec<AttemptRecord>> {
        let mut rest = Vec::new();
        while self.peek().await?.is_some() && rest.len() < limit {
            rest.extend(self.ahead.next());
        }
        Ok(rest)
    }

    async fn peek(&mut self) -> Result<Option<&AttemptRecord>> {
        if self.ahead.as_slice().is_empty() && !self.done {
            let page = self.store.ledger_page(self.kind, &self.position, PAGE).await?;
            match page.last() {
                Some(last) => self.position = LedgerPlace::from(last),
                None => self.done = true,
            }
            self.ahead = page.into_iter();
        }
        Ok(self.ahead.as_slice().first())
    }
}

/// Every attempt of one unit, at all stages.
pub(crate) async fn all_attempts(
    store: &dyn Store,
    kind: UnitKind,
    id: i64,
) -> Result<Vec<AttemptRecord>> {
    let position = LedgerPlace { id, stage: String::new(), attempt: AttemptNumber(0) };
    let (_, attempts) = LedgerReader::from(store, kind, position).attempts_up_to(id).await?;
    Ok(attempts)
}
