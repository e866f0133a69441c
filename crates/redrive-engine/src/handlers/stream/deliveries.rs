//! What was heard from a program and is still to be told: rows, and ends of calls, in their order.
//!
//! Who takes rows may be slow. Until everything is told, nothing more is read, and so the program waits
//! as well.

use std::{collections::VecDeque, future::pending};

use tokio::sync::mpsc::error::TrySendError;

use super::call_table::{CallCompletion, CallInFlight, CallTicket, RowSender};

/// All of it.
#[derive(Default)]
pub(super) struct Deliveries(VecDeque<Delivery>);

enum Delivery {
    /// Rows of a call.
    Rows(CallTicket, RowSender, Vec<u8>),
    /// A call is over; whether by a reply as it should be.
    Completion(CallInFlight, CallCompletion, bool),
}

/// The calls that are over now.
#[derive(Default)]
pub(super) struct DeliveredCalls {
    pub(super) ended: Vec<(CallInFlight, CallCompletion)>,
    /// Whether one of them had a reply as it should be.
    pub(super) well: bool,
}

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row. Rows that come together go out together.
    pub(super) fn add_row(&mut self, ticket: CallTicket, rows: RowSender, row: &str) {
        if !matches!(self.0.back(), Some(Delivery::Rows(last, ..)) if *last == ticket) {
            self.0.push_back(Delivery::Rows(ticket, rows, Vec::new()));
        }
        if let Some(Delivery::Rows(_, _, lines)) = self.0.back_mut() {
            lines.extend_from_slice(row.as_bytes());
            lines.push(b'\n');
        }
    }

    /// Adds the end of a call.
    pub(super) fn add_end(&mut self, call: CallInFlight, ended: CallCompletion, well: bool) {
        self.0.push_back(Delivery::Completion(call, ended, well));
    }

    /// Tells what can be told now.
    pub(super) fn tell(&mut self) -> DeliveredCalls {
        let mut delivered = DeliveredCalls::default();
        while let Some(item) = self.0.pop_front() {
            match item {
                // Whoever went away does not want them.
                Delivery::Rows(ticket, rows, lines) => {
                    if let Err(TrySendError::Full(lines)) = rows.try_send(lines) {
                        self.0.push_front(Delivery::Rows(ticket, rows, lines));
                        break;
                    }
                }
                Delivery::Completion(call, ended, well) => {
                    delivered.well |= well;
                    delivered.ended.push((call, ended));
                }
            }
        }
        delivered
    }

    /// Waits until something can be told; for ever if there is nothing.
    pub(super) async fn room(&self) {
        match self.0.front() {
            // Whoever went away takes everything.
            Some(Delivery::Rows(_, rows, _)) => _ = rows.reserve().await,
            Some(Delivery::Completion(..)) => {}
            None => pending().await,
        }
    }
}
