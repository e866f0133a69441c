//! What was heard from a program and is still to be told: rows, and ends of calls, in their order.
//!
//! Who takes rows may be slow. Until everything is told, nothing more is read, and so the program waits
//! as well.

use std::{collections::VecDeque, future::pending};

use tokio::sync::mpsc::error::TrySendError;

use super::calls::{Ended, InFlight, RowSender, Ticket};

/// All of it.
#[derive(Default)]
pub(super) struct News(VecDeque<Item>);

enum Item {
    /// Rows of a call.
    Rows(Ticket, RowSender, Vec<u8>),
    /// A call is over; whether by a reply as it should be.
    End(InFlight, Ended, bool),
}

/// The calls that are over now.
#[derive(Default)]
pub(super) struct Told {
    pub(super) ended: Vec<(InFlight, Ended)>,
    /// Whether one of them had a reply as it should be.
    pub(super) well: bool,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row. Rows that come together go out together.
    pub(super) fn add_row(&mut self, ticket: Ticket, rows: RowSender, row: &str) {
        if !matches!(self.0.back(), Some(Item::Rows(last, ..)) if *last == ticket) {
            self.0.push_back(Item::Rows(ticket, rows, Vec::new()));
        }
        if let Some(Item::Rows(_, _, lines)) = self.0.back_mut() {
            lines.extend_from_slice(row.as_bytes());
            lines.push(b'\n');
        }
    }

    /// Adds the end of a call.
    pub(super) fn add_end(&mut self, call: InFlight, ended: Ended, well: bool) {
        self.0.push_back(Item::End(call, ended, well));
    }

    /// Tells what can be told now.
    pub(super) fn tell(&mut self) -> Told {
        let mut told = Told::default();
        while let Some(item) = self.0.pop_front() {
            match item {
                // Whoever went away does not want them.
                Item::Rows(ticket, rows, lines) => {
                    if let Err(TrySendError::Full(lines)) = rows.try_send(lines) {
                        self.0.push_front(Item::Rows(ticket, rows, lines));
                        break;
                    }
                }
                Item::End(call, ended, well) => {
                    told.well |= well;
                    told.ended.push((call, ended));
                }
            }
        }
        told
    }

    /// Waits until something can be told; for ever if there is nothing.
    pub(super) async fn room(&self) {
        match self.0.front() {
            // Whoever went away takes everything.
            Some(Item::Rows(_, rows, _)) => _ = rows.reserve().await,
            Some(Item::End(..)) => {}
            None => pending().await,
        }
    }
}
