//! Walking the ledger of a kind beside its units.

use redrive_core::AttemptNumber;
use redrive_store::{AttemptRecord, LedgerPlace, Result, Store, UnitKind};

/// Rows read at a time.
pub(crate) const PAGE: u32 = 1_000;

/// The ledger of a kind, in the order of its units.
pub(crate) struct LedgerReader<'a> {
    store: &'a dyn Store,
    kind: UnitKind,
    place: LedgerPlace,
    ahead: std::vec::IntoIter<AttemptRecord>,
    done: bool,
}

impl<'a> LedgerReader<'a> {
    pub(crate) fn new(store: &'a dyn Store, kind: UnitKind) -> Self {
        Self::from(store, kind, LedgerPlace::start())
    }

    fn from(store: &'a dyn Store, kind: UnitKind, place: LedgerPlace) -> Self {
        Self { store, kind, place, ahead: Vec::new().into_iter(), done: false }
    }

    /// The attempts of units before this one, which have no unit, and the attempts of this one.
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

    /// What is left, up to a number of attempts.
    pub(crate) async fn rest(&mut self, limit: usize) -> Result<Vec<AttemptRecord>> {
        let mut rest = Vec::new();
        while self.peek().await?.is_some() && rest.len() < limit {
            rest.extend(self.ahead.next());
        }
        Ok(rest)
    }

    async fn peek(&mut self) -> Result<Option<&AttemptRecord>> {
        if self.ahead.as_slice().is_empty() && !self.done {
            let page = self.store.ledger_page(self.kind, &self.place, PAGE).await?;
            match page.last() {
                Some(last) => self.place = LedgerPlace::from(last),
                None => self.done = true,
            }
            self.ahead = page.into_iter();
        }
        Ok(self.ahead.as_slice().first())
    }
}

/// Every attempt of one unit, at every stage it has.
pub(crate) async fn all_attempts(
    store: &dyn Store,
    kind: UnitKind,
    id: i64,
) -> Result<Vec<AttemptRecord>> {
    let place = LedgerPlace { id, stage: String::new(), attempt: AttemptNumber(0) };
    let (_, attempts) = LedgerReader::from(store, kind, place).attempts_up_to(id).await?;
    Ok(attempts)
}
