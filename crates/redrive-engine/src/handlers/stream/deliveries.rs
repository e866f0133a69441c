//! Rows and completions that were read from a program and not delivered yet, in order.
//!
//! A sink may be slow. Nothing more is read until everything is delivered, so the program blocks as well.

use std::{collections::VecDeque, future::pending};

use tokio::sync::mpsc::error::TrySendError;

use super::call_table::{CallCompletion, CallInFlight, CallTicket, RowSender};

#[derive(Default)]
pub(super) struct Deliveries(VecDeque<Delivery>);

enum Delivery {
    Rows(CallTicket, RowSender, Vec<u8>),
    /// The last field is whether the call had a valid reply.
    Completion(CallInFlight, CallCompletion, bool),
}

#[derive(Default)]
pub(super) struct DeliveredCalls {
    pub(super) calls: Vec<(CallInFlight, CallCompletion)>,
    /// Whether one of them had a valid reply.
    pub(super) any_valid: bool,
}

impl Deliveries {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row. Consecutive rows of a call are delivered together.
    pub(super) fn add_row(&mut self, ticket: CallTicket, rows: RowSender, row: &str) {
        if !matches!(self.0.back(), Some(Delivery::Rows(last, ..)) if *last == ticket) {
            self.0.push_back(Delivery::Rows(ticket, rows, Vec::new()));
        }
        if let Some(Delivery::Rows(_, _, lines)) = self.0.back_mut() {
            lines.extend_from_slice(row.as_bytes());
            lines.push(b'\n');
        }
    }

    pub(super) fn add_completion(
        &mut self,
        call: CallInFlight,
        completion: CallCompletion,
        valid: bool,
    ) {
        self.0.push_back(Delivery::Completion(call, completion, valid));
    }

    /// Delivers what can be delivered without waiting; returns the completed calls.
    pub(super) fn deliver(&mut self) -> DeliveredCalls {
        let mut delivered = DeliveredCalls::default();
        while let Some(item) = self.0.pop_front() {
            match item {
                // Rows of a dropped call are discarded.
                Delivery::Rows(ticket, rows, lines) => {
                    if let Err(TrySendError::Full(lines)) = rows.try_send(lines) {
                        self.0.push_front(Delivery::Rows(ticket, rows, lines));
                        break;
                    }
                }
                Delivery::Completion(call, completion, valid) => {
                    delivered.any_valid |= valid;
                    delivered.calls.push((call, completion));
                }
            }
        }
        delivered
    }

    /// Waits until something can be delivered; forever if there is nothing.
    pub(super) async fn room(&self) {
        match self.0.front() {
            // The error means that the receiver was dropped; its rows are discarded.
            Some(Delivery::Rows(_, rows, _)) => _ = rows.reserve().await,
            Some(Delivery::Completion(..)) => {}
            None => pending().await,
        }
    }
}
